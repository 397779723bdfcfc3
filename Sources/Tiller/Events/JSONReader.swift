import Foundation

extension JSONValue {
    /// Why a text is no JSON.
    public struct ParsingError: Error, Hashable, CustomStringConvertible {
        /// Where in the text, in bytes from its start.
        public let offset: Int
        /// What was wrong there.
        public let reason: String

        /// The reason and the place.
        public var description: String { "\(reason) at byte \(offset)" }
    }

    /// How deep a text may nest: what this SDK writes (`JSONWriter.maximumDepth`) always fits.
    static let maximumReadingDepth = 512

    /// Reads JSON text, strictly (RFC 8259).
    ///
    /// Keys keep their order, of equal keys the first wins. A whole number in
    /// the 64-bit range stays one; another number becomes a double if the
    /// double's own text has the same digits, else a decimal, so that what was
    /// read is written again without loss (up to the 38 digits that a decimal
    /// holds). Bytes that are not UTF-8, and surrogates without a partner,
    /// become U+FFFD.
    ///
    /// - Parameter bytes: The text in UTF-8, one value with optional blanks around it.
    /// - Throws: `ParsingError`, also for nesting deeper than 512 levels.
    public init(parsing bytes: some Sequence<UInt8>) throws(ParsingError) {
        var reader = JSONReader(bytes: Array(bytes))
        self = try reader.readDocument()
    }

    /// Reads JSON text, strictly; see `init(parsing:)` for bytes.
    ///
    /// - Parameter text: One value with optional blanks around it.
    /// - Throws: `ParsingError`.
    public init(parsing text: String) throws(ParsingError) {
        try self.init(parsing: text.utf8)
    }
}

/// A recursive reader over bytes; what it accepts is said at `JSONValue.init(parsing:)`.
private struct JSONReader {
    let bytes: [UInt8]
    var position = 0
    var depth = 0

    init(bytes: [UInt8]) { self.bytes = bytes }

    mutating func readDocument() throws(JSONValue.ParsingError) -> JSONValue {
        let value = try readValue()
        skipBlanks()
        guard position == bytes.count else { throw error("text after the value") }
        return value
    }

    private mutating func readValue() throws(JSONValue.ParsingError) -> JSONValue {
        // Apart from `readLeaf`, because what recurs should take little stack: secondary threads on Apple have 512 KB.
        skipBlanks()
        if peek == UInt8(ascii: "{") { return try readObject() }
        if peek == UInt8(ascii: "[") { return try readArray() }
        return try readLeaf()
    }

    private mutating func readLeaf() throws(JSONValue.ParsingError) -> JSONValue {
        switch peek {
        case UInt8(ascii: "\""): return .string(try readString())
        case UInt8(ascii: "t"): return try read("true", as: .bool(true))
        case UInt8(ascii: "f"): return try read("false", as: .bool(false))
        case UInt8(ascii: "n"): return try read("null", as: .null)
        case UInt8(ascii: "-"): return try readNumber()
        case nil: throw error("unexpected end")
        case let byte? where (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte): return try readNumber()
        default: throw error("unexpected character")
        }
    }

    private mutating func readObject() throws(JSONValue.ParsingError) -> JSONValue {
        try enter()
        var pairs: [JSONObject.Pair] = []
        var known: Set<String> = []
        if !takeClosing("}") {
            repeat {
                let key = try readKey()
                let value = try readValue()
                if known.insert(key).inserted { pairs.append((key, value)) }
                skipBlanks()
            } while take(",")
            guard take("}") else { throw error("expected ',' or '}'") }
        }
        depth -= 1
        return .object(JSONObject(distinct: pairs))
    }

    private mutating func readKey() throws(JSONValue.ParsingError) -> String {
        skipBlanks()
        guard peek == UInt8(ascii: "\"") else { throw error("expected a key") }
        let key = try readString()
        skipBlanks()
        guard take(":") else { throw error("expected ':'") }
        return key
    }

    private mutating func readArray() throws(JSONValue.ParsingError) -> JSONValue {
        try enter()
        var values: [JSONValue] = []
        if !takeClosing("]") {
            repeat {
                values.append(try readValue())
                skipBlanks()
            } while take(",")
            guard take("]") else { throw error("expected ',' or ']'") }
        }
        depth -= 1
        return .array(values)
    }

    private mutating func readString() throws(JSONValue.ParsingError) -> String {
        position += 1
        var text: [UInt8] = []
        while let byte = peek {
            switch byte {
            case UInt8(ascii: "\""):
                position += 1
                return String(decoding: text, as: UTF8.self)
            case UInt8(ascii: "\\"): try readEscape(into: &text)
            case 0..<0x20: throw error("raw control character")
            default:
                text.append(byte)
                position += 1
            }
        }
        throw error("unterminated string")
    }

    private mutating func readEscape(into text: inout [UInt8]) throws(JSONValue.ParsingError) {
        position += 1
        guard let byte = peek else { throw error("unterminated string") }
        position += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): text.append(byte)
        case UInt8(ascii: "b"): text.append(0x08)
        case UInt8(ascii: "f"): text.append(0x0C)
        case UInt8(ascii: "n"): text.append(0x0A)
        case UInt8(ascii: "r"): text.append(0x0D)
        case UInt8(ascii: "t"): text.append(0x09)
        case UInt8(ascii: "u"): text.append(contentsOf: String(try readScalar()).utf8)
        default:
            position -= 1
            throw error("unknown escape")
        }
    }

    /// After `\u`: one scalar, from one escape or a pair of surrogates.
    private mutating func readScalar() throws(JSONValue.ParsingError) -> Unicode.Scalar {
        let replacement: Unicode.Scalar = "\u{FFFD}"
        let first = try readFourHexDigits()
        guard (0xD800...0xDBFF).contains(first), take("\\") else { return Unicode.Scalar(first) ?? replacement }
        guard take("u") else {
            position -= 1  // some other escape: not ours
            return replacement
        }
        let mark = position
        let second = try readFourHexDigits()
        guard (0xDC00...0xDFFF).contains(second) else {
            position = mark - 2
            return replacement
        }
        return Unicode.Scalar(0x10000 + (first - 0xD800) << 10 + (second - 0xDC00)) ?? replacement
    }

    private mutating func readFourHexDigits() throws(JSONValue.ParsingError) -> UInt32 {
        var value: UInt32 = 0
        for _ in 0..<4 {
            guard let byte = peek, let digit = Character(Unicode.Scalar(byte)).hexDigitValue, byte < 0x80 else {
                throw error("expected four hexadecimal digits")
            }
            value = value << 4 | UInt32(digit)
            position += 1
        }
        return value
    }

    private mutating func readNumber() throws(JSONValue.ParsingError) -> JSONValue {
        let start = position
        _ = take("-")
        let wholeDigits = takeDigits()
        guard wholeDigits > 0 else { throw error("expected a digit") }
        if wholeDigits > 1, bytes[position - wholeDigits] == UInt8(ascii: "0") { throw error("leading zero") }
        var isWhole = true
        if take(".") {
            isWhole = false
            guard takeDigits() > 0 else { throw error("expected a digit") }
        }
        if take("e") || take("E") {
            isWhole = false
            if !take("+") { _ = take("-") }
            guard takeDigits() > 0 else { throw error("expected a digit") }
        }
        let text = String(decoding: bytes[start..<position], as: UTF8.self)
        if isWhole {
            if let value = Int64(text) { return .int(value) }
            if let value = UInt64(text) { return .uint(value) }
        }
        guard let value = Double(text), value.isFinite else { throw error("number out of range") }
        return decimal(text, unlessHeldBy: value) ?? .double(value)
    }

    /// The number as a decimal, if a decimal holds all its digits and the double does not.
    private func decimal(_ text: String, unlessHeldBy double: Double) -> JSONValue? {
        // A double holds 15 digits, whichever they are. More than 39 would only be cut off.
        guard text.utf8.count > 15 else { return nil }
        let digits = significantDigits(text)
        guard digits.count > 15, digits.count < 40, digits != significantDigits(double.description) else { return nil }
        guard let value = Decimal(string: text, locale: nil), digits == significantDigits(value.description) else {
            return nil
        }
        return .decimal(value)
    }

    /// The digits of a number before its exponent, without the zeros around them that only say how large it is.
    private func significantDigits(_ text: String) -> ArraySlice<UInt8> {
        let zero = UInt8(ascii: "0")
        let mantissa = text.utf8.prefix { $0 | 0x20 != UInt8(ascii: "e") }
        let digits = Array(mantissa.filter { (zero...UInt8(ascii: "9")).contains($0) }.drop { $0 == zero })
        return digits[..<((digits.lastIndex { $0 != zero } ?? -1) + 1)]
    }

    // MARK: Steps

    private var peek: UInt8? { position < bytes.count ? bytes[position] : nil }

    private mutating func take(_ scalar: Unicode.Scalar) -> Bool {
        guard peek == UInt8(ascii: scalar) else { return false }
        position += 1
        return true
    }

    private mutating func takeClosing(_ scalar: Unicode.Scalar) -> Bool {
        skipBlanks()
        return take(scalar)
    }

    private mutating func takeDigits() -> Int {
        let start = position
        while let byte = peek, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) { position += 1 }
        return position - start
    }

    private mutating func skipBlanks() {
        while let byte = peek, byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 { position += 1 }
    }

    private mutating func read(_ word: StaticString, as value: JSONValue) throws(JSONValue.ParsingError) -> JSONValue {
        let matches = word.withUTF8Buffer { bytes[position...].starts(with: $0) }
        guard matches else { throw error("unexpected character") }
        position += word.utf8CodeUnitCount
        return value
    }

    private mutating func enter() throws(JSONValue.ParsingError) {
        guard depth < JSONValue.maximumReadingDepth else { throw error("nesting deeper than 512 levels") }
        depth += 1
        position += 1
    }

    private func error(_ reason: String) -> JSONValue.ParsingError {
        JSONValue.ParsingError(offset: position, reason: reason)
    }
}
