/// What brings stored events to the data plane: one request at a time, oldest events first.
///
/// One is made each time a destination takes its place in an instance; after `close` it ends and is never used again.
final class Uploader: Uploads {
    private struct State: Sendable {
        /// Up to which event of the store, counted from its opening, an upload was asked for.
        var target = 0
        /// How many events the store had had at the last flush.
        var flushed = 0
        var hasFlushed = false
        /// Whether events of earlier processes were waiting.
        var hasBacklog = false
        var isInForeground = false
        var isRunning = false
        /// Counts the runs, and says whether the present one has a thread yet.
        var run = 0
        var hasBegun = false
        var attempts = Attempts()
        /// The attempt under way was cut when the end had come.
        var isLastAttempt = false
        var wait: Wait?
        /// When a wait was ended before its time, by the continuous clock.
        var lastEndedWait: Duration?
        var interval: Interval?
        var lastTimerId = 0
        var isClosing = false
        var isDone = false
        var isHurried = false
        var flushWaiters: [FlushWaiter] = []
        var random: IdentifierGenerator
        /// How many bytes of events make a body that the transport likes.
        var goodBatchBytes: Int
    }

    /// The failures in a row.
    private struct Attempts: Sendable {
        var failures = 0
        /// The last one, for the retry headers.
        var last: (run: Int, start: UInt64, at: Duration, reason: String, count: Int)?
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

    /// Why an attempt failed.
    private struct Failure: Error {
        /// For people.
        let text: String
        /// For the retry headers.
        let reason: String
    }

    /// What the gateway says. Other answers are not repeated: a server may echo what it was sent.
    private static let knownAnswers: Set = [
        "invalid write key", "failed to read writekey from header", "source is disabled", "404 page not found",
        "invalid json", "empty batch payload", "event is not a valid rudder event",
        "request neither has anonymousId nor userId", "request size exceeds max limit", "max requests limit reached",
        "failed to read body from request", "gateway timeout", "Service Unavailable",
    ]

    /// Longer than the 10 s after which the gateway itself gives up on a slow store.
    private static let requestTimeout = Duration.seconds(30)
    private static let shortestTimeBetweenEndedWaits = Duration.seconds(10)
    private static let shutDown = FlushResult.stopped(reason: "the instance was shut down")
    private static let unusable = FlushResult.stopped(reason: "the data plane's URL can't be used")

    let done = Milestone()
    private let environment: DataPlaneEnvironment
    private let state: Locked<State>
    private let uploads = Locked<Task<Void, Never>?>(nil)
    private let endpoint: BatchEndpoint?
    private let transport: any Transport
    private let time: any TimeSource
    private let policies: [any FlushPolicy]
    private let batchBytes: Int
    private let isPerIdentity: Bool
    private let compresses: Bool
    private let longestWait: Duration
    private let boot: UInt64

    init(configuration: Configuration, environment: DataPlaneEnvironment) {
        self.environment = environment
        let isApp = configuration.lifecycleSource.isApp
        endpoint = BatchEndpoint(baseUrl: configuration.dataPlaneUrl, writeKey: configuration.writeKey)
        transport = configuration.transport
        time = configuration.time
        policies = configuration.flushPolicies
        batchBytes = configuration.limits.batchBytes
        isPerIdentity = (configuration.batching ?? (isApp ? .perIdentity : .mixed)) == .perIdentity
        compresses = configuration.gzipEnabled
        longestWait = isApp ? .seconds(300) : .seconds(60)
        boot = configuration.time.bootHash
        state = Locked(State(random: configuration.identifiers, goodBatchBytes: configuration.limits.batchBytes))
    }

    private var store: any EventStore { environment.store }

    /// The instance whose events it uploads.
    var instance: ObjectIdentifier { environment.instance }

    /// The destination may take its place in another instance.
    var isClosing: Bool { state.withLock { $0.isClosing } }

    func begin(inForeground: Bool) {
        state.withLock { state in
            let counts = store.counts
            state.hasBacklog = counts.waiting > 0
            state.flushed = counts.settled
            state.isInForeground = inForeground
        }
        if endpoint == nil {
            environment.diagnostics.error(
                "The data plane's URL can't be used: it needs http:// or https:// and a host. Events wait, none is sent"
            )
        }
        // Strong: the end of what had the place before may be all that holds it.
        environment.isFree.whenReached {
            self.askAboutBacklog()
            self.start()
            self.finishIfClosing()
        }
    }
}

// MARK: - What asks for an upload

extension Uploader {
    func didStoreChunk() { askPolicies() }

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
            return !state.isInForeground
        }
        if isFirst { askAboutBacklog() }
        endWait()
    }

    /// What earlier processes left waits for the first foreground, or for the first event of this process.
    private func askAboutBacklog() {
        guard state.withLock({ $0.hasBacklog }) else { return }
        environment.onExecutor { [weak self] in
            guard let self, self.environment.isFree.isReached else { return }
            let asks = self.state.withLock { $0.isInForeground && !$0.hasFlushed && !$0.isClosing }
            if asks { self.askPolicies() }
        }
    }

    /// An upload that was asked for by a call.
    func flush() {
        endWait()
        upload()
    }

    /// Ends a wait after a failure, at most once in ten seconds; the next wait is as long as it would have been.
    private func endWait() {
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
            let counts = store.counts
            state.target = counts.appended
            state.flushed = counts.appended
            if counts.waiting > 0 { state.hasFlushed = true }
            return state.interval.take()
        }
        interval?.timer?.cancel()
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

// MARK: - Going out

extension Uploader {
    private func start() {
        guard endpoint != nil else { return resumeAll(with: Self.unusable) }
        let run = state.withLock { state -> Int? in
            guard !state.isRunning, state.wait == nil, environment.isFree.isReached, !state.isHurried,
                store.counts.settled < state.target
            else { return nil }
            state.isRunning = true
            state.hasBegun = false
            state.run += 1
            return state.run
        }
        // Strong: what waits is delivered, also when the instance has been released meanwhile.
        if let run { uploads.withLock { $0 = Task { await self.run(run) } } }
    }

    private func run(_ run: Int) async {
        while claim(run) {
            let appended = store.counts.appended
            do throws(Failure) {
                guard let (batch, request) = try nextRequest() else {
                    guard rest(ifAppended: appended) else { continue }
                    resumeAll(with: .stopped(reason: "the store was closed"))
                    break
                }
                try await send(request, of: batch)
                didDeliver(batch)
            } catch {
                if didFail(error) { continue }
                break
            }
        }
        finishIfClosing()
    }

    /// Whether there is something to do; if not, nothing runs any more.
    private func claim(_ run: Int) -> Bool {
        let (isThere, reached) = state.withLock { state -> (Bool, [FlushWaiter]) in
            guard state.run == run else { return (false, []) }  // it was given up before it began
            state.hasBegun = true
            let counts = store.counts
            // Also what was evicted or damaged meanwhile counts as done.
            let reached = state.flushWaiters.filter { $0.target <= counts.settled }
            state.flushWaiters.removeAll { $0.target <= counts.settled }
            let isThere = counts.settled < state.target && !state.isHurried
            if isThere { state.isLastAttempt = state.isClosing } else { state.isRunning = false }
            return (isThere, reached)
        }
        for waiter in reached { waiter.resume(.delivered) }
        return isThere
    }

    /// A store that gives nothing any more, though not all is gone: it was closed. Unless something came just now.
    ///
    /// - Returns: Whether nothing runs any more.
    private func rest(ifAppended appended: Int) -> Bool {
        state.withLock { state in
            let counts = store.counts
            guard counts.appended == appended, counts.settled < state.target else { return false }
            state.isRunning = false
            return true
        }
    }

    /// The next batch and its request; `nil` if it turned out that nothing is left.
    private func nextRequest() throws(Failure) -> (StoredBatch, TransportRequest)? {
        let count = state.withLock { $0.target } - store.counts.settled
        guard let endpoint, count > 0 else { return nil }
        var bytes = state.withLock { $0.goodBatchBytes }
        while true {
            let bounds = BatchBounds(bytes: bytes, count: count, isPerIdentity: isPerIdentity)
            let batch: StoredBatch?
            do {
                batch = try store.nextBatch(bounds, after: nil)
            } catch {
                throw Failure(text: "the store: \(error)", reason: "client-unknown")
            }
            guard let batch else { return nil }
            let request = endpoint.request(for: batch, circumstances(of: batch), compresses: compresses)
            guard let smaller = smallerBatch(than: batch, request.body.count) else { return (batch, request) }
            bytes = smaller
        }
    }

    /// How large a batch should be instead, if its body is one that the transport does not like; also adapts the next.
    private func smallerBatch(than batch: StoredBatch, _ bodyBytes: Int) -> Int? {
        guard let preferred = transport.preferredBodyBytes else { return nil }
        // A little less than what would have fitted.
        let share = Double(preferred) * 0.9 / Double(max(bodyBytes, 1))
        let fitting = Int(min(Double(batch.size) * max(share, 0), Double(batchBytes)))
        let isTooLarge = bodyBytes > preferred && batch.events.count > 1
        state.withLock { $0.goodBatchBytes = min(batchBytes, isTooLarge ? fitting : max($0.goodBatchBytes, fitting)) }
        return isTooLarge ? fitting : nil
    }

    private func circumstances(of batch: StoredBatch) -> BatchEndpoint.Circumstances {
        let now = time.continuous
        var circumstances = BatchEndpoint.Circumstances(
            installationId: environment.installationId, isPerIdentity: isPerIdentity, boot: boot,
            wallMilliseconds: time.wallMilliseconds, continuous: now, timeout: Self.requestTimeout)
        // As RudderStack's SDKs say it; of use to who reads a server's log.
        if let last = state.withLock({ $0.attempts.last }), (last.run, last.start) == (batch.run, batch.start) {
            circumstances.retryHeaders = [
                "Rsa-Retry-Attempt": "\(last.count)",
                "Rsa-Since-Last-Attempt": "\(max(0, (now - last.at).wholeMilliseconds))",
                "Rsa-Retry-Reason": last.reason,
            ]
        }
        return circumstances
    }

    private func send(_ request: TransportRequest, of batch: StoredBatch) async throws(Failure) {
        let response: TransportResponse
        do {
            response = try await transport.post(request)
        } catch {
            let isTimeout = (error as? URLSessionTransport.NoAnswer)?.isTimeout ?? false
            let reason = isTimeout ? "client-timeout" : "client-network"
            throw noted(Failure(text: "no answer: \(error)", reason: reason), batch)
        }
        if (200..<300).contains(response.status) {
            // A hotel's log-in page is no acknowledgement.
            guard response.body.first(where: { $0 > 0x20 }) == UInt8(ascii: "<") else { return }
            let text = "something else than a data plane answered \(response.status), with a page"
            throw noted(Failure(text: text, reason: "client-unknown"), batch)
        }
        let body = String(decoding: response.body.prefix { $0 != UInt8(ascii: "\n") }.prefix(100), as: UTF8.self)
        let text =
            "the data plane answered \(response.status)" + (Self.knownAnswers.contains(body) ? " \(body)" : "")
        throw noted(Failure(text: text, reason: "server-\(response.status)"), batch)
    }

    /// Remembers a failure for the retry headers.
    private func noted(_ failure: Failure, _ batch: StoredBatch) -> Failure {
        let now = time.continuous
        state.withLock { state in
            let last = state.attempts.last.flatMap { $0.run == batch.run && $0.start == batch.start ? $0.count : nil }
            state.attempts.last = (batch.run, batch.start, now, failure.reason, (last ?? 0) + 1)
        }
        return failure
    }

    private func didDeliver(_ batch: StoredBatch) {
        do {
            try store.acknowledge([SettledBatch(batch: batch, outcome: .delivered)])
        } catch {
            environment.diagnostics.once(
                "acknowledge", .error,
                "What was delivered could not be written down; the next process may send it again", error)
        }
        if !store.isDurable {
            environment.didDeliverFromMemory(batch.events.count, batch.bytes.count)
        }
        state.withLock { $0.attempts = Attempts() }
    }

    /// - Returns: Whether to go on at once: the end came during the attempt, and what waits is tried once more.
    private func didFail(_ failure: Failure) -> Bool {
        let now = time.wallMilliseconds
        let (goesOn, wait, delay) = state.withLock { state in
            let goesOn = state.isClosing && !state.isLastAttempt && !state.isHurried
            state.isRunning = goesOn
            let ceiling = min(Duration.seconds(1) * (1 << min(state.attempts.failures, 20)), longestWait)
            state.attempts.failures += 1
            let share = Double(state.random.nextWord() >> 11) / Double(1 << 53)
            let delay = Duration.milliseconds(Int64(share * Double(ceiling.wholeMilliseconds)))
            if !state.isClosing {
                state.lastTimerId += 1
                state.wait = Wait(
                    id: state.lastTimerId, until: now.addingClamped(delay.wholeMilliseconds), reason: failure.text)
            }
            return (goesOn, state.wait, delay)
        }
        // One that the process's end broke off is no failure.
        if !ProcessExit.hasBegun {
            environment.diagnostics.once(
                "upload \(failure.reason)", .error, "An upload failed, its events wait: \(failure.text)")
        }
        guard let wait else { return goesOn }
        let timer = time.schedule(after: delay) { [weak self] in self?.endWait(wait.id) }
        let isOver = state.withLock { state in
            guard state.wait?.id == wait.id else { return true }
            state.wait?.timer = timer
            return false
        }
        if isOver { timer.cancel() }
        resumeAll(with: .waiting(until: wait.until, reason: wait.reason))
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
    func whenFlushed(settledBefore: Int, _ resume: @escaping @Sendable (FlushResult) -> Void) {
        let result = state.withLock { state -> FlushResult? in
            let settled = store.counts.settled
            if state.target <= settledBefore { return .nothingWaiting }
            if settled >= state.target { return .delivered }
            if state.isDone { return Self.shutDown }
            if endpoint == nil { return Self.unusable }
            if let wait = state.wait { return .waiting(until: wait.until, reason: wait.reason) }
            state.flushWaiters.append(FlushWaiter(target: state.target, resume: resume))
            return nil
        }
        if let result { resume(result) }
    }

    /// The last upload; what it can't deliver stays in the store. It waits until the store is free.
    func close() {
        let (wait, interval) = state.withLock { state in
            state.isClosing = true
            state.target = store.counts.appended
            return (state.wait.take(), state.interval.take())
        }
        wait?.timer?.cancel()
        interval?.timer?.cancel()
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

    private func finishIfClosing() {
        let isDone = state.withLock { state in
            guard state.isClosing, !state.isRunning, environment.isFree.isReached else { return false }
            state.isDone = true
            return true
        }
        guard isDone else { return }
        resumeAll(with: Self.shutDown)
        done.reach()
    }
}

extension Uploader {
    var delivery: Analytics.DeliveryState {
        state.withLock { state in
            if let wait = state.wait { return .waiting(until: wait.until, reason: wait.reason) }
            return state.isRunning ? .running : .idle
        }
    }
    var lastError: String? { state.withLock { $0.wait?.reason } }
}
