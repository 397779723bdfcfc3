import Foundation

/// Turns values of any type into JSON. A value that has no JSON form becomes `null` and is noted.
///
/// The table of types is at `JSONValue.init(any:)`. The commonest types are recognised by comparing metatypes, because a
/// failing `as?` costs more than all of those comparisons together.
struct JSONConversion {
    /// A value that became `null`.
    struct Problem: Sendable, Hashable {
        /// What it was: a type's name and what is wrong with it. Never the value, which is personal data.
        let reason: String
    }

    /// What became `null`: each different reason once, in the order of their texts, because the values of a dictionary
    /// come in any order.
    var problems: [Problem] {
        if noted.isEmpty { return [] }  // nearly always; to sort nothing takes time at each call
        return noted.sorted { $0.reason < $1.reason }
    }

    private var noted: [Problem] = []

    /// How many objects and lists the present value lies in.
    private(set) var depth = 0
    /// How many wrappers (raw values, encodables that encode another value) were opened since the last level.
    private var unwrapped = 0
    /// The reference types on the way to the present value, so that one that contains itself is seen. The depth alone
    /// would end it too, but only after 2^200 steps if it contains itself twice.
    private var ancestors: [ObjectIdentifier] = []
    private(set) var place = Place()

    /// As deep as the writer writes. Objects and lists both count, the outermost too.
    static let maximumDepth = JSONWriter.maximumDepth

    /// The values of a dictionary; the object itself is the first level.
    mutating func object(_ values: [String: Any]) -> JSONObject {
        guard enter() else { return JSONObject() }
        defer { leave() }
        return members(values)
    }

    /// A value of any type.
    mutating func value(_ value: Any) -> JSONValue {
        if let plain = plain(value) { return plain }
        // What recurs is kept apart from what does not: in a debug build, each `as?` takes stack at every level.
        let type = type(of: value)
        if type == [String: Any].self, let values = value as? [String: Any] { return dictionary(values) }
        if type == [Any].self, let values = value as? [Any] { return list(values) }
        return number(value, type) ?? text(value, type) ?? structure(value, type)
    }

    /// The five commonest types. Each is what `Value` is: to ask the runtime for that once more costs more than all the rest.
    private mutating func plain<Value>(_ value: Value) -> JSONValue? {
        if Value.self == String.self { return .string(unsafeBitCast(value, to: String.self)) }
        if Value.self == Int.self { return .int(Int64(unsafeBitCast(value, to: Int.self))) }
        if Value.self == Double.self { return finite(unsafeBitCast(value, to: Double.self), Double.self) }
        if Value.self == Bool.self { return .bool(unsafeBitCast(value, to: Bool.self)) }
        if Value.self == Int64.self { return .int(unsafeBitCast(value, to: Int64.self)) }
        return nil
    }
}

// MARK: - Numbers

extension JSONConversion {
    /// The other numeric types of the standard library and of Foundation.
    private mutating func number(_ value: Any, _ type: Any.Type) -> JSONValue? {
        if type == Float.self, let value = value as? Float { return shortest(value, type) }
        if type == UInt64.self, let value = value as? UInt64 { return .uint(value) }
        if type == Int32.self, let value = value as? Int32 { return .int(Int64(value)) }
        if type == UInt.self, let value = value as? UInt { return .uint(UInt64(value)) }
        if type == Decimal.self, let value = value as? Decimal { return finite(value, type) }
        if type == CGFloat.self, let value = value as? CGFloat { return finite(Double(value), type) }
        if type == Int8.self, let value = value as? Int8 { return .int(Int64(value)) }
        if type == Int16.self, let value = value as? Int16 { return .int(Int64(value)) }
        if type == UInt8.self, let value = value as? UInt8 { return .int(Int64(value)) }
        if type == UInt16.self, let value = value as? UInt16 { return .int(Int64(value)) }
        if type == UInt32.self, let value = value as? UInt32 { return .int(Int64(value)) }
        return nil
    }

    mutating func finite(_ number: Double, _ type: Any.Type) -> JSONValue {
        number.isFinite ? .double(number) : null("\(type) that is not finite")
    }

    mutating func finite(_ number: Decimal, _ type: Any.Type) -> JSONValue {
        number.isFinite ? .decimal(number) : null("\(type) that is not finite")
    }

    /// By way of its text: a `Float` of 1.1 is 1.1, and not the 1.10000002384 that lies nearest to it.
    mutating func shortest(_ number: some BinaryFloatingPoint, _ type: Any.Type) -> JSONValue {
        finite(number.isFinite ? Double("\(number)") ?? Double(number) : .nan, type)
    }

    /// Integer types that are not named here because they are newer than the oldest system or someone else's.
    private mutating func whole(_ number: some BinaryInteger, _ type: Any.Type) -> JSONValue {
        if let number = Int64(exactly: number) { return .int(number) }
        if let number = UInt64(exactly: number) { return .uint(number) }
        let text = "\(number)"
        guard let decimal = Decimal(string: text, locale: nil), decimal.description == text else {
            return null("\(type) with more digits than a decimal has")
        }
        return .decimal(decimal)
    }
}

// MARK: - Texts

extension JSONConversion {
    /// What becomes a text or a list of texts, and what is JSON already.
    private mutating func text(_ value: Any, _ type: Any.Type) -> JSONValue? {
        if type == [String].self, let values = value as? [String] { return list(values) }
        if type == Date.self, let value = value as? Date { return text(value) }
        if type == URL.self, let value = value as? URL { return .string(value.absoluteString) }
        if type == UUID.self, let value = value as? UUID { return .string(value.uuidString.lowercased()) }
        if type == JSONValue.self, let value = value as? JSONValue { return checked(value) }
        if type == JSONObject.self, let value = value as? JSONObject { return checked(.object(value)) }
        if type == Substring.self, let value = value as? Substring { return .string(String(value)) }
        if type == Character.self, let value = value as? Character { return .string(String(value)) }
        if type == Data.self, let value = value as? Data { return .string(value.base64EncodedString()) }
        return nil
    }

    mutating func text(_ date: Date) -> JSONValue {
        let value = JSONValue(date)
        return value == .null ? null("Date outside the years 0000 to 9999") : value
    }

    /// JSON as it is, unless something in it is too deep or not finite.
    private mutating func checked(_ value: JSONValue) -> JSONValue {
        value.isSound(levels: Self.maximumDepth - depth) ? value : mended(value)
    }

    private mutating func mended(_ value: JSONValue) -> JSONValue {
        switch value {
        case .null, .bool, .int, .uint, .string: return value
        case .double(let number): return finite(number, Double.self)
        case .decimal(let number): return finite(number, Decimal.self)
        case .array(let values):
            guard enter() else { return .null }
            defer { leave() }
            return .array(values.map { mended($0) })
        case .object(let object):
            guard enter() else { return .null }
            defer { leave() }
            return .object(JSONObject(distinct: object.map { ($0.key, mended($0.value)) }))
        }
    }
}

extension JSONValue {
    /// Whether all numbers are finite and nothing lies deeper than `levels`.
    fileprivate func isSound(levels: Int) -> Bool {
        switch self {
        case .null, .bool, .int, .uint, .string: true
        case .double(let number): number.isFinite
        case .decimal(let number): number.isFinite
        case .array(let values): levels > 0 && values.allSatisfy { $0.isSound(levels: levels - 1) }
        case .object(let object): levels > 0 && object.allSatisfy { $0.value.isSound(levels: levels - 1) }
        }
    }
}

// MARK: - What consists of other values

/// The standard library's wrappers and collections, which hand their parts to the conversion.
///
/// Not every `Collection`: a lazy one may have more elements than there is time for.
private protocol Convertible {
    func converted(by conversion: inout JSONConversion) -> JSONValue
}

extension JSONConversion {
    private mutating func structure(_ value: Any, _ type: Any.Type) -> JSONValue {
        if let value = value as? any Convertible { return value.converted(by: &self) }
        if type is AnyClass, let json = reference(value as AnyObject) { return json }
        return custom(value, type)
    }

    /// Types that are not the standard library's or Foundation's, by what they conform to.
    private mutating func custom(_ value: Any, _ type: Any.Type) -> JSONValue {
        if let value = value as? any RawRepresentable { return raw(value) }
        if let number = otherNumber(value, type) { return number }
        if let value = value as? any Encodable { return encoded(value, type) }
        return null("\(type) has no JSON form")
    }

    private mutating func otherNumber(_ value: Any, _ type: Any.Type) -> JSONValue? {
        if let value = value as? any BinaryInteger { return whole(value, type) }
        if let value = value as? any BinaryFloatingPoint { return shortest(value, type) }
        return nil
    }

    private mutating func raw(_ value: some RawRepresentable) -> JSONValue {
        let before = unwrapped
        defer { unwrapped = before }
        return unwrap() ? self.value(value.rawValue) : .null
    }

    mutating func list(_ elements: some Collection) -> JSONValue {
        guard enter() else { return .null }
        defer { leave() }
        var values: [JSONValue] = []
        values.reserveCapacity(elements.count)
        for element in elements { values.append(value(element)) }
        return .array(values)
    }

    /// Elements without an order of their own get one that is the same in every run: that of their encoded forms.
    mutating func sortedList(_ elements: some Collection) -> JSONValue {
        guard case .array(let values) = list(elements) else { return .null }
        let sorted = values.map { (value: $0, text: Array($0.description.utf8)) }
            .sorted { $0.text.lexicographicallyPrecedes($1.text) }
        return .array(sorted.map(\.value))
    }

    private mutating func dictionary(_ values: [String: Any]) -> JSONValue {
        guard enter() else { return .null }
        defer { leave() }
        return .object(members(values))
    }

    private mutating func members(_ values: [String: Any]) -> JSONObject {
        var members: [JSONObject.Pair] = []
        members.reserveCapacity(values.count)
        for (key, element) in values { members.append((key, value(element))) }
        members.sort { $0.0 < $1.0 }  // after the conversion: a converted value is cheaper to move
        return JSONObject(distinct: members)
    }

    /// An object of members in any order, or `null` if a key is no text.
    ///
    /// - Parameter isSorted: Whether the keys are sorted, else they keep their order. Of equal keys the first wins.
    mutating func dictionary(
        _ elements: some Sequence<(key: Any, value: Any)>, _ type: Any.Type, isSorted: Bool = true
    ) -> JSONValue {
        guard let elements = Self.textKeyed(elements, isSorted: isSorted) else {
            return null("\(type) with keys that are not strings")
        }
        guard enter() else { return .null }
        defer { leave() }
        var members: [JSONObject.Pair] = []
        members.reserveCapacity(elements.count)
        for (key, element) in elements { members.append((key, value(element))) }
        return .object(JSONObject(members, areSorted: isSorted))
    }

    private static func textKeyed(
        _ elements: some Sequence<(key: Any, value: Any)>, isSorted: Bool
    ) -> [(key: String, value: Any)]? {
        var result: [(key: String, value: Any)] = []
        result.reserveCapacity(elements.underestimatedCount)
        for (key, value) in elements {
            guard let key = Self.key(key) else { return nil }
            result.append((key, value))
        }
        if isSorted { result.sort { $0.key < $1.key } }
        return result
    }

    private static func key(_ key: Any) -> String? {
        if let key = key as? String { return key }
        if let key = key as? Substring { return String(key) }
        return nil
    }
}

extension JSONObject {
    /// Texts that differ in normalisation only are two keys to Foundation, and one here: of equal keys the first wins.
    fileprivate init(_ members: [Pair], areSorted: Bool) {
        guard areSorted else {
            self.init(literal: members)
            return
        }
        var members = members
        for index in members.indices.dropFirst().reversed() where members[index].0 == members[index - 1].0 {
            members.remove(at: index)
        }
        self.init(distinct: members)
    }
}

extension Optional: Convertible {
    func converted(by conversion: inout JSONConversion) -> JSONValue {
        if case .some(let value) = self { conversion.value(value) } else { .null }
    }
}

extension AnyHashable: Convertible {
    func converted(by conversion: inout JSONConversion) -> JSONValue { conversion.value(base) }
}

extension Array: Convertible {
    func converted(by conversion: inout JSONConversion) -> JSONValue { conversion.list(self) }
}

extension ArraySlice: Convertible {
    func converted(by conversion: inout JSONConversion) -> JSONValue { conversion.list(self) }
}

extension ContiguousArray: Convertible {
    func converted(by conversion: inout JSONConversion) -> JSONValue { conversion.list(self) }
}

extension CollectionOfOne: Convertible {
    func converted(by conversion: inout JSONConversion) -> JSONValue { conversion.list(self) }
}

extension EmptyCollection: Convertible {
    func converted(by conversion: inout JSONConversion) -> JSONValue { conversion.list(self) }
}

extension ReversedCollection: Convertible where Base: Convertible {
    func converted(by conversion: inout JSONConversion) -> JSONValue { conversion.list(self) }
}

extension Set: Convertible {
    func converted(by conversion: inout JSONConversion) -> JSONValue { conversion.sortedList(self) }
}

extension Dictionary.Keys: Convertible {
    func converted(by conversion: inout JSONConversion) -> JSONValue { conversion.sortedList(self) }
}

extension Dictionary.Values: Convertible {
    func converted(by conversion: inout JSONConversion) -> JSONValue { conversion.sortedList(self) }
}

extension Dictionary: Convertible {
    func converted(by conversion: inout JSONConversion) -> JSONValue {
        let isStringKeyed = Key.self == String.self || Key.self == Substring.self || Key.self == AnyHashable.self
        guard isStringKeyed else { return conversion.null("\(Self.self) with keys that are not strings") }
        return conversion.dictionary(lazy.map { (key: $0.key as Any, value: $0.value as Any) }, Self.self)
    }
}

extension KeyValuePairs: Convertible {
    func converted(by conversion: inout JSONConversion) -> JSONValue {
        conversion.dictionary(lazy.map { (key: $0.key as Any, value: $0.value as Any) }, Self.self, isSorted: false)
    }
}

// MARK: - Objects and encodables

extension JSONConversion {
    /// Converts what is in an object, unless the object lies in itself.
    mutating func within(_ object: AnyObject, _ body: (inout JSONConversion) -> JSONValue) -> JSONValue {
        let identifier = ObjectIdentifier(object)
        guard !ancestors.contains(identifier) else { return null("\(Swift.type(of: object)) that contains itself") }
        ancestors.append(identifier)
        defer { ancestors.removeLast() }
        return body(&self)
    }

    private mutating func encoded(_ value: any Encodable, _ type: Any.Type) -> JSONValue {
        guard type is AnyClass else { return JSONValueEncoder.encode(value, in: &self) }
        return within(value as AnyObject) { JSONValueEncoder.encode(value, in: &$0) }
    }

    /// A value that stands in a container of an encoder.
    ///
    /// - Parameters:
    ///   - value: What the container was given.
    ///   - level: How many objects and lists it lies in; as many as the encoder itself in a single-value container.
    ///   - place: Where it lies.
    mutating func value(_ value: some Encodable, level: Int, place: Place) -> JSONValue {
        let before = (depth, unwrapped, self.place)
        defer { (depth, unwrapped, self.place) = before }
        if level > depth { unwrapped = 0 } else if !unwrap() { return .null }
        depth = level
        self.place = place
        return self.value(value)
    }

    /// Where an encoded value lies: the coding path, put together only where someone asks.
    struct Place {
        var parents: [any CodingKey] = []
        var key: (any CodingKey)?

        var codingPath: [any CodingKey] { key.map { parents + [$0] } ?? parents }
    }
}

// MARK: - Bounds

extension JSONConversion {
    /// `null` in the place of a value that has no JSON form.
    mutating func null(_ reason: String) -> JSONValue {
        let problem = Problem(reason: reason)
        if !noted.contains(problem) { noted.append(problem) }
        return .null
    }

    /// Whether objects and lists may lie at a level; if not, that is noted.
    mutating func allows(level: Int) -> Bool {
        if level <= Self.maximumDepth { return true }
        _ = null("deeper than \(Self.maximumDepth) levels")
        return false
    }

    private mutating func enter() -> Bool {
        guard allows(level: depth + 1) else { return false }
        depth += 1
        unwrapped = 0
        return true
    }

    private mutating func leave() { depth -= 1 }

    /// One wrapper more. There is a bound for what wraps itself.
    private mutating func unwrap() -> Bool {
        guard allows(level: unwrapped + 1) else { return false }
        unwrapped += 1
        return true
    }
}
