/// A change of the app's state, the same on every platform.
///
/// "Inactive" is foreground: a permission dialog over an app, or a Mac window
/// that lost the focus, is no background.
public enum LifecycleEvent: Command, Hashable, CaseIterable {
    /// The app came on screen; for a tool or a service: the process began.
    case foreground
    /// The app left the screen.
    case background
    /// The process is about to end. It changes no state: a process that lives on goes on as before.
    case terminate
}

/// Hears of lifecycle changes.
///
/// Called synchronously on the source's thread, outside every lock, one call
/// at a time, in order, once per real change. Coming to the foreground, the
/// capturing plugins have applied the change when observers hear of it; going,
/// observers hear first, in reverse order, so that what they record still
/// belongs to the foreground that ends.
///
/// An observer that is added later is told `.foreground` at once if that is
/// the state, else nothing. A plugin that conforms is told while it is added.
public protocol LifecycleObserver: AnyObject, Sendable {
    /// A change has come.
    ///
    /// - Parameters:
    ///   - event: The change.
    ///   - analytics: The instance; calls to it take their place at this moment.
    func handle(_ event: LifecycleEvent, in analytics: Analytics)
}

/// Says what state the app is in, and tells each change.
///
/// Conformers call the handler synchronously, from any thread, in the order of
/// the changes, and not before `observe` has returned. They may repeat
/// themselves: only real changes go further.
public protocol LifecycleSource: AnyObject, Sendable {
    /// Whether there is a person with a screen. A service or a command-line tool has none: lifecycle events, device id and
    /// automatic sessions are off there unless they are asked for.
    var isApp: Bool { get }

    /// Begins to observe.
    ///
    /// - Parameter handler: Gets each change from now on.
    /// - Returns: The state at this moment, and what ends the observation.
    func observe(_ handler: @escaping @Sendable (LifecycleEvent) -> Void) -> LifecycleObservation
}

extension LifecycleSource {
    /// True.
    public var isApp: Bool { true }
}

/// What a source returns to who observes it.
public struct LifecycleObservation: Sendable {
    /// The state when the observation began.
    public let isInForeground: Bool
    /// Ends the observation when cancelled or released.
    public let token: CancellationToken

    /// The answer of a source.
    ///
    /// - Parameters:
    ///   - isInForeground: The present state.
    ///   - token: Ends the observation.
    public init(isInForeground: Bool, token: CancellationToken) {
        self.isInForeground = isInForeground
        self.token = token
    }
}
