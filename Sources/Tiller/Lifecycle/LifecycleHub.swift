/// Which notices are real changes (S3): a pure value.
struct LifecycleLatch: Sendable {
    private(set) var isInForeground = false

    /// Whether a notice changes anything; terminate always counts.
    mutating func admits(_ event: LifecycleEvent) -> Bool {
        switch event {
        case .foreground:
            defer { isInForeground = true }
            return !isInForeground
        case .background:
            defer { isInForeground = false }
            return isInForeground
        case .terminate: return true
        }
    }
}

/// Between the source and the observers: one change at a time, in order, each real one once.
///
/// A change that comes while another is told (from an observer, or from another thread) waits its turn and is told by
/// the thread that is at it: nothing here ever blocks.
final class LifecycleHub: Sendable {
    private enum Job: Sendable {
        case notice(LifecycleEvent)
        /// A late observer is told the state.
        case greet(any LifecycleObserver)
    }

    private struct State: Sendable {
        var latch = LifecycleLatch()
        var observers: [any LifecycleObserver] = []
        var jobs: [Job] = []
        var isTelling = false
        var isStopped = false
        var token: CancellationToken?
    }

    private let state = Locked(State())

    /// Takes the source's present state and then its changes. The first foreground is told before this returns.
    func start(_ source: any LifecycleSource, in engine: Engine) {
        // Changes that come in between wait: the state at the beginning goes before them.
        state.withLock { $0.isTelling = true }
        let observation = source.observe { [weak self, weak engine] event in
            if let engine { self?.enqueue(.notice(event), engine) }
        }
        let isStopped = state.withLock { state in
            if observation.isInForeground { state.jobs.insert(.notice(.foreground), at: 0) }
            if !state.isStopped { state.token = observation.token }
            return state.isStopped
        }
        if isStopped { observation.token.cancel() }
        while let step = nextStep() { step(engine) }
    }

    func add(_ observer: any LifecycleObserver, in engine: Engine) { enqueue(.greet(observer), engine) }

    func remove(_ observer: any LifecycleObserver) {
        state.withLock { state in
            state.observers.removeAll { $0 === observer }
            state.jobs.removeAll { if case .greet(let waiting) = $0 { waiting === observer } else { false } }
        }
    }

    /// Tells nothing more.
    ///
    /// - Returns: Ends the source's observation; `nil` the second time.
    func stop() -> CancellationToken? {
        state.withLock { state in
            state.isStopped = true
            state.jobs = []
            state.observers = []
            return state.token.take()
        }
    }

    private func enqueue(_ job: Job, _ engine: Engine) {
        let isMine = state.withLock { state in
            guard !state.isStopped else { return false }
            state.jobs.append(job)
            defer { state.isTelling = true }
            return !state.isTelling
        }
        guard isMine else { return }
        while let step = nextStep() { step(engine) }
    }

    /// Takes the next job; decides under the lock what it means, and does it outside.
    private func nextStep() -> ((Engine) -> Void)? {
        state.withLock { state -> ((Engine) -> Void)? in
            while !state.jobs.isEmpty {
                switch state.jobs.removeFirst() {
                case .greet(let observer):
                    state.observers.append(observer)
                    let isInForeground = state.latch.isInForeground
                    return { [weak self] engine in
                        // Asked after it was noted: a removal comes either before the question or finds it in the list.
                        guard engine.isMember(observer) else {
                            self?.remove(observer)
                            return
                        }
                        if isInForeground { observer.handle(.foreground, in: engine.makeHandle()) }
                    }
                case .notice(let event):
                    guard state.latch.admits(event) else { continue }
                    let observers = state.observers
                    return { [weak self] engine in self?.tell(event, to: observers, in: engine) }
                }
            }
            state.isTelling = false
            return nil
        }
    }

    /// Coming, the command first; going, the observers first, in reverse, so that what they record belongs to the
    /// foreground that ends.
    private func tell(_ event: LifecycleEvent, to observers: [any LifecycleObserver], in engine: Engine) {
        let analytics = engine.makeHandle()
        switch event {
        case .foreground:
            engine.apply(event)
            for observer in observers where hears(observer) { observer.handle(event, in: analytics) }
        case .background, .terminate:
            for observer in observers.reversed() where hears(observer) { observer.handle(event, in: analytics) }
            engine.apply(event)
        }
    }

    /// One that was removed meanwhile, by another observer say, or whose instance was shut down, hears nothing.
    private func hears(_ observer: any LifecycleObserver) -> Bool {
        state.withLock { $0.observers.contains { $0 === observer } }
    }
}
