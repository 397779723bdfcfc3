/// The lifecycle of a command-line tool or a service: in the foreground from its start to its end.
///
/// It is the default where there is no user interface that Tiller knows
/// (`PlatformLifecycleSource`), and then touches no signal handler of the host.
/// A program whose end is a signal names those that it wants to be told as
/// `.terminate`:
///
/// ```swift
/// let source = ProcessLifecycleSource(signals: [.terminate, .interrupt])
/// ```
///
/// When such a signal comes, observers are told and what was recorded is
/// stored, in one second at the most; then what waits is tried once at the data
/// plane, for two seconds at the most, or until the next signal comes. That is
/// done on a thread of the SDK's, while the program goes on. Then the signal
/// takes its course: a handler that was there before is called, as the system
/// would have called it; where there was none, the process ends, and its status
/// is that it was killed by the signal. A signal that was ignored stays ignored.
///
/// The handlers are in place from the start of the first instance with such a
/// source to the end of the last. A handler that the host installs meanwhile is
/// left in place; with it, the signal is told only if it calls the one before.
public final class ProcessLifecycleSource: LifecycleSource {
    private let signals: [ProcessSignal]

    /// The lifecycle of this process.
    ///
    /// - Parameter signals: The signals that are told as `.terminate`; none by default.
    public init(signals: [ProcessSignal] = []) { self.signals = signals }

    /// False: nobody sits in front of it.
    public var isApp: Bool { false }

    /// Foreground, and no change but those of the signals that were named.
    public func observe(_ handler: @escaping @Sendable (LifecycleEvent) -> Void) -> LifecycleObservation {
        LifecycleObservation(
            isInForeground: true,
            token: signals.isEmpty
                ? CancellationToken {} : SignalObservers.standard.observe(signals) { handler(.terminate) })
    }
}
