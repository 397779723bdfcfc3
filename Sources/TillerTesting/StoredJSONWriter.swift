import Tiller

/// Writes JSON as the gateway stores it: every number is one of a 64-bit float. To the reader's depth, which is more than
/// the SDK writes.
struct StoredJSONWriter {
    var bytes: [UInt8] = []

    mutating func write(_ value: JSONValue) {
        switch value {
        case .null: raw("null")
        case .bool(let value): raw(value ? "true" : "false")
        case .string(let value): write(value)
        case .array(let values): write(values)
        case .object(let object): write(object)
        case .int, .uint, .double, .decimal: raw(Self.number(value.double ?? 0))
        }
    }

    mutating func write(_ object: JSONObject) {
        bytes.append(UInt8(ascii: "{"))
        var isFirst = true
        for (key, value) in object {
            if !isFirst { bytes.append(UInt8(ascii: ",")) }
            isFirst = false
            write(key)
            bytes.append(UInt8(ascii: ":"))
            write(value)
        }
        bytes.append(UInt8(ascii: "}"))
    }

    mutating func write(_ text: String) {
        bytes.append(UInt8(ascii: "\""))
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"): bytes += [UInt8(ascii: "\\"), byte]
            case ..<0x20: raw(byte < 16 ? "\\u000\(String(byte, radix: 16))" : "\\u00\(String(byte, radix: 16))")
            default: bytes.append(byte)
            }
        }
        bytes.append(UInt8(ascii: "\""))
    }

    mutating func raw(_ text: String) { bytes.append(contentsOf: text.utf8) }

    private mutating func write(_ values: [JSONValue]) {
        bytes.append(UInt8(ascii: "["))
        for (index, value) in values.enumerated() {
            if index > 0 { bytes.append(UInt8(ascii: ",")) }
            write(value)
        }
        bytes.append(UInt8(ascii: "]"))
    }

    /// The fewest digits that mean this number, as Go writes them: with an exponent only below 1e-6 and from 1e21 on.
    private static func number(_ value: Double) -> String {
        if let whole = Int64(exactly: value), whole.magnitude <= 1 << 53 { return "\(whole)" }
        let parts = value.magnitude.description.split(separator: "e")
        let sign = value < 0 ? "-" : ""
        let mantissa = parts[0].hasSuffix(".0") ? parts[0].dropLast(2) : parts[0]
        guard parts.count == 2, let exponent = Int(parts[1]) else { return sign + mantissa }
        let digits = mantissa.filter { $0 != "." }
        switch exponent {
        case -6..<0: return sign + "0." + String(repeating: "0", count: -exponent - 1) + digits
        case 0..<21: return sign + digits + String(repeating: "0", count: max(0, exponent + 1 - digits.count))
        default: return "\(sign)\(mantissa)e\(exponent < 0 ? "-" : "+")\(exponent.magnitude)"
        }
    }
}
