/// Where a plugin stands on an event's way.
///
/// Events pass the stages in this order; within a stage, plugins run in the
/// order in which they were added.
public struct Stage: Sendable, Hashable, CustomStringConvertible {
    /// The stage's name.
    public let description: String

    /// First: filters, consent, ids.
    public static let before = Stage(description: "before")
    /// Then: what is added to an event.
    public static let enrichment = Stage(description: "enrichment")
    /// Last: where events go. Every destination gets every event that survived the stages before.
    public static let destination = Stage(description: "destination")
}

/// A part of an event's way.
///
/// The contract:
/// - `process` runs on the pipeline's own executor, one event at a time, in
///   the order of the calls, never on the caller's thread. In the Destination
///   stage it runs on an executor of that destination's own.
/// - `reset` and `flush` come on the same executor, in the order of the calls
///   among the events.
/// - `setup` runs on the adder's thread before the plugin sees anything,
///   `teardown` once, in the order of the calls, when the plugin was removed
///   or the instance shut down.
/// - A plugin may call `Analytics` from any of them: such an event follows
///   later. If it must keep `Analytics`, it keeps it weakly.
/// - A plugin with state of its own guards it, for instance with `Locked`.
///
/// A plugin that also conforms to `LifecycleObserver` is told of lifecycle
/// changes while it is added.
public protocol Plugin: AnyObject, Sendable {
    /// Where it stands. Always the same.
    var stage: Stage { get }

    /// Called when the plugin is added, outside every lock.
    ///
    /// - Parameter analytics: The instance; keep it weakly, if at all.
    func setup(analytics: Analytics)

    /// Shapes one event.
    ///
    /// - Parameter event: As the plugins before left it.
    /// - Returns: The event, changed or not, or `nil` to drop it, which is
    ///   counted under the plugin's name. What a destination returns is
    ///   ignored.
    func process(_ event: Event) -> Event?

    /// As `process(_:)`, for a plugin that calls back; the default calls that.
    ///
    /// - Parameters:
    ///   - event: As the plugins before left it.
    ///   - analytics: The instance.
    /// - Returns: As `process(_:)`.
    func process(_ event: Event, in analytics: Analytics) -> Event?

    /// As `process(_:in:)`, for a plugin that changes nearly every event: what it is given is changed where it is, while a
    /// changed copy of an event copies all of it. The default calls `process(_:in:)`.
    ///
    /// - Parameters:
    ///   - event: As the plugins before left it, and then as this one leaves it.
    ///   - analytics: The instance.
    /// - Returns: Whether the event goes on; false drops it, which is counted under the plugin's name.
    func process(inPlace event: inout Event, in analytics: Analytics) -> Bool

    /// The user was reset: forget what belongs to the one before. Comes also when nothing was selected.
    ///
    /// - Parameter options: What was reset.
    func reset(_ options: ResetOptions)

    /// Hand on what waits.
    func flush()

    /// The plugin was removed, or the instance shut down. An object that is added again before this came is set up before it.
    func teardown()
}

extension Plugin {
    /// Does nothing.
    public func setup(analytics: Analytics) {}
    /// Passes the event on.
    public func process(_ event: Event) -> Event? { event }
    /// Calls `process(_:)`.
    public func process(_ event: Event, in analytics: Analytics) -> Event? { process(event) }
    /// Calls `process(_:in:)`.
    public func process(inPlace event: inout Event, in analytics: Analytics) -> Bool {
        guard let next = process(event, in: analytics) else { return false }
        event = next
        return true
    }
    /// Does nothing.
    public func reset(_ options: ResetOptions) {}
    /// Does nothing.
    public func flush() {}
    /// Does nothing.
    public func teardown() {}
}
