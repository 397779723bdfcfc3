import Dispatch
import Tiller

extension LocalDataPlane {
    /// What the script of `Rules.faults` did to a request.
    public struct AppliedFault: Sendable, Hashable, CustomStringConvertible {
        /// Which request it was, as the script counts.
        public let number: Int
        /// How long its answer was held back.
        public let delay: Duration
        /// What was done; `nil`: nothing but the delay.
        public let fault: FaultScript.Fault?

        /// As in the script.
        public var description: String { FaultScript.text(delay, fault) }

        /// Whether its events, if they were stored, came without the client's knowing: it is right to send them again.
        public var hidesStoring: Bool { fault?.hidesStoring() ?? false }

        /// Whether its connection ends with a reset.
        var isReset: Bool {
            switch fault {
            case .refused, .cut(_, isReset: true): true
            default: false
            }
        }

        var storesEvents: Bool { fault?.storesEvents ?? true }

        init(number: Int, rule: FaultScript.Rule) {
            self.number = number
            delay = rule.delay
            fault = rule.fault
        }
    }
}

// MARK: - Which

extension LocalDataPlane.Server.State {
    private var nextRule: FaultScript.Rule? {
        // A request that takes a scripted answer does not count.
        script.isEmpty ? rules.faults?.rule(forRequest: faultedRequests + 1) : nil
    }

    /// Whether the next request would find no connection.
    var isNextRefused: Bool { nextRule?.fault == .refused }

    /// What is to be done to the request that has just begun.
    mutating func takeFault() -> LocalDataPlane.AppliedFault? {
        guard rules.faults != nil, script.isEmpty else { return nil }
        defer { faultedRequests += 1 }
        guard let rule = nextRule else { return nil }
        let fault = LocalDataPlane.AppliedFault(number: faultedRequests + 1, rule: rule)
        if rules.retention != .nothing { appliedFaults.append(fault) }
        return fault
    }
}

// MARK: - Before a request is judged

extension LocalDataPlane.Server {
    /// Resets a new connection if the script wants it.
    ///
    /// - Returns: Whether it did.
    func refuses(_ connection: Socket) -> Bool {
        guard let fault = state.withLock({ $0.isNextRefused ? $0.takeFault() : nil }) else { return false }
        if let pause = beginPause(fault.delay) { end(pause) }
        report(nil, .closed, fault: fault)
        connection.resetWhenClosed()
        return true
    }

    /// Ends a request whose fault is that it isn't read to its end.
    ///
    /// - Returns: What is to be sent, namely nothing; `nil`: it is to be read.
    func broken(
        _ head: RequestReader.Head, _ fault: LocalDataPlane.AppliedFault?, reading reader: inout RequestReader,
        on connection: Socket
    ) -> Answer? {
        guard let fault, fault.endsBeforeTheBody else { return nil }
        if case .cut(.inBody, _) = fault.fault {
            if head.expectsContinue { _ = connection.transmit(Array("HTTP/1.1 100 Continue\r\n\r\n".utf8)) }
            reader.readPart(head.framing)
        }
        if let pause = beginPause(fault.delay) { end(pause) }
        var request = head.request
        request.fault = fault
        report(request, .closed, fault: fault)
        return Answer(request: request, reply: .closed, isLast: true, fault: fault)
    }
}

extension LocalDataPlane.AppliedFault {
    fileprivate var endsBeforeTheBody: Bool {
        switch fault {
        case .refused, .cut(.beforeReading, _), .cut(.inBody, _): true
        default: false
        }
    }
}

// MARK: - The answer

extension LocalDataPlane.AppliedFault {
    /// What is answered in place of the true answer.
    func reply(to reply: LocalDataPlane.Reply, at milliseconds: Int64) -> LocalDataPlane.Reply {
        switch fault {
        case .cut: .closed
        case .status(let answer): answer.reply(at: milliseconds)
        case .page(let text): .status(200, text, headers: ["Content-Type": "text/html; charset=utf-8"])
        case .redirect(let status, let location): .status(status, headers: ["Location": location])
        case .garbage(let text): .status(502, text)
        case nil, .refused, .trickled, .truncated, .length, .chunked, .closing: reply
        }
    }
}

extension FaultScript.Answer {
    fileprivate func reply(at milliseconds: Int64) -> LocalDataPlane.Reply {
        var reply = LocalDataPlane.Reply.status(status, body)
        for header in headers { reply.headers.append(header.name, header.value) }
        switch retryAfter {
        case nil: break
        case .seconds(let seconds): reply.headers.append("Retry-After", "\(seconds)")
        case .date(let duration):
            let (date, overflows) = milliseconds.addingReportingOverflow(duration.wholeMilliseconds)
            reply.headers.append("Retry-After", httpDate(overflows ? .max : date))
        }
        return reply
    }
}

extension LocalDataPlane.Server {
    /// Sends an answer as its fault wants it.
    ///
    /// - Returns: Whether another request can follow.
    func send(_ answer: Answer, spoiltBy fault: FaultScript.Fault, on connection: Socket) -> Bool {
        let body = Array(answer.reply.body.utf8)
        func message(isLast: Bool = answer.isLast) -> [UInt8] {
            answer.reply.message(to: answer.request, isLast: isLast)
        }
        switch fault {
        case .garbage(let text):
            _ = connection.transmit(Array(text.utf8))
        case .trickled(let pause):
            return trickle(message(), pause, on: connection) && !answer.isLast
        case .truncated:
            // Half a body or, where there is none, half a head.
            let rest = body.isEmpty ? message().count / 2 : (body.count + 1) / 2
            _ = connection.transmit(message(isLast: false).dropLast(rest))
        case .length(let length):
            _ = connection.transmit(answer.reply.head(framing: .length(length), isLast: false) + body)
        case .chunked:
            let chunks = body.flatMap { Array("1\r\n".utf8) + [$0] + Array("\r\n".utf8) } + Array("0\r\n\r\n".utf8)
            let head = answer.reply.head(framing: .chunked, isLast: answer.isLast)
            return connection.transmit(head + chunks) && !answer.isLast
        case .closing:
            _ = connection.transmit(message(isLast: false))
        case .refused, .cut, .status, .page, .redirect:
            return connection.transmit(message()) && !answer.isLast
        }
        return false
    }

    private func trickle(_ bytes: [UInt8], _ pause: Duration, on connection: Socket) -> Bool {
        for byte in bytes {
            guard connection.transmit([byte]) else { return false }
            guard let pause = beginPause(pause) else { continue }
            guard end(pause) else { return false }
        }
        return true
    }
}

// MARK: - Waiting

extension LocalDataPlane.Server {
    /// A thread's wait, by the time source.
    struct Pause {
        fileprivate let id: Int
        fileprivate let semaphore: DispatchSemaphore
        fileprivate let timer: CancellationToken
    }

    /// Sets the timer of a wait; `nil` if there is nothing to wait for.
    func beginPause(_ duration: Duration) -> Pause? {
        guard duration > .zero else { return nil }
        let semaphore = DispatchSemaphore(value: 0)
        let id = state.withLock { state in
            let id = state.nextId()
            state.storing[id] = semaphore
            if state.isStopped { semaphore.signal() }
            return id
        }
        return Pause(id: id, semaphore: semaphore, timer: timeSource.schedule(after: duration) { semaphore.signal() })
    }

    /// Waits until the time has passed or the server stops.
    ///
    /// - Returns: Whether it goes on.
    @discardableResult
    func end(_ pause: Pause) -> Bool {
        pause.semaphore.wait()
        pause.timer.cancel()
        return state.withLock { state in
            state.storing[pause.id] = nil
            return !state.isStopped
        }
    }
}

// MARK: - Dates

/// An instant as `Tue, 25 Feb 2025 06:06:37 GMT` (RFC 9110 §5.6.7), rounded up to a second.
func httpDate(_ milliseconds: Int64) -> String {
    let (sum, overflows) = milliseconds.addingReportingOverflow(999)
    let text = timestampText(overflows ? .max : sum)  // 2025-02-25T06:06:37.999Z
    let parts = text.split { !$0.isNumber }.map(String.init)
    guard parts.count >= 6, let month = Int(parts[1]), (1...12).contains(month) else { return text }
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    let days = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]  // 1970 began on a Thursday
    let seconds = (overflows ? .max : sum) / 1_000
    let day = days[Int(((seconds >= 0 ? seconds : seconds - 86_399) / 86_400 % 7 + 7) % 7)]
    return "\(day), \(parts[2]) \(months[month - 1]) \(parts[0]) \(parts[3]):\(parts[4]):\(parts[5]) GMT"
}
