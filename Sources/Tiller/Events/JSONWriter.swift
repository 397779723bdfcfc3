import Foundation

/// Writes compact JSON as UTF-8.
///
/// What has no JSON form costs that value and is counted: a number that is
/// not finite becomes `null`, and so does what lies deeper than
/// `maximumDepth`.
struct JSONWriter {
    /// Objects and arrays both count, the outermost too. The hosted service's limit.
    static let maximumDepth = 200

    var bytes: [UInt8] = []
    private(set) var nonFiniteCount = 0
    private(set) var tooDeepCount = 0
    private var depth = 0

    var text: String { String(decoding: bytes, as: UTF8.self) }

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
        bytes.append(UInt8(ascii: "{"))
        object.withParts { own, base in
            var isFirst = true
            if let base, base.visibleCount > 0 {
                writeVisible(of: base)
                isFirst = false
            }
            for index in own.indices {
                if !isFirst { bytes.append(UInt8(ascii: ",")) }
                isFirst = false
                writeMember(own[index].0, own[index].1)
            }
        }
        bytes.append(UInt8(ascii: "}"))
        leave()
    }

    mutating func writeMember(_ key: String, _ value: JSONValue) {
        write(key)
        bytes.append(UInt8(ascii: ":"))
        write(value)
    }

    mutating func write(_ text: String) {
        if text.utf8.withContiguousStorageIfAvailable({ write(utf8: $0) }) != nil { return }
        var text = text
        text.withUTF8 { write(utf8: $0) }
    }

    private mutating func write(utf8: UnsafeBufferPointer<UInt8>) {
        guard let first = utf8.firstToEscape(from: 0) else {
            // With its quotes in one step.
            bytes.append(addingCapacity: utf8.count + 2) { span in
                span.append(UInt8(ascii: "\""))
                span.append(contentsOf: utf8)
                span.append(UInt8(ascii: "\""))
            }
            return
        }
        bytes.append(UInt8(ascii: "\""))
        writeEscaped(utf8, first)
        bytes.append(UInt8(ascii: "\""))
    }

    /// - Parameter first: The first byte that must be escaped.
    private mutating func writeEscaped(_ utf8: UnsafeBufferPointer<UInt8>, _ first: Int) {
        var start = 0
        var next: Int? = first
        while let index = next {
            bytes.append(contentsOf: UnsafeBufferPointer(rebasing: utf8[start..<index]))
            escape(utf8[index])
            start = index + 1
            next = utf8.firstToEscape(from: start)
        }
        bytes.append(contentsOf: UnsafeBufferPointer(rebasing: utf8[start...]))
    }

    mutating func write(_ value: some FixedWidthInteger) {
        if value < 0 { bytes.append(UInt8(ascii: "-")) }
        var magnitude = UInt64(value.magnitude)
        let start = bytes.count
        repeat {
            bytes.append(UInt8(ascii: "0") + UInt8(magnitude % 10))
            magnitude /= 10
        } while magnitude > 0
        bytes[start...].reverse()
    }

    /// Text known to need no escaping.
    mutating func raw(_ text: StaticString) {
        text.withUTF8Buffer { bytes.append(contentsOf: $0) }
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
        bytes.append(contentsOf: value.description.utf8)
    }

    private mutating func write(_ value: Decimal) {
        guard value.isFinite else {
            nonFiniteCount += 1
            raw("null")
            return
        }
        bytes.append(contentsOf: value.description.utf8)
    }

    private mutating func write(_ values: [JSONValue]) {
        guard enter() else { return }
        bytes.append(UInt8(ascii: "["))
        for index in values.indices {
            if index > 0 { bytes.append(UInt8(ascii: ",")) }
            write(values[index])
        }
        bytes.append(UInt8(ascii: "]"))
        leave()
    }

    private mutating func writeVisible(of base: JSONObject.Base) {
        if base.hidden == 0 {
            bytes.append(contentsOf: base.encoded)
            return
        }
        var isFirst = true
        for (index, range) in base.ranges.enumerated() where !base.isHidden(index) {
            if !isFirst { bytes.append(UInt8(ascii: ",")) }
            isFirst = false
            bytes.append(contentsOf: base.encoded[range])
        }
    }

    private mutating func escape(_ byte: UInt8) {
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"):
            bytes.append(UInt8(ascii: "\\"))
            bytes.append(byte)
        case UInt8(ascii: "\n"): raw("\\n")
        case UInt8(ascii: "\r"): raw("\\r")
        case UInt8(ascii: "\t"): raw("\\t")
        default:
            raw("\\u00")
            writeHex(byte)
        }
    }

    /// Two lower-case digits.
    mutating func writeHex(_ byte: UInt8) {
        bytes.append(Self.hexDigit(byte >> 4))
        bytes.append(Self.hexDigit(byte & 15))
    }

    /// - Parameter value: 0 to 15.
    static func hexDigit(_ value: UInt8) -> UInt8 {
        value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "a") + value - 10
    }

    /// Text of a known length that is put together in place: a byte at a time costs more than the byte.
    mutating func write(count: Int, _ fill: (UnsafeMutableBufferPointer<UInt8>) -> Void) {
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: count) { text in
            fill(text)
            bytes.append(contentsOf: UnsafeBufferPointer(text))
        }
    }
}

extension UnsafeBufferPointer<UInt8> {
    /// Where the first byte stands that JSON text must not have as it is: a control character, a quote, a backslash.
    fileprivate func firstToEscape(from start: Int) -> Int? {
        let raw = UnsafeRawBufferPointer(self)
        var index = start
        // Eight at a time, and at the end the last eight, some of them once more.
        while index + 8 <= count, !raw.loadUnaligned(fromByteOffset: index, as: UInt64.self).mayNeedEscape {
            index += 8
        }
        if index > start, index + 8 > count,
            !raw.loadUnaligned(fromByteOffset: count - 8, as: UInt64.self).mayNeedEscape
        {
            return nil
        }
        while index < count {
            let byte = self[index]
            if byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { return index }
            index += 1
        }
        return nil
    }
}

extension OutputSpan<UInt8> {
    /// What there is room for.
    fileprivate mutating func append(contentsOf bytes: UnsafeBufferPointer<UInt8>) {
        withUnsafeMutableBufferPointer { buffer, count in
            let free = UnsafeMutableBufferPointer(rebasing: buffer[count...])
            count += free.initialize(fromContentsOf: bytes)
        }
    }
}

extension UInt64 {
    /// Whether one of eight bytes is a control character, a quote or a backslash. Of bytes behind such a one it may be wrong.
    fileprivate var mayNeedEscape: Bool {
        let controls = (self &- 0x2020_2020_2020_2020) & ~self
        let quotes = (self ^ 0x2222_2222_2222_2222).zeroBytes
        let backslashes = (self ^ 0x5C5C_5C5C_5C5C_5C5C).zeroBytes
        return (controls | quotes | backslashes) & 0x8080_8080_8080_8080 != 0
    }

    /// The highest bit of each byte that is zero, and perhaps of one above such a one.
    fileprivate var zeroBytes: UInt64 { (self &- 0x0101_0101_0101_0101) & ~self }
}
