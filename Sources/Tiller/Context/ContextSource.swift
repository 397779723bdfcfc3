/// Says what is known of the system, and that it has changed.
///
/// `SystemContextSource` is the platform's own; a program on a platform that
/// Tiller does not know, or a test, gives a `ManualContextSource` or a type of
/// its own. Several instances may share one.
public protocol ContextSource: AnyObject, Sendable {
    /// Whether the platform has an id of its own for the device, even if `read()` does not know it yet. Where it has none,
    /// a random id of the installation takes its place. Always the same, and known at once.
    var hasDeviceId: Bool { get }

    /// What is known now. Called before the first event is enriched and after each change, never on the thread of a call:
    /// it may be slow, and then events wait for it. What would take too long is left out, and told as a change later.
    ///
    /// - Returns: What is known.
    func read() -> SystemContext

    /// Begins to observe. Called as `read()` is, before it.
    ///
    /// - Parameter handler: To be called, from any thread, after `read()` would
    ///   return something else than before. It returns at once.
    /// - Returns: Ends the observation when cancelled or released.
    func observe(_ handler: @escaping @Sendable () -> Void) -> CancellationToken
}

extension ContextSource {
    /// False.
    public var hasDeviceId: Bool { false }
}
