import Foundation
import Tiller

/// Makes of an event what the gateway stores of it.
struct EventKeeper {
    /// The route's name on a single-event route, which overwrites the event's type.
    let type: String?
    let receivedAt: String
    /// Of the request, or of the event before: one that names its address names it for the rest of the batch too.
    var address: String

    /// The event as it is stored.
    mutating func stored(_ event: JSONObject) -> JSONObject {
        var stored = event
        if let type { stored["type"] = .string(type) }
        stored["rudderId"] = .string(Self.rudderId(of: event))
        if stored["receivedAt"] == nil { stored["receivedAt"] = .string(receivedAt) }
        switch stored["request_ip"] {
        case nil: stored["request_ip"] = .string(address)
        case .string(let own): address = own
        default: break
        }
        let id = event["messageId"]?.string?.cleaned ?? ""
        stored["messageId"] = .string(id.isEmpty ? UUID().uuidString.lowercased() : id)
        return stored
    }

    /// The MD5 of both ids, as a UUID of version 4.
    static func rudderId(of event: JSONObject) -> String {
        let text = identity(event["userId"]) + ":" + identity(event["anonymousId"])
        var bytes = MD5.digest(of: Array(text.utf8))
        bytes[6] = bytes[6] & 0x0F | 0x40
        bytes[8] = bytes[8] & 0x3F | 0x80
        let digits = Array(bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined())
        let groups = [0..<8, 8..<12, 12..<16, 16..<20, 20..<32]
        return groups.map { String(digits[$0]) }.joined(separator: "-")
    }

    /// An id as it is compared: a text cleaned, any other value as its JSON text, nothing for none.
    static func identity(_ value: JSONValue?) -> String {
        switch value {
        case nil, .null: return ""
        case .string(let text): return text.cleaned
        case .some(let value):
            var writer = StoredJSONWriter()
            writer.write(value)
            return String(decoding: writer.bytes, as: UTF8.self)
        }
    }
}

extension String {
    /// The text without what is invisible, and without blanks at its ends.
    var cleaned: String {
        let visible = unicodeScalars.filter { $0.properties.isWhitespace || !$0.isInvisible }
        return String(String.UnicodeScalarView(visible)).trimmingCharacters(in: .whitespacesAndNewlines)
    }
}
