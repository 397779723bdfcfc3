import Foundation
import Testing
import Tiller
import TillerTesting

/// What asks for an upload, and when.
@Suite(.timeLimit(.minutes(5))) struct FlushPolicyTests {
    // MARK: Each policy

    @Test func startupUploadsWithTheFirstEventAndNotAgain() async {
        let bench = DeliveryBench([StartupFlushPolicy()])
        bench.track("A")
        await bench.requests(1)
        bench.track("B")
        await bench.analytics.stored()
        #expect(bench.batches == [["A"]])
        #expect(await bench.analytics.flushed().leavesNothing)
        #expect(bench.batches == [["A"], ["B"]])
    }

    @Test func flushOfNothingLeavesTheStartupPolicyItsEvent() async {
        let bench = DeliveryBench([StartupFlushPolicy()])
        #expect(await bench.analytics.flushed() == .nothingWaiting)
        bench.track("A")
        await bench.requests(1)
        #expect(bench.batches == [["A"]])
    }

    @Test func countUploadsAtItsNumberAndCountsAnewAfterAFlush() async {
        let bench = DeliveryBench([CountFlushPolicy(flushAt: 3)])
        bench.track("A", "B")
        #expect(await bench.analytics.flushed() == .delivered)
        bench.track("C", "D")
        await bench.analytics.stored()
        #expect(bench.batches == [["A", "B"]])
        bench.track("E")
        await bench.requests(2)
        #expect(bench.batches == [["A", "B"], ["C", "D", "E"]])
    }

    @Test(arguments: [500, 1_500, 90_000, 7_200_000] as [Int64])
    func b113_intervalEndsAtItsOwnTime(_ milliseconds: Int64) async {
        let interval = Duration.milliseconds(milliseconds)
        let bench = DeliveryBench([IntervalPolicy(interval: interval)])
        bench.time.virtual.advance(by: .seconds(5))
        bench.track("A")
        #expect(await bench.time.timer(1) == interval)
        bench.time.virtual.advance(by: interval - .milliseconds(1))
        #expect(bench.time.virtual.timerCount == 1)
        #expect(bench.transport.stub.requests.isEmpty)
        bench.time.virtual.advance(by: .milliseconds(1))
        await bench.requests(1)
        #expect(bench.transport.stub.requests[0].timeout == .seconds(30))
    }

    @Test(arguments: [1_000, 1_500, 90_000, 7_200_000] as [UInt64])
    func b113_frequencyIsInMilliseconds(_ milliseconds: UInt64) {
        let policy = FrequencyFlushPolicy(flushIntervalInMillis: milliseconds)
        #expect(policy.interval == .milliseconds(Int64(milliseconds)))
    }

    @Test func theShortestIntervalCounts() async {
        let bench = DeliveryBench([
            FrequencyFlushPolicy(), IntervalPolicy(interval: .seconds(2)), IntervalPolicy(interval: nil),
        ])
        bench.track("A")
        #expect(await bench.time.timer(1) == .seconds(2))
    }

    @Test func intervalBeginsWithTheFirstEventThatWaits() async {
        let bench = DeliveryBench([FrequencyFlushPolicy()])
        bench.track("A")
        _ = await bench.time.timer(1)
        bench.time.virtual.advance(by: .seconds(9))
        bench.track("B")
        await bench.analytics.stored()
        #expect(bench.time.virtual.nextTimer == .seconds(10))
        bench.time.virtual.advance(by: .seconds(1))
        await bench.requests(1)
        #expect(bench.batches == [["A", "B"]])
    }

    @Test func intervalThatIsOverAtOnceIsNotForgotten() async {
        let bench = DeliveryBench([IntervalPolicy(interval: .zero)])
        for name in ["A", "B"] {
            bench.track(name)
            await bench.analytics.stored()
            bench.time.virtual.advance(by: .zero)
            await bench.requests(name == "A" ? 1 : 2)
        }
        #expect(bench.sent == ["A", "B"])
    }

    @Test func customPolicyIsAskedAfterEachChunkAndItsAnswerCounts() async {
        let policy = AskedPolicy()
        let bench = DeliveryBench([policy])
        bench.track("A")
        await bench.analytics.stored()
        bench.track("B")
        await bench.analytics.stored()
        #expect(policy.asked.map(\.waiting) == [1, 2])
        #expect(bench.transport.stub.requests.isEmpty)
        policy.answers(true)
        bench.track("C")
        await bench.requests(1)
        #expect(bench.batches == [["A", "B", "C"]])
        #expect(policy.asked.map(\.sinceLastFlush) == [1, 2, 3])
        #expect(policy.asked.map(\.waiting) == [1, 2, 3])
        #expect(!policy.asked.contains { !$0.isFirst })
    }

    @Test func customPolicySeesTheCountAnewAfterAFlush() async {
        let policy = AskedPolicy()
        let bench = DeliveryBench([policy], answer: .status(500))
        bench.track("A")
        #expect(await bench.analytics.flushed().wait != nil)
        bench.track("B")
        await bench.analytics.stored()
        let last = policy.asked.last
        #expect(last?.sinceLastFlush == 1)
        #expect(last?.waiting == 2)
        #expect(last?.isFirst == false)
    }

    @Test func customPolicyIsNotAskedWhenNothingWaits() async {
        let policy = AskedPolicy()
        let bench = DeliveryBench([policy])
        bench.analytics.reset()
        bench.analytics.flush()
        await bench.analytics.stored()
        #expect(policy.asked.isEmpty)
    }

    @Test func simplePolicyNeedsOnlyTheQuestionWithoutAQueue() async {
        let bench = DeliveryBench([AlwaysPolicy()])
        bench.track("A")
        await bench.requests(1)
        #expect(bench.batches == [["A"]])
    }

    // MARK: Several at once, and none

    @Test func b111_severalPoliciesAtOnceAreOneFlush() async {
        let asked = AskedPolicy()
        asked.answers(true)
        let bench = DeliveryBench([
            CountFlushPolicy(flushAt: 1), IntervalPolicy(interval: .zero), AlwaysPolicy(), StartupFlushPolicy(), asked,
        ])
        bench.track("A")
        await bench.requests(1)
        await bench.analytics.stored()
        bench.time.virtual.advance(by: .seconds(60))
        #expect(await bench.analytics.flushed() == .nothingWaiting)
        #expect(bench.batches == [["A"]])
        #expect(bench.time.virtual.timerCount == 0)
        // All of them were asked, though the first had said yes.
        #expect(asked.asked.count == 1)
    }

    @Test func b111_aFlushIsOneForAllPolicies() async {
        let bench = DeliveryBench([CountFlushPolicy(flushAt: 2), FrequencyFlushPolicy()])
        bench.track("A")
        _ = await bench.time.timer(1)
        bench.time.virtual.advance(by: .seconds(9))
        bench.track("B")
        await bench.requests(1)
        await bench.analytics.flushed()
        bench.track("C")
        // The interval begins anew with C.
        #expect(await bench.time.timer(2) == .seconds(10))
        #expect(bench.time.virtual.nextTimer == .seconds(19))
    }

    @Test(arguments: [(0, 30), (-5, 30), (Int.min, 30), (101, 30), (.max, 30), (1, 1), (100, 100), (30, 30)])
    func b112_countOutOfRangeIsTheDefault(_ given: Int, _ used: Int) {
        #expect(CountFlushPolicy(flushAt: given).flushAt == used)
    }

    @Test(arguments: [(0, 10_000), (1, 10_000), (999, 10_000), (1_000, 1_000), (10_000, 10_000)] as [(UInt64, Int64)])
    func b112_intervalOutOfRangeIsTheDefault(_ given: UInt64, _ used: Int64) {
        #expect(FrequencyFlushPolicy(flushIntervalInMillis: given).interval == .milliseconds(used))
    }

    @Test(arguments: [.max, .max - 1, UInt64(Int64.max), UInt64(Int64.max) + 1] as [UInt64])
    func b112_largestIntervalsDoNotOverflow(_ given: UInt64) async throws {
        let policy = FrequencyFlushPolicy(flushIntervalInMillis: given)
        let interval = try #require(policy.interval)
        #expect(interval > .seconds(86_400 * 365 * 100))
        let bench = DeliveryBench([policy])
        bench.track("A")
        _ = await bench.time.timer(1)
        bench.time.virtual.advance(by: .seconds(86_400 * 365))
        #expect(bench.transport.stub.requests.isEmpty)
        // The machine's own timers take it too.
        SystemTime().schedule(after: interval) {}.cancel()
    }

    @Test func b112_withoutPoliciesNothingIsSentUntilAFlush() async {
        let bench = DeliveryBench()
        for _ in 0..<300 { bench.track("A") }
        await bench.analytics.stored()
        bench.time.virtual.advance(by: .seconds(86_400))
        bench.lifecycle.background()
        bench.lifecycle.foreground()
        await bench.analytics.stored()
        #expect(bench.transport.stub.requests.isEmpty)
        #expect(await bench.analytics.flushed().leavesNothing)
        #expect(bench.sent.count == 300)
    }

    @Test func defaultsAreStartupTenSecondsAndThirtyEvents() async {
        let configuration = Configuration(writeKey: "key", dataPlaneUrl: "https://x.example")
        #expect(configuration.flushPolicies.count == 3)
        #expect(configuration.flushPolicies.compactMap(\.interval) == [.seconds(10)])
        #expect(configuration.flushPolicies.compactMap { ($0 as? CountFlushPolicy)?.flushAt } == [30])
        #expect(configuration.flushPolicies.contains { $0 is StartupFlushPolicy })
    }

    // MARK: Intervals over time

    @Test func b114_intervalGoesOnOverEmptyStretchesAndErrors() async {
        let bench = DeliveryBench([FrequencyFlushPolicy(flushIntervalInMillis: 30_000)])
        for minute in 0..<10 {
            let isEmpty = minute % 3 == 1
            if !isEmpty { bench.track("\(minute)") }
            await bench.analytics.stored()
            if minute == 5 { bench.transport.stub.answerNext(.status(500)) }
            let before = bench.transport.stub.requests.count
            let timers = bench.time.delays.count
            bench.time.virtual.advance(by: .seconds(30))
            if !isEmpty { await bench.requests(before + 1) }
            if minute == 5 {
                // By the rule of the waits after errors.
                bench.time.virtual.advance(by: await bench.time.timer(timers + 1))
                await bench.requests(before + 2)
            }
            // What this minute brought was sent within it, and then no timer runs.
            if isEmpty { #expect(bench.transport.stub.requests.count == before) }
            #expect(await bench.analytics.flushed().wait == nil)
            #expect(bench.time.virtual.timerCount == 0)
            bench.time.virtual.advance(to: .seconds(60) * (minute + 1))
        }
        #expect(bench.batches == [["0"], ["2"], ["3"], ["5"], ["5"], ["6"], ["8"], ["9"]])
    }

    @Test func noTimerRunsWhenNothingWaits() async {
        let bench = DeliveryBench([FrequencyFlushPolicy()])
        #expect(bench.time.virtual.timerCount == 0)
        bench.track("A")
        _ = await bench.time.timer(1)
        #expect(await bench.analytics.flushed() == .delivered)
        #expect(bench.time.virtual.timerCount == 0)
        bench.analytics.reset()
        await bench.analytics.stored()
        #expect(bench.time.virtual.timerCount == 0)
        bench.track("B")
        #expect(await bench.time.timer(2) == .seconds(10))
        await bench.analytics.shutdownAndWait()
        #expect(bench.time.virtual.timerCount == 0)
    }

    /// The machine's own timers, from a thread without a run loop.
    @Test func b115_intervalEndsInAnInstanceThatWasMadeOnABareThread() async {
        let made = Locked<DeliveryBench?>(nil)
        await onThreads(1) { _ in
            let bench = DeliveryBench([IntervalPolicy(interval: .milliseconds(1))]) { $0.time = SystemTime() }
            bench.track("A")
            made.withLock { $0 = bench }
        }
        let bench = made.withLock { $0 }
        await bench?.requests(1)
        #expect(bench?.sent == ["A"])
    }
}

private struct IntervalPolicy: FlushPolicy {
    let interval: Duration?
}

private struct AlwaysPolicy: FlushPolicy {
    func shouldFlush() -> Bool { true }
}

/// A policy that notes what it is asked.
private final class AskedPolicy: FlushPolicy {
    private let state = Locked((asked: [FlushQueue](), answer: false))

    var asked: [FlushQueue] { state.withLock { $0.asked } }
    func answers(_ answer: Bool) { state.withLock { $0.answer = answer } }

    func shouldFlush(_ queue: FlushQueue) -> Bool {
        state.withLock { state in
            state.asked.append(queue)
            return state.answer
        }
    }
}
