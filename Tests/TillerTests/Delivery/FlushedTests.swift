import Foundation
import Testing
import TillerTesting

@testable import Tiller

/// What `flushed()`, `stored()` and `shutdownAndWait(timeout:)` say is true.
@Suite(.timeLimit(.minutes(5))) struct FlushedTests {
    // MARK: flushed()

    @Test func nothingIsWaitingInANewInstance() async {
        let bench = DeliveryBench()
        #expect(await bench.analytics.flushed() == .nothingWaiting)
        bench.analytics.reset()
        #expect(await bench.analytics.flushed() == .nothingWaiting)
        #expect(bench.transport.stub.requests.isEmpty)
    }

    @Test func whatWasRecordedBeforeIsDelivered() async {
        let bench = DeliveryBench { $0.limits.batchBytes = 1 }
        bench.track("A", "B", "C")
        #expect(await bench.analytics.flushed() == .delivered)
        #expect(bench.sent == ["A", "B", "C"])
        #expect(bench.analytics.account.delivered == 3)
        #expect(bench.analytics.account.inMemory == 0)
        #expect(await bench.analytics.flushed() == .nothingWaiting)
    }

    @Test func droppedEventsAreNotWaitedFor() async {
        let bench = DeliveryBench(plugins: [ClosurePlugin { _, _ in nil }])
        bench.track("A")
        #expect(await bench.analytics.flushed() == .nothingWaiting)
    }

    @Test func aFailureSaysUntilWhenAndWhy() async throws {
        let bench = DeliveryBench(answer: .status(503))
        bench.track("A")
        let wait = try #require(await bench.analytics.flushed().wait)
        #expect(wait.reason.contains("503"))
        #expect(wait.until == bench.time.wallMilliseconds + bench.time.delays[0].wholeMilliseconds)
        #expect(bench.analytics.account.inMemory == 1)
    }

    @Test func noAnswerSaysWhy() async throws {
        let bench = DeliveryBench(answer: .failure(StubTransport.NoAnswer()))
        bench.track("A")
        let wait = try #require(await bench.analytics.flushed().wait)
        #expect(wait.reason.contains("NoAnswer"))
    }

    @Test func aBatchThatFailsAfterOthersWereDeliveredIsWaiting() async {
        let bench = DeliveryBench { $0.limits.batchBytes = 1 }
        bench.transport.stub.answerNext(.status(200), .status(500))
        bench.track("A", "B", "C")
        #expect(await bench.analytics.flushed().wait != nil)
        #expect(bench.analytics.account.delivered == 1)
        #expect(bench.analytics.account.inMemory == 2)
    }

    @Test func whileNoAttemptMayBeMadeTheAnswerComesAtOnce() async throws {
        let bench = DeliveryBench(answer: .status(500))
        bench.track("A")
        _ = await bench.analytics.flushed()  // ends no wait: there was none
        let second = try #require(await bench.analytics.flushed().wait)  // ends the first
        #expect(bench.transport.stub.requests.count == 2)
        let third = try #require(await bench.analytics.flushed().wait)
        #expect(third.until == second.until)
        #expect(third.reason == second.reason)
        #expect(bench.transport.stub.requests.count == 2)
    }

    @Test func severalWaitersHearTheSame() async {
        let bench = DeliveryBench()
        bench.transport.stub.answerNext(.hold)
        bench.track("A")
        bench.analytics.flush()
        await bench.requests(1)
        async let first = bench.analytics.flushed()
        async let second = bench.analytics.flushed()
        await bench.analytics.stored()
        bench.transport.stub.release()
        // Which of them came before the answer is open; neither hangs, neither says that something waits.
        for result in await [first, second] { #expect(result.wait == nil && !result.isStopped) }
        #expect(bench.sent == ["A"])
    }

    /// An event that comes between a flush and its answer is no part of it.
    @Test func laterEventsAreNotWaitedFor() async {
        let (uploader, store) = Uploader.overMemory(.test())
        store.append(1)
        uploader.flush()
        store.append(2)
        let result = await withCheckedContinuation { done in
            uploader.whenFlushed(settledBefore: 0) { done.resume(returning: $0) }
        }
        #expect(result == .delivered)
        #expect(store.counts.settled == 1)
    }

    @Test func afterTheEndNothingWaitsOrWhatWaitedIsLost() async {
        let delivered = DeliveryBench()
        delivered.track("A")
        await delivered.analytics.shutdownAndWait()
        #expect(await delivered.analytics.flushed() == .nothingWaiting)
        let lost = DeliveryBench(answer: .status(500))
        lost.track("A")
        await lost.analytics.shutdownAndWait()
        #expect(await lost.analytics.flushed().isStopped)
    }

    @Test func shutdownDuringAFlushAnswersIt() async {
        let bench = DeliveryBench()
        bench.transport.stub.answerNext(.hold)
        bench.transport.stub.answerAlways(.status(500))
        bench.track("A", "B")
        bench.analytics.flush()
        await bench.requests(1)
        bench.track("C")
        bench.analytics.flush()
        async let flushed = bench.analytics.flushed()
        await bench.analytics.stored()
        bench.analytics.shutdown()
        bench.transport.stub.release()
        let result = await flushed
        #expect(result.isStopped || result.wait != nil)
        #expect(await bench.analytics.shutdownAndWait() == 1)
    }

    @Test func withoutADataPlaneNothingWaits() async {
        let configuration = Configuration.test()
        let analytics = Analytics(configuration: configuration, builtIn: [IdentityPlugin()])
        analytics.track(name: "A")
        #expect(await analytics.flushed() == .nothingWaiting)
        #expect(await analytics.shutdownAndWait() == 0)
    }

    // MARK: stored()

    @Test func storedMeansThatTheStateIsInTheStore() async {
        let store = MemoryStateStore()
        let bench = DeliveryBench { $0.storage = .custom(store) }
        for user in ["alice", "bob", "carol"] {
            bench.analytics.identify(userId: user)
            #expect(await bench.analytics.stored() == .inMemory)
            #expect(store.load("IdentityPlugin").object?["userId"]?.string == user)
        }
        bench.analytics.shutdown()
        #expect(await bench.analytics.stored() == .inMemory)
    }

    // MARK: shutdownAndWait(timeout:)

    @Test func shutdownDeliversWhatWaits() async {
        let bench = DeliveryBench { $0.limits.batchBytes = 1 }
        bench.track("A", "B", "C")
        #expect(await bench.analytics.shutdownAndWait() == 0)
        #expect(bench.sent == ["A", "B", "C"])
        #expect(await bench.analytics.shutdownAndWait() == 0)
        #expect(bench.time.virtual.timerCount == 0)
    }

    @Test func shutdownEndsAWaitAndTriesOnceMore() async {
        let bench = DeliveryBench()
        bench.transport.stub.answerNext(.status(500))
        bench.track("A")
        #expect(await bench.analytics.flushed().wait != nil)
        #expect(await bench.analytics.shutdownAndWait() == 0)
        #expect(bench.batches == [["A"], ["A"]])
        #expect(bench.time.virtual.timerCount == 0)
    }

    @Test func failureAtTheShutdownIsCountedAsUndelivered() async {
        let bench = DeliveryBench { $0.limits.batchBytes = 1 }
        bench.transport.stub.answerNext(.status(200))
        bench.transport.stub.answerAlways(.status(500))
        bench.track("A", "B", "C")
        #expect(await bench.analytics.shutdownAndWait() == 2)
        #expect(bench.analytics.account.dropped == [.undelivered: 2])
        #expect(bench.analytics.account.delivered == 1)
        #expect(bench.analytics.account.inMemory == 0)
        #expect(bench.sent == ["A", "B"])
        #expect(bench.time.virtual.timerCount == 0)
        #expect(bench.logger.texts(.error).contains { $0.contains("2 events") })
        #expect(await bench.analytics.shutdownAndWait() == 2)
    }

    /// The attempt that was under way does not count as the last one.
    @Test func whatWaitsIsTriedOnceMoreAfterTheAttemptUnderWay() async {
        let transport = FailingOnRelease()
        let bench = DeliveryBench { $0.transport = transport }
        bench.track("A")
        bench.analytics.flush()
        await transport.stub.requests(count: 1)
        bench.track("B")
        bench.analytics.shutdown()
        await bench.analytics.closed()
        transport.stub.release()
        #expect(await bench.analytics.shutdownAndWait() == 0)
        #expect(transport.stub.requests.map { $0.events.names } == [["A"], ["A", "B"]])
    }

    @Test func timeoutSaysHowManyAreStillWaiting() async {
        let bench = DeliveryBench()
        bench.transport.stub.answerNext(.hold)
        bench.track("A", "B")
        async let left = bench.analytics.shutdownAndWait(timeout: .seconds(3))
        await bench.requests(1)
        #expect(await bench.time.timer(1) == .seconds(3))
        bench.time.virtual.advance(by: .milliseconds(2_999))
        #expect(bench.time.virtual.timerCount == 1)
        bench.time.virtual.advance(by: .milliseconds(1))
        #expect(await left == 2)
        // The upload goes on all the same.
        bench.transport.stub.release()
        #expect(await bench.analytics.shutdownAndWait() == 0)
    }

    @Test func timeoutIsFiveSecondsUnlessSaidOtherwise() async {
        let bench = DeliveryBench()
        bench.transport.stub.answerNext(.hold)
        bench.track("A")
        async let left = bench.analytics.shutdownAndWait()
        #expect(await bench.time.timer(1) == .seconds(5))
        bench.transport.stub.release()
        #expect(await left == 0)
        #expect(bench.time.virtual.timerCount == 0)
    }

    // MARK: Holding nobody up, and letting go

    @Test func aHeldTransportBlocksNobody() async {
        let recorder = RecordingDestination()
        let held = DeliveryBench([CountFlushPolicy(flushAt: 1)], answer: .hold, plugins: [recorder])
        let other = DeliveryBench()
        held.track("A")
        await held.requests(1)
        held.analytics.identify(userId: "alice")
        held.track("B")
        held.analytics.flush()
        held.lifecycle.background()
        held.analytics.reset()
        #expect(await held.analytics.stored() == .inMemory)
        await held.analytics.settled()
        #expect(recorder.events.map(\.name) == ["A", "identify", "B"])
        #expect(held.analytics.userId == nil)
        other.track("C")
        #expect(await other.analytics.flushed() == .delivered)
        held.transport.stub.release()
        #expect(await held.analytics.shutdownAndWait() == 0)
        #expect(held.sent == ["A", "identify", "B"])
    }

    @Test func releasingTheLastAnalyticsLosesNothingAndKeepsNothing() async {
        let (released, signal) = AsyncStream<Void>.makeStream()
        let stub = StubTransport(.hold)
        do {
            let configuration: Configuration = {
                var configuration = Configuration.test()
                configuration.transport = Released(stub, signal)
                return configuration
            }()
            let analytics = Analytics(configuration: configuration)
            for number in 0..<100 { analytics.track(name: "\(number)") }
        }
        await stub.requests(count: 1)
        stub.release()
        // The transport is released with everything of the instance.
        for await _ in released {}
        #expect(stub.events.names == (0..<100).map { "\($0)" })
    }

    @Test func releasingTheLastAnalyticsDuringAWaitTriesOnceMore() async {
        let (released, signal) = AsyncStream<Void>.makeStream()
        let stub = StubTransport()
        stub.answerNext(.status(500))
        let time = VirtualTime()
        do {
            var configuration = Configuration.test(time: time)
            configuration.transport = Released(stub, signal)
            let analytics = Analytics(configuration: configuration)
            analytics.track(name: "A")
            #expect(await analytics.flushed().wait != nil)
        }
        for await _ in released {}
        #expect(stub.events.names == ["A", "A"])
    }
}

/// A transport whose held requests fail in the end.
private final class FailingOnRelease: Transport {
    let stub = StubTransport(.hold)

    func post(_ request: TransportRequest) async throws -> TransportResponse {
        let isFirst = stub.requests.isEmpty
        let response = try await stub.post(request)
        return isFirst ? TransportResponse(status: 500) : response
    }
}

/// A transport that says when it is released.
private final class Released: Transport {
    private let stub: StubTransport
    private let signal: AsyncStream<Void>.Continuation

    init(_ stub: StubTransport, _ signal: AsyncStream<Void>.Continuation) {
        self.stub = stub
        self.signal = signal
    }

    deinit { signal.finish() }

    func post(_ request: TransportRequest) async throws -> TransportResponse { try await stub.post(request) }
}
