public import Tiller

extension LocalDataPlane {
    /// An event as it was sent.
    ///
    /// Nothing is added that the gateway would add (`rudderId`, `receivedAt`,
    /// `request_ip`) and nothing changed, but for what JSON leaves open: of
    /// equal keys the first is here.
    public struct ReceivedEvent: Sendable {
        /// All of it.
        public let json: JSONObject
        /// The write key of its request.
        public let writeKey: String
        /// The `AnonymousId` header of its request.
        public let anonymousIdHeader: String?

        /// The value of `type`, if it is a string.
        public var type: String? { json["type"]?.string }
        /// The call that made it, if `type` names one.
        public var kind: EventKind? { type.flatMap(EventKind.init(rawValue:)) }
        /// The value of `event`, if it is a string: the name of a track event or screen.
        public var name: String? { json["event"]?.string }
        /// The value of `messageId`, if it is a string.
        public var messageId: String? { json["messageId"]?.string }
        /// The value of `userId`, if it is a string.
        public var userId: String? { json["userId"]?.string }
        /// The value of `anonymousId`, if it is a string.
        public var anonymousId: String? { json["anonymousId"]?.string }
        /// The value of `properties`; empty if there is none or it is no object.
        public var properties: JSONObject { json["properties"]?.object ?? [:] }
        /// The value of `context`; empty if there is none or it is no object.
        public var context: JSONObject { json["context"]?.object ?? [:] }
        /// The value of `context.sessionId`, if it is a whole number; `nil` outside of sessions.
        public var sessionId: UInt64? { context["sessionId"]?.uint }
        /// Whether `context.sessionStart` is `true`, as on a session's first event only.
        public var isSessionStart: Bool { context["sessionStart"]?.bool == true }
    }

    /// A request that was read.
    public struct Request: Sendable {
        /// The method as it was sent, such as `"POST"`.
        public let method: String
        /// The path as it was sent, without the query.
        public let path: String
        /// The header fields, trailers not included.
        public let headers: Headers
        /// The body's bytes, put together if it came in chunks.
        public internal(set) var body: [UInt8] = []
    }

    /// Header fields; names are compared without regard to case.
    public struct Headers: Sendable, ExpressibleByDictionaryLiteral {
        /// Names and values as they were written, in order, repeated names included.
        public private(set) var fields: [(name: String, value: String)]

        /// Fields from a literal, in its order.
        public init(dictionaryLiteral elements: (String, String)...) { fields = elements.map { ($0, $1) } }

        /// The first value under a name.
        ///
        /// Setting replaces all values under the name; `nil` removes them.
        public subscript(name: String) -> String? {
            get { values(of: name).first }
            set {
                fields.removeAll { $0.name.lowercased() == name.lowercased() }
                if let newValue { append(name, newValue) }
            }
        }

        func values(of name: String) -> [String] {
            let name = name.lowercased()
            return fields.filter { $0.name.lowercased() == name }.map(\.value)
        }

        mutating func append(_ name: String, _ value: String) { fields.append((name, value)) }
    }

    /// An answer of the server, for `answerNext(_:)`.
    ///
    /// ```swift
    /// .status(429, "max requests limit reached\n", headers: ["Retry-After": "5"])
    /// .ok.held()    // accepted at once, answered after `releaseHeld()`
    /// .ok.lost()    // accepted, but the client never hears of it
    /// .closed       // nothing accepted, no answer
    /// ```
    public struct Reply: Sendable {
        /// The HTTP status, three digits. With 200 the batch's events are accepted, with any other none.
        public var status: Int
        /// The body, sent as UTF-8. The gateway's error texts end in a line end, its `ok` doesn't.
        public var body: String
        /// Header fields to be sent beside the framing's own, `Content-Length`
        /// and `Connection`. A body without a `Content-Type` among them gets
        /// `text/plain; charset=utf-8`.
        public var headers: Headers
        var isHeld = false
        var isLost = false

        /// The gateway's answer to an accepted batch: 200 and the two bytes `ok`.
        public static let ok = Reply.status(200, "ok")

        /// No answer and nothing accepted: the connection closes once the request has been read.
        public static let closed = Reply.status(503).lost()

        /// An answer with a status.
        ///
        /// - Parameters:
        ///   - status: Three digits.
        ///   - body: The text; none by default.
        ///   - headers: Fields beside the framing's own.
        public static func status(_ status: Int, _ body: String = "", headers: Headers = [:]) -> Reply {
            Reply(status: status, body: body, headers: headers)
        }

        /// This answer, sent only after `releaseHeld()`; never if the server stops before.
        ///
        /// What is accepted is accepted before the wait.
        public func held() -> Reply {
            var reply = self
            reply.isHeld = true
            return reply
        }

        /// This answer on its way lost: the connection closes instead. What is accepted stays accepted.
        public func lost() -> Reply {
            var reply = self
            reply.isLost = true
            return reply
        }
    }
}
