/// The id of an event: a random UUID (version 4).
public struct MessageID: Sendable, Hashable, CustomStringConvertible {
    let high: UInt64
    let low: UInt64

    static let zero = MessageID(high: 0, low: 0)

    /// 36 characters, lower case, with hyphens.
    public var description: String {
        var writer = JSONWriter()
        writer.write(self)
        return writer.text
    }
}

extension JSONWriter {
    /// The id's text, without quotes.
    mutating func write(_ id: MessageID) {
        write(count: 36) { text in
            var place = 0
            for index in 0..<16 {
                if index == 4 || index == 6 || index == 8 || index == 10 {
                    text[place] = UInt8(ascii: "-")
                    place += 1
                }
                let word = index < 8 ? id.high : id.low
                let byte = UInt8(truncatingIfNeeded: word >> UInt64(56 - 8 * (index % 8)))
                text[place] = Self.hexDigit(byte >> 4)
                text[place + 1] = Self.hexDigit(byte & 15)
                place += 2
            }
        }
    }
}
