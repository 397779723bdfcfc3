import Testing
import TillerTesting

@testable import Tiller

/// The data plane that goes and comes back, and answers that are none.
@Suite(.timeLimit(.minutes(5))) struct DataPlaneLifeTests {
    private func plane(of analytics: Analytics) throws -> RudderStackDestination {
        try #require(analytics.plugin(ofType: RudderStackDestination.self))
    }

    @Test func dataPlaneThatComesBackDelivers() async throws {
        let transport = StubTransport()
        let analytics = Analytics(configuration: .test(transport: transport))
        let plane = try plane(of: analytics)
        analytics.remove(plugin: plane)
        await analytics.stored()
        analytics.add(plugin: plane)
        analytics.track(name: "A")
        #expect(await analytics.flushed() == .delivered)
        for name in ["B", "C"] {
            analytics.track(name: name)
            analytics.flush()
            await analytics.stored()
        }
        #expect(await analytics.shutdownAndWait(timeout: .zero) == 0)
        #expect(transport.events.compactMap { $0["event"]?.string } == ["A", "B", "C"])
        #expect(analytics.account.inMemory == 0)
    }

    @Test func dataPlaneThatComesBackKeepsWhatFails() async throws {
        let analytics = Analytics(configuration: .test(transport: StubTransport(.status(503))))
        let plane = try plane(of: analytics)
        analytics.remove(plugin: plane)
        await analytics.stored()
        analytics.add(plugin: plane)
        analytics.track(name: "A")
        let result = await analytics.flushed()
        guard case .waiting = result else {
            Issue.record("\(result)")
            return
        }
        #expect(analytics.account.inMemory == 1)
        #expect(analytics.account.dropped == [:])
    }

    @Test func flushedWaitsForTheDataPlaneThatReplacedAnother() async throws {
        let transport = StubTransport()
        let configuration = Configuration.test(transport: transport)
        let analytics = Analytics(configuration: configuration)
        analytics.remove(plugin: try plane(of: analytics))
        analytics.add(plugin: RudderStackDestination(configuration: configuration))
        analytics.track(name: "A")
        #expect(await analytics.flushed() == .delivered)
        #expect(transport.events.count == 1)
    }

    @Test func dataPlaneThatGoesDuringAnUploadCountsWhatItHad() async throws {
        let transport = StubTransport(.hold)
        let analytics = Analytics(configuration: .test(transport: transport))
        let plane = try plane(of: analytics)
        for _ in 0..<5 { analytics.track(name: "A") }
        analytics.flush()
        await transport.requests(count: 1)
        analytics.remove(plugin: plane)
        for _ in 0..<5 { analytics.track(name: "B") }
        await analytics.settled()
        transport.release()
        #expect(await analytics.shutdownAndWait() == 0)
        #expect(analytics.account.inMemory == 0)
        #expect(analytics.account.delivered == 10)
    }

    private struct Portal: Transport {
        func post(_ request: TransportRequest) async throws -> TransportResponse {
            TransportResponse(status: 200, body: Array("<!DOCTYPE html><html>Sign in to the network</html>".utf8))
        }
    }

    @Test func pageOfACaptivePortalAcknowledgesNothing() async {
        var configuration = Configuration.test()
        configuration.transport = Portal()
        let analytics = Analytics(configuration: configuration)
        analytics.track(name: "A")
        #expect(await analytics.flushed() != .delivered)
        #expect(analytics.account.delivered == 0)
    }

    @Test func emptyWriteKeyIsSaid() {
        let logger = RecordingLogger()
        var configuration = Configuration.test(logger: logger)
        configuration.writeKey = ""
        let analytics = Analytics(configuration: configuration)
        #expect(!logger.texts(.error).isEmpty)
        withExtendedLifetime(analytics) {}
    }

    /// Fires while it is asked, for so many times.
    private final class EagerTime: TimeSource {
        private let base = VirtualTime()
        private let left = Locked(200)

        var wallMilliseconds: Int64 { base.wallMilliseconds }
        var continuous: Duration { base.continuous }
        var bootIdentity: String? { base.bootIdentity }

        func schedule(after delay: Duration, _ action: @escaping @Sendable () -> Void) -> CancellationToken {
            let fires = left.withLock { left in
                left -= 1
                return left > 0
            }
            if fires { action() }
            return CancellationToken {}
        }
    }

    @Test func timersThatFireAtOnceHangNothing() async {
        var configuration = Configuration.test(
            transport: StubTransport(.status(503)), flushPolicies: [FrequencyFlushPolicy()])
        configuration.time = EagerTime()
        let analytics = Analytics(configuration: configuration)
        analytics.track(name: "A")
        await analytics.flushed()
        await analytics.shutdownAndWait()
        #expect(analytics.account.recorded == 1)
    }
}
