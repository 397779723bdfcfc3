/// The events of a request's body, without reading it as JSON: there are many.
struct PostedEvents: Sendable {
    struct Event: Sendable {
        /// In the ledger; `nil`: it has none.
        let number: Int?
        /// The event's bytes without its end, which is different in each copy.
        let text: ArraySlice<UInt8>
        let sentAt: String
    }

    let events: [Event]

    /// Where a number stands in an event's bytes: between this and another `#`.
    private static let number = Array("\"\(Ledger.key)\":\"#".utf8)
    private static let sentAt = Array(",\"sentAt\":\"".utf8)

    init(in body: [UInt8]) {
        var events: [Event] = []
        var start = #"{"batch":["#.utf8.count
        while start < body.count, let stamp = Self.position(of: Self.sentAt, in: body, start..<body.count) {
            let value = body[(stamp + Self.sentAt.count)...].prefix { $0 != UInt8(ascii: "\"") }
            events.append(
                Event(
                    number: Self.number(in: body, start..<stamp), text: body[start..<stamp],
                    sentAt: String(decoding: value, as: UTF8.self)))
            start = value.endIndex + 3  // "},
        }
        self.events = events
    }

    var numbers: [Int] { events.compactMap(\.number) }

    /// The number that stands in some bytes.
    static func number(in bytes: [UInt8], _ range: Range<Int>) -> Int? {
        guard let start = position(of: number, in: bytes, range) else { return nil }
        let digits = bytes[(start + number.count)..<range.upperBound].prefix { $0 != UInt8(ascii: "#") }
        return Int(String(decoding: digits, as: UTF8.self))
    }

    private static func position(of pattern: [UInt8], in bytes: [UInt8], _ range: Range<Int>) -> Int? {
        bytes.withUnsafeBufferPointer { bytes in
            pattern.withUnsafeBufferPointer { pattern in
                let first = pattern[0]
                var index = range.lowerBound
                while index <= range.upperBound - pattern.count {
                    if bytes[index] == first {
                        var length = 1
                        while length < pattern.count, bytes[index + length] == pattern[length] { length += 1 }
                        if length == pattern.count { return index }
                    }
                    index += 1
                }
                return nil
            }
        }
    }
}
