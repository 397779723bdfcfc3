import Foundation
import Tiller

extension LocalDataPlane {
    /// How the gateway judges a request: statuses, texts and the order of the checks, as observed on
    /// RudderStack's open-source server 1.83.
    struct Gateway: Sendable {
        let rules: Rules

        /// Where a request leads by its head.
        enum Route {
            /// Always the same answer.
            case fixed(Reply)
            /// What has arrived, as JSON.
            case receivedEvents
            case ingest(Ingest)
            case refused(Reply)
        }

        /// What the head of a request with events says.
        struct Ingest {
            let writeKey: String
            /// `nil` for a batch; else the route's name, which is the type of its one event.
            let type: String?
        }

        private static let fixed: [String: Reply] = ["/": .healthy, "/health": .healthy, "/version": .version]
        private static let singleEventPaths = Dictionary(
            uniqueKeysWithValues: ["identify", "track", "page", "screen", "group", "alias", "merge"]
                .map { ("/v1/" + $0, $0) })

        /// What the head alone decides. The body may be missing yet.
        func route(_ request: Request) -> Route {
            if isPreflight(request) { return .fixed(.preflight(request)) }
            let isIngest = request.path == "/v1/batch" || Self.singleEventPaths[request.path] != nil
            let isOwn = request.path == "/tiller/events"
            guard isIngest || isOwn || Self.fixed[request.path] != nil else { return .refused(.notFound) }
            let method = isIngest ? "POST" : "GET"
            guard request.method == method else { return .refused(.wrongMethod(allowed: method)) }
            if let reply = Self.fixed[request.path] { return .fixed(reply) }
            if isOwn { return isFromThisMachine(request) ? .receivedEvents : .refused(.foreignHost) }
            guard let key = writeKey(of: request), !key.isEmpty else { return .refused(.noWriteKey) }
            if rules.disabledWriteKeys.contains(key) { return .refused(.disabledSource) }
            if let known = rules.writeKeys, !known.contains(key) { return .refused(.unknownWriteKey) }
            return .ingest(Ingest(writeKey: key, type: Self.singleEventPaths[request.path]))
        }

        /// A browser's question whether it may send. Own routes are not for pages of other origins.
        func isPreflight(_ request: Request) -> Bool {
            request.method == "OPTIONS" && request.headers["Access-Control-Request-Method"]?.isEmpty == false
                && !isOwnPath(request)
        }

        /// Whether scripted answers are meant for it.
        func isBatch(_ request: Request) -> Bool { request.method == "POST" && request.path == "/v1/batch" }

        func isOwnPath(_ request: Request) -> Bool { request.path.hasPrefix("/tiller/") }

        /// A web site could let its own name lead to 127.0.0.1 and have its page read what developers record.
        private func isFromThisMachine(_ request: Request) -> Bool {
            guard let host = request.headers["Host"] else { return true }
            let name = host.lastIndex(of: ":").map { String(host[..<$0]) } ?? host
            return ["127.0.0.1", "localhost"].contains(name.lowercased())
        }

        /// The user of the Basic scheme; its password is ignored.
        private func writeKey(of request: Request) -> String? {
            let scheme = "basic "
            guard let value = request.headers["Authorization"], value.prefix(scheme.count).lowercased() == scheme,
                let credentials = Data(base64Encoded: String(value.dropFirst(scheme.count))),
                let colon = credentials.firstIndex(of: UInt8(ascii: ":"))
            else { return nil }
            return String(decoding: credentials[..<colon], as: UTF8.self)
        }
    }
}

// MARK: - Bodies

extension LocalDataPlane.Gateway {
    /// In bytes; as many pass, one more doesn't.
    static let maximumBatchSize = 4_096_000

    /// In bytes: how much a single event grows when it is wrapped into a batch, beside its type.
    private static let wrappingSize = 21

    // The hosted service's.
    private static let hostedEventSize = 32 * 1_024
    private static let hostedBatchSize = 4_000_000
    private static let hostedDepth = 200

    private struct Refusal: Error {
        let reply: LocalDataPlane.Reply
    }

    /// An event of a body that is being judged.
    private struct Candidate {
        let event: JSONObject
        let text: JSONScanner.Value
    }

    /// The answer to a request that was read whole, and what is stored of it.
    struct Verdict {
        let reply: LocalDataPlane.Reply
        var events: [LocalDataPlane.ReceivedEvent] = []
    }

    /// Judges a body.
    ///
    /// - Parameters:
    ///   - request: With its body.
    ///   - ingest: What its head said.
    ///   - milliseconds: When it was received, since 1970.
    func verdict(on request: LocalDataPlane.Request, _ ingest: Ingest, at milliseconds: Int64) -> Verdict {
        do {
            let candidates = try accepted(request.body, type: ingest.type)
            if case .failing(let text) = rules.storage, !candidates.isEmpty {
                return Verdict(reply: .storageError(text))
            }
            var keeper = EventKeeper(
                type: ingest.type, receivedAt: timestampText(milliseconds), address: address(of: request))
            let events = candidates.map { candidate in
                LocalDataPlane.ReceivedEvent(
                    sent: candidate.event, stored: keeper.stored(candidate.event), receivedMilliseconds: milliseconds,
                    writeKey: ingest.writeKey, anonymousIdHeader: request.headers["AnonymousId"])
            }
            return Verdict(reply: .ok, events: events)
        } catch {
            return Verdict(reply: error.reply)
        }
    }

    /// All or nothing: what is to be stored of a body, or the first fault in the gateway's order.
    private func accepted(_ body: [UInt8], type: String?) throws(Refusal) -> [Candidate] {
        let candidates = try candidates(in: body, type: type)
        if rules.isRateLimited { throw Refusal(reply: .rateLimited) }
        let wanted = candidates.filter { !isSuppressed($0.event) }
        if wanted.isEmpty, !candidates.isEmpty { return [] }
        if rules.isStrict { try checkHostedLimits(body, candidates) }
        let growth = type.flatMap { type in candidates.first.map { wrapping($0.event, type: type) } } ?? 0
        if body.count + growth > Self.maximumBatchSize { throw Refusal(reply: .tooLarge) }
        if candidates.isEmpty { throw Refusal(reply: .emptyBatch) }
        return wanted
    }

    private func candidates(in body: [UInt8], type: String?) throws(Refusal) -> [Candidate] {
        let values: [JSONScanner.Value]
        do {
            values = type == nil ? try JSONScanner.batch(in: body) : [try JSONScanner.value(in: body)]
        } catch {
            throw Refusal(reply: .invalidJSON)
        }
        var candidates: [Candidate] = []
        for value in values {
            guard value.kind == .object else {
                // A scalar on a single event's route has already been made an object by the type that is set in it.
                throw Refusal(reply: type == nil || value.kind == .array ? .invalidEvent : .noIdentity)
            }
            guard let event = event(body, value) else { throw Refusal(reply: .invalidJSON) }
            guard hasIdentity(event, type: type) else { throw Refusal(reply: .noIdentity) }
            candidates.append(Candidate(event: event, text: value))
        }
        return candidates
    }

    /// What the reader finds too deep is `null` in it.
    private func event(_ body: [UInt8], _ value: JSONScanner.Value) -> JSONObject? {
        var text: [UInt8] = []
        var position = value.range.lowerBound
        for range in value.tooDeep {
            text += body[position..<range.lowerBound]
            text += Array("null".utf8)
            position = range.upperBound
        }
        text += body[position..<value.range.upperBound]
        return (try? JSONValue(parsing: text))?.object
    }

    private func hasIdentity(_ event: JSONObject, type: String?) -> Bool {
        if let type = type ?? event["type"]?.string, ["extract", "record"].contains(type) { return true }
        return !EventKeeper.identity(event["userId"]).isEmpty || !EventKeeper.identity(event["anonymousId"]).isEmpty
    }

    private func isSuppressed(_ event: JSONObject) -> Bool {
        !rules.suppressedUserIds.isEmpty && rules.suppressedUserIds.contains(EventKeeper.identity(event["userId"]))
    }

    /// How many bytes longer the gateway's own batch of one event is.
    private func wrapping(_ event: JSONObject, type: String) -> Int {
        guard let own = event["type"] else { return Self.wrappingSize + #","type":"""#.utf8.count + type.utf8.count }
        return Self.wrappingSize + JSONValue.string(type).description.utf8.count - own.description.utf8.count
    }

    private func checkHostedLimits(_ body: [UInt8], _ candidates: [Candidate]) throws(Refusal) {
        func refuse(_ limit: String, _ size: Int, of what: String) throws(Refusal) {
            throw Refusal(reply: .hostedLimit("\(limit), \(what) has \(size)"))
        }
        if body.count > Self.hostedBatchSize {
            try refuse("a batch has at most \(Self.hostedBatchSize) bytes (4 MB)", body.count, of: "this one")
        }
        for (number, candidate) in candidates.enumerated() {
            let (size, depth) = (candidate.text.range.count, candidate.text.depth)
            if size > Self.hostedEventSize {
                let limit = "an event has at most \(Self.hostedEventSize) bytes (32 KB)"
                try refuse(limit, size, of: "event \(number + 1)")
            }
            if depth > Self.hostedDepth {
                let limit = "an event has at most \(Self.hostedDepth) levels of nesting"
                try refuse(limit, depth, of: "event \(number + 1)")
            }
        }
    }

    private func address(of request: LocalDataPlane.Request) -> String {
        let first = request.headers["X-Forwarded-For"]?.prefix { $0 != "," }.filter { $0 != " " }
        return first.map { $0.isEmpty ? "127.0.0.1" : String($0) } ?? "127.0.0.1"
    }
}
