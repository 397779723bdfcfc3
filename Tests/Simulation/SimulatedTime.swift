import Tiller
import TillerTesting

/// The clocks as one process sees them; its timers end with it.
final class SimulatedTime: TimeSource {
    private struct State: Sendable {
        var actions: [Int: @Sendable () -> Void] = [:]
        var last = 0
        var isOver = false
    }

    private let time: VirtualTime
    private let state = Locked(State())

    init(_ time: VirtualTime) { self.time = time }

    var wallMilliseconds: Int64 { time.wallMilliseconds }
    var continuous: Duration { time.continuous }
    var bootIdentity: String? { time.bootIdentity }

    func schedule(after delay: Duration, _ action: @escaping @Sendable () -> Void) -> CancellationToken {
        let id = state.withLock { state -> Int? in
            if state.isOver { return nil }
            state.last += 1
            state.actions[state.last] = action
            return state.last
        }
        guard let id else { return CancellationToken {} }
        let timer = time.schedule(after: delay) { [weak self] in self?.take(id)?() }
        return CancellationToken { [weak self] in
            timer.cancel()
            // It is released outside the lock.
            _ = self?.take(id)
        }
    }

    /// Forgets all timers and takes no more.
    func end() {
        let actions = state.withLock { state in
            state.isOver = true
            defer { state.actions = [:] }
            return state.actions
        }
        withExtendedLifetime(actions) {}
    }

    private func take(_ id: Int) -> (@Sendable () -> Void)? { state.withLock { $0.actions.removeValue(forKey: id) } }
}
