/// What an answer of the data plane, or that there was none, means for the events of the request.
struct DataPlaneAnswer: Sendable, Hashable {
    enum Meaning: Sendable, Hashable, CaseIterable {
        /// The events are the data plane's now.
        case accepted
        /// There was no answer, or one that is not HTTP's.
        case missing
        /// Not now (408, 425, 429).
        case busy
        /// The server has a trouble of its own (5xx).
        case serverError
        /// The body did not arrive whole, or could not be inflated (500 with the gateway's text).
        case unreadable
        /// Something in the request is wrong (400, 422).
        case refused
        /// 413.
        case tooLarge
        /// Another key, URL or server is needed (401, other 3xx and 4xx, a page in place of an answer).
        case misconfigured
    }

    let meaning: Meaning
    /// There was no answer because the server's certificate was not accepted.
    private(set) var isCertificateFailure = false
    /// For people.
    let text: String
    /// For the retry headers, and what counts as the same trouble.
    let reason: String
    /// How long the server wants to be left alone; an hour at most.
    var retryAfter: Duration?

    /// An answer.
    ///
    /// - Parameter wallMilliseconds: For a `Retry-After` with a date.
    init(_ response: TransportResponse, wallMilliseconds: Int64) {
        let status = response.status
        meaning = Self.meaning(of: response)
        let isPage = (200..<300).contains(status) && meaning != .accepted
        reason = isPage || !(100...599).contains(status) ? "client-unknown" : "server-\(status)"
        text =
            isPage
            ? "something else than a data plane answered \(status), with a page"
            : Self.text(of: response)
        if let value = response.header("Retry-After") {
            retryAfter = RetryAfter.delay(
                value, date: response.header("Date"), wallMilliseconds: wallMilliseconds)
        }
    }

    /// No answer.
    init(noAnswer error: any Error) {
        meaning = .missing
        text = "no answer: \(error)"
        let kind = (error as? URLSessionTransport.NoAnswer)?.kind
        reason = kind == .timeout ? "client-timeout" : "client-network"
        isCertificateFailure = kind == .certificate
    }

    private static func meaning(of response: TransportResponse) -> Meaning {
        switch response.status {
        case 200..<300: response.isPage ? .misconfigured : .accepted
        case 400, 422: .refused
        case 413: .tooLarge
        case 408, 425, 429: .busy
        case 500 where response.firstLine == "failed to read body from request": .unreadable
        case 500..<600: .serverError
        case 300..<500: .misconfigured
        default: .missing
        }
    }

    /// What the gateway says. Other answers are not repeated: a server may echo what it was sent.
    private static let knownAnswers: Set = [
        "invalid write key", "failed to read writekey from header", "source is disabled", "404 page not found",
        "invalid json", "empty batch payload", "event is not a valid rudder event",
        "request neither has anonymousId nor userId", "request size exceeds max limit", "max requests limit reached",
        "failed to read body from request", "gateway timeout", "Service Unavailable",
    ]

    private static func text(of response: TransportResponse) -> String {
        let line = response.firstLine
        let answer =
            "the data plane answered \(response.status)" + (knownAnswers.contains(line) ? " \(line)" : "")
        switch (response.status, line) {
        case (401, _): return answer + "; the write key is not known there"
        case (404, "source is disabled"): return answer + "; it is switched off at RudderStack"
        case (404, _): return answer + "; the data plane's URL may be wrong"
        case (300..<400, _): return answer + ", a redirect, which is not followed; the data plane's URL may be wrong"
        default: return answer
        }
    }
}

extension TransportResponse {
    /// Of the body, 100 bytes at most.
    fileprivate var firstLine: String {
        String(decoding: body.prefix { $0 != UInt8(ascii: "\n") }.prefix(100), as: UTF8.self)
    }

    /// A hotel's log-in page is no acknowledgement.
    fileprivate var isPage: Bool {
        let text = body.starts(with: [0xEF, 0xBB, 0xBF]) ? body.dropFirst(3) : body[...]
        guard let first = text.first(where: { $0 > 0x20 }) else { return false }
        let type = header("Content-Type")?.lowercased() ?? ""
        return first == UInt8(ascii: "<") || type.hasPrefix("text/html") || type.hasPrefix("application/xhtml")
    }
}
