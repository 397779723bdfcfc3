import Foundation
import Tiller

extension LocalDataPlane {
    /// How the gateway judges a request: statuses, texts and the order of the checks, as observed on
    /// RudderStack's open-source server 1.83.
    struct GatewayRules: Sendable {
        /// In bytes; as many pass, one more doesn't.
        static let maximumBatchSize = 4_096_000

        /// The keys that are known; `nil` for all.
        let writeKeys: Set<String>?

        /// Where a request leads by its head.
        enum Route {
            case health
            case batch(writeKey: String)
            case refused(Reply)
        }

        /// The answer to a request, and what is stored of it.
        struct Verdict {
            let reply: Reply
            var events: [ReceivedEvent] = []
        }

        /// What the head alone decides. The body may be missing yet.
        func route(_ request: Request) -> Route {
            let methods = ["/health": "GET", "/v1/batch": "POST"]
            guard let method = methods[request.path] else { return .refused(.notFound) }
            guard request.method == method else { return .refused(.status(405, headers: ["Allow": method])) }
            if request.path == "/health" { return .health }
            guard let key = writeKey(of: request), !key.isEmpty else { return .refused(.noWriteKey) }
            if let writeKeys, !writeKeys.contains(key) { return .refused(.unknownWriteKey) }
            return .batch(writeKey: key)
        }

        /// Whether scripted answers are meant for it.
        func isBatch(_ request: Request) -> Bool { request.method == "POST" && request.path == "/v1/batch" }

        /// Judges a request that was read whole.
        func verdict(on request: Request, route: Route) -> Verdict {
            switch route {
            case .refused(let reply): return Verdict(reply: reply)
            case .health: return Verdict(reply: .healthy)
            case .batch(let writeKey):
                do {
                    let events = try batch(in: plainBody(of: request))
                    let anonymousId = request.headers["AnonymousId"]
                    return Verdict(
                        reply: .ok,
                        events: events.map {
                            ReceivedEvent(json: $0, writeKey: writeKey, anonymousIdHeader: anonymousId)
                        })
                } catch {
                    return Verdict(reply: error.reply)
                }
            }
        }
    }
}

// MARK: - The steps

extension LocalDataPlane.GatewayRules {
    private struct Refusal: Error {
        let reply: LocalDataPlane.Reply
    }

    /// The user of the Basic scheme; its password is ignored.
    private func writeKey(of request: LocalDataPlane.Request) -> String? {
        let scheme = "basic "
        guard let value = request.headers["Authorization"], value.prefix(scheme.count).lowercased() == scheme,
            let credentials = Data(base64Encoded: String(value.dropFirst(scheme.count))),
            let colon = credentials.firstIndex(of: UInt8(ascii: ":"))
        else { return nil }
        return String(decoding: credentials[..<colon], as: UTF8.self)
    }

    private func plainBody(of request: LocalDataPlane.Request) throws(Refusal) -> [UInt8] {
        guard request.headers["Content-Encoding"] == "gzip", !request.body.isEmpty else { return request.body }
        do {
            return try Gzip.inflate(request.body, limit: LocalDataPlane.RequestReader.maximumBodySize)
        } catch {
            throw Refusal(reply: .unreadableBody)
        }
    }

    /// All or nothing: the events of a body, or the first fault in the gateway's order.
    private func batch(in body: [UInt8]) throws(Refusal) -> [JSONObject] {
        guard let document = try? JSONValue(parsing: body) else { throw Refusal(reply: .invalidJSON) }
        var events: [JSONObject] = []
        for element in elements(of: document["batch"]) {
            guard let event = element.object else { throw Refusal(reply: .invalidEvent) }
            guard hasIdentity(event) else { throw Refusal(reply: .noIdentity) }
            events.append(event)
        }
        if body.count > Self.maximumBatchSize { throw Refusal(reply: .tooLarge) }
        if events.isEmpty { throw Refusal(reply: .emptyBatch) }
        return events
    }

    /// Anything but a list counts as a list of one, as at the gateway.
    private func elements(of batch: JSONValue?) -> [JSONValue] {
        switch batch {
        case nil, .null: []
        case .array(let elements): elements
        case .some(let value): [value]
        }
    }

    private func hasIdentity(_ event: JSONObject) -> Bool {
        if let type = event["type"]?.string, ["extract", "record"].contains(type) { return true }
        return isIdentity(event["userId"]) || isIdentity(event["anonymousId"])
    }

    /// A text that shows something, or any other value but `null`.
    private func isIdentity(_ value: JSONValue?) -> Bool {
        switch value {
        case nil, .null: false
        case .string(let text): text.unicodeScalars.contains { !$0.isInvisible }
        default: true
        }
    }
}

// MARK: - The texts

extension LocalDataPlane.Reply {
    static let healthy = status(
        200, #"{"server":"UP"}"#, headers: ["Content-Type": "application/json; charset=utf-8"])

    static let invalidJSON = refusal(400, "invalid json\n")
    static let emptyBatch = refusal(400, "empty batch payload\n")
    static let invalidEvent = refusal(400, "event is not a valid rudder event\n")
    static let noIdentity = refusal(400, "request neither has anonymousId nor userId\n")
    static let noWriteKey = refusal(401, "failed to read writekey from header\n")
    static let unknownWriteKey = refusal(401, "invalid write key\n")
    static let notFound = refusal(404, "404 page not found\n")
    static let tooLarge = refusal(413, "request size exceeds max limit\n")
    static let unreadableBody = refusal(500, "failed to read body from request\n")

    private static func refusal(_ status: Int, _ text: String) -> Self {
        .status(status, text, headers: ["X-Content-Type-Options": "nosniff"])
    }
}
