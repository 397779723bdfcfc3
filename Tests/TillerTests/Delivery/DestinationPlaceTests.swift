import Testing
import TillerTesting

@testable import Tiller

/// Data-plane destinations that follow each other in an instance, and one object in several: one upload at a time over
/// the instance's store, nothing twice, nothing forgotten.
@Suite(.timeLimit(.minutes(5))) struct DestinationPlaceTests {
    private let transport = StubTransport(.hold)

    @Test func theSameObjectComesBackDuringItsUpload() async throws {
        let analytics = instance()
        let plane = try #require(analytics.plugin(ofType: RudderStackDestination.self))
        await beginUpload(of: "A", analytics)
        analytics.remove(plugin: plane)
        analytics.add(plugin: plane)
        analytics.track(name: "B")
        async let result = analytics.flushed()
        await analytics.settled()
        transport.release()
        #expect(await result == .delivered)
        #expect(transport.events.names == ["A", "B"])
        #expect(await analytics.shutdownAndWait() == 0)
    }

    @Test func aPlaceThatWasNeverUsedFreesNothing() async throws {
        let analytics = instance()
        let configuration = analytics.configuration
        let first = try #require(analytics.plugin(ofType: RudderStackDestination.self))
        let (second, third) = (
            RudderStackDestination(configuration: configuration), RudderStackDestination(configuration: configuration)
        )
        await beginUpload(of: "A", analytics)
        analytics.remove(plugin: first)
        analytics.add(plugin: second)
        analytics.remove(plugin: second)
        analytics.add(plugin: third)
        analytics.flush()
        await analytics.settled()
        #expect(transport.requests.count == 1)
        transport.release()
        #expect(await analytics.shutdownAndWait() == 0)
        #expect(transport.events.names == ["A"])
    }

    @Test func oneThatCameDuringTheFormersUploadIsTriedAtTheShutdown() async throws {
        let analytics = instance()
        let first = try #require(analytics.plugin(ofType: RudderStackDestination.self))
        await beginUpload(of: "A", analytics)
        analytics.remove(plugin: first)
        analytics.add(plugin: RudderStackDestination(configuration: analytics.configuration))
        analytics.track(name: "B")
        analytics.shutdown()
        await analytics.closed()
        transport.release()
        #expect(await analytics.shutdownAndWait() == 0)
        #expect(transport.events.names == ["A", "B"])
    }

    /// The store is not closed, and its folder not given up, before the last upload of a removed destination is over.
    @Test func theStoreIsHeldUntilARemovedDestinationIsDone() async throws {
        let folder = TestFolder()
        let analytics = instance(.folder(folder.url))
        let first = try #require(analytics.plugin(ofType: RudderStackDestination.self))
        await beginUpload(of: "A", analytics)
        analytics.remove(plugin: first)
        analytics.shutdown()
        await analytics.closed()
        #expect(!analytics.engine.finished.isReached)
        transport.release()
        #expect(await analytics.shutdownAndWait() == 0)
        let next = instance(.folder(folder.url), transport: StubTransport())
        #expect(await next.flushed() == .nothingWaiting)
        await next.shutdownAndWait()
    }

    /// The next instance on the folder breaks off what lasts: also the upload of a destination that was removed. In a
    /// process of its own: the second that it waits must not go by while other tests have all threads.
    @Test(arguments: [true, false]) func whoWaitsForTheFolderGetsIt(_ removes: Bool) async {
        await #expect(processExitsWith: .success) { [removes] in
            let folder = TestFolder()
            let stuck = CancellableTransport()
            let former = Self.instance(.folder(folder.url), transport: stuck, time: SystemTime())
            former.track(name: "A")
            former.flush()
            await stuck.arrival()
            if removes { former.remove(plugin: try #require(former.plugin(ofType: RudderStackDestination.self))) }
            former.shutdown()
            let transport = StubTransport()
            let next = Self.instance(.folder(folder.url), transport: transport)
            try #require(await next.stored() == .stored, "it is a guest")
            try #require(await next.flushed().leavesNothing)
            try #require(transport.events.names == ["A"])
        }
    }

    /// An object that was hurried at the end of one instance works in the next.
    @Test func anObjectThatWasHurriedWorksInTheNextInstance() async {
        await #expect(processExitsWith: .success) {
            let folder = TestFolder()
            let stuck = CancellableTransport()
            let former = Self.instance(.folder(folder.url), transport: stuck, time: SystemTime())
            let plane = try #require(former.plugin(ofType: RudderStackDestination.self))
            former.track(name: "A")
            former.flush()
            await stuck.arrival()
            former.shutdown()
            stuck.answerFromNowOn()
            let next = Analytics(configuration: former.configuration, builtIn: [IdentityPlugin(), plane])
            next.track(name: "B")
            try #require(await next.flushed() == .delivered)
            try #require(Array(stuck.stub.events.names.suffix(2)) == ["A", "B"])
        }
    }

    /// An instance that was refused a destination has no say in it.
    @Test func aRefusedInstanceEndsNothing() async throws {
        transport.release()
        let first = instance()
        let plane = try #require(first.plugin(ofType: RudderStackDestination.self))
        await first.settled()
        let second = Analytics(configuration: first.configuration, builtIn: [IdentityPlugin(), plane])
        await second.settled()
        second.remove(plugin: plane)
        await second.settled()
        #expect(await second.flushed() == .nothingWaiting)
        await second.shutdownAndWait()
        first.track(name: "B")
        #expect(await first.flushed() == .delivered)
        #expect(transport.events.names == ["B"])
        await first.shutdownAndWait()
    }

    @Test(arguments: [Int.max, 0, -1, Int.min]) func noHintOfATransportIsAMistake(_ hint: Int) async {
        let hinting = HintingTransport(preferredBodyBytes: hint)
        let analytics = instance(transport: hinting)
        for name in ["A", "B", "C"] { analytics.track(name: name) }
        #expect(await analytics.flushed() == .delivered)
        #expect(hinting.stub.events.names == ["A", "B", "C"])
        await analytics.shutdownAndWait()
    }

    // MARK: Steps

    private func instance(_ storage: Storage = .memory, transport: (any Transport)? = nil) -> Analytics {
        Self.instance(storage, transport: transport ?? self.transport)
    }

    private static func instance(
        _ storage: Storage, transport: any Transport, time: any TimeSource = VirtualTime()
    ) -> Analytics {
        var configuration = Configuration.test(storage: storage)
        configuration.transport = transport
        configuration.time = time
        return Analytics(
            configuration: configuration,
            builtIn: [IdentityPlugin(), RudderStackDestination(configuration: configuration)])
    }

    private func beginUpload(of name: String, _ analytics: Analytics) async {
        analytics.track(name: name)
        analytics.flush()
        await transport.requests(count: 1)
    }
}

private struct HintingTransport: Transport {
    let preferredBodyBytes: Int?
    let stub = StubTransport()
    func post(_ request: TransportRequest) async throws -> TransportResponse { try await stub.post(request) }
}

/// Answers nothing until its task is cancelled.
private final class CancellableTransport: Transport {
    private struct State: Sendable {
        var answers = false
        var held: CheckedContinuation<Void, Never>?
        var isCancelled = false
    }

    let stub = StubTransport()
    private let state = Locked(State())

    func arrival() async { await stub.requests(count: 1) }

    func answerFromNowOn() { state.withLock { $0.answers = true } }

    func post(_ request: TransportRequest) async throws -> TransportResponse {
        let response = try await stub.post(request)
        if state.withLock({ $0.answers }) { return response }
        await withTaskCancellationHandler {
            await withCheckedContinuation { done in
                let isCancelled = state.withLock { state in
                    if !state.isCancelled { state.held = done }
                    return state.isCancelled
                }
                if isCancelled { done.resume() }
            }
        } onCancel: {
            state.withLock { state in
                state.isCancelled = true
                return state.held.take()
            }?.resume()
        }
        throw CancellationError()
    }
}
