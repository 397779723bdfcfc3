import Foundation
import Testing
import TillerTesting

@testable import Tiller

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#endif

/// What a process leaves behind that ends without waiting.
@Suite(.timeLimit(.minutes(5))) struct ProcessExitTests {
    private static let total = isUnderThreadSanitizer ? 400 : 10_000

    /// A program that records and exits at once: what was stored is delivered by the next run, counted at a data plane.
    @Test func whatWasStoredBeforeAnExitIsDeliveredByTheNextRun() async throws {
        let folder = TestFolder(name: "exit-drain")
        try? FileManager.default.removeItem(at: folder.url)
        await #expect(processExitsWith: .exitCode(7)) {
            let analytics = Self.instance(on: TestFolder(name: "exit-drain").url, transport: StubTransport())
            for number in 0..<Self.total / 2 { Self.track(number, analytics) }
            guard await analytics.stored() == .stored else { exit(1) }
            for number in Self.total / 2..<Self.total { Self.track(number, analytics) }
            exit(7)
        }
        let plane = try LocalDataPlane()
        let next = Self.instance(on: folder.url, url: plane.url, transport: URLSessionTransport())
        #expect(await next.flushed() == .delivered)
        let numbers = plane.events.compactMap { $0.properties["number"]?.int }
        #expect(numbers.count >= Self.total / 2)
        #expect(numbers == (0..<Int64(numbers.count)).map { $0 })
        #expect(await next.shutdownAndWait() == 0)
    }

    /// The exit waits for what is on its way: here nothing passes before the exit has begun.
    @Test func anExitStoresWhatIsOnItsWay() async throws {
        let folder = TestFolder(name: "exit-drain-short")
        try? FileManager.default.removeItem(at: folder.url)
        await #expect(processExitsWith: .exitCode(7)) {
            let analytics = Self.instance(
                on: TestFolder(name: "exit-drain-short").url, transport: StubTransport(), plugins: [Self.stuck])
            ProcessExit.bound.withLock { $0 = .seconds(60) }
            // The last that is registered runs first.
            atexit { ProcessExitTests.stuck.open() }
            for number in 0..<3 { Self.track(number, analytics) }
            exit(7)
        }
        let transport = StubTransport()
        let next = Self.instance(on: folder.url, transport: transport)
        #expect(await next.flushed() == .delivered)
        #expect(transport.events.compactMap { $0["properties"]?["number"]?.int } == [0, 1, 2])
    }

    /// It does not wait for a plugin that is stuck, nor for one that exits itself.
    @Test func anExitIsNotHeldUp() async {
        await #expect(processExitsWith: .exitCode(7)) {
            let stuck = StuckPlugin()
            let analytics = Analytics(configuration: .test(), plugins: [stuck])
            analytics.track(name: "A")
            stuck.waitForArrival()
            exit(7)
        }
        await #expect(processExitsWith: .exitCode(8)) {
            let analytics = Analytics(configuration: .test(), plugins: [ClosurePlugin { _, _ in exit(8) }])
            analytics.track(name: "A")
            await analytics.stored()
            exit(9)
        }
    }

    // MARK: Steps

    private static let stuck = StuckPlugin()

    private static func track(_ number: Int, _ analytics: Analytics) {
        analytics.track(name: "A", properties: ["number": .int(Int64(number))])
    }

    private static func instance(
        on folder: URL, url: String = "http://127.0.0.1", transport: any Transport, plugins: [any Plugin] = []
    ) -> Analytics {
        Analytics(
            configuration: Configuration(
                writeKey: "key", dataPlaneUrl: url, gzipEnabled: false, flushPolicies: [], logger: RecordingLogger(),
                storage: .folder(folder), transport: transport),
            plugins: plugins)
    }
}
