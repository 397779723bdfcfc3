public import Tiller

/// A destination that remembers what it got, in order.
public final class RecordingDestination: DestinationPlugin {
    /// One thing that came.
    public enum Entry: Sendable {
        /// An event.
        case event(Event)
        /// A reset, with what was selected.
        case reset(ResetOptions)
        /// A flush.
        case flush
        /// The end.
        case teardown
    }

    /// Plugins for this destination alone.
    public let ownPlugins = OwnPlugins()

    private let log = Locked<[Entry]>([])

    /// An empty destination.
    public init() {}

    /// Everything so far. Complete after `Analytics.settled()`.
    public var entries: [Entry] { log.withLock { $0 } }

    /// The events so far.
    public var events: [Event] { entries.compactMap { if case .event(let event) = $0 { event } else { nil } } }

    /// Forgets what came.
    public func removeAll() { log.withLock { $0 = [] } }

    /// Remembers an event.
    public func process(_ event: Event) -> Event? {
        log.withLock { $0.append(.event(event)) }
        return event
    }

    /// Remembers a reset.
    public func reset(_ options: ResetOptions) { log.withLock { $0.append(.reset(options)) } }

    /// Remembers a flush.
    public func flush() { log.withLock { $0.append(.flush) } }

    /// Remembers the end.
    public func teardown() { log.withLock { $0.append(.teardown) } }
}

extension Event {
    /// The session that the event carries.
    public var sessionId: UInt64? { context["sessionId"]?.uint }

    /// Whether the event bears the start mark of its session.
    public var isSessionStart: Bool { context["sessionStart"] == .bool(true) }
}
