import Tiller

extension LocalDataPlane.Server {
    /// What a task waits for.
    enum Goal {
        /// So many or more.
        case events(Int)
        case requests(Int)
        /// An event at least, no request under way, and no other for so long.
        case quiet(Duration)
    }

    struct Waiter {
        let goal: Goal
        let continuation: CheckedContinuation<Void, any Error>
    }

    /// Returns when the goal is reached; throws `CancellationError` or `StoppedError`.
    func wait(for goal: Goal) async throws {
        let id = state.withLock { $0.nextId() }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let waiter = Waiter(goal: goal, continuation: continuation)
                if let result = register(waiter, id: id) {
                    continuation.resume(with: result)
                } else if case .quiet = goal {
                    checkQuiet()
                }
            }
        } onCancel: {
            let waiter = state.withLock { $0.waiters.removeValue(forKey: id) }
            waiter?.continuation.resume(throwing: CancellationError())
        }
    }

    /// Registers a waiter, or says how its waiting ends already.
    private func register(_ waiter: Waiter, id: Int) -> Result<Void, any Error>? {
        state.withLock { state in
            if state.isReached(waiter.goal, at: timeSource.continuous) { return .success(()) }
            if state.isStopped { return .failure(LocalDataPlane.StoppedError()) }
            // A cancellation up to here found no waiter to remove. A later one waits for this lock.
            if Task.isCancelled { return .failure(CancellationError()) }
            state.waiters[id] = waiter
            return nil
        }
    }

    /// Ends the waits for quiet that are over, and sets a timer if one would be over later.
    func checkQuiet() {
        let now = timeSource.continuous
        let (waiters, due) = state.withLock { ($0.takeReached(at: now), $0.takeQuietDue()) }
        for waiter in waiters { waiter.continuation.resume() }
        if let due { setQuietTimer(due: due) }
    }

    private func setQuietTimer(due: Duration) {
        var timer: CancellationToken?
        var (before, now) = (timeSource.continuous, timeSource.continuous)
        repeat {
            before = now
            guard due > now else {
                state.withLock { $0.quietDue = nil }
                return checkQuiet()
            }
            timer = timeSource.schedule(after: due - now) { [weak self] in self?.quietTimerFired(due: due) }
            now = timeSource.continuous
            // A test may have let time pass in between; the timer would be late by as much.
        } while now - before > .milliseconds(1)
        state.withLock { if $0.quietDue != nil { $0.quietTimers[due] = timer } }
    }

    private func quietTimerFired(due: Duration) {
        let timer = state.withLock { state in
            state.quietDue = nil
            return state.quietTimers.removeValue(forKey: due)
        }
        timer?.cancel()
        checkQuiet()
    }
}

extension LocalDataPlane.Server.State {
    fileprivate func isReached(_ goal: LocalDataPlane.Server.Goal, at now: Duration) -> Bool {
        switch goal {
        case .events(let count): eventCount >= count
        case .requests(let count): requestCount >= count
        case .quiet(let silence): eventCount > 0 && underWay == 0 && now - lastActivity >= silence
        }
    }

    /// Takes the waiters out whose goals are reached.
    ///
    /// - Parameter now: The continuous clock; `nil` leaves the waits for quiet alone.
    mutating func takeReached(at now: Duration? = nil) -> [LocalDataPlane.Server.Waiter] {
        let reached = waiters.filter { _, waiter in
            if case .quiet = waiter.goal, now == nil { return false }
            return isReached(waiter.goal, at: now ?? .zero)
        }
        for id in reached.keys { waiters[id] = nil }
        return Array(reached.values)
    }

    /// When the first wait for quiet is over if nothing comes, and notes that a timer is set for it; `nil` if that can't be
    /// told or there is such a timer.
    fileprivate mutating func takeQuietDue() -> Duration? {
        guard eventCount > 0, underWay == 0, !isStopped else { return nil }
        let silences = waiters.values.compactMap { waiter -> Duration? in
            if case .quiet(let silence) = waiter.goal { silence } else { nil }
        }
        guard let due = silences.min().map({ lastActivity + $0 }), quietDue.map({ due < $0 }) ?? true else {
            return nil
        }
        quietDue = due
        return due
    }
}
