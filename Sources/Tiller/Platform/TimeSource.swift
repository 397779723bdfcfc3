/// Everything an instance knows about time: two clocks, the machine's boot, and timers.
///
/// One injected dependency, so that under a virtual source nothing waits and
/// the same inputs give the same output. Conformers are called from any
/// thread, the clocks inside a critical section: they must not block or call
/// back.
public protocol TimeSource: Sendable {
    /// The wall clock, in milliseconds since 1970. It may be set, forward and back.
    var wallMilliseconds: Int64 { get }

    /// The time since the machine's start, sleep included. Never goes back within one boot.
    var continuous: Duration { get }

    /// Names the machine's present boot, so that a later process can tell whether the continuous clock began anew;
    /// `nil` where that can't be told.
    var bootIdentity: String? { get }

    /// Runs an action once, later.
    ///
    /// - Parameters:
    ///   - delay: By the continuous clock; negative means at once. A machine that sleeps meanwhile may make it late.
    ///   - action: Run on a thread of the source's, never on the caller's stack.
    /// - Returns: Ends the timer when cancelled or released.
    func schedule(after delay: Duration, _ action: @escaping @Sendable () -> Void) -> CancellationToken
}

/// Ends something once, when cancelled or released: a timer, an observation.
public final class CancellationToken: Sendable {
    private let onCancel: Locked<(@Sendable () -> Void)?>

    /// A token.
    ///
    /// - Parameter onCancel: Run at most once, on the thread that cancels or releases.
    public init(_ onCancel: @escaping @Sendable () -> Void) { self.onCancel = Locked(onCancel) }

    deinit { cancel() }

    /// Ends what the token stands for. Later calls do nothing. From any thread.
    public func cancel() {
        let action = onCancel.withLock { $0.take() }
        action?()
    }
}
