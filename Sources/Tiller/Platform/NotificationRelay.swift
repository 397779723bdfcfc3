import Foundation

/// Notifications of one center, told to whoever listens, synchronously on the thread that posts.
///
/// What a center returns for an observer is not `Sendable`, so no token that ends from any thread could hold it. The
/// relay registers itself with the center once per name, and keeps its own list of listeners.
final class NotificationRelay: Sendable {
    /// The process's own center.
    static let standard = NotificationRelay { .default }

    /// Given the notification's sender.
    typealias Action = @Sendable (AnyObject?) -> Void

    private struct State: Sendable {
        /// By the order in which they came.
        var listeners: [Int: [String: Action]] = [:]
        var lastId = 0
    }

    /// A closure, so that nothing depends on the center being `Sendable`, which not every SDK declares.
    private let center: @Sendable () -> NotificationCenter
    /// The names that the center knows us for. A lock of its own, held while the center is told: a listener of a name that
    /// another thread is just registering waits for it, and misses nothing.
    private let names = Locked<Set<String>>([])
    private let state = Locked(State())

    init(_ center: @escaping @Sendable () -> NotificationCenter) { self.center = center }

    /// Calls an action at each notification of its name, until the token is cancelled or released.
    func listen(_ actions: [Notification.Name: @Sendable () -> Void]) -> CancellationToken {
        listen(actions.mapValues { action -> Action in { _ in action() } })
    }

    /// The same, with the notification's sender.
    func listen(_ actions: [Notification.Name: Action]) -> CancellationToken {
        let actions = Dictionary(uniqueKeysWithValues: actions.map { ($0.key.rawValue, $0.value) })
        names.withLock { names in
            for name in actions.keys where names.insert(name).inserted { register(name) }
        }
        let id = state.withLock { state in
            state.lastId += 1
            state.listeners[state.lastId] = actions
            return state.lastId
        }
        return CancellationToken { [weak self] in self?.state.withLock { $0.listeners[id] = nil } }
    }

    private func register(_ name: String) {
        // No queue: the state is to be told before the notification's poster goes on.
        _ = center().addObserver(forName: Notification.Name(name), object: nil, queue: nil) {
            [weak self] notification in
            self?.tell(name, of: notification.object as AnyObject?)
        }
    }

    private func tell(_ name: String, of sender: AnyObject?) {
        let actions = state.withLock { state in
            state.listeners.sorted { $0.key < $1.key }.compactMap { $0.value[name] }
        }
        for action in actions { action(sender) }
    }
}
