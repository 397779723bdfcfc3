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
        object.withParts { own, layer in
            var isFirst = true
            if let layer, layer.visibleCount > 0 {
                writeVisible(of: layer)
                isFirst = false
            }
            for (key, value) in own {
                if !isFirst { bytes.append(UInt8(ascii: ",")) }
                isFirst = false
                writeMember(key, value)
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
        bytes.append(UInt8(ascii: "\""))
        var text = text
        text.withUTF8 { utf8 in
            var start = 0
            for index in utf8.indices {
                let byte = utf8[index]
                guard byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") else { continue }
                bytes.append(contentsOf: utf8[start..<index])
                start = index + 1
                escape(byte)
            }
            bytes.append(contentsOf: utf8[start...])
        }
        bytes.append(UInt8(ascii: "\""))
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

    private mutating func writeVisible(of layer: JSONObject.Layer) {
        if layer.hidden == 0 {
            bytes.append(contentsOf: layer.base.encoded)
            return
        }
        var isFirst = true
        for (index, range) in layer.base.ranges.enumerated() where !layer.isHidden(index) {
            if !isFirst { bytes.append(UInt8(ascii: ",")) }
            isFirst = false
            bytes.append(contentsOf: layer.base.encoded[range])
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
        for digit in [byte >> 4, byte & 15] {
            bytes.append(digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10)
        }
    }
}
