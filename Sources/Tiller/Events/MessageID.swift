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
        for index in 0..<16 {
            if index == 4 || index == 6 || index == 8 || index == 10 { bytes.append(UInt8(ascii: "-")) }
            let word = index < 8 ? id.high : id.low
            writeHex(UInt8(truncatingIfNeeded: word >> UInt64(56 - 8 * (index % 8))))
        }
    }
}
