// MARK: - Going out

extension Uploader {
    /// Longer than the 10 s after which the gateway itself gives up on a slow store.
    private static let requestTimeout = Duration.seconds(30)
    static let others = "another process uploads what is stored here"

    func start() {
        guard endpoint != nil else { return resumeAll(with: .stopped(reason: Self.unusable)) }
        let run = state.withLock { state -> Int? in
            guard !state.isRunning, state.pause == nil, environment.isFree.isReached, !state.isHurried,
                store.counts.settled < state.target
            else { return nil }
            state.isRunning = true
            state.leftToOwner = nil
            state.hasBegun = false
            state.run += 1
            return state.run
        }
        tellProgress()
        // Strong: what waits is delivered, also when the instance has been released meanwhile.
        if let run { uploads.withLock { $0 = executors.start { await self.run(run) } } }
    }

    private func run(_ run: Int) async {
        var ahead: Prepared?
        while claim(run) {
            guard await uploadOnce(&ahead) else { break }
            tellProgress()
        }
        tellProgress()
        finishIfClosing()
    }

    /// Whether there is something to do; if not, nothing runs any more.
    private func claim(_ run: Int) -> Bool {
        let (isThere, reached, left) = state.withLock { state -> (Bool, [FlushWaiter], [FlushWaiter]) in
            guard state.run == run else { return (false, [], []) }  // it was given up before it began
            state.hasBegun = true
            let counts = store.counts
            // Also what was evicted or damaged meanwhile counts as done.
            let reached = state.takeWaiters(reachedBy: counts.settled)
            let isThere = counts.settled < state.target && !state.isHurried
            if isThere {
                state.isLastAttempt = state.isClosing
            } else {
                state.isRunning = false
                state.letGo()
            }
            // What they wait for may be another process's by now. Those that the end leaves are answered there.
            let isOver = !isThere && !state.isHurried && !state.isClosing
            return (isThere, reached, isOver ? state.takeWaiters(reachedBy: .max) : [])
        }
        for waiter in reached { waiter.resume(.delivered) }
        for waiter in left { waiter.resume(.waiting(until: time.wallMilliseconds, reason: Self.others)) }
        return isThere
    }

    /// - Parameter ahead: What was prepared for it; what is prepared for the one after it.
    /// - Returns: Whether to go on.
    private func uploadOnce(_ ahead: inout Prepared?) async -> Bool {
        let target = state.withLock { $0.target }
        guard store.mayUpload() else { return leaveToOwner(upTo: target) }
        let counts = store.counts
        let next: Prepared?
        do {
            next = try ahead.take().flatMap { isStillNext($0, counts) ? $0 : nil } ?? prepare(settled: counts.settled)
        } catch {
            let text = "the store: \(error)"
            report("store", "Stored events can't be read; they wait", text)
            return carryOut(state.withLock { $0.rules.storeFailed() }, because: text)
        }
        if let next {
            guard preparesAhead else { return settle(next, await post(next.request)) }
            let settled = counts.settled + next.batch.count
            // What can't be read now is met once more when its turn comes.
            async let prepared = try? prepare(behind: next.batch, settled: settled)
            let goesOn = settle(next, await post(next.request))
            ahead = await prepared
            return goesOn
        }
        if let held = state.withLock({ $0.held.last }) {
            let step = state.withLock { $0.rules.nothingIsBehindTheHeld() }
            return carryOut(step, because: held.answer.text)
        }
        guard rest(ifAppended: counts.appended) else { return true }
        resumeAll(with: .stopped(reason: "the store was closed"))
        return false
    }

    /// Another process uploads what this one has stored, and knows that it is wanted.
    ///
    /// - Returns: Whether to go on: more was asked for meanwhile.
    private func leaveToOwner(upTo target: Int) -> Bool {
        let now = time.wallMilliseconds
        let (goesOn, reached) = state.withLock { state -> (Bool, [FlushWaiter]) in
            if state.target > target { return (true, []) }
            state.isRunning = false
            state.leftToOwner = now
            state.letGo()
            return (false, state.takeWaiters(reachedBy: store.counts.settled))
        }
        if goesOn { return true }
        for waiter in reached { waiter.resume(.delivered) }
        resumeAll(with: .waiting(until: now, reason: Self.others))
        return false
    }

    /// A store that gives nothing any more, though not all is gone: it was closed. Unless something came just now.
    ///
    /// - Returns: Whether nothing runs any more.
    private func rest(ifAppended appended: Int) -> Bool {
        state.withLock { state in
            let counts = store.counts
            guard counts.appended == appended, counts.settled < state.target else { return false }
            state.isRunning = false
            state.letGo()
            return true
        }
    }

    private func post(_ request: TransportRequest) async -> DataPlaneAnswer {
        let start = time.continuous
        var answer: DataPlaneAnswer
        do {
            answer = DataPlaneAnswer(try await transport.post(request), wallMilliseconds: time.wallMilliseconds)
        } catch {
            answer = DataPlaneAnswer(noAnswer: error)
        }
        let isNear = answer.meaning == .accepted && time.continuous - start <= Self.nearness
        state.withLock { $0.isNear = isNear }
        return answer
    }
}

// MARK: - Requests

extension Uploader {
    /// A batch and its request.
    private struct Prepared: Sendable {
        let batch: StoredBatch
        let request: TransportRequest
        /// When, by the continuous clock: what the events say of when they were sent is of that moment.
        let at: Duration
        /// How many events will have gone when it is the next one.
        let settled: Int
    }

    /// If the last answer came within this time, the next request is prepared while one is under way; it is not sent later
    /// than that. So what goes far is not worked on twice, and `sentAt` is as exact as the way there lets it be.
    private static let nearness = Duration.milliseconds(50)

    private var preparesAhead: Bool { state.withLock { $0.isNear && !$0.isSlow && !$0.rules.isInTrouble } }

    /// The next batch and its request; `nil` if nothing is left that may be sent.
    ///
    /// - Parameters:
    ///   - sent: A batch that is under way. Only one that follows it without a gap is prepared, and that would not be larger
    ///     for what is asked for meanwhile.
    ///   - settled: How many events have gone, or will have.
    private func prepare(behind sent: StoredBatch? = nil, settled: Int) throws -> Prepared? {
        let (target, held, rules) = state.withLock { ($0.target, $0.held, $0.rules) }
        let count = min(target - settled - held.count, rules.nextCount ?? .max)
        guard let endpoint, count > 0 else { return nil }
        // What was good for a body of bounded size says nothing of one without a bound.
        var bytes = transport.preferredBodyBytes == nil ? batchBytes : state.withLock { $0.goodBatchBytes }
        while true {
            let bounds = BatchBounds(bytes: bytes, count: count, isPerIdentity: isPerIdentity)
            guard let batch = try store.nextBatch(bounds, after: sent ?? held.last?.batch) else { return nil }
            if let sent, !batch.follows(sent) || batch.events.count == count { return nil }
            let now = time.continuous
            let request = endpoint.request(
                for: batch, circumstances(of: batch, at: now), compresses: compresses && !rules.sendsPlain)
            if let smaller = smallerBatch(than: batch, request.body.count) {
                bytes = smaller
                continue
            }
            // Then it would always come too late.
            if time.continuous - now > Self.nearness { state.withLock { $0.isSlow = true } }
            return Prepared(batch: batch, request: request, at: now, settled: settled)
        }
    }

    /// Whether nothing has happened since it was prepared but that the one before it was delivered: that may have been
    /// refused, and events may have been given up or erased.
    private func isStillNext(_ prepared: Prepared, _ counts: EventCounts) -> Bool {
        counts.settled == prepared.settled && time.continuous - prepared.at <= Self.nearness
            && !state.withLock { $0.rules.isInTrouble }
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

    private func circumstances(of batch: StoredBatch, at now: Duration) -> BatchEndpoint.Circumstances {
        var circumstances = BatchEndpoint.Circumstances(
            installationId: environment.installationId, isPerIdentity: isPerIdentity, boot: boot,
            wallMilliseconds: time.wallMilliseconds, continuousNanoseconds: now.wholeNanoseconds,
            timeout: Self.requestTimeout)
        // As RudderStack's SDKs say it; of use to who reads a server's log. With a new process they begin anew.
        if let failed = state.withLock({ $0.failed }), failed.place == batch.place {
            circumstances.retryHeaders = [
                "Rsa-Retry-Attempt": "\(failed.count)",
                "Rsa-Since-Last-Attempt": "\(max(0, (now - failed.at).wholeMilliseconds))",
                "Rsa-Retry-Reason": failed.reason,
            ]
        }
        return circumstances
    }
}

// MARK: - Answers

extension Uploader {
    /// - Returns: Whether to go on.
    private func settle(_ sent: Prepared, _ answer: DataPlaneAnswer) -> Bool {
        let (batch, request) = (sent.batch, sent.request)
        let attempt = DeliveryRules.Attempt(
            place: batch.place, count: batch.events.count, isCompressed: request.headers["Content-Encoding"] != nil,
            bodyBytes: request.body.count)
        let now = time.continuous
        let (step, held, hasLearnt) = state.withLock { state in
            let knew = state.rules.compressionFails
            let step = state.rules.judge(answer, to: attempt, at: now)
            let held = state.held
            switch step {
            case .accepted:
                state.held = []
                state.failed = nil
                state.lastError = nil
            case .hold: state.held.append(Held(batch: batch, answer: answer))
            case .again, .wait, .stop: break
            }
            if step != .accepted { note(answer, attempt.place, now, &state) }
            return (step, held, state.rules.compressionFails && !knew)
        }
        if hasLearnt {
            environment.diagnostics.warn("Requests that are compressed are refused: they are sent plain from now on")
        }
        if step == .accepted {
            didDeliver(batch, givingUp: held)
            return true
        }
        report(answer, step)
        return carryOut(step, because: answer.text, watchesNetwork: answer.meaning == .missing)
    }

    private func note(_ answer: DataPlaneAnswer, _ place: DeliveryRules.Place, _ now: Duration, _ state: inout State) {
        state.lastError = answer.text
        let count = state.failed?.place == place ? state.failed?.count ?? 0 : 0
        state.failed = FailedAttempt(place: place, at: now, reason: answer.reason, count: count + 1)
    }

    /// - Returns: Whether to go on.
    private func carryOut(_ step: DeliveryRules.Step, because text: String, watchesNetwork: Bool = false) -> Bool {
        switch step {
        case .accepted, .again, .hold: true
        case .wait(let wait): pause(wait, because: text, watchesNetwork: watchesNetwork)
        case .stop: pause(nil, because: text)
        }
    }

    private func didDeliver(_ batch: StoredBatch, givingUp held: [Held]) {
        unwatchNetwork()
        // Who waits for the store to have got rid of the events finds all of this done.
        for held in held { reportLoss(held.answer) }
        do {
            try store.acknowledge(
                held.map { SettledBatch(batch: $0.batch, outcome: .refused) }
                    + [SettledBatch(batch: batch, outcome: .delivered)])
        } catch {
            environment.diagnostics.once(
                "acknowledge", .error,
                "What was delivered could not be written down; the next process may send it again", error)
        }
    }
}

// MARK: - Reports

extension Uploader {
    /// Each kind of trouble is said once. Which answer made an end of the uploads is said also if it is known.
    private func report(_ answer: DataPlaneAnswer, _ step: DeliveryRules.Step) {
        switch step {
        case .accepted: break
        case .again, .hold:
            environment.diagnostics.once(
                "refused \(answer.reason)", .warn,
                "A request was refused, and what it holds is sent in parts: \(answer.text)")
        case .wait:
            let key = answer.isCertificateFailure ? "certificate" : answer.reason
            report("upload \(key)", "An upload failed, its events wait", answer.text)
        case .stop:
            report(
                "stop \(answer.reason)", "Uploads have stopped, all events are kept and tried once an hour", answer.text
            )
        }
    }

    private func report(_ key: String, _ message: String, _ text: String) {
        state.withLock { $0.lastError = text }
        // One that the process's end broke off is no failure.
        if !ProcessExit.hasBegun { environment.diagnostics.once(key, .error, "\(message): \(text)") }
    }

    /// All that is said of events that are given up here.
    private func reportLoss(_ answer: DataPlaneAnswer) {
        environment.diagnostics.loss(1, "refused alone while another was accepted: \(answer.text)") {
            "An event was given up, which was refused alone while another was accepted: \(answer.text)"
        }
    }
}

extension StoredBatch {
    var place: DeliveryRules.Place { DeliveryRules.Place(run: run, start: start) }
}
