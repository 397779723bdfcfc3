import Testing
import TillerTesting

@testable import Tiller

/// The waits after failures.
@Suite(.timeLimit(.minutes(5))) struct BackoffTests {
    /// The waits of the first failures in a row, under one seed.
    private func waits(_ count: Int, seed: UInt64, isApp: Bool = true) async -> [Duration] {
        let bench = DeliveryBench(answer: .status(503), isApp: isApp) { $0.identifiers = .seeded(seed) }
        bench.track("A")
        bench.analytics.flush()
        for number in 1..<count { bench.time.virtual.advance(by: await bench.failure(number)) }
        _ = await bench.failure(count)
        #expect(bench.transport.stub.requests.count == count)
        return bench.time.delays
    }

    @Test(arguments: [(true, Duration.seconds(300)), (false, .seconds(60))])
    func waitsDoubleFromOneSecondToTheCapWithFullJitter(_ isApp: Bool, _ cap: Duration) async {
        var longest = [Duration](repeating: .zero, count: 12)
        var shortest = [Duration](repeating: cap, count: 12)
        for seed in 1...40 as ClosedRange<UInt64> {
            for (step, wait) in await waits(12, seed: seed, isApp: isApp).enumerated() {
                longest[step] = max(longest[step], wait)
                shortest[step] = min(shortest[step], wait)
            }
        }
        for step in 0..<12 {
            let ceiling = min(Duration.seconds(1) * (1 << step), cap)
            #expect(shortest[step] >= .zero && longest[step] <= ceiling, "step \(step)")
            // Over forty seeds the waits fill the range.
            #expect(longest[step] > ceiling * 0.8, "step \(step)")
            #expect(shortest[step] < ceiling * 0.2, "step \(step)")
        }
    }

    @Test func sameSeedWaitsTheSame() async {
        #expect(await waits(5, seed: 7) == waits(5, seed: 7))
        #expect(await waits(5, seed: 7) != waits(5, seed: 8))
    }

    @Test func aSuccessBeginsAnewAtOneSecond() async {
        let bench = DeliveryBench(answer: .status(500))
        bench.track("A")
        bench.analytics.flush()
        for number in 1...8 { bench.time.virtual.advance(by: await bench.failure(number)) }
        _ = await bench.failure(9)
        bench.transport.stub.answerNext(.status(200))
        bench.time.virtual.advance(by: .seconds(300))
        await bench.requests(10)
        bench.track("B")
        #expect(await bench.analytics.flushed().wait != nil)
        #expect(bench.time.delays.count == 10)
        #expect(bench.time.delays[9] <= .seconds(1))
    }

    @Test func everythingBehindWaitsToo() async {
        let bench = DeliveryBench([CountFlushPolicy(flushAt: 1)]) { $0.limits.batchBytes = 1 }
        bench.transport.stub.answerNext(.status(500))
        bench.track("A")
        let wait = await bench.failure(1)
        bench.track("B", "C")
        await bench.analytics.stored()
        #expect(bench.time.virtual.nextTimer == wait)
        bench.time.virtual.advance(by: wait - .milliseconds(1))
        #expect(bench.time.virtual.timerCount == 1)
        #expect(bench.batches == [["A"]])
        bench.time.virtual.advance(by: .milliseconds(1))
        await bench.requests(4)
        #expect(bench.batches == [["A"], ["A"], ["B"], ["C"]])
    }

    @Test func flushEndsAWaitAtMostOnceInTenSeconds() async {
        let bench = DeliveryBench(answer: .status(500)) { $0.identifiers = .seeded(3) }
        bench.track("A")
        // The step stays: waits grow long enough to be ended.
        bench.analytics.flush()
        for number in 1...9 { bench.time.virtual.advance(by: await bench.failure(number)) }
        _ = await bench.failure(10)
        bench.analytics.flush()
        _ = await bench.failure(11)
        #expect(bench.transport.stub.requests.count == 11)
        for _ in 0..<3 {
            bench.time.virtual.advance(by: .milliseconds(3_333))
            #expect(await bench.analytics.flushed().wait != nil)
        }
        #expect(bench.transport.stub.requests.count == 11)
        #expect(bench.time.virtual.timerCount == 1)
        bench.time.virtual.advance(by: .milliseconds(1))
        bench.analytics.flush()
        _ = await bench.failure(12)
        #expect(bench.transport.stub.requests.count == 12)
        #expect(bench.time.delays[11] > .seconds(8))  // not begun anew
    }

    @Test func foregroundEndsAWait() async {
        let bench = DeliveryBench()
        bench.transport.stub.answerNext(.status(500))
        bench.track("A")
        #expect(await bench.analytics.flushed().wait != nil)
        bench.lifecycle.background()
        await bench.analytics.stored()
        #expect(bench.time.virtual.timerCount == 1)
        bench.lifecycle.foreground()
        await bench.requests(2)
        #expect(await bench.analytics.shutdownAndWait() == 0)
        #expect(bench.batches == [["A"], ["A"]])
        #expect(bench.time.virtual.timerCount == 0)
    }

    @Test func foregroundAloneUploadsNothingThatWasNotAskedFor() async {
        let bench = DeliveryBench()
        bench.track("A")
        bench.lifecycle.background()
        bench.lifecycle.foreground()
        await bench.analytics.stored()
        #expect(bench.transport.stub.requests.isEmpty)
        #expect(bench.time.virtual.timerCount == 0)
    }

    // MARK: Retry-After

    @Test func b123_retryAfterIsNeverShortened() async throws {
        let bench = DeliveryBench { $0.limits.batchBytes = 1 }
        bench.answer { _ in .status(429, "max requests limit reached\n", ["Retry-After": "5"]) }
        bench.track("A", "B")
        let wait = try #require(await bench.flushed().wait)
        #expect(wait.until == bench.time.wallMilliseconds + 5_000)
        bench.answer { _ in .status(200, "ok") }
        for _ in 0..<4 {
            bench.time.virtual.advance(by: .seconds(1))
            #expect(await bench.flushed().wait?.until == wait.until)
            bench.lifecycle.background()
            bench.lifecycle.foreground()
            bench.networkCameBack()
        }
        #expect(bench.batches == [["A"]])
        bench.time.virtual.advance(by: .milliseconds(999))
        #expect(bench.batches == [["A"]])
        bench.time.virtual.advance(by: .milliseconds(1))
        await bench.flushed()
        #expect(bench.batches == [["A"], ["A"], ["B"]])
        #expect(bench.analytics.account.delivered == 2)
    }

    @Test(arguments: [
        ("Tue, 25 Feb 2025 06:06:47 GMT", 10), ("Tuesday, 25-Feb-25 06:06:47 GMT", 10),
        ("Tue Feb 25 06:06:47 2025", 10),
        ("Wed, 26 Feb 2025 06:06:47 GMT", 3_600), ("999999", 3_600),
    ])
    func retryAfterMayBeADateAndIsAnHourAtMost(_ value: String, _ seconds: Int) async {
        let bench = DeliveryBench()
        bench.answer { _ in .status(503, "", ["retry-after": value]) }
        bench.track("A")
        bench.analytics.flush()
        #expect(await bench.failure(1) == .seconds(seconds))
    }

    @Test(arguments: ["0", "-5", "soon", "Tue, 25 Feb 2025 06:06:36 GMT"])
    func retryAfterThatSaysNothingIsABackoff(_ value: String) async {
        let bench = DeliveryBench()
        bench.answer { _ in .status(503, "", ["Retry-After": value]) }
        bench.track("A")
        bench.analytics.flush()
        #expect(await bench.failure(1) <= .seconds(1))
        await bench.flushed()
        #expect(bench.transport.stub.requests.count == 2)
    }

    @Test func shutdownLeavesAServerAloneThatWantsToBe() async {
        let bench = DeliveryBench()
        bench.answer { _ in .status(429, "", ["Retry-After": "60"]) }
        bench.track("A")
        #expect(await bench.flushed().wait != nil)
        #expect(await bench.analytics.shutdownAndWait() == 1)
        #expect(bench.transport.stub.requests.count == 1)
        #expect(bench.time.virtual.timerCount == 0)
    }

    // MARK: The network

    @Test func b127_aNetworkThatComesBackEndsAWait() async {
        let bench = DeliveryBench(answer: .failure(StubTransport.NoAnswer())) { $0.identifiers = .seeded(3) }
        bench.track("A")
        bench.analytics.flush()
        for number in 1...9 { bench.time.virtual.advance(by: await bench.failure(number)) }
        _ = await bench.failure(10)
        bench.transport.stub.answerAlways(.status(200))
        bench.networkCameBack()
        await bench.requests(11)
        await bench.flushed()
        #expect(bench.analytics.account.delivered == 1)
        #expect(bench.time.virtual.timerCount == 0)
    }

    /// A hub that two uploaders listen to, and nobody before or after they need it.
    @Test func b130_twoInstancesHearOfTheNetwork() async {
        let hub = NetworkHub()
        let time = VirtualTime()
        let transport = StubTransport(.failure(StubTransport.NoAnswer()))
        let uploaders = (0..<2).map { _ in
            Uploader.overMemory(.test(time: time, transport: transport), network: hub.observe)
        }
        for (uploader, store) in uploaders {
            #expect(hub.count == 0 || uploader !== uploaders[0].0)
            store.append(1)
            #expect(await uploader.flushedResult().wait != nil)
        }
        #expect(hub.count == 2)
        // The present state, and one like it, are no news.
        hub.tell(isConnected: true)
        hub.tell(isConnected: true)
        hub.tell(isConnected: false)
        #expect(transport.requests.count == 2)
        transport.answerAlways(.status(200))
        hub.tell(isConnected: true)
        await transport.requests(count: 4)  // before any flush
        for (uploader, store) in uploaders {
            _ = await uploader.flushedResult()
            #expect(store.counts.waiting == 0)
        }
        #expect(transport.requests.count == 4)
        #expect(hub.count == 0)
        #expect(time.timerCount == 0)
    }

    @Test func theNetworkIsNotWatchedForAServersFaults() async {
        let hub = NetworkHub()
        let (uploader, store) = Uploader.overMemory(.test(transport: StubTransport(.status(503))), network: hub.observe)
        store.append(1)
        #expect(await uploader.flushedResult().wait != nil)
        #expect(hub.count == 0)
    }

    @Test func theEndEndsTheWatching() async {
        let hub = NetworkHub()
        let transport = StubTransport(.failure(StubTransport.NoAnswer()))
        let (uploader, store) = Uploader.overMemory(.test(transport: transport), network: hub.observe)
        store.append(1)
        #expect(await uploader.flushedResult().wait != nil)
        #expect(hub.count == 1)
        uploader.close()
        #expect(hub.count == 0)
    }

    // MARK: Clocks

    @Test func settingTheWallClockChangesNoWait() async {
        let bench = DeliveryBench(answer: .status(500))
        bench.track("A")
        bench.analytics.flush()
        let wait = await bench.failure(1)
        bench.time.virtual.setWallClock(by: .seconds(86_400))
        #expect(bench.time.virtual.nextTimer == wait)
        bench.time.virtual.setWallClock(by: .seconds(-864_000))
        bench.time.virtual.advance(by: wait)
        await bench.requests(2)
    }

    /// A timer of no time at all may fire before `schedule` has returned: the upload must not be forgotten.
    @Test func waitThatIsOverAtOnceIsNotForgotten() async {
        let bench = DeliveryBench([CountFlushPolicy(flushAt: 1)]) { $0.time = EagerTime() }
        for _ in 0..<20 { bench.transport.stub.answerNext(.status(500)) }
        bench.track("A")
        await bench.requests(21)
        bench.track("B")
        await bench.requests(22)
        #expect(bench.sent == Array(repeating: "A", count: 21) + ["B"])
    }

    @Test func theSameReasonIsReportedOnceAndNamesNothingPrivate() async {
        let bench = DeliveryBench(answer: .status(500))
        bench.analytics.identify(userId: "alice@example.com")
        bench.analytics.flush()
        for number in 1...3 { bench.time.virtual.advance(by: await bench.failure(number)) }
        _ = await bench.failure(4)
        let errors = bench.logger.texts(.error)
        #expect(errors.count == 1)
        #expect(errors.first?.contains("500") == true)
        #expect(!errors.contains { $0.contains("alice") || $0.contains("example") || $0.contains("key") })
    }
}

/// Time whose timers have fired when `schedule` returns.
private struct EagerTime: TimeSource {
    let wallMilliseconds: Int64 = 1_740_463_597_000
    let continuous = Duration.zero
    let bootIdentity: String? = "boot"

    func schedule(after delay: Duration, _ action: @escaping @Sendable () -> Void) -> CancellationToken {
        action()
        return CancellationToken {}
    }
}

/// A network that a test switches on and off.
private final class NetworkHub: Sendable {
    private let handlers = Locked<[Int: @Sendable (SystemContext.Network) -> Void]>([:])
    private let lastId = Locked(0)

    var count: Int { handlers.withLock { $0.count } }

    func observe(_ handler: @escaping @Sendable (SystemContext.Network) -> Void) -> CancellationToken? {
        let id = lastId.withLock { id in
            id += 1
            return id
        }
        handlers.withLock { $0[id] = handler }
        return CancellationToken { [weak self] in self?.handlers.withLock { $0[id] = nil } }
    }

    func tell(isConnected: Bool) {
        for handler in handlers.withLock({ Array($0.values) }) {
            handler(SystemContext.Network(wifi: false, cellular: isConnected))
        }
    }
}

extension Uploader {
    /// Flushes, and waits until that has an end.
    fileprivate func flushedResult() async -> FlushResult {
        flush()
        return await withCheckedContinuation { done in whenFlushed(settledBefore: 0) { done.resume(returning: $0) } }
    }
}
