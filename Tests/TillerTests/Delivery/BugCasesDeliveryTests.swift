import Testing
import TillerTesting

@testable import Tiller

/// What other SDKs got wrong about answers, waits and backlogs.
@Suite(.timeLimit(.minutes(5))) struct BugCasesDeliveryTests {
    private let folder = TestFolder()

    @Test func b59_aBacklogIsNotWalkedWhileTheServerCannotBeReached() async {
        let bench = DeliveryBench([CountFlushPolicy(flushAt: 30)], answer: .failure(StubTransport.NoAnswer())) {
            $0.limits.batchBytes = 1
        }
        for number in 0..<1_500 { bench.track("\(number)") }
        await bench.flushed()
        for round in 0..<20 {
            await bench.pass(.seconds(30))
            if round % 2 == 0 {
                bench.lifecycle.background()
                bench.lifecycle.foreground()
            }
            await bench.flushed()
        }
        #expect(bench.transport.stub.requests.count < 60)
        #expect(bench.transport.mostAtOnce == 1)
        #expect(bench.batches.allSatisfy { $0 == ["0"] })
        bench.transport.stub.answerAlways(.status(200))
        bench.time.virtual.advance(by: .seconds(300))
        await bench.flushed()
        #expect(await bench.analytics.shutdownAndWait() == 0)
    }

    // MARK: Codes

    private enum Class { case delivered, waiting, stopped }

    private func expected(_ status: Int) -> Class {
        switch status {
        case 200..<300: .delivered
        case 400, 408, 413, 422, 425, 429, 500..<600, 0: .waiting
        default: .stopped
        }
    }

    @Test(
        arguments: [
            200, 202, 204, 301, 304, 400, 401, 403, 404, 408, 410, 413, 422, 425, 429, 500, 501, 502, 503, 504, 599, 0,
        ], RefusedEventsTests.Kind.allCases)
    func b131_theClassesAreTheSameOverEveryStore(_ status: Int, _ kind: RefusedEventsTests.Kind) async {
        let bench = DeliveryBench { if kind == .disk { $0.storage = .folder(folder.url) } }
        bench.answer { _ in .status(status) }
        bench.track("A", "B")
        let result = await bench.flushed()
        switch expected(status) {
        case .delivered: #expect(result == .delivered)
        case .waiting: #expect(result.wait != nil)
        case .stopped: #expect(result.isStopped)
        }
        #expect(result.reason.map { $0.contains("\(status)") } ?? true)
        // Nothing is retried without a wait.
        let count = bench.transport.stub.requests.count
        #expect(count <= 3)
        await bench.flushed()
        for _ in 0..<5 { await bench.flushed() }
        #expect(bench.transport.stub.requests.count <= 2 * count)
        // And nothing is lost.
        bench.answer { _ in .status(200) }
        bench.time.virtual.advance(by: .seconds(3_600))
        await bench.flushed()
        #expect(await bench.analytics.shutdownAndWait() == 0)
        #expect(bench.analytics.account.dropped == [:])
        let accepted = bench.batches.suffix(2).flatMap { $0 }
        #expect(accepted.suffix(2) == ["A", "B"])
    }

    /// Reset, name not found, bad certificate, timeout, and what is not HTTP.
    @Test(arguments: [-1_005, -1_003, -1_202, -1_001, 0]) func b132_noAnswerAndOneThatIsNotHTTPWait(_ code: Int) async {
        let text = code == 0 ? "it was not HTTP" : "an error (NSURLErrorDomain \(code))"
        let error = URLSessionTransport.NoAnswer(description: text, kind: code == -1_001 ? .timeout : .other)
        let bench = DeliveryBench()
        bench.transport.stub.answerNext(.failure(error))
        bench.track("A")
        #expect(await bench.flushed().wait?.reason.contains(text) == true)
        #expect(bench.logger.texts(.error).filter { $0.contains(text) }.count == 1)
        bench.time.virtual.advance(by: .seconds(1))
        await bench.requests(2)
        await bench.flushed()
        #expect(bench.analytics.account.delivered == 1)
    }

    // MARK: Hot loops

    @Test(arguments: [true, false]) func b126_waitsGrowAndAFlushEndsOneInTenSeconds(_ answers: Bool) async {
        let bench = DeliveryBench(answer: answers ? .status(500) : .failure(StubTransport.NoAnswer())) {
            $0.limits.batchBytes = 1
        }
        for number in 0..<100 { bench.track("\(number)") }
        await bench.flushed()
        for _ in 0..<20 {
            await bench.pass(.seconds(30))
            bench.lifecycle.background()
            bench.lifecycle.foreground()
            await bench.flushed()
        }
        // In ten minutes: one for each half minute, and what the backoff allows beside it.
        #expect((20...45).contains(bench.transport.stub.requests.count), "\(bench.transport.stub.requests.count)")
        // A hundred calls in a moment are one.
        let count = bench.transport.stub.requests.count
        bench.time.virtual.advance(by: .zero)
        for _ in 0..<100 { await bench.flushed() }
        #expect(bench.transport.stub.requests.count <= count + 1)
        bench.transport.stub.answerNext(.status(200))
        bench.time.virtual.advance(by: .seconds(300))
        await bench.flushed()
        #expect(bench.time.delays.last.map { $0 <= .seconds(2) } == true)  // begun anew
    }

    /// Many events that are refused, one after the other: each answer is worth at most a few requests.
    @Test func b126_refusalsAreNoHotLoopEither() async {
        let bench = DeliveryBench([CountFlushPolicy(flushAt: 1)])
        bench.answer { _ in .status(400) }
        for number in 0..<100 {
            bench.track("\(number)")
            await bench.analytics.stored()
            await bench.flushed()
        }
        #expect(bench.transport.stub.requests.count < 20)
        #expect(bench.analytics.account.inMemory == 100)
    }

    // MARK: Restarts

    /// Attempts are counted in memory: a new process begins with a first one.
    @Test func b129_attemptsAreCountedPerProcessAndNeverNegative() async {
        let names = ["Rsa-Retry-Attempt", "Rsa-Since-Last-Attempt", "Rsa-Retry-Reason"]
        func headers(_ bench: DeliveryBench) -> [[String?]] {
            bench.transport.stub.requests.map { request in names.map { request.headers[$0] } }
        }
        let first = DeliveryBench(answer: .status(503)) { $0.storage = .folder(folder.url) }
        first.track("A")
        await first.flushed()
        first.time.virtual.setWallClock(by: .seconds(-3_600))
        first.time.virtual.advance(by: .seconds(1))
        _ = await first.failure(2)
        #expect(headers(first)[0] == [nil, nil, nil])
        #expect(headers(first)[1][0] == "1" && headers(first)[1][2] == "server-503")
        #expect((Int(headers(first)[1][1] ?? "") ?? -1) >= 0)
        await first.analytics.shutdownAndWait()
        let second = DeliveryBench { $0.storage = .folder(folder.url) }
        second.transport.stub.answerNext(.status(503))
        await second.flushed()
        second.time.virtual.advance(by: .seconds(1))
        await second.requests(2)
        #expect(await second.analytics.shutdownAndWait() == 0)
        #expect(headers(second).map { $0[0] } == [nil, "1"])
    }

    // MARK: The background

    @Test func whatWaitsIsUploadedWhenTheAppGoesToTheBackground() async {
        let time = VirtualTime()
        let lifecycle = ManualLifecycleSource(isInForeground: true)
        let transport = StubTransport()
        var configuration = Configuration.test(
            lifecycle: lifecycle, time: time, transport: transport, flushPolicies: [CountFlushPolicy(flushAt: 100)])
        configuration.trackApplicationLifecycleEvents = true
        let analytics = Analytics(configuration: configuration)
        analytics.track(name: "A")
        await analytics.stored()
        #expect(transport.requests.isEmpty)
        lifecycle.background()
        await analytics.stored()
        // No call waits for it; the shutdown does.
        #expect(await analytics.shutdownAndWait() == 0)
        #expect(transport.events.names.suffix(2) == ["A", "Application Backgrounded"])
    }

    @Test(arguments: [true, false]) func aNoticeOfTheEndAsksForOneUpload(_ terminates: Bool) async {
        let bench = DeliveryBench([CountFlushPolicy(flushAt: 100)])
        bench.track("A")
        await bench.analytics.stored()
        if terminates { bench.lifecycle.terminate() } else { bench.lifecycle.background() }
        await bench.requests(1)
        bench.track("B")
        await bench.requests(2)
        // One is enough: an app that works in the background uploads as its policies say.
        bench.track("C")
        await bench.analytics.stored()
        #expect(bench.batches == [["A"], ["B"]])
        bench.lifecycle.foreground()
    }

    /// The notice may come before the destination has its place.
    @Test func aNoticeRightAfterTheStartCountsToo() async {
        for _ in 0..<20 {
            let bench = DeliveryBench([CountFlushPolicy(flushAt: 100)])
            bench.track("A")
            bench.lifecycle.background()
            await bench.requests(1)
            #expect(bench.batches == [["A"]])
        }
    }

    @Test func theBackgroundEndsNoWait() async {
        let bench = DeliveryBench([CountFlushPolicy(flushAt: 100)], answer: .status(503))
        bench.track("A")
        await bench.flushed()
        bench.lifecycle.background()
        bench.track("B")
        await bench.analytics.stored()
        #expect(bench.transport.stub.requests.count == 1)
    }
}
