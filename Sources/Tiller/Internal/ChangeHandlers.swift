/// Those who want to know of a change. From any thread; handlers are called outside the lock.
final class ChangeHandlers: Sendable {
    private struct State: Sendable {
        var handlers: [Int: @Sendable () -> Void] = [:]
        var lastId = 0
    }

    private let state = Locked(State())

    /// - Returns: Takes the handler out when cancelled or released.
    func add(_ handler: @escaping @Sendable () -> Void) -> CancellationToken {
        let id = state.withLock { state in
            state.lastId += 1
            state.handlers[state.lastId] = handler
            return state.lastId
        }
        // The result is the handler: it is released outside the lock.
        return CancellationToken { [weak self] in _ = self?.state.withLock { $0.handlers.removeValue(forKey: id) } }
    }

    func callAll() { for handler in state.withLock({ Array($0.handlers.values) }) { handler() } }
}
