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
        let words = (id.high.hexDigits, id.low.hexDigits)
        write(count: 36) { text in
            func put<Digits: FixedWidthInteger>(_ digits: UInt64, at place: Int, as type: Digits.Type) {
                let digits = Digits(truncatingIfNeeded: digits)
                UnsafeMutableRawPointer(text).storeBytes(of: digits.littleEndian, toByteOffset: place, as: type)
            }
            put(words.0.high, at: 0, as: UInt64.self)
            put(words.0.low, at: 9, as: UInt32.self)
            put(words.0.low >> 32, at: 14, as: UInt32.self)
            put(words.1.high, at: 19, as: UInt32.self)
            put(words.1.high >> 32, at: 24, as: UInt32.self)
            put(words.1.low, at: 28, as: UInt64.self)
            text[8] = UInt8(ascii: "-")
            text[13] = UInt8(ascii: "-")
            text[18] = UInt8(ascii: "-")
            text[23] = UInt8(ascii: "-")
        }
    }
}
