/// A context that the program knows and tells: on a platform without a source of its own, in tests.
///
/// From any thread.
public final class ManualContextSource: ContextSource {
    private let context: Locked<SystemContext>
    private let handlers = ChangeHandlers()

    /// A context.
    ///
    /// - Parameter context: What is known at first; by default nothing.
    public init(_ context: SystemContext = SystemContext()) { self.context = Locked(context) }

    /// What was told last.
    public func read() -> SystemContext { context.withLock { $0 } }

    /// Notes who wants to know of changes.
    public func observe(_ handler: @escaping @Sendable () -> Void) -> CancellationToken { handlers.add(handler) }

    /// Tells a new context. Events that are enriched from now on have it, also such as were recorded before.
    ///
    /// - Parameter context: What is known now.
    public func change(to context: SystemContext) {
        self.context.withLock { $0 = context }
        handlers.callAll()
    }
}
