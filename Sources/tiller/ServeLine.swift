import Tiller
import TillerTesting

/// One line for people about what reached `tiller serve`.
enum ServeLine {
    private static let maximumFieldLength = 120

    /// Time (UTC), kind, name, session, user.
    static func event(_ event: LocalDataPlane.ReceivedEvent, at milliseconds: Int64) -> String {
        let stored = event.stored
        let kind = shown(stored["type"]) ?? "-"
        let name = shown(stored["event"]) ?? shown(stored["name"]) ?? shown(stored["groupId"]) ?? "-"
        return [
            time(milliseconds), kind + String(repeating: " ", count: max(0, 8 - kind.count)), name,
            session(of: stored["context"]?.object), user(of: stored),
        ].joined(separator: "  ")
    }

    /// Time (UTC), status, reason, request.
    static func refusal(_ exchange: LocalDataPlane.Exchange) -> String {
        let request = exchange.request.map { scrubbed("\($0.method) \($0.path)") } ?? "no HTTP request"
        let reason = scrubbed(String(exchange.reply.body.prefix { $0 != "\n" }))
        return [time(exchange.milliseconds), "refused \(exchange.reply.status)", reason, request]
            .filter { !$0.isEmpty }.joined(separator: "  ")
    }

    /// Time (UTC), the request's number, what was done to it, whether its events were stored.
    static func fault(_ exchange: LocalDataPlane.Exchange) -> String {
        let fault = exchange.fault.map { "fault \($0.number)  " + scrubbed($0.description) } ?? ""
        let count = exchange.events.count
        return [time(exchange.milliseconds), fault, count == 0 ? "nothing stored" : "\(count) stored"]
            .joined(separator: "  ")
    }

    private static func session(of context: JSONObject?) -> String {
        guard let id = shown(context?["sessionId"]) else { return "no session" }
        return "session \(id)" + (context?["sessionStart"]?.bool == true ? " start" : "")
    }

    private static func user(of event: JSONObject) -> String {
        if let user = shown(event["userId"]) { return "user \(user)" }
        return shown(event["anonymousId"]).map { "anonymous \($0)" } ?? "nobody"
    }

    /// `nil` for what shows nothing.
    private static func shown(_ value: JSONValue?) -> String? {
        guard let value, value != .null else { return nil }
        let text = scrubbed(value.string ?? value.description)
        return text.isEmpty ? nil : text
    }

    /// `12:00:05.123Z` of the day.
    private static func time(_ milliseconds: Int64) -> String {
        String(timestampText(milliseconds).drop { $0 != "T" }.dropFirst())
    }

    /// A terminal obeys control characters, and marks of direction turn a line around: neither is for a sender to decide.
    private static func scrubbed(_ text: String) -> String {
        harmless(String(text.unicodeScalars.prefix(maximumFieldLength)))
            + (text.unicodeScalars.count > maximumFieldLength ? "…" : "")
    }

    /// The text, with something visible in the place of what a terminal would obey.
    static func harmless(_ text: String) -> String {
        String(String.UnicodeScalarView(text.unicodeScalars.map { isHarmless($0) ? $0 : "\u{FFFD}" }))
    }

    private static func isHarmless(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .lineSeparator, .paragraphSeparator: false
        default: !scalar.properties.isBidiControl
        }
    }
}
