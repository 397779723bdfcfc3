public import Foundation
public import Tiller

extension LocalDataPlane {
    /// An event that was accepted: as it was sent, and as the gateway stores it.
    public struct ReceivedEvent: Sendable {
        /// `nil` if only the stored form is kept.
        private let sent: JSONObject?
        /// `{"receivedAt":…,"writeKey":…,"event":…}`, the event as it is stored.
        let envelope: [UInt8]
        /// Where the event begins in the envelope.
        private let eventStart: Int
        private let receivedMilliseconds: Int64
        /// The write key of its request.
        public let writeKey: String
        /// The `AnonymousId` header of its request.
        public let anonymousIdHeader: String?
        /// What the script of `Rules.faults` did to its request; `nil` for nothing.
        public internal(set) var fault: AppliedFault?

        init(
            sent: JSONObject, stored: JSONObject, receivedMilliseconds: Int64, writeKey: String,
            anonymousIdHeader: String?
        ) {
            self.sent = sent
            self.receivedMilliseconds = receivedMilliseconds
            self.writeKey = writeKey
            self.anonymousIdHeader = anonymousIdHeader
            var writer = StoredJSONWriter()
            writer.raw(#"{"receivedAt":""# + timestampText(receivedMilliseconds) + #"","writeKey":"#)
            writer.write(writeKey)
            writer.raw(#","event":"#)
            eventStart = writer.bytes.count
            writer.write(stored)
            writer.raw("}")
            envelope = Array(writer.bytes[...])  // of its own size, not of the writer's capacity
        }

        private init(storedFormOf other: ReceivedEvent) {
            sent = nil
            envelope = other.envelope
            eventStart = other.eventStart
            receivedMilliseconds = other.receivedMilliseconds
            writeKey = other.writeKey
            anonymousIdHeader = other.anonymousIdHeader
            fault = other.fault
        }

        /// The event without the form in which it was sent.
        var withoutSentForm: ReceivedEvent { ReceivedEvent(storedFormOf: self) }

        /// All of it, as it was sent.
        ///
        /// Nothing is added that the gateway adds and nothing changed, but for
        /// what JSON leaves open (of equal keys the first is here; bytes that
        /// are no UTF-8 and half surrogate pairs are U+FFFD) and for nesting:
        /// what lies below 512 levels is `null`.
        public var json: JSONObject { sent ?? stored }

        /// The event as it is stored, as JSON text.
        package var storedText: String { String(decoding: envelope[eventStart...].dropLast(), as: UTF8.self) }

        /// All of it, as the gateway stores it. Read anew from its text at each call.
        ///
        /// - Numbers are those of 64-bit floats: 9007199254740993 is 9007199254740992 here, 1.0 is 1.
        /// - `rudderId` is set, whatever the event said.
        /// - `messageId` is cleaned, or made if it is missing, blank or no string.
        /// - `receivedAt` and `request_ip` are set if they are missing. An event that brings a `request_ip` brings it
        ///   for the later events of its batch as well.
        /// - `type` is the route's on the routes for single events.
        public var stored: JSONObject { (try? JSONValue(parsing: envelope[eventStart...].dropLast()))?.object ?? [:] }

        /// When the server received it, by its own wall clock to the millisecond, whatever the event says.
        public var receivedAt: Date { Date(timeIntervalSince1970: Double(receivedMilliseconds) / 1_000) }

        /// The value of `type`, if it is a string. This and all below are of the event as it was sent.
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
        /// The body's bytes, put together if it came in chunks, and inflated if an ingest route took it for gzip.
        public internal(set) var body: [UInt8] = []
        /// How many bytes the body had on the wire, before it was inflated; chunks' own framing not counted.
        public internal(set) var encodedBodySize = 0
        /// What the script of `Rules.faults` did to it; `nil` for nothing.
        public internal(set) var fault: AppliedFault?
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
        /// The HTTP status, three digits. With 200 the request's events are accepted, with any other none.
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
