/// The queue in memory and what brings it to the data plane: one request at a time, oldest events first.
final class Uploader: Sendable {
    private struct State: Sendable {
        var events: [WaitingEvent] = []
        /// How many have come, been delivered, and been lost, since the beginning.
        var appended = 0
        var delivered = 0
        var lost = 0
        /// Up to which event, counted from the beginning, an upload was asked for.
        var target = 0
        var sinceLastFlush = 0
        var hasFlushed = false
        var isRunning = false
        var failures = 0
        /// The attempt under way was cut when the end had come.
        var isLastAttempt = false
        var wait: Wait?
        /// When a wait was ended before its time, by the continuous clock.
        var lastEndedWait: Duration?
        var interval: Interval?
        var lastTimerId = 0
        var isClosing = false
        var flushWaiters: [FlushWaiter] = []
        var doneWaiters: [@Sendable () -> Void] = []
        var random: IdentifierGenerator
        var environment: DataPlaneEnvironment?
    }

    /// No attempt is made before it is over. Noted before its timer is set, which may fire before `schedule` returns.
    private struct Wait: Sendable {
        let id: Int
        let until: Int64
        let reason: String
        var timer: CancellationToken?
    }

    /// An upload at its end. Noted before its timer is set.
    private struct Interval: Sendable {
        let id: Int
        var timer: CancellationToken?
    }

    private struct FlushWaiter: Sendable {
        let target: Int
        let resume: @Sendable (FlushResult) -> Void
    }

    /// Longer than the 10 s after which the gateway itself gives up on a slow store.
    private static let requestTimeout = Duration.seconds(30)
    private static let shortestTimeBetweenEndedWaits = Duration.seconds(10)
    private static let shutDown = FlushResult.stopped(reason: "the instance was shut down")

    private let state: Locked<State>
    private let endpoint: BatchEndpoint?
    private let transport: any Transport
    private let time: any TimeSource
    private let policies: [any FlushPolicy]
    private let batchBytes: Int
    private let isPerIdentity: Bool
    private let longestWait: Duration

    init(configuration: Configuration) {
        let isApp = configuration.lifecycleSource.isApp
        endpoint = BatchEndpoint(baseUrl: configuration.dataPlaneUrl, writeKey: configuration.writeKey)
        transport = configuration.transport
        time = configuration.time
        policies = configuration.flushPolicies
        batchBytes = configuration.limits.batchBytes
        isPerIdentity = (configuration.batching ?? (isApp ? .perIdentity : .mixed)) == .perIdentity
        longestWait = isApp ? .seconds(300) : .seconds(60)
        state = Locked(State(random: configuration.identifiers))
    }

    /// - Returns: False if another instance has it and has not closed it.
    func attach(to environment: DataPlaneEnvironment) -> Bool {
        let isFree = state.withLock { state in
            guard state.environment == nil || state.isClosing else { return false }
            state.environment = environment
            state.isClosing = false
            return true
        }
        if isFree, endpoint == nil {
            environment.diagnostics.error(
                "The data plane's URL can't be used: it needs http:// or https:// and a host. Events wait, none is sent"
            )
        }
        return isFree
    }

    var deliveredCount: Int { state.withLock { $0.delivered } }
    var lostCount: Int { state.withLock { $0.lost } }
}

// MARK: - Coming in

extension Uploader {
    func append(_ event: WaitingEvent) {
        state.withLock { state in
            state.events.append(event)
            state.appended += 1
            state.sinceLastFlush += 1
        }
    }

    /// Asks the policies whether to upload; sees to the timer of the shortest interval.
    func askPolicies() {
        let queue = state.withLock { state in
            FlushQueue(
                sinceLastFlush: state.sinceLastFlush, waiting: state.events.count, isFirst: !state.hasFlushed)
        }
        guard queue.waiting > 0 else { return }
        // All are asked: a policy may count its own questions.
        let wantsFlush = policies.map { $0.shouldFlush(queue) }.contains(true)
        if wantsFlush { upload() } else { startIntervalTimer() }
    }

    /// An upload that was asked for by a call.
    func flush() {
        endWait()
        upload()
    }

    /// Ends a wait after a failure, at most once in ten seconds; the next wait is as long as it would have been.
    func endWait() {
        let wait = state.withLock { state -> Wait? in
            guard let wait = state.wait else { return nil }
            let now = time.continuous
            if let last = state.lastEndedWait, now - last < Self.shortestTimeBetweenEndedWaits { return nil }
            state.lastEndedWait = now
            state.wait = nil
            return wait
        }
        guard let wait else { return }
        wait.timer?.cancel()
        start()
    }

    /// Everything that waits is asked for, so that no interval need end.
    private func upload() {
        let interval = state.withLock { state in
            state.target = state.appended
            state.sinceLastFlush = 0
            if !state.events.isEmpty { state.hasFlushed = true }
            return state.interval.take()
        }
        interval?.timer?.cancel()
        start()
    }

    private func startIntervalTimer() {
        guard let shortest = policies.compactMap(\.interval).min() else { return }
        let id = state.withLock { state -> Int? in
            // What was asked for already needs no interval.
            guard state.interval == nil, !state.isClosing, state.appended > state.target else { return nil }
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

// MARK: - Going out

extension Uploader {
    /// One upload, cut from the front of the queue.
    private struct Batch: Sendable {
        let events: [WaitingEvent]
        let request: TransportRequest
    }

    private func start() {
        guard endpoint != nil else {
            resumeAll(with: .stopped(reason: "the data plane's URL can't be used"))
            return
        }
        let starts = state.withLock { state in
            guard !state.isRunning, state.wait == nil, state.delivered + state.lost < state.target else { return false }
            state.isRunning = true
            return true
        }
        // Strong: what waits is delivered, also when the instance has been released meanwhile.
        if starts { Task { await self.run() } }
    }

    private func run() async {
        while let batch = nextBatch() {
            let failure = await send(batch)
            if let failure {
                if didFail(failure) { continue }
                break
            }
            didDeliver(batch.events)
        }
        finishIfClosing()
    }

    private func send(_ batch: Batch) async -> String? {
        do {
            let response = try await transport.post(batch.request)
            if (200..<300).contains(response.status) {
                // A hotel's log-in page is no acknowledgement.
                guard response.body.first(where: { $0 > 0x20 }) == UInt8(ascii: "<") else { return nil }
                return "something else than a data plane answered \(response.status), with a page"
            }
            let text = String(decoding: response.body.prefix(100), as: UTF8.self)
            return "the data plane answered \(response.status) \(text.split(separator: "\n").first ?? "")"
        } catch {
            return "no answer: \(error)"
        }
    }

    /// What goes next; `nil`, and nothing runs any more, if nothing was asked for.
    private func nextBatch() -> Batch? {
        let cut = state.withLock { state -> (events: [WaitingEvent], fallbackId: String)? in
            let wanted = state.target - state.delivered - state.lost
            guard wanted > 0, !state.events.isEmpty, let environment = state.environment else {
                state.isRunning = false
                return nil
            }
            let count = Self.lengthOfBatch(
                in: state.events.prefix(wanted), bytes: batchBytes, isPerIdentity: isPerIdentity)
            state.isLastAttempt = state.isClosing
            return (Array(state.events.prefix(count)), environment.installationId)
        }
        guard let cut, let endpoint else { return nil }
        let request = endpoint.request(
            for: cut.events, anonymousId: isPerIdentity ? cut.events.first?.anonymousId : nil,
            fallbackId: cut.fallbackId, now: time.continuous, timeout: Self.requestTimeout)
        return Batch(events: cut.events, request: request)
    }

    /// As many as fit, at least one; of one anonymous id, if so asked.
    private static func lengthOfBatch(
        in events: ArraySlice<WaitingEvent>, bytes limit: Int, isPerIdentity: Bool
    ) -> Int {
        var size = 11  // {"batch":[]}, less the last event's comma
        var count = 0
        for event in events {
            size += event.sizeInBatch
            if count > 0, size > limit || isPerIdentity && event.anonymousId != events.first?.anonymousId { break }
            count += 1
        }
        return count
    }

    private func didDeliver(_ events: [WaitingEvent]) {
        let reached = state.withLock { state in
            state.events.removeFirst(events.count)
            state.delivered += events.count
            // In here, so that who is told of the delivery finds the account up to date. It takes the core's lock, which
            // never takes this one.
            state.environment?.release(events.count, events.reduce(0) { $0 + $1.cost }, nil)
            state.failures = 0
            let done = state.delivered + state.lost
            let reached = state.flushWaiters.filter { $0.target <= done }
            state.flushWaiters.removeAll { $0.target <= done }
            return reached
        }
        for waiter in reached { waiter.resume(.delivered) }
    }

    /// - Returns: Whether to go on at once: the end came during the attempt, and what waits is tried once more.
    private func didFail(_ reason: String) -> Bool {
        let now = time.wallMilliseconds
        let (goesOn, wait, delay, diagnostics) = state.withLock { state in
            let goesOn = state.isClosing && !state.isLastAttempt
            state.isRunning = goesOn
            let ceiling = min(Duration.seconds(1) * (1 << min(state.failures, 20)), longestWait)
            state.failures += 1
            let share = Double(state.random.nextWord() >> 11) / Double(1 << 53)
            let delay = Duration.milliseconds(Int64(share * Double(ceiling.wholeMilliseconds)))
            if !state.isClosing {
                state.lastTimerId += 1
                state.wait = Wait(
                    id: state.lastTimerId, until: now.addingClamped(delay.wholeMilliseconds), reason: reason)
            }
            return (goesOn, state.wait, delay, state.environment?.diagnostics)
        }
        diagnostics?.once("upload \(reason)", .error, "An upload failed, its events are kept: \(reason)")
        guard let wait else { return goesOn }
        let timer = time.schedule(after: delay) { [weak self] in self?.endWait(wait.id) }
        let isOver = state.withLock { state in
            guard state.wait?.id == wait.id else { return true }
            state.wait?.timer = timer
            return false
        }
        if isOver { timer.cancel() }
        resumeAll(with: .waiting(until: wait.until, reason: reason))
        return false
    }

    /// Ends a wait when its time has come.
    private func endWait(_ id: Int) {
        let isOver = state.withLock { state in
            guard state.wait?.id == id else { return false }
            state.wait = nil
            return true
        }
        if isOver { start() }
    }

    private func resumeAll(with result: FlushResult) {
        let waiters = state.withLock { state in
            defer { state.flushWaiters = [] }
            return state.flushWaiters
        }
        for waiter in waiters { waiter.resume(result) }
    }
}

// MARK: - Waiting and ending

extension Uploader {
    func whenFlushed(deliveredBefore: Int, _ resume: @escaping @Sendable (FlushResult) -> Void) {
        let result = state.withLock { state -> FlushResult? in
            if state.lost > 0 { return Self.shutDown }
            if state.target == deliveredBefore { return .nothingWaiting }
            if state.delivered >= state.target { return .delivered }
            if endpoint == nil { return .stopped(reason: "the data plane's URL can't be used") }
            if let wait = state.wait { return .waiting(until: wait.until, reason: wait.reason) }
            state.flushWaiters.append(FlushWaiter(target: state.target, resume: resume))
            return nil
        }
        if let result { resume(result) }
    }

    /// The last upload; what it can't deliver is lost.
    func close() {
        let (wait, interval) = state.withLock { state in
            state.isClosing = true
            state.target = state.appended
            return (state.wait.take(), state.interval.take())
        }
        wait?.timer?.cancel()
        interval?.timer?.cancel()
        start()
        if !state.withLock({ $0.isRunning }) { finishIfClosing() }
    }

    func whenDone(_ action: @escaping @Sendable () -> Void) {
        let isDone = state.withLock { state in
            let isDone = state.isClosing && !state.isRunning && state.events.isEmpty
            if !isDone { state.doneWaiters.append(action) }
            return isDone
        }
        if isDone { action() }
    }

    private func finishIfClosing() {
        let ended = state.withLock { state -> (lost: [WaitingEvent], waiters: [@Sendable () -> Void], State)? in
            guard state.isClosing, !state.isRunning else { return nil }
            let lost = state.events
            state.events = []
            state.lost += lost.count
            defer {
                state.doneWaiters = []
                // It holds the instance's core, which holds this destination.
                state.environment = nil
            }
            return (lost, state.doneWaiters, state)
        }
        guard let (lost, waiters, state) = ended else { return }
        if !lost.isEmpty {
            state.environment?.diagnostics.error("\(lost.count) events were not delivered before the shutdown")
            state.environment?.release(lost.count, lost.reduce(0) { $0 + $1.cost }, .undelivered)
        }
        resumeAll(with: Self.shutDown)
        for waiter in waiters { waiter() }
    }
}
