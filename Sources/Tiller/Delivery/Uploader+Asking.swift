// MARK: - What asks for an upload

extension Uploader {
    func didStoreChunk() {
        let isLeaving = state.withLock { state in
            defer { state.isLeaving = false }
            return state.isLeaving
        }
        if isLeaving { upload() } else { askPolicies() }
    }

    /// Asks the policies whether to upload; sees to the timer of the shortest interval.
    private func askPolicies() {
        let queue = state.withLock { state in
            let counts = store.counts
            return FlushQueue(
                sinceLastFlush: counts.appended - state.flushed, waiting: counts.waiting, isFirst: !state.hasFlushed)
        }
        guard queue.waiting > 0 else { return }
        // All are asked: a policy may count its own questions.
        let wantsFlush = policies.map { $0.shouldFlush(queue) }.contains(true)
        if wantsFlush { upload() } else { startIntervalTimer() }
    }

    /// A return to the foreground.
    func comeToForeground() {
        let isFirst = state.withLock { state in
            defer { state.isInForeground = true }
            state.isLeaving = false
            return !state.isInForeground
        }
        if isFirst { askAboutBacklog() }
        endPause(by: .sign)
    }

    /// The app goes to the background, or ends: what waits is uploaded while there is time, and so is what is recorded at this
    /// notice. Where there are no policies, only a flush uploads.
    func leaveForeground() {
        guard !policies.isEmpty else { return }
        environment.onExecutor { [weak self] in
            guard let self, self.environment.isFree.isReached else { return }
            self.state.withLock { $0.isLeaving = true }
            if self.store.counts.waiting > 0 { self.upload() }
        }
    }

    /// What earlier processes left waits for the first foreground, or for the first event of this process.
    func askAboutBacklog() {
        guard state.withLock({ $0.hasBacklog }) else { return }
        environment.onExecutor { [weak self] in
            guard let self, self.environment.isFree.isReached else { return }
            let asks = self.state.withLock { $0.isInForeground && !$0.hasFlushed && !$0.isClosing }
            if asks { self.askPolicies() }
        }
    }

    /// An upload that was asked for by a call.
    func flush() {
        endPause(by: .flush)
        upload()
    }

    /// Another process wants what it has stored to be uploaded.
    func listenToOthers() {
        store.whenOthersStore { [weak self] in
            self?.environment.onExecutor { [weak self] in
                guard let self, self.environment.isFree.isReached else { return }
                self.upload()
            }
        }
    }

    /// Everything that waits is asked for, so that no interval need end.
    private func upload() {
        store.look()
        let interval = state.withLock { state in
            let counts = store.counts
            state.target = counts.appended
            state.flushed = counts.appended
            if counts.waiting > 0 { state.hasFlushed = true }
            return state.interval.take()
        }
        interval?.timer?.cancel()
        endPause(by: .news)
        start()
    }

    private func startIntervalTimer() {
        guard let shortest = policies.compactMap(\.interval).min() else { return }
        let id = state.withLock { state -> Int? in
            // What was asked for already needs no interval.
            guard state.interval == nil, !state.isClosing, store.counts.appended > state.target else { return nil }
            state.lastTimerId += 1
            state.interval = Interval(id: state.lastTimerId)
            return state.lastTimerId
        }
        guard let id else { return }
        let timer = time.schedule(after: shortest) { [weak self] in
            guard let self, self.state.withLock({ $0.interval?.id == id }) else { return }
            self.upload()
        }
        let isOver = state.withLock { state in
            guard state.interval?.id == id else { return true }
            state.interval?.timer = timer
            return false
        }
        if isOver { timer.cancel() }
    }
}
