import Foundation

/// Writes compact JSON as UTF-8.
///
/// What has no JSON form costs that value and is counted: a number that is
/// not finite becomes `null`, and so does what lies deeper than
/// `maximumDepth`.
///
/// The text is in memory of its own: an array is asked at every append who else holds it, which costs more than a short
/// text does.
struct JSONWriter: ~Copyable {
    /// Objects and arrays both count, the outermost too. The hosted service's limit.
    static let maximumDepth = 200

    private var start: UnsafeMutablePointer<UInt8>
    private var capacity: Int
    /// How many bytes there are.
    private(set) var count = 0
    private(set) var nonFiniteCount = 0
    private(set) var tooDeepCount = 0
    private var depth = 0
    /// The last instant's text: the next one is mostly of the same second.
    var lastTimestamp = TimestampText()

    /// - Parameter capacity: In bytes; more is made room for when it is needed.
    init(capacity: Int = 256) {
        self.capacity = max(capacity, 16)
        start = .allocate(capacity: self.capacity)
    }

    deinit { start.deallocate() }

    /// The bytes, as long as the body runs.
    func withUTF8<Result>(_ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result {
        body(UnsafeBufferPointer(start: start, count: count))
    }

    /// A copy, as large as it must be.
    var bytes: [UInt8] { withUTF8 { Array($0) } }

    var text: String { withUTF8 { String(decoding: $0, as: UTF8.self) } }

    /// Begins anew, in the same memory.
    mutating func clear() {
        count = 0
        nonFiniteCount = 0
        tooDeepCount = 0
        depth = 0
    }
}

// MARK: - Bytes

extension JSONWriter {
    /// - Returns: Where they go.
    @inline(__always)
    private mutating func room(for more: Int) -> UnsafeMutablePointer<UInt8> {
        if capacity - count < more { grow(by: more) }
        return start + count
    }

    @inline(never)
    private mutating func grow(by more: Int) {
        capacity = max(capacity * 2, count + more)
        let larger = UnsafeMutablePointer<UInt8>.allocate(capacity: capacity)
        larger.update(from: start, count: count)
        start.deallocate()
        start = larger
    }

    @inline(__always)
    mutating func append(_ byte: UInt8) {
        room(for: 1).pointee = byte
        count += 1
    }

    mutating func append(contentsOf bytes: UnsafeBufferPointer<UInt8>) {
        guard let source = bytes.baseAddress else { return }
        room(for: bytes.count).update(from: source, count: bytes.count)
        count += bytes.count
    }

    /// Text known to need no escaping.
    @inline(__always)
    mutating func raw(_ text: StaticString) {
        text.withUTF8Buffer { append(contentsOf: $0) }
    }

    /// Text of a known length that is put together in place.
    @inline(__always)
    mutating func write(count more: Int, _ fill: (UnsafeMutablePointer<UInt8>) -> Void) {
        fill(room(for: more))
        count += more
    }
}

// MARK: - Values

extension JSONWriter {
    mutating func write(_ value: JSONValue) {
        switch value {
        case .null: raw("null")
        case .bool(let value): if value { raw("true") } else { raw("false") }
        case .int(let value): write(value)
        case .uint(let value): write(value)
        case .double(let value): write(value)
        case .decimal(let value): write(value)
        case .string(let value): write(value)
        case .array(let values): write(values)
        case .object(let object): write(object)
        }
    }

    mutating func write(_ object: JSONObject) {
        guard enter() else { return }
        append(UInt8(ascii: "{"))
        object.withParts { own, base in
            var isFirst = true
            if let base, base.visibleCount > 0 {
                writeVisible(of: base)
                isFirst = false
            }
            own.withUnsafeBufferPointer { own in
                for index in own.indices {
                    if !isFirst { append(UInt8(ascii: ",")) }
                    isFirst = false
                    writeMember(own[index].0, own[index].1)
                }
            }
        }
        append(UInt8(ascii: "}"))
        leave()
    }

    mutating func writeMember(_ key: String, _ value: JSONValue) {
        write(key)
        append(UInt8(ascii: ":"))
        write(value)
    }

    mutating func write(_ text: String) {
        if text.utf8.withContiguousStorageIfAvailable({ write(quoted: $0) }) != nil { return }
        var text = text
        text.withUTF8 { write(quoted: $0) }
    }

    mutating func write(_ value: some FixedWidthInteger) {
        if value < 0 { append(UInt8(ascii: "-")) }
        write(UInt64(value.magnitude))
    }

    private mutating func write(_ magnitude: UInt64) {
        var digits = 1
        var limit: UInt64 = 10
        while digits < 20, magnitude >= limit {
            digits += 1
            limit = limit.multipliedReportingOverflow(by: 10).partialValue
        }
        write(count: digits) { text in
            var rest = magnitude
            var place = digits
            // Two at a time: a division takes longer than all else.
            while place > 1 {
                place -= 2
                let (quotient, pair) = rest.quotientAndRemainder(dividingBy: 100)
                text[place] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: pair / 10)
                text[place + 1] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: pair % 10)
                rest = quotient
            }
            if place == 1 { text[0] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest) }
        }
    }

    /// One level down; false, and `null` in its place, where that is too deep.
    @discardableResult
    mutating func enter() -> Bool {
        guard depth < Self.maximumDepth else {
            tooDeepCount += 1
            raw("null")
            return false
        }
        depth += 1
        return true
    }

    mutating func leave() { depth -= 1 }

    private mutating func write(_ value: Double) {
        guard value.isFinite else {
            nonFiniteCount += 1
            raw("null")
            return
        }
        if writeHundredths(of: value) { return }
        var text = value.description
        text.withUTF8 { append(contentsOf: $0) }
    }

    /// A number with at most two digits after its point, as prices are: of all ways to write it the shortest, for no other
    /// number of 15 digits is read as this one.
    ///
    /// - Returns: Whether it is one.
    private mutating func writeHundredths(of value: Double) -> Bool {
        let magnitude = value.magnitude
        guard magnitude < 1e13, magnitude != 0 else { return false }
        let hundredths = UInt64(magnitude * 100 + 0.5)
        guard Double(hundredths) / 100 == magnitude else { return false }
        if value < 0 { append(UInt8(ascii: "-")) }
        write(hundredths / 100)
        let rest = hundredths % 100
        let digits = rest % 10 == 0 ? 1 : 2
        write(count: 1 + digits) { text in
            text[0] = UInt8(ascii: ".")
            text[1] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest / 10)
            if digits == 2 { text[2] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10) }
        }
        return true
    }

    private mutating func write(_ value: Decimal) {
        guard value.isFinite else {
            nonFiniteCount += 1
            raw("null")
            return
        }
        var text = value.description
        text.withUTF8 { append(contentsOf: $0) }
    }

    private mutating func write(_ values: [JSONValue]) {
        guard enter() else { return }
        append(UInt8(ascii: "["))
        for index in values.indices {
            if index > 0 { append(UInt8(ascii: ",")) }
            write(values[index])
        }
        append(UInt8(ascii: "]"))
        leave()
    }

    private mutating func writeVisible(of base: JSONObject.Base) {
        if base.hidden == 0 {
            base.encoded.withUnsafeBufferPointer { append(contentsOf: $0) }
            return
        }
        var isFirst = true
        for (index, range) in base.ranges.enumerated() where !base.isHidden(index) {
            if !isFirst { append(UInt8(ascii: ",")) }
            isFirst = false
            base.encoded[range].withUnsafeBufferPointer { append(contentsOf: $0) }
        }
    }
}

// MARK: - Texts

extension JSONWriter {
    /// Looks for what must be escaped while it copies, eight bytes at a time.
    private mutating func write(quoted utf8: UnsafeBufferPointer<UInt8>) {
        let length = utf8.count
        let begin = room(for: length + 2)
        begin[0] = UInt8(ascii: "\"")
        guard copy(utf8, to: begin + 1) else { return writeEscaped(utf8) }
        begin[length + 1] = UInt8(ascii: "\"")
        count += length + 2
    }

    /// - Returns: Whether it may stand as it is; if not, what was copied is of no use.
    @inline(__always)
    private func copy(_ utf8: UnsafeBufferPointer<UInt8>, to place: UnsafeMutablePointer<UInt8>) -> Bool {
        let source = UnsafeRawBufferPointer(utf8)
        let target = UnsafeMutableRawPointer(place)
        let length = source.count
        switch length {
        case 8...:
            // The last eight bytes whatever the length, some of them once more.
            var index = 0
            while index < length - 8 {
                let word = source.loadUnaligned(fromByteOffset: index, as: UInt64.self)
                if word.mayNeedEscape { return false }
                target.storeBytes(of: word, toByteOffset: index, as: UInt64.self)
                index += 8
            }
            let last = source.loadUnaligned(fromByteOffset: length - 8, as: UInt64.self)
            target.storeBytes(of: last, toByteOffset: length - 8, as: UInt64.self)
            return !last.mayNeedEscape
        case 4...:
            let first = source.loadUnaligned(fromByteOffset: 0, as: UInt32.self)
            let last = source.loadUnaligned(fromByteOffset: length - 4, as: UInt32.self)
            target.storeBytes(of: first, toByteOffset: 0, as: UInt32.self)
            target.storeBytes(of: last, toByteOffset: length - 4, as: UInt32.self)
            return !(UInt64(first) | UInt64(last) << 32).mayNeedEscape
        default:
            for index in 0..<length {
                if source[index].mustBeEscaped { return false }
                place[index] = source[index]
            }
            return true
        }
    }

    private mutating func writeEscaped(_ utf8: UnsafeBufferPointer<UInt8>) {
        append(UInt8(ascii: "\""))
        var start = 0
        while let index = utf8[start...].firstIndex(where: \.mustBeEscaped) {
            append(contentsOf: UnsafeBufferPointer(rebasing: utf8[start..<index]))
            escape(utf8[index])
            start = index + 1
        }
        append(contentsOf: UnsafeBufferPointer(rebasing: utf8[start...]))
        append(UInt8(ascii: "\""))
    }

    private mutating func escape(_ byte: UInt8) {
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"):
            append(UInt8(ascii: "\\"))
            append(byte)
        case UInt8(ascii: "\n"): raw("\\n")
        case UInt8(ascii: "\r"): raw("\\r")
        case UInt8(ascii: "\t"): raw("\\t")
        default:
            raw("\\u00")
            writeHex(byte)
        }
    }

    /// Two lower-case digits.
    private mutating func writeHex(_ byte: UInt8) {
        let digits = UInt32(byte).hexDigits >> 48
        append(UInt8(truncatingIfNeeded: digits))
        append(UInt8(truncatingIfNeeded: digits >> 8))
    }

    /// Eight lower-case digits.
    mutating func writeHex(_ word: UInt32) {
        let digits = word.hexDigits.littleEndian
        write(count: 8) { UnsafeMutableRawPointer($0).storeBytes(of: digits, as: UInt64.self) }
    }
}

extension UInt32 {
    /// Eight hexadecimal digits in lower case as ASCII, the first one in the lowest byte.
    var hexDigits: UInt64 {
        // Two bytes apart, then one, then each digit in a byte of its own.
        var digits = UInt64(byteSwapped)
        digits = (digits | digits << 16) & 0x0000_FFFF_0000_FFFF
        digits = (digits | digits << 8) & 0x00FF_00FF_00FF_00FF
        digits = digits >> 4 & 0x000F_000F_000F_000F | (digits & 0x000F_000F_000F_000F) << 8
        // From ten on they are letters, which lie 39 further on.
        let letters = (digits + 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101
        return digits + 0x3030_3030_3030_3030 + letters * 39
    }
}

extension UInt64 {
    /// Sixteen hexadecimal digits in lower case as ASCII, the first of each half in its lowest byte.
    var hexDigits: (high: UInt64, low: UInt64) {
        (UInt32(truncatingIfNeeded: self >> 32).hexDigits, UInt32(truncatingIfNeeded: self).hexDigits)
    }
}

extension UInt8 {
    /// Whether it is a control character, a quote or a backslash, which JSON text must not have as it is.
    fileprivate var mustBeEscaped: Bool { self < 0x20 || self == UInt8(ascii: "\"") || self == UInt8(ascii: "\\") }
}

extension UInt64 {
    /// Whether one of eight bytes must be escaped: exactly so, though of which one this is no sign.
    fileprivate var mayNeedEscape: Bool {
        let controls = (self &- 0x2020_2020_2020_2020) & ~self
        let quotes = (self ^ 0x2222_2222_2222_2222).zeroBytes
        let backslashes = (self ^ 0x5C5C_5C5C_5C5C_5C5C).zeroBytes
        return (controls | quotes | backslashes) & 0x8080_8080_8080_8080 != 0
    }

    /// The highest bit of each byte that is zero, and perhaps of one above such a one.
    fileprivate var zeroBytes: UInt64 { (self &- 0x0101_0101_0101_0101) & ~self }
}
