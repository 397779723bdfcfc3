/// How an observation of the network begins; `nil` where nothing tells of it.
typealias NetworkObservation =
    @Sendable (_ handler: @escaping @Sendable (SystemContext.Network) -> Void) -> CancellationToken?

// MARK: - Pauses between attempts

extension Uploader {
    /// No attempt is made before it is over. Noted before its timer is set, which may fire before `schedule` returns.
    struct Pause: Sendable {
        enum Kind: Sendable {
            case failure
            /// What is held waits for other events.
            case forOthers
            /// Something must be set right.
            case fault
        }

        let id: Int
        let kind: Kind
        /// In milliseconds since 1970.
        let until: Int64
        /// By the continuous clock: nothing but the end ends it before.
        let earliestEnd: Duration
        /// How many events had been asked for.
        let target: Int
        let reason: String
        var timer: CancellationToken?

        /// What `flushed()` says of it.
        var result: FlushResult {
            kind == .fault ? .stopped(reason: reason) : .waiting(until: until, reason: reason)
        }
    }

    /// What ends a pause before its time.
    enum PauseEnd {
        case flush
        /// The app came to the foreground, or the network came back.
        case sign
        /// An upload was asked for.
        case news
    }

    private static let timeBetweenEndedPauses = Duration.seconds(10)
    private static let timeBetweenTries = Duration.seconds(3_600)
    private static let timeBetweenFlushedTries = Duration.seconds(60)

    /// Nothing can be sent now, because of a fault or for a while.
    ///
    /// - Parameter wait: `nil`: something must be set right.
    /// - Returns: Whether to go on at once: the end came during the attempt, and what waits is tried once more.
    func pause(_ wait: DeliveryRules.Wait?, because text: String, watchesNetwork: Bool = false) -> Bool {
        let delay = wait?.delay ?? Self.timeBetweenTries
        let now = (wall: time.wallMilliseconds, continuous: time.continuous)
        let (goesOn, pause) = state.withLock { state in
            state.held = []
            let mayGoOn = wait.map { $0.shortest == .zero } ?? false
            let goesOn = state.isClosing && mayGoOn && !state.isLastAttempt && !state.isHurried
            state.isRunning = goesOn
            if !goesOn { state.lastTimerId += 1 }
            let pause = Pause(
                id: state.lastTimerId, kind: wait.map { $0.isForOthers ? .forOthers : .failure } ?? .fault,
                until: now.wall.addingClamped(delay.wholeMilliseconds),
                earliestEnd: now.continuous + (wait?.shortest ?? Self.timeBetweenFlushedTries),
                target: state.target, reason: text)
            if !state.isClosing { state.pause = pause }
            return (goesOn, pause)
        }
        if goesOn || isClosing { return goesOn }
        setTimer(of: pause, after: delay)
        if watchesNetwork { watchNetwork() }
        tellProgress()
        resumeAll(with: pause.result)
        return false
    }

    private func setTimer(of pause: Pause, after delay: Duration) {
        guard state.withLock({ $0.pause?.id == pause.id }) else { return }
        let timer = time.schedule(after: delay) { [weak self] in self?.endPause(pause.id) }
        let isOver = state.withLock { state in
            guard state.pause?.id == pause.id else { return true }
            state.pause?.timer = timer
            return false
        }
        if isOver { timer.cancel() }
    }

    /// Ends a pause when its time has come.
    private func endPause(_ id: Int) {
        let isOver = state.withLock { state in
            guard state.pause?.id == id else { return false }
            state.pause = nil
            return true
        }
        if isOver { start() }
    }

    /// Ends a pause before its time, if that may be; the next one is as long as it would have been.
    func endPause(by cause: PauseEnd) {
        let pause = state.withLock { state -> Pause? in
            let now = time.continuous
            guard let pause = state.pause, now >= pause.earliestEnd else { return nil }
            switch (cause, pause.kind) {
            case (.flush, .fault): break
            case (.news, .forOthers):
                if state.target <= pause.target { return nil }
            case (.flush, _), (.sign, .failure), (.sign, .forOthers):
                if let last = state.lastEndedPause, now - last < Self.timeBetweenEndedPauses { return nil }
                state.lastEndedPause = now
            case (.sign, .fault), (.news, _): return nil
            }
            return state.pause.take()
        }
        guard let pause else { return }
        pause.timer?.cancel()
        start()
    }
}

// MARK: - The network

extension Uploader {
    /// Notices when the network comes back, where the system says so. What lies before the first change is no news.
    private func watchNetwork() {
        guard state.withLock({ !$0.isClosing }), network.withLock({ $0 == nil }) else { return }
        let wasConnected = Locked(true)
        let token = observeNetwork { [weak self] network in
            let isConnected = network.wifi || network.cellular
            let isBack = wasConnected.withLock { wasConnected in
                defer { wasConnected = isConnected }
                return isConnected && !wasConnected
            }
            if isBack { self?.endPause(by: .sign) }
        }
        let outdated = network.withLock { network in
            guard network == nil else { return token }
            network = token
            return nil
        }
        outdated?.cancel()
        if state.withLock({ $0.isClosing }) { unwatchNetwork() }
    }

    func unwatchNetwork() { network.withLock { $0.take() }?.cancel() }
}
