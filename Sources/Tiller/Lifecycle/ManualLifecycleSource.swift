/// A lifecycle that the host program drives: a game loop, a GTK app, a test.
///
/// All methods may be called from any thread; each returns when every observer
/// has handled the change, unless another change is being told just then, which
/// tells this one too.
public final class ManualLifecycleSource: LifecycleSource {
    private struct State: Sendable {
        var isInForeground: Bool
        var handlers: [Int: @Sendable (LifecycleEvent) -> Void] = [:]
        var lastId = 0
    }

    private let state: Locked<State>

    /// Whether sessions and lifecycle events are on unless configured otherwise.
    public let isApp: Bool

    /// A lifecycle that begins in a given state.
    ///
    /// - Parameters:
    ///   - isInForeground: Whether the app is on screen at first; false by default, as a process is before its first notice.
    ///   - isApp: Whether this is an app with a person in front of it; true by default.
    public init(isInForeground: Bool = false, isApp: Bool = true) {
        state = Locked(State(isInForeground: isInForeground))
        self.isApp = isApp
    }

    /// The app came on screen.
    public func foreground() { tell(.foreground) { $0.isInForeground = true } }

    /// The app left the screen.
    public func background() { tell(.background) { $0.isInForeground = false } }

    /// The process is about to end.
    public func terminate() { tell(.terminate) { _ in } }

    /// Begins to observe.
    public func observe(_ handler: @escaping @Sendable (LifecycleEvent) -> Void) -> LifecycleObservation {
        let (id, isInForeground) = state.withLock { state in
            state.lastId += 1
            state.handlers[state.lastId] = handler
            return (state.lastId, state.isInForeground)
        }
        return LifecycleObservation(
            isInForeground: isInForeground,
            token: CancellationToken { [weak self] in self?.state.withLock { $0.handlers[id] = nil } })
    }

    /// For a source that drives this one: the observation keeps it.
    func observe(
        for source: any LifecycleSource, _ handler: @escaping @Sendable (LifecycleEvent) -> Void
    ) -> LifecycleObservation {
        let observation = observe(handler)
        return LifecycleObservation(
            isInForeground: observation.isInForeground,
            token: CancellationToken { withExtendedLifetime(source) { observation.token.cancel() } })
    }

    private func tell(_ event: LifecycleEvent, _ change: (inout State) -> Void) {
        let handlers = state.withLock { state in
            change(&state)
            return state.handlers.sorted { $0.key < $1.key }.map(\.value)
        }
        for handler in handlers { handler(event) }
    }
}
