// MARK: - Waiting and ending

extension Uploader {
    func whenFlushed(settledBefore: Int, _ resume: @escaping @Sendable (FlushResult) -> Void) {
        let result = state.withLock { state -> FlushResult? in
            let settled = store.counts.settled
            if state.target <= settledBefore { return .nothingWaiting }
            if settled >= state.target { return .delivered }
            if state.isDone { return Self.shutDown }
            if endpoint == nil { return .stopped(reason: Self.unusable) }
            // One that has just begun tells all who wait as soon as it can also end.
            if let pause = state.pause, pause.timer != nil { return pause.result }
            if let since = state.leftToOwner { return .waiting(until: since, reason: Self.others) }
            state.flushWaiters.append(FlushWaiter(target: state.target, resume: resume))
            return nil
        }
        if let result { resume(result) }
    }

    func resumeAll(with result: FlushResult) {
        let waiters = state.withLock { state in
            defer { state.flushWaiters = [] }
            return state.flushWaiters
        }
        for waiter in waiters { waiter.resume(result) }
    }

    /// The last upload; what it can't deliver stays in the store. It waits until the store is free. A server that wants to
    /// be left alone is left alone, and a fault that is not a minute old is not tried again.
    func close() {
        let now = time.continuous
        let (pause, interval) = state.withLock { state in
            state.isClosing = true
            let pause = state.pause.take()
            if now >= pause?.earliestEnd ?? now { state.target = store.counts.appended } else { state.isHurried = true }
            return (pause, state.interval.take())
        }
        pause?.timer?.cancel()
        interval?.timer?.cancel()
        unwatchNetwork()
        start()
        finishIfClosing()
    }

    /// Another instance waits for the store: no upload begins any more. The one under way has half a second; then it is
    /// broken off, and its batch may arrive twice.
    func hurry() {
        let isRunning = state.withLock { state in
            state.isHurried = true
            // One that has no thread yet does nothing any more: the thread may be the one that waits for the folder.
            if state.isRunning, !state.hasBegun {
                state.isRunning = false
                state.run += 1
            }
            return state.isRunning
        }
        guard isRunning else { return finishIfClosing() }
        let timer = time.schedule(after: .milliseconds(500)) { [weak self] in self?.uploads.withLock { $0 }?.cancel() }
        done.whenReached { timer.cancel() }
    }

    func finishIfClosing() {
        let isDone = state.withLock { state in
            guard state.isClosing, !state.isRunning, environment.isFree.isReached else { return false }
            state.isDone = true
            return true
        }
        guard isDone else { return }
        tellProgress()
        resumeAll(with: Self.shutDown)
        done.reach()
    }
}
