/// The lifecycle of a command-line tool or a service: in the foreground from its start to its end.
///
/// It touches no signal handler and no exit hook of the host. It is the
/// default where there is no user interface that Tiller knows
/// (`PlatformLifecycleSource`).
public final class ProcessLifecycleSource: LifecycleSource {
    /// The lifecycle of this process.
    public init() {}

    /// False: nobody sits in front of it.
    public var isApp: Bool { false }

    /// Foreground, and no change ever.
    public func observe(_ handler: @escaping @Sendable (LifecycleEvent) -> Void) -> LifecycleObservation {
        LifecycleObservation(isInForeground: true, token: CancellationToken {})
    }
}
