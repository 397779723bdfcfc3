public import Foundation

/// A JSON value, typed.
///
/// Written as a literal wherever a property, a trait or a context key is
/// expected: `["total": 12.5, "items": ["a", "b"], "coupon": nil]`. A literal
/// of literals is laid out without boxing; a variable goes in as `.string(x)`,
/// `.int(x)` and so on. For values of type `Any` see `JSONValue.init(any:)`.
public enum JSONValue: Sendable {
    /// `null`.
    case null
    /// `true` or `false`; never a number, also after a restart.
    case bool(Bool)
    /// A whole number in the signed 64-bit range.
    case int(Int64)
    /// A whole number in the unsigned 64-bit range.
    ///
    /// The gateway reads numbers as 64-bit floats, so that a whole number
    /// above 2^53 loses digits there: send large ids as strings.
    case uint(UInt64)
    /// A floating-point number. NaN and infinity have no JSON form: they are
    /// written as `null` and reported.
    case double(Double)
    /// A decimal number, written with all its digits.
    indirect case decimal(Decimal)
    /// A text, written as UTF-8.
    case string(String)
    /// A list.
    case array([JSONValue])
    /// An object.
    case object(JSONObject)
}

// MARK: - Literals

extension JSONValue: ExpressibleByStringInterpolation, ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral,
    ExpressibleByBooleanLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral, ExpressibleByNilLiteral
{
    /// A text from a string literal, interpolated or not.
    public init(stringLiteral value: String) { self = .string(value) }
    /// A whole number from an integer literal. Larger ones than `Int64.max` are written `.uint(…)`.
    public init(integerLiteral value: Int64) { self = .int(value) }
    /// A number from a floating-point literal.
    public init(floatLiteral value: Double) { self = .double(value) }
    /// `true` or `false` from a boolean literal.
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    /// A list from an array literal.
    public init(arrayLiteral elements: JSONValue...) { self = .array(elements) }
    /// An object from a dictionary literal; of equal keys the first wins.
    public init(dictionaryLiteral elements: (String, JSONValue)...) { self = .object(JSONObject(literal: elements)) }
    /// `null` from `nil`.
    public init(nilLiteral: ()) { self = .null }
}

// MARK: - Typed getters

extension JSONValue {
    /// The text, if this is one.
    public var string: String? { if case .string(let value) = self { value } else { nil } }

    /// The boolean, if this is one. A number is none.
    public var bool: Bool? { if case .bool(let value) = self { value } else { nil } }

    /// The whole number, if this is one in the signed 64-bit range.
    public var int: Int64? {
        switch self {
        case .int(let value): value
        case .uint(let value): Int64(exactly: value)
        default: nil
        }
    }

    /// The whole number, if this is one in the unsigned 64-bit range.
    public var uint: UInt64? {
        switch self {
        case .uint(let value): value
        case .int(let value): UInt64(exactly: value)
        default: nil
        }
    }

    /// The number as a double, rounded where it has more digits than a double holds.
    public var double: Double? {
        switch self {
        case .double(let value): value
        case .int(let value): Double(value)
        case .uint(let value): Double(value)
        case .decimal(let value): Double(value.description)  // its own conversion is off by a few digits on Linux
        default: nil
        }
    }

    /// The elements, if this is a list.
    public var array: [JSONValue]? { if case .array(let value) = self { value } else { nil } }

    /// The object, if this is one.
    public var object: JSONObject? { if case .object(let value) = self { value } else { nil } }

    /// The value under a key, if this is an object.
    ///
    /// Setting makes an object of what was none; setting `nil` removes the key
    /// and leaves what is no object as it is.
    public subscript(key: String) -> JSONValue? {
        get { if case .object(let object) = self { object[key] } else { nil } }
        set {
            if newValue == nil, object == nil { return }
            var object = object ?? JSONObject()
            self = .null  // keeps `object` unique, so that the next line changes it in place
            object[key] = newValue
            self = .object(object)
        }
    }
}

extension Optional where Wrapped == JSONValue {
    /// A path in one line: `event.context["a"]["b"] = 1` makes what is missing on the way.
    ///
    /// Reading a missing path gives `nil`; removing one (`= nil`) makes nothing.
    public subscript(key: String) -> JSONValue? {
        get { self?[key] }
        set {
            if self == nil, newValue == nil { return }
            var value = self ?? .object([:])
            self = nil
            value[key] = newValue
            self = value
        }
    }
}

// MARK: - Comparing

extension JSONValue: Equatable {
    /// Equal as JSON: whole numbers by value whichever case holds them, decimals also with what their text is read as,
    /// objects whatever the order of their keys, texts as Swift compares them (by canonical equivalence).
    public static func == (left: JSONValue, right: JSONValue) -> Bool {
        switch (left, right) {
        case (.null, .null): true
        case (.bool(let left), .bool(let right)): left == right
        case (.string(let left), .string(let right)): left == right
        case (.array(let left), .array(let right)): left == right
        case (.object(let left), .object(let right)): left == right
        case (.double(let left), .double(let right)): left == right
        case (.decimal(let left), .decimal(let right)): left == right
        case (.int(let left), .int(let right)): left == right
        case (.uint(let left), .uint(let right)): left == right
        case (.int(let left), .uint(let right)): right == left
        case (.uint(let left), .int(let right)): left == right
        case (.decimal(let decimal), .int), (.decimal(let decimal), .uint), (.decimal(let decimal), .double):
            right.isText(of: decimal)
        case (.int, .decimal(let decimal)), (.uint, .decimal(let decimal)), (.double, .decimal(let decimal)):
            left.isText(of: decimal)
        default: false
        }
    }

    /// Whether this is what comes back when a decimal is written and read.
    private func isText(of decimal: Decimal) -> Bool {
        guard let value = try? JSONValue(parsing: decimal.description) else { return false }  // NaN has no JSON text
        if case .decimal = value { return false }
        return value == self
    }
}

// MARK: - Text

extension JSONValue: CustomStringConvertible {
    /// Compact JSON text.
    public var description: String {
        var writer = JSONWriter()
        writer.write(self)
        return writer.text
    }
}
