import Testing
import TillerTesting

@testable import Tiller

/// What no attempt can mend: the key, the URL, a proxy.
@Suite(.timeLimit(.minutes(5))) struct FaultTests {
    private let folder = TestFolder()

    static let faults: [(Int, String)] = [
        (301, ""), (302, ""), (304, ""), (401, "invalid write key\n"), (403, ""), (404, "source is disabled\n"),
        (404, "404 page not found\n"), (404, "nothing"), (405, ""), (410, ""), (200, "<html>Sign in</html>"),
    ]

    @Test(arguments: faults) func aFaultStopsUploadsAndKeepsEverything(_ status: Int, _ text: String) async {
        let bench = DeliveryBench([CountFlushPolicy(flushAt: 1)])
        bench.answer { _ in .status(status, text) }
        bench.track("A")
        let result = await bench.flushed()
        #expect(result.isStopped)
        // Neither events, nor the foreground, nor a network that comes back, nor time below an hour.
        for number in 0..<20 {
            bench.track("\(number)")
            bench.lifecycle.background()
            bench.lifecycle.foreground()
            bench.networkCameBack()
            await bench.analytics.stored()
            bench.time.virtual.advance(by: .seconds(2))
        }
        #expect(bench.transport.stub.requests.count == 1)
        #expect(bench.time.virtual.timerCount == 1)
        #expect(bench.logger.texts(.error).count == 1)
        #expect(bench.analytics.account.inMemory == 21)
        // Once an hour.
        await bench.pass(.seconds(3_600 * 5))
        #expect(bench.transport.stub.requests.count == 6)
        #expect(bench.logger.texts(.error).count == 1)
        bench.answer { _ in .status(200, "ok") }
        bench.time.virtual.advance(by: .seconds(3_600))
        await bench.requests(7)
        await bench.flushed()
        #expect(bench.analytics.account.delivered == 21)
        #expect(bench.time.virtual.timerCount == 0)
    }

    @Test func b119_anUnknownKeyIsTriedOnceAMinuteAtMostAndLosesNothing() async throws {
        let bench = DeliveryBench([CountFlushPolicy(flushAt: 30)]) { $0.storage = .folder(folder.url) }
        bench.answer { _ in .status(401, "invalid write key\n") }
        for number in 0..<1_000 { bench.track("\(number)") }
        for _ in 0..<10 { #expect(await bench.flushed().isStopped) }
        #expect(bench.transport.stub.requests.count == 1)
        for _ in 0..<59 {
            bench.time.virtual.advance(by: .seconds(1))
            #expect(await bench.flushed().isStopped)
        }
        #expect(bench.transport.stub.requests.count == 1)
        bench.time.virtual.advance(by: .seconds(1))
        for _ in 0..<10 { #expect(await bench.flushed().isStopped) }
        #expect(bench.transport.stub.requests.count == 2)
        // An hour after that one, not after the first.
        await bench.pass(.seconds(3_599))
        #expect(bench.transport.stub.requests.count == 2)
        await bench.pass(.seconds(1))
        #expect(bench.transport.stub.requests.count == 3)
        #expect(bench.logger.texts(.error).count == 1)
        #expect(await bench.analytics.shutdownAndWait() == 1_000)
        #expect(bench.transport.stub.requests.count == 3)  // the fault is not a minute old
        // The key is known by now.
        let next = DeliveryBench { $0.storage = .folder(folder.url) }
        #expect(await next.flushed() == .delivered)
        #expect(next.sent == (0..<1_000).map { "\($0)" })
    }

    @Test func b120_aStopAnswerStops() async {
        let bench = DeliveryBench { $0.limits.batchBytes = 1 }
        bench.transport.stub.answerNext(.status(502), .status(404))
        bench.track("A", "B", "C")
        #expect(await bench.flushed().wait != nil)
        bench.time.virtual.advance(by: .seconds(1))
        await bench.requests(2)
        _ = await bench.failure(2)
        #expect(await bench.flushed().isStopped)
        bench.time.virtual.advance(by: .seconds(59))
        #expect(await bench.flushed().isStopped)
        #expect(bench.batches == [["A"], ["A"]])
        #expect(bench.analytics.account.inMemory == 3)
    }

    @Test func shutdownTriesAFaultThatIsOldOnceMore() async {
        let bench = DeliveryBench()
        bench.transport.stub.answerNext(.status(401))
        bench.track("A")
        #expect(await bench.flushed().isStopped)
        bench.time.virtual.advance(by: .seconds(60))
        #expect(await bench.analytics.shutdownAndWait() == 0)
        #expect(bench.batches == [["A"], ["A"]])
        #expect(bench.time.virtual.timerCount == 0)
    }

    /// Events that come while uploads have stopped need no timer, and no upload.
    @Test func nothingRunsWhileUploadsHaveStopped() async {
        let bench = DeliveryBench([StartupFlushPolicy(), FrequencyFlushPolicy(), CountFlushPolicy(flushAt: 2)])
        bench.answer { _ in .status(403) }
        for number in 0..<50 {
            bench.track("\(number)")
            await bench.analytics.stored()
        }
        bench.time.virtual.advance(by: .seconds(1_800))
        await bench.analytics.stored()
        #expect(bench.transport.stub.requests.count == 1)
    }

    // MARK: A fault that hides behind a reset

    @Test func aFaultBehindAResetIsFoundByTheFirstEventAlone() async throws {
        struct Reset: Error {}
        let bench = DeliveryBench { $0.limits.batchBytes = 100_000 }
        bench.answer { request in
            if request.body.count > 20_000 { throw Reset() }
            return .status(401, "invalid write key\n")
        }
        for number in 0..<200 {
            bench.analytics.track(name: "\(number)", properties: ["p": .string(String(repeating: "x", count: 300))])
        }
        #expect(await bench.flushed().wait != nil)
        bench.time.virtual.advance(by: .seconds(1))
        _ = await bench.failure(2)
        bench.time.virtual.advance(by: .seconds(2))
        #expect(await bench.failure(3) == .seconds(3_600))
        #expect(bench.batches.map(\.count).suffix(1) == [1])
        #expect(bench.batches.count == 3)
        let result = await bench.flushed()
        #expect(result.isStopped && result.reason?.contains("401") == true)
        #expect(bench.analytics.account.inMemory == 200)
    }

    /// A server that breaks off large uploads gets smaller ones.
    @Test func whatIsBrokenOffGoesInSmallerRequests() async {
        struct Reset: Error {}
        let bench = DeliveryBench { $0.limits.batchBytes = 100_000 }
        bench.answer { request in
            if request.body.count > 30_000 { throw Reset() }
            return .status(200, "ok")
        }
        for number in 0..<200 {
            bench.analytics.track(name: "\(number)", properties: ["p": .string(String(repeating: "x", count: 300))])
        }
        for _ in 0..<60 where bench.analytics.account.inMemory > 0 {
            await bench.flushed()
            bench.time.virtual.advance(by: .seconds(300))
        }
        await bench.flushed()
        let accepted = bench.transport.stub.requests.filter { $0.body.count <= 30_000 }.flatMap { $0.events.names }
        #expect(accepted == (0..<200).map { "\($0)" })
    }
}

extension DeliveryBench {
    func networkCameBack() { analytics.plugin(ofType: RudderStackDestination.self)?.networkCameBack() }
}
