import Testing
import Tiller
import TillerTesting

/// Time moves when a test moves it, and then exactly so.
@Suite struct VirtualTimeTests {
    private let time = VirtualTime(wallMilliseconds: 1_000)
    private let log = Log()

    @Test func timersRunInOrderOfTheirTimeThenOfTheirSetting() {
        keep(time.schedule(after: .seconds(2)) { [log] in log.add("2 a") })
        keep(time.schedule(after: .seconds(1)) { [log] in log.add("1") })
        keep(time.schedule(after: .seconds(2)) { [log] in log.add("2 b") })
        keep(time.schedule(after: .seconds(3)) { [log] in log.add("3") })
        time.advance(by: .seconds(2))
        #expect(log.entries == ["1", "2 a", "2 b"])
        #expect(time.timerCount == 1)
        #expect(time.nextTimer == .seconds(3))
    }

    @Test func eachTimerSeesItsOwnTime() {
        let seen = Locked<[Duration]>([])
        for seconds in [5, 1, 3] {
            keep(time.schedule(after: .seconds(seconds)) { [time] in seen.withLock { $0.append(time.continuous) } })
        }
        time.advance(by: .seconds(60))
        #expect(seen.withLock { $0 } == [.seconds(1), .seconds(3), .seconds(5)])
        #expect(time.now == .seconds(60))
    }

    @Test func timerThatIsSetByATimerRunsInTheSameAdvanceIfItIsDue() {
        keep(
            time.schedule(after: .seconds(1)) { [self] in
                log.add("first")
                keep(time.schedule(after: .seconds(1)) { [log] in log.add("second") })
                keep(time.schedule(after: .seconds(9)) { [log] in log.add("third") })
            })
        time.advance(by: .seconds(5))
        #expect(log.entries == ["first", "second"])
        #expect(time.nextTimer == .seconds(10))
    }

    @Test func timerRunsOnceAndNotBeforeItsTime() {
        keep(time.schedule(after: .milliseconds(10)) { [log] in log.add("x") })
        time.advance(by: .milliseconds(9))
        #expect(log.entries.isEmpty)
        time.advance(by: .milliseconds(1))
        time.advance(by: .seconds(9))
        #expect(log.entries == ["x"])
    }

    @Test(arguments: [Duration.zero, .seconds(-5)]) func timerOfNoTimeWaitsForTheNextAdvance(_ delay: Duration) {
        keep(time.schedule(after: delay) { [log] in log.add("x") })
        #expect(log.entries.isEmpty)
        time.advance(by: .zero)
        #expect(log.entries == ["x"])
        #expect(time.now == .zero)
    }

    @Test func cancelledAndReleasedTimersDoNotRun() {
        let token = time.schedule(after: .seconds(1)) { [log] in log.add("cancelled") }
        _ = time.schedule(after: .seconds(1)) { [log] in log.add("released") }
        #expect(time.timerCount == 1)
        token.cancel()
        token.cancel()
        time.advance(by: .seconds(2))
        #expect(log.entries.isEmpty)
        #expect(time.timerCount == 0)
    }

    @Test func wallClockIsSetWithoutTimePassing() {
        keep(time.schedule(after: .seconds(1)) { [log] in log.add("x") })
        time.setWallClock(by: .seconds(3_600))
        #expect(time.wallMilliseconds == 3_601_000)
        #expect(time.continuous == .zero)
        time.setWallClock(by: .seconds(-7_200))
        #expect(time.wallMilliseconds == -3_599_000)
        time.advance(by: .milliseconds(1_500))
        #expect(time.wallMilliseconds == -3_597_500)
        #expect(time.continuous == .milliseconds(1_500))
        #expect(log.entries == ["x"])
    }

    @Test func rebootBeginsTheContinuousClockAnewInAnotherBoot() {
        time.advance(by: .seconds(10))
        let boot = time.bootIdentity
        #expect(boot != nil)
        time.reboot()
        #expect(time.bootIdentity != boot)
        #expect(time.continuous == .zero)
        #expect(time.wallMilliseconds == 11_000)
        #expect(time.now == .seconds(10))
        time.advance(by: .seconds(1))
        #expect(time.continuous == .seconds(1))
    }

    @Test func timeNeverGoesBack() {
        time.advance(to: .seconds(10))
        time.advance(to: .seconds(5))
        time.advance(by: .seconds(-1))
        #expect(time.now == .seconds(10))
    }

    @Test func nextTimerRunsAloneAndNotBeyondTheLimit() {
        keep(time.schedule(after: .seconds(1)) { [log] in log.add("1") })
        keep(time.schedule(after: .seconds(2)) { [log] in log.add("2") })
        #expect(!time.runNextTimer(upTo: .milliseconds(999)))
        #expect(time.now == .zero)
        #expect(time.runNextTimer(upTo: .seconds(5)))
        #expect(log.entries == ["1"])
        #expect(time.now == .seconds(1))
        time.removeTimers()
        #expect(!time.runNextTimer(upTo: .seconds(5)))
    }

    @Test func readingsThatNoNumberHoldsStopAtTheEnd() {
        let longest = Duration.seconds(Int64(UInt64.max / 1_000)) + .milliseconds(Int64(UInt64.max % 1_000))
        time.advance(to: longest)
        #expect(time.wallMilliseconds == .max)
        #expect(time.now == longest)
        let late = VirtualTime(wallMilliseconds: 0)
        late.advance(to: .milliseconds(Int64.max))
        #expect(late.wallMilliseconds == .max)
        late.advance(by: .milliseconds(500))  // the whole seconds fit, the rest does not
        #expect(late.wallMilliseconds == .max)
        let early = VirtualTime(wallMilliseconds: .min)
        early.setWallClock(by: .seconds(-1))
        #expect(early.wallMilliseconds == .min)
    }

    /// Without a test's wish no token is released.
    private func keep(_ token: CancellationToken) { log.keep(token) }

    private final class Log: Sendable {
        private let state = Locked((entries: [String](), tokens: [CancellationToken]()))
        var entries: [String] { state.withLock { $0.entries } }
        func add(_ entry: String) { state.withLock { $0.entries.append(entry) } }
        func keep(_ token: CancellationToken) { state.withLock { $0.tokens.append(token) } }
    }
}
