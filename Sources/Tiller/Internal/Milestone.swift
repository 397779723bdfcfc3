/// Something that is reached once: who asks before is told then, who asks later is told at once.
final class Milestone: Sendable {
    private struct State: Sendable {
        var isReached = false
        var waiters: [@Sendable () -> Void] = []
    }

    private let state = Locked(State())

    /// One that lies behind already.
    static var reached: Milestone {
        let milestone = Milestone()
        milestone.reach()
        return milestone
    }

    var isReached: Bool { state.withLock { $0.isReached } }

    func reach() {
        let waiters = state.withLock { state in
            state.isReached = true
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter() }
    }

    func whenReached(_ action: @escaping @Sendable () -> Void) {
        let isReached = state.withLock { state in
            if !state.isReached { state.waiters.append(action) }
            return state.isReached
        }
        if isReached { action() }
    }
}
