import Dispatch
import Tiller

extension LocalDataPlane {
    /// A request and what was answered, for someone who reads along.
    package struct Exchange: Sendable {
        /// `nil` if it could not be read.
        package let request: Request?
        /// The answer, on its way lost or not.
        package let reply: Reply
        /// What was stored of it.
        package let events: [ReceivedEvent]
        /// When it was judged, in milliseconds since 1970.
        package let milliseconds: Int64
        /// What a script did to it.
        package let fault: LocalDataPlane.AppliedFault?
    }
}

extension LocalDataPlane.Server {
    typealias Reply = LocalDataPlane.Reply
    typealias Request = LocalDataPlane.Request
    typealias RequestReader = LocalDataPlane.RequestReader

    /// In bytes. Go's server reads no more than this of a body that nobody read; if there is more, it closes.
    private static let unreadLimit = 256 << 10
    /// In bytes: what is still received of such a body before the connection closes. More than the SDK's largest batch, so
    /// that its client always reads the answer.
    private static let unwantedLimit = 1 << 20
    /// In bytes: what is received of any other before the connection closes.
    private static let drainLimit = 64 << 20

    /// A request between its head and its answer.
    struct Visit {
        let gateway: LocalDataPlane.Gateway
        let route: LocalDataPlane.Gateway.Route
        /// Whether there were too many at a time.
        let isOverCap: Bool
        /// What a script does to it.
        let fault: LocalDataPlane.AppliedFault?

        var refusal: Reply? { if case .refused(let reply) = route { reply } else { nil } }
    }

    /// What is to be sent.
    struct Answer {
        var request: Request?
        var reply: Reply
        /// The body in place of the reply's.
        var events: [LocalDataPlane.ReceivedEvent]?
        /// Whether the connection closes after it.
        var isLast: Bool
        var drainLimit = LocalDataPlane.Server.drainLimit
        /// What a script does to it.
        var fault: LocalDataPlane.AppliedFault?
    }

    /// Reads a request and answers it.
    ///
    /// - Returns: Whether another can follow.
    func exchange(_ reader: inout RequestReader, on connection: Socket) -> Bool {
        let answer: Answer
        do {
            let head = try reader.readHead()
            let visit = arrive(head.request)
            // Before the answer is sent: a client that has its answer finds the server at rest.
            defer { depart() }
            answer = try self.answer(to: head, visit, reading: &reader, on: connection)
        } catch .refused(let reply) {
            report(nil, reply)
            answer = Answer(reply: reply, isLast: true)
        } catch {
            return false
        }
        return send(answer, on: connection)
    }

    func report(
        _ request: Request?, _ reply: Reply, _ events: [LocalDataPlane.ReceivedEvent] = [],
        fault: LocalDataPlane.AppliedFault? = nil
    ) {
        guard let onExchange else { return }
        let now = timeSource.wallMilliseconds
        onExchange(
            LocalDataPlane.Exchange(request: request, reply: reply, events: events, milliseconds: now, fault: fault))
    }
}

// MARK: - Coming and going

extension LocalDataPlane.Server {
    /// Notes that a request has begun, and where its head leads under the rules of this moment.
    private func arrive(_ request: Request) -> Visit {
        let now = timeSource.continuous
        let (gateway, underWay, fault) = state.withLock { state in
            state.underWay += 1
            state.lastActivity = now
            let gateway = LocalDataPlane.Gateway(rules: state.rules)
            return (gateway, state.underWay, gateway.isBatch(request) ? state.takeFault() : nil)
        }
        let isOverCap = underWay > gateway.rules.maximumConcurrentRequests && !gateway.isPreflight(request)
        let route = isOverCap ? .refused(.overloaded) : gateway.route(request)
        return Visit(gateway: gateway, route: route, isOverCap: isOverCap, fault: fault)
    }

    private func depart() {
        let now = timeSource.continuous
        state.withLock { state in
            state.underWay -= 1
            state.lastActivity = now
        }
        checkQuiet()
    }
}

// MARK: - From the head to the answer

extension LocalDataPlane.Server {
    private func answer(
        to head: RequestReader.Head, _ visit: Visit, reading reader: inout RequestReader, on connection: Socket
    ) throws(RequestReader.Failure) -> Answer {
        if let answer = broken(head, visit.fault, reading: &reader, on: connection) { return answer }
        var request = head.request
        let isRefused = visit.refusal != nil
        if head.expectsContinue {
            // The body is not sent unless we ask for it, and a refusal is as good before as after it.
            if isRefused { return judged(request, visit, isLast: true, on: connection) }
            guard connection.transmit(Array("HTTP/1.1 100 Continue\r\n\r\n".utf8)) else { throw .ended }
        } else if isRefused, case .length(let length) = head.framing, length > Self.unreadLimit {
            var answer = judged(request, visit, isLast: true, on: connection)
            answer.drainLimit = Self.unwantedLimit
            return answer
        }
        do {
            let limit = isRefused ? Self.unreadLimit : RequestReader.maximumBodySize
            request.body = try reader.readBody(head.framing, limit: limit)
        } catch {
            guard case .refused(let reply) = error else { throw error }
            return unread(request, visit.refusal ?? reply, drainLimit: isRefused ? Self.unwantedLimit : Self.drainLimit)
        }
        return judged(request, visit, isLast: head.isLast, on: connection)
    }

    /// Answers a request without its body, and without counting it among those that were read.
    private func unread(_ request: Request, _ reply: Reply, drainLimit: Int) -> Answer {
        report(request, reply)
        return Answer(request: request, reply: reply.shared(with: request), isLast: true, drainLimit: drainLimit)
    }

    /// Judges a request, writes down what it brought, and waits until the answer may go.
    private func judged(_ request: Request, _ visit: Visit, isLast: Bool, on connection: Socket) -> Answer {
        var request = request
        request.encodedBodySize = request.body.count
        request.fault = visit.fault
        var events: [LocalDataPlane.ReceivedEvent]?
        let verdict: LocalDataPlane.Gateway.Verdict
        switch visit.route {
        case .refused(let reply), .fixed(let reply): verdict = .init(reply: reply)
        case .receivedEvents:
            verdict = .init(reply: .events)
            events = self.events
        case .ingest(let ingest):
            if let refusal = inflate(&request) {
                verdict = .init(reply: refusal)
            } else {
                verdict = visit.gateway.verdict(on: request, ingest, at: timeSource.wallMilliseconds)
            }
        }
        let reply = settle(request, verdict, visit, on: connection)
        // Who is to find no connection next must need one.
        let isLast = isLast || state.withLock { $0.isNextRefused }
        return Answer(request: request, reply: reply, events: events, isLast: isLast, fault: visit.fault)
    }

    /// Inflates a body that says it is gzip in the one way that the gateway knows.
    ///
    /// - Returns: The answer if it can't be; the body is as it came then.
    private func inflate(_ request: inout Request) -> Reply? {
        guard request.headers["Content-Encoding"] == "gzip", !request.body.isEmpty else { return nil }
        do {
            request.body = try Gzip.inflate(request.body, limit: RequestReader.maximumBodySize)
            return nil
        } catch {
            switch error {
            case .damaged: return .unreadableBody
            case .tooLarge: return .tooLarge
            case .unavailable: return .noInflater
            }
        }
    }
}

// MARK: - Writing down

extension LocalDataPlane.Server {
    /// Writes down what a request brought, takes its scripted answer if there is one, and waits as long as the rules, the
    /// answer or the fault want it.
    private func settle(
        _ request: Request, _ verdict: LocalDataPlane.Gateway.Verdict, _ visit: Visit, on connection: Socket
    ) -> Reply {
        // The timers are set before anyone can see the request and let time pass.
        let storing = beginStoring(verdict, visit, on: connection)
        let pause = beginPause(visit.fault?.delay ?? .zero)
        let retention = visit.gateway.rules.retention
        var events = verdict.events
        for index in events.indices { events[index].fault = visit.fault }
        var (reply, isWanted, hold, reached) = state.withLock { [events] state in
            let (reply, isWanted) = state.reply(to: request, verdict, visit, at: timeSource.wallMilliseconds)
            state.note(request, retention)
            if storing == nil, isWanted { state.accept(events, retention) }
            return (reply, isWanted, state.hold(reply), state.takeReached())
        }
        for waiter in reached { waiter.continuation.resume() }
        if let storing {
            let isStored = end(storing, isWanted: isWanted)
            reached = state.withLock { [events] state in
                if isStored { state.accept(events, retention) }
                return state.takeReached()
            }
            for waiter in reached { waiter.continuation.resume() }
            if storing.isGivenUp { reply = reply.lost() }
        }
        report(request, reply, isWanted ? events : [], fault: visit.fault)
        if let pause { end(pause) }
        hold?.wait()
        return reply
    }

    /// A request whose events take their time to be stored.
    private struct Storing {
        let id: Int
        let semaphore: DispatchSemaphore
        let timers: [CancellationToken]
        /// Whether it takes longer than the gateway lets a client wait.
        let isGivenUp: Bool
    }

    private func beginStoring(
        _ verdict: LocalDataPlane.Gateway.Verdict, _ visit: Visit, on connection: Socket
    ) -> Storing? {
        guard case .taking(let duration) = visit.gateway.rules.storage, duration > .zero, !verdict.events.isEmpty else {
            return nil
        }
        let semaphore = DispatchSemaphore(value: 0)
        let id = state.withLock { state in
            let id = state.nextId()
            state.storing[id] = semaphore
            if state.isStopped { semaphore.signal() }
            return id
        }
        var timers = [timeSource.schedule(after: duration) { semaphore.signal() }]
        let isGivenUp = duration > Self.writeTimeout
        if isGivenUp { timers.append(timeSource.schedule(after: Self.writeTimeout) { connection.shutDown() }) }
        return Storing(id: id, semaphore: semaphore, timers: timers, isGivenUp: isGivenUp)
    }

    /// Waits until the time has passed or the server stops.
    ///
    /// - Parameter isWanted: Whether there is anything to wait for.
    /// - Returns: Whether the events are stored.
    private func end(_ storing: Storing, isWanted: Bool) -> Bool {
        if isWanted { storing.semaphore.wait() }
        for timer in storing.timers { timer.cancel() }
        return state.withLock { state in
            state.storing[storing.id] = nil
            return isWanted && !state.isStopped
        }
    }
}

extension LocalDataPlane.Server.State {
    /// What is to be answered, and whether the events of a request that deserves it are stored.
    fileprivate mutating func reply(
        to request: LocalDataPlane.Request, _ verdict: LocalDataPlane.Gateway.Verdict,
        _ visit: LocalDataPlane.Server.Visit, at milliseconds: Int64
    ) -> (LocalDataPlane.Reply, isWanted: Bool) {
        var reply = verdict.reply.shared(unlessOwn: visit, with: request)
        if let fault = visit.fault {
            return (fault.reply(to: reply, at: milliseconds), fault.storesEvents)
        }
        if visit.gateway.isBatch(request), !visit.isOverCap, !script.isEmpty { reply = script.removeFirst() }
        return (reply, reply.status == 200)
    }

    fileprivate mutating func note(_ request: LocalDataPlane.Request, _ retention: LocalDataPlane.Retention) {
        requestCount += 1
        if retention == .everything { requests.append(request) }
    }

    fileprivate mutating func accept(
        _ new: [LocalDataPlane.ReceivedEvent], _ retention: LocalDataPlane.Retention
    ) {
        eventCount += new.count
        switch retention {
        case .everything: events += new
        case .storedEvents: events += new.map(\.withoutSentForm)
        case .nothing: break
        }
    }

    fileprivate mutating func hold(_ reply: LocalDataPlane.Reply) -> DispatchSemaphore? {
        guard reply.isHeld, !isStopped else { return nil }
        let semaphore = DispatchSemaphore(value: 0)
        held.append(semaphore)
        return semaphore
    }
}

// MARK: - Sending

extension LocalDataPlane.Reply {
    static let events = status(200, headers: ["Content-Type": "application/json; charset=utf-8"])

    /// The gateway's answers are for pages of every origin; what lies under /tiller/ is for none.
    fileprivate func shared(
        unlessOwn visit: LocalDataPlane.Server.Visit, with request: LocalDataPlane.Request
    ) -> Self {
        visit.gateway.isOwnPath(request) || visit.gateway.isPreflight(request) ? self : shared(with: request)
    }
}

extension LocalDataPlane.Server {
    /// - Returns: Whether another request can follow.
    private func send(_ answer: Answer, on connection: Socket) -> Bool {
        guard !answer.reply.isLost else {
            if answer.fault?.isReset == true { connection.resetWhenClosed() }
            return false
        }
        if let fault = answer.fault?.fault { return send(answer, spoiltBy: fault, on: connection) }
        let isSent =
            if let events = answer.events {
                transmit(events, as: answer, on: connection)
            } else {
                connection.transmit(answer.reply.message(to: answer.request, isLast: answer.isLast))
            }
        guard isSent else { return false }
        if answer.isLast { drain(connection, atMost: answer.drainLimit) }
        return !answer.isLast
    }

    /// Sends a JSON array piece by piece: it can be larger than what one would like to have in memory twice.
    private func transmit(
        _ events: [LocalDataPlane.ReceivedEvent], as answer: Answer, on connection: Socket
    ) -> Bool {
        let size = events.reduce(2 + max(0, events.count - 1)) { $0 + $1.envelope.count }
        var piece = answer.reply.head(framing: .length(size), isLast: answer.isLast) + [UInt8(ascii: "[")]
        for (index, event) in events.enumerated() {
            if index > 0 { piece.append(UInt8(ascii: ",")) }
            piece += event.envelope
            guard piece.count >= 1 << 16 else { continue }
            guard connection.transmit(piece) else { return false }
            piece.removeAll(keepingCapacity: true)
        }
        return connection.transmit(piece + [UInt8(ascii: "]")])
    }

    /// Receives what the client still sends before the connection closes: closing with bytes unread makes a reset of it,
    /// and that can overtake the answer.
    private func drain(_ connection: Socket, atMost limit: Int) {
        connection.endTransmission()
        var scrap = [UInt8](repeating: 0, count: 65_536)
        var rest = limit
        while rest > 0, case let count = connection.receive(into: &scrap), count > 0 { rest -= count }
    }
}
