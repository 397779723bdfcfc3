public import Tiller

/// Time that stands still until a test moves it.
///
/// Timers run inside `advance`, each at its own time, on the caller's thread.
/// The same calls give the same readings. From any thread; `advance` from one
/// at a time.
public final class VirtualTime: TimeSource {
    private struct Timer: Sendable {
        let id: Int
        let due: Duration
        let action: @Sendable () -> Void
    }

    private struct State: Sendable {
        /// Since the beginning, whatever the clocks say.
        var real: Duration = .zero
        var bootedAt: Duration = .zero
        var boots = 1
        var wallOffset: Duration = .zero
        var timers: [Timer] = []
        var lastId = 0
    }

    private let start: Int64
    private let state = Locked(State())

    /// Time that begins with a reading of the wall clock.
    ///
    /// - Parameter wallMilliseconds: Since 1970; by default 2025-02-25T06:06:37Z, as in session scenarios.
    public init(wallMilliseconds: Int64 = 1_740_463_597_000) { start = wallMilliseconds }

    // MARK: What the SDK reads

    /// The start, and what has passed, and what the clock was set by. Readings that no 64 bits hold stop at the end.
    public var wallMilliseconds: Int64 {
        let passed = state.withLock { $0.real + $0.wallOffset }.wholeMilliseconds
        let (sum, overflows) = start.addingReportingOverflow(passed)
        return overflows ? (passed < 0 ? .min : .max) : sum
    }

    /// What has passed since the last `reboot()`.
    public var continuous: Duration { state.withLock { $0.real - $0.bootedAt } }

    /// Changes with each `reboot()`.
    public var bootIdentity: String? { state.withLock { "boot-\($0.boots)" } }

    /// Notes a timer for `advance`.
    public func schedule(after delay: Duration, _ action: @escaping @Sendable () -> Void) -> CancellationToken {
        let id = state.withLock { state in
            state.lastId += 1
            state.timers.append(Timer(id: state.lastId, due: state.real + max(delay, .zero), action: action))
            return state.lastId
        }
        return CancellationToken { [weak self] in self?.state.withLock { $0.timers.removeAll { $0.id == id } } }
    }

    // MARK: What a test does

    /// How much time has passed since the beginning.
    public var now: Duration { state.withLock { $0.real } }

    /// How many timers are waiting.
    public var timerCount: Int { state.withLock { $0.timers.count } }

    /// When the next timer is due, since the beginning.
    public var nextTimer: Duration? { state.withLock { $0.timers.map(\.due).min() } }

    /// Lets time pass.
    ///
    /// - Parameter duration: How much.
    public func advance(by duration: Duration) { advance(to: now + duration) }

    /// Lets time pass up to an instant.
    ///
    /// - Parameter instant: Since the beginning; an earlier one than now changes nothing.
    public func advance(to instant: Duration) {
        while runNextTimer(upTo: instant) {}
        state.withLock { $0.real = max($0.real, instant) }
    }

    /// Lets time pass up to the next timer, and runs it.
    ///
    /// - Parameter instant: Not beyond this one, since the beginning.
    /// - Returns: False, and no time has passed, if no timer is due until then.
    public func runNextTimer(upTo instant: Duration) -> Bool {
        let timer = state.withLock { state -> Timer? in
            let due = state.timers.filter { $0.due <= instant }
            guard let next = due.min(by: { ($0.due, $0.id) < ($1.due, $1.id) }) else { return nil }
            state.timers.removeAll { $0.id == next.id }
            state.real = max(state.real, next.due)
            return next
        }
        timer?.action()
        return timer != nil
    }

    /// Sets the wall clock forward or back; no time passes.
    ///
    /// - Parameter duration: By how much; negative is back.
    public func setWallClock(by duration: Duration) { state.withLock { $0.wallOffset += duration } }

    /// The machine restarts: the continuous clock begins anew, in another boot.
    public func reboot() {
        state.withLock { state in
            state.bootedAt = state.real
            state.boots += 1
        }
    }

    /// Forgets all timers, as the end of a process does.
    public func removeTimers() { state.withLock { $0.timers = [] } }
}
