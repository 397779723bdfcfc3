import Tiller

/// Judges JSON text as the gateway does and tells where its values stand, without recursion: at any depth.
///
/// Strict (RFC 8259), and a number that no double holds is refused; bytes that are not UTF-8 pass.
struct JSONScanner {
    /// What the SDK's reader takes; deeper values are told apart.
    static let maximumDepth = 512

    private let bytes: [UInt8]
    private var position = 0

    private init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// The text is no JSON.
    struct Malformed: Error {}

    /// A value in the text.
    struct Value {
        enum Kind {
            case object
            case array
            case null
            case other
        }

        let kind: Kind
        let range: Range<Int>
        /// Objects and arrays both count, the value itself too; 0 for a scalar.
        var depth = 0
        /// The outermost objects and arrays below level `maximumDepth`.
        var tooDeep: [Range<Int>] = []
    }
}

// MARK: - Documents

extension JSONScanner {
    /// The one value of a text.
    static func value(in bytes: [UInt8]) throws(Malformed) -> Value {
        var scanner = JSONScanner(bytes)
        let value = try scanner.readValue()
        try scanner.readEnd()
        return value
    }

    /// What stands under the first `batch` of a text's object: a list's elements, or another value as the only one.
    /// Nothing if there is none or it is `null`, or if the text is no object.
    static func batch(in bytes: [UInt8]) throws(Malformed) -> [Value] {
        var scanner = JSONScanner(bytes)
        let batch = try scanner.readBatch()
        try scanner.readEnd()
        return batch
    }

    private mutating func readBatch() throws(Malformed) -> [Value] {
        skipBlanks()
        guard take("{") else {
            _ = try readValue()
            return []
        }
        var batch: [Value]?
        skipBlanks()
        if take("}") { return [] }
        repeat {
            let key = try readKey()
            if batch == nil, isBatch(key) { batch = try readElements() } else { _ = try readValue() }
            skipBlanks()
        } while take(",")
        try expect("}")
        return batch ?? []
    }

    private mutating func readElements() throws(Malformed) -> [Value] {
        skipBlanks()
        guard take("[") else {
            let value = try readValue()
            return value.kind == .null ? [] : [value]
        }
        skipBlanks()
        if take("]") { return [] }
        var elements: [Value] = []
        repeat {
            elements.append(try readValue())
            skipBlanks()
        } while take(",")
        try expect("]")
        return elements
    }

    /// A key may be written with escapes.
    private func isBatch(_ key: Range<Int>) -> Bool {
        key.count <= 32 && (try? JSONValue(parsing: bytes[key]))?.string == "batch"
    }

    private mutating func readEnd() throws(Malformed) {
        skipBlanks()
        guard position == bytes.count else { throw Malformed() }
    }
}

// MARK: - Values

extension JSONScanner {
    /// The objects and arrays that are open around a place.
    private struct Nesting {
        /// The signs that will close them.
        var closings: [UInt8] = []
        var depth = 0
        var tooDeep: [Range<Int>] = []
        private var deepStart = 0

        mutating func enter(_ closing: UInt8, at position: Int) {
            closings.append(closing)
            depth = max(depth, closings.count)
            if closings.count == JSONScanner.maximumDepth + 1 { deepStart = position }
        }

        mutating func leave(at position: Int) {
            if closings.count == JSONScanner.maximumDepth + 1 { tooDeep.append(deepStart..<position) }
            closings.removeLast()
        }
    }

    private mutating func readValue() throws(Malformed) -> Value {
        skipBlanks()
        let start = position
        var nesting = Nesting()
        repeat { try readUpToScalar(&nesting) } while try leadsToAnother(&nesting)
        return Value(
            kind: kind(at: start), range: start..<position, depth: nesting.depth, tooDeep: nesting.tooDeep)
    }

    /// Goes down to the first scalar of a value, or to where something empty ends.
    private mutating func readUpToScalar(_ nesting: inout Nesting) throws(Malformed) {
        skipBlanks()
        while let closing = openContainer() {
            nesting.enter(closing, at: position - 1)
            skipBlanks()
            if peek == closing { return }
            if closing == UInt8(ascii: "}") { _ = try readKey() }
            skipBlanks()
        }
        try readScalar()
    }

    /// Closes what ends here.
    ///
    /// - Returns: Whether another value follows in what is open.
    private mutating func leadsToAnother(_ nesting: inout Nesting) throws(Malformed) -> Bool {
        while let closing = nesting.closings.last {
            skipBlanks()
            if take(",") {
                if closing == UInt8(ascii: "}") { _ = try readKey() }
                return true
            }
            guard peek == closing else { throw Malformed() }
            position += 1
            nesting.leave(at: position)
        }
        return false
    }

    private func kind(at start: Int) -> Value.Kind {
        switch bytes[start] {
        case UInt8(ascii: "{"): .object
        case UInt8(ascii: "["): .array
        case UInt8(ascii: "n"): .null
        default: .other
        }
    }

    /// - Returns: What will close it; `nil` if no object or array begins here.
    private mutating func openContainer() -> UInt8? {
        if take("{") { return UInt8(ascii: "}") }
        return take("[") ? UInt8(ascii: "]") : nil
    }

    /// - Returns: Where the key stands, with its quotes.
    private mutating func readKey() throws(Malformed) -> Range<Int> {
        skipBlanks()
        let start = position
        try readString()
        let range = start..<position
        skipBlanks()
        try expect(":")
        return range
    }

    private mutating func readScalar() throws(Malformed) {
        switch peek {
        case UInt8(ascii: "\""): try readString()
        case UInt8(ascii: "t"): try read("true")
        case UInt8(ascii: "f"): try read("false")
        case UInt8(ascii: "n"): try read("null")
        default: try readNumber()
        }
    }

    private mutating func readString() throws(Malformed) {
        try expect("\"")
        while let byte = peek, byte >= 0x20 {
            position += 1
            if byte == UInt8(ascii: "\"") { return }
            if byte == UInt8(ascii: "\\") { try readEscape() }
        }
        throw Malformed()
    }

    private mutating func readEscape() throws(Malformed) {
        guard let byte = peek, #""\/bfnrtu"#.utf8.contains(byte) else { throw Malformed() }
        position += 1
        guard byte == UInt8(ascii: "u") else { return }
        for _ in 0..<4 {
            guard let digit = peek, digit < 0x80, Character(Unicode.Scalar(digit)).isHexDigit else { throw Malformed() }
            position += 1
        }
    }

    private mutating func readNumber() throws(Malformed) {
        let start = position
        _ = take("-")
        if !take("0") { try readDigits() }
        if take(".") { try readDigits() }
        if take("e") || take("E") {
            if !take("+") { _ = take("-") }
            try readDigits()
        }
        guard Double(String(decoding: bytes[start..<position], as: UTF8.self))?.isFinite == true else {
            throw Malformed()
        }
    }

    /// At least one.
    private mutating func readDigits() throws(Malformed) {
        let start = position
        while let byte = peek, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) { position += 1 }
        guard position > start else { throw Malformed() }
    }

    // MARK: Steps

    private var peek: UInt8? { position < bytes.count ? bytes[position] : nil }

    private mutating func take(_ scalar: Unicode.Scalar) -> Bool {
        guard peek == UInt8(ascii: scalar) else { return false }
        position += 1
        return true
    }

    private mutating func expect(_ scalar: Unicode.Scalar) throws(Malformed) {
        guard take(scalar) else { throw Malformed() }
    }

    private mutating func skipBlanks() {
        while let byte = peek, byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 { position += 1 }
    }

    private mutating func read(_ word: StaticString) throws(Malformed) {
        guard word.withUTF8Buffer({ bytes[position...].starts(with: $0) }) else { throw Malformed() }
        position += word.utf8CodeUnitCount
    }
}
