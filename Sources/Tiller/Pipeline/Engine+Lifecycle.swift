// MARK: - Lifecycle

extension Engine {
    /// A change of the app's state and what the capturing plugins make of it: one step.
    func apply(_ change: LifecycleEvent) {
        if isInert { return }
        switch change {
        case .foreground:
            suspension.end()
            readAgain()
            finishNotice(core.withLock { $0.change(toForeground: true, by: change) })
        case .background:
            let stay = suspension.beginStay()
            finishNotice(core.withLock { $0.change(toForeground: false, by: change) })
            waitUntilStored()
            if let stay { tryToDeliver { stay.end() } }
        case .terminate:
            finishNotice(core.withLock { $0.perform(change) })
            waitUntilStored()
        }
    }

    /// A notice that comes after the shutdown is nobody's mistake.
    private func finishNotice(_ aftermath: Core.Aftermath) {
        if !aftermath.isIgnored { finish(aftermath) }
    }

    /// The system may end or freeze the process once a notice has been handled: what was recorded is stored before that,
    /// unless a plugin holds it up for longer than the bound.
    private func waitUntilStored() {
        // On the pipeline's own executor it would wait for itself.
        guard !executor.isCurrent else { return }
        // What is late is stored late.
        configuration.executors.wait(atMost: configuration.limits.noticeWait) { done in
            whenPassed { [store] in
                store.sync()
                done()
            }
        }
    }

    /// Has what was recorded tried once at the data plane, and runs an action when that is over, however it ended.
    func tryToDeliver(_ done: @escaping @Sendable () -> Void) {
        let before = store.counts
        finishNotice(core.withLock { $0.send(.flush) })
        whenPassed { [self] in whenFlushed(after: before) { _ in done() } }
    }

    /// A store that could not be read (before the first unlock) is read again, off the lock, before a foreground is
    /// applied.
    private func readAgain() {
        for (slot, key) in core.withLock({ $0.unreadKeys }) {
            let stored = store.load(key)
            finish(core.withLock { $0.restore(slot, from: stored) })
        }
    }
}

// MARK: - Ownership

extension Engine {
    /// The store is read off the lock, and its state taken over in one step.
    func didChangeOwnership(to isOwned: Bool) {
        let keys = isOwned ? core.withLock { $0.keys } : []
        let stored = keys.map { (slot: $0.slot, stored: store.load($0.key)) }
        finish(core.withLock { $0.changeOwnership(to: isOwned, stored) })
        // Two changes may be told at once, by two threads: the last word is the store's.
        if store.isOwned != isOwned { didChangeOwnership(to: !isOwned) }
    }
}
