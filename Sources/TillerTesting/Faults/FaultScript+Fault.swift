extension FaultScript {
    /// What is done to a request.
    public enum Fault: Sendable, Hashable {
        /// The connection is reset as soon as it is made. The connection of the request before closes with its answer, so
        /// that there is one to be made; a request on another that is open already is reset before its body is read.
        case refused
        /// The connection closes without an answer; as a reset, or in order.
        case cut(Point, isReset: Bool = false)
        /// An answer other than the true one.
        case status(Answer)
        /// 200 and an HTML page, as of a network that wants a log-in first. Nothing is stored.
        case page(String = Fault.logInPage)
        /// A redirect to a path or a URL, with this status. Nothing is stored.
        case redirect(Int, location: String)
        /// Bytes that are no HTTP, then the connection closes. Nothing is stored.
        case garbage(String = Fault.anotherProtocol)
        /// The true answer byte by byte, with a pause after each, by the data plane's time source.
        case trickled(pause: Duration = .zero)
        /// The true answer, which ends in the middle of its body.
        case truncated
        /// The true answer with a `Content-Length` that need not be right; then the connection closes.
        case length(Int)
        /// The true answer in chunks of one byte.
        case chunked
        /// The true answer, and then the connection closes without having said so.
        case closing

        /// The page if no other is given.
        public static let logInPage = "<!DOCTYPE html>\n<html><body>Please log in</body></html>\n"
        /// The garbage if no other is given.
        public static let anotherProtocol = "220 mail.example ESMTP\r\n"
    }

    /// Where the connection ends.
    public enum Point: String, Sendable, Hashable, CaseIterable {
        /// After the request's head, before its body is read.
        case beforeReading = "before-reading"
        /// When half of the body is read, or the first of it where its length is not known.
        case inBody = "in-body"
        /// When the request is read and judged. Nothing is stored.
        case beforeStoring = "before-storing"
        /// When its events are stored, if they deserve it: the answer is lost.
        case afterStoring = "after-storing"
    }

    /// An answer other than the true one.
    public struct Answer: Sendable, Hashable {
        /// Three digits.
        public var status: Int
        /// The text, sent as UTF-8.
        public var body: String
        /// Header fields, sent as they are, beside the framing's own.
        public var headers: [HeaderField]
        /// The header `Retry-After`, in one of its forms; `nil` for none.
        public var retryAfter: RetryAfter?
        /// Whether the events are stored all the same, if they deserve it.
        public var isStored: Bool

        /// An answer.
        ///
        /// - Parameters:
        ///   - status: Three digits.
        ///   - body: The text; none by default.
        ///   - headers: Header fields beside the framing's own; none by default.
        ///   - retryAfter: The header of this name; none by default.
        ///   - isStored: Whether the events are stored all the same; false by default.
        public init(
            _ status: Int, _ body: String = "", headers: [HeaderField] = [], retryAfter: RetryAfter? = nil,
            isStored: Bool = false
        ) {
            self.status = status
            self.body = body
            self.headers = headers
            self.retryAfter = retryAfter
            self.isStored = isStored
        }
    }

    /// A header field.
    public struct HeaderField: Sendable, Hashable {
        /// The name.
        public var name: String
        /// The value.
        public var value: String

        /// A field.
        ///
        /// - Parameters:
        ///   - name: The name.
        ///   - value: The value.
        public init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    /// The header `Retry-After` (RFC 9110 §10.2.3).
    public enum RetryAfter: Sendable, Hashable {
        /// As a number of seconds.
        case seconds(Int)
        /// As a date so much after the answer, by the data plane's wall clock, rounded up to a second.
        case date(after: Duration)
    }
}

// MARK: - What it does to the events

extension FaultScript.Fault {
    /// An answer other than the true one: `.status(.init(…))`, shorter.
    ///
    /// - Parameters:
    ///   - status: Three digits.
    ///   - body: The text; none by default.
    ///   - retryAfter: The header of this name; none by default.
    public static func status(_ status: Int, _ body: String = "", retryAfter: FaultScript.RetryAfter? = nil) -> Self {
        .status(FaultScript.Answer(status, body, retryAfter: retryAfter))
    }

    /// Whether the events of a request that deserves it are stored.
    public var storesEvents: Bool {
        switch self {
        case .refused, .page, .redirect, .garbage: false
        case .cut(let point, _): point == .afterStoring
        case .status(let answer): answer.isStored
        case .trickled, .truncated, .length, .chunked, .closing: true
        }
    }

    /// Whether events are stored and the client can't know it: it is right to send them again.
    ///
    /// - Parameter answer: The true answer's body, which a wrong `Content-Length` may exceed.
    public func hidesStoring(ofAnswer answer: String = "ok") -> Bool {
        guard storesEvents else { return false }
        return switch self {
        case .cut, .truncated: true
        case .status(let answer): !(200..<300).contains(answer.status)
        case .length(let length): length > answer.utf8.count
        default: false
        }
    }
}
