import Testing
import TillerTesting

@testable import Tiller

/// The age that is sent with an event is right whatever the wall clock was set to meanwhile.
@Suite(.timeLimit(.minutes(5))) struct ClockStepTests {
    private let folder = TestFolder()
    private let time = VirtualTime()
    private let transport = StubTransport()

    /// A process of the same machine.
    private func process() -> Analytics {
        Analytics(configuration: .test(time: time, storage: .folder(folder.url), transport: transport))
    }

    /// Sent minus recorded, in milliseconds, of the event with a name in the last request that has it.
    private func age(of name: String) throws -> Int64 {
        let event = try #require(transport.events.last { $0["event"]?.string == name })
        let recorded = try #require(event["originalTimestamp"]?.string)
        let sent = try #require(event["sentAt"]?.string)
        return try milliseconds(sent) - milliseconds(recorded)
    }

    /// Of `2025-02-25T06:06:37.000Z`.
    private func milliseconds(_ text: String) throws -> Int64 {
        let parts = text.dropLast().split { "-T:.".contains($0) }.compactMap { Int64($0) }
        try #require(parts.count == 7)
        let date = "x, \(text.dropFirst(8).prefix(2)) \(Self.months[Int(parts[1]) - 1]) \(text.prefix(4)) "
        let seconds = try #require(HTTPDate.milliseconds(date + text.dropFirst(11).prefix(8) + " GMT", near: 0))
        return seconds + parts[6]
    }

    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    @Test(arguments: [-86_400, -3_600, 3_600, 31_536_000]) func aStepWithinAProcessMovesNothing(_ step: Int)
        async throws
    {
        let analytics = process()
        analytics.track(name: "A")
        time.setWallClock(by: .seconds(step))
        analytics.track(name: "B")
        time.advance(by: .milliseconds(7_250))
        #expect(await analytics.flushed() == .delivered)
        #expect(try age(of: "A") == 7_250)
        #expect(try age(of: "B") == 7_250)
        await analytics.shutdownAndWait()
    }

    @Test(arguments: [-86_400, -3_600, 3_600, 31_536_000])
    func aStepOverARestartOfTheProcessMovesNothing(_ step: Int) async throws {
        transport.answerAlways(.status(503))
        let first = process()
        first.track(name: "A")
        await first.shutdownAndWait()
        time.setWallClock(by: .seconds(step))
        time.advance(by: .seconds(90))
        transport.answerAlways(.status(200))
        let second = process()
        second.track(name: "B")
        time.advance(by: .seconds(10))
        #expect(await second.flushed() == .delivered)
        #expect(try age(of: "A") == 100_000)
        #expect(try age(of: "B") == 10_000)
        await second.shutdownAndWait()
    }

    /// Over a reboot nothing but the wall clock is left; set back, it makes no age negative.
    @Test(arguments: [(0, 100_000), (3_600, 3_700_000), (-60, 40_000), (-3_600, 0), (-86_400, 0)] as [(Int, Int64)])
    func overARebootTheWallClockCountsAndNoAgeIsNegative(_ step: Int, _ expected: Int64) async throws {
        transport.answerAlways(.status(503))
        let first = process()
        first.track(name: "A")
        await first.shutdownAndWait()
        time.reboot()
        time.setWallClock(by: .seconds(step))
        time.advance(by: .seconds(90))
        transport.answerAlways(.status(200))
        let second = process()
        second.track(name: "B")
        time.advance(by: .seconds(10))
        // A step after the reboot is one within a boot for B, and cannot be told from time for A.
        #expect(await second.flushed() == .delivered)
        #expect(try age(of: "A") == expected)
        #expect(try age(of: "B") == 10_000)
        await second.shutdownAndWait()
    }
}
