import Testing
import Tiller
import TillerTesting

/// Waiting until nothing more comes.
@Suite(.timeLimit(.minutes(5)))
struct QuietTests {
    @Test func anEventAndNoRequestUnderWayAreEnoughByDefault() async throws {
        let plane = try LocalDataPlane(rules: .init(), timeSource: VirtualTime())
        async let events = plane.quiet()
        try await post(plane, "{")
        try await post(plane, good)
        #expect(try await events.count == 1)
        #expect(try await plane.quiet().count == 1)
    }

    @Test(arguments: [true, false])
    func theTimeSourcesSilenceCounts(isAdvancedFirst: Bool) async throws {
        let time = VirtualTime()
        let plane = try LocalDataPlane(rules: .init(), timeSource: time)
        let isOver = Flag()
        try await post(plane, good)
        if isAdvancedFirst { time.advance(by: .seconds(5)) }
        let waiting = Task {
            let events = try await plane.quiet(for: .seconds(5))
            isOver.set()
            return events.count
        }
        if !isAdvancedFirst {
            time.advance(by: .milliseconds(4_999))
            try await post(plane, good)  // begins the silence anew
            time.advance(by: .milliseconds(4_999))
            for _ in 0..<100 { await Task.yield() }
            #expect(!isOver.isSet)
            time.advance(by: .milliseconds(1))
        }
        #expect(try await waiting.value == (isAdvancedFirst ? 1 : 2))
    }

    @Test func aHeldAnswerIsNoQuiet() async throws {
        let time = VirtualTime()
        let plane = try LocalDataPlane(rules: .init(), timeSource: time)
        plane.answerNext(.ok.held())
        async let answer: Void = post(plane, good)
        _ = try await plane.events(count: 1)
        let isOver = Flag()
        let waiting = Task {
            _ = try await plane.quiet(for: .seconds(1))
            isOver.set()
        }
        time.advance(by: .seconds(60))
        for _ in 0..<100 { await Task.yield() }
        #expect(!isOver.isSet)
        plane.releaseHeld()
        try await answer
        time.advance(by: .seconds(1))
        try await waiting.value
    }

    @Test func severalWaitEachForItsOwnSilence() async throws {
        let time = VirtualTime()
        let plane = try LocalDataPlane(rules: .init(), timeSource: time)
        try await post(plane, good)
        let long = Task { try await plane.quiet(for: .seconds(10)).count }
        let short = Task { try await plane.quiet(for: .seconds(1)).count }
        time.advance(by: .seconds(1))
        #expect(try await short.value == 1)
        time.advance(by: .seconds(9))
        #expect(try await long.value == 1)
    }

    @Test func aCancelledTaskAndAStopEndTheWait() async throws {
        let plane = try LocalDataPlane(rules: .init(), timeSource: VirtualTime())
        let cancelled = Task { try await plane.quiet(for: .seconds(1)) }
        cancelled.cancel()
        await #expect(throws: CancellationError.self) { try await cancelled.value }
        try await post(plane, good)
        let stopped = Task { try await plane.quiet(for: .seconds(1)) }
        await Task.yield()
        plane.stop()
        await #expect(throws: LocalDataPlane.StoppedError.self) { try await stopped.value }
    }

    /// With the machine's time, a millisecond of it.
    @Test func theMachinesTimeWorksToo() async throws {
        let plane = try LocalDataPlane()
        async let events = plane.quiet(for: .milliseconds(1))
        try await post(plane, good)
        #expect(try await events.count == 1)
    }

    private let good = #"{"batch":[{"userId":"u"}]}"#

    private func post(_ plane: LocalDataPlane, _ body: String) async throws {
        _ = try await RawClient.run(plane.url) { client in
            try client.send(
                "POST /v1/batch HTTP/1.1\r\nHost: h\r\nAuthorization: Basic d2s6\r\nContent-Length: \(body.utf8.count)\r\n\r\n"
                    + body)
            return try client.answer()
        }
    }
}

/// A flag that goes up once.
private final class Flag: Sendable {
    private let state = Locked(false)
    var isSet: Bool { state.withLock { $0 } }
    func set() { state.withLock { $0 = true } }
}
