/// An encoder that makes a `JSONValue`, with the rules of `JSONConversion` for every value in it.
///
/// What `encode(to:)` throws costs the value that threw, and no other: it is caught here and not seen by what encloses the
/// value. Neither does misuse that Foundation's encoders answer with a trap cost more. As there, of equal keys the last
/// wins, a container that is asked for twice is the same one, and a value that encodes nothing is an empty object.
final class JSONValueEncoder: Encoder {
    let codingPath: [any CodingKey]
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    private let scope: Scope
    /// How many objects and lists the value lies in.
    private let level: Int
    private var slot: Slot?

    static func encode(_ value: some Encodable, in conversion: inout JSONConversion) -> JSONValue {
        let scope = Scope(conversion: conversion, type: type(of: value))
        let encoder = JSONValueEncoder(scope, level: conversion.depth, codingPath: conversion.place.codingPath)
        defer { conversion = scope.conversion }
        do {
            try value.encode(to: encoder)
            return encoder.value
        } catch {
            return scope.conversion.null("\(scope.type) that threw \(type(of: error)) when encoded")
        }
    }

    private init(_ scope: Scope, level: Int, codingPath: [any CodingKey]) {
        self.scope = scope
        self.level = level
        self.codingPath = codingPath
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        let members: Members
        if case .object(let present) = slot {
            members = present
        } else {
            members = Members(level: level + 1)
            fill(scope.admitted(.object(members), level: level + 1))
        }
        return KeyedEncodingContainer(KeyedContainer(scope: scope, members: members, codingPath: codingPath))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer {
        let elements: Elements
        if case .list(let present) = slot {
            elements = present
        } else {
            elements = Elements(level: level + 1)
            fill(scope.admitted(.list(elements), level: level + 1))
        }
        return UnkeyedContainer(scope: scope, elements: elements, codingPath: codingPath)
    }

    func singleValueContainer() -> any SingleValueEncodingContainer { self }

    fileprivate var value: JSONValue { slot?.value ?? .object(JSONObject()) }

    /// Two containers of different kinds, or two values in a single-value container, are a mistake.
    private func fill(_ slot: Slot) {
        self.slot = self.slot == nil ? slot : .value(scope.conversion.null("\(scope.type) that encodes itself twice"))
    }
}

extension JSONValueEncoder: SingleValueEncodingContainer {
    func encodeNil() { fill(.value(.null)) }

    func encode(_ value: some Encodable) {
        let place = JSONConversion.Place(parents: codingPath)
        fill(.value(scope.convert(value, level: level, place: place)))
    }
}

// MARK: - What is being built

extension JSONValueEncoder {
    /// What the containers of one encoded value share.
    private final class Scope {
        var conversion: JSONConversion
        /// The type of the value, for the text of a problem.
        let type: Any.Type

        init(conversion: JSONConversion, type: Any.Type) {
            self.conversion = conversion
            self.type = type
        }

        func convert(_ value: some Encodable, level: Int, place: JSONConversion.Place) -> JSONValue {
            // On a copy: the value's own code runs in here, and may write to these containers again.
            var conversion = conversion
            defer { self.conversion = conversion }
            return conversion.value(value, level: level, place: place)
        }

        /// A container, or `null` where it is too deep; what is written to it is then lost.
        func admitted(_ container: Slot, level: Int) -> Slot {
            conversion.allows(level: level) ? container : .value(.null)
        }
    }

    /// The place of a value that may still be under construction.
    private enum Slot {
        case value(JSONValue)
        case object(Members)
        case list(Elements)
        case encoder(JSONValueEncoder)

        var value: JSONValue {
            switch self {
            case .value(let value): value
            case .object(let members): .object(JSONObject(distinct: members.pairs.map { ($0.key, $0.slot.value) }))
            case .list(let elements): .array(elements.slots.map(\.value))
            case .encoder(let encoder): encoder.value
            }
        }
    }

    private final class Members {
        let level: Int
        private(set) var pairs: [(key: String, slot: Slot)] = []
        /// Where the keys stand, once there are too many to look at each.
        private var indices: [String: Int] = [:]
        private static let manyPairs = 16

        init(level: Int) { self.level = level }

        subscript(key: String) -> Slot? { index(of: key).map { pairs[$0].slot } }

        func set(_ key: String, _ slot: Slot) {
            if let index = index(of: key) {
                pairs[index].slot = slot
                return
            }
            pairs.append((key, slot))
            if pairs.count == Self.manyPairs {
                for (index, pair) in pairs.enumerated() { indices[pair.key] = index }
            } else if pairs.count > Self.manyPairs {
                indices[key] = pairs.count - 1
            }
        }

        private func index(of key: String) -> Int? {
            pairs.count < Self.manyPairs ? pairs.firstIndex { $0.key == key } : indices[key]
        }
    }

    private final class Elements {
        let level: Int
        var slots: [Slot] = []

        init(level: Int) { self.level = level }
    }
}

// MARK: - Containers

extension JSONValueEncoder {
    private struct KeyedContainer<Key: CodingKey>: KeyedEncodingContainerProtocol {
        let scope: Scope
        let members: Members
        let codingPath: [any CodingKey]

        func encodeNil(forKey key: Key) { members.set(key.stringValue, .value(.null)) }

        func encode(_ value: some Encodable, forKey key: Key) {
            let place = JSONConversion.Place(parents: codingPath, key: key)
            members.set(key.stringValue, .value(scope.convert(value, level: members.level, place: place)))
        }

        func nestedContainer<NestedKey: CodingKey>(
            keyedBy keyType: NestedKey.Type, forKey key: Key
        ) -> KeyedEncodingContainer<NestedKey> {
            let nested: Members
            if case .object(let present) = members[key.stringValue] {
                nested = present
            } else {
                nested = Members(level: members.level + 1)
                members.set(key.stringValue, scope.admitted(.object(nested), level: nested.level))
            }
            return KeyedEncodingContainer(
                KeyedContainer<NestedKey>(scope: scope, members: nested, codingPath: codingPath + [key]))
        }

        func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
            let nested: Elements
            if case .list(let present) = members[key.stringValue] {
                nested = present
            } else {
                nested = Elements(level: members.level + 1)
                members.set(key.stringValue, scope.admitted(.list(nested), level: nested.level))
            }
            return UnkeyedContainer(scope: scope, elements: nested, codingPath: codingPath + [key])
        }

        func superEncoder() -> any Encoder { encoder(PlainKey.super) }

        func superEncoder(forKey key: Key) -> any Encoder { encoder(key) }

        private func encoder(_ key: any CodingKey) -> any Encoder {
            let encoder = JSONValueEncoder(scope, level: members.level, codingPath: codingPath + [key])
            members.set(key.stringValue, .encoder(encoder))
            return encoder
        }
    }

    private struct UnkeyedContainer: UnkeyedEncodingContainer {
        let scope: Scope
        let elements: Elements
        let codingPath: [any CodingKey]

        var count: Int { elements.slots.count }

        func encodeNil() { elements.slots.append(.value(.null)) }

        func encode(_ value: some Encodable) {
            let place = JSONConversion.Place(parents: codingPath, key: nextKey)
            elements.slots.append(.value(scope.convert(value, level: elements.level, place: place)))
        }

        func nestedContainer<NestedKey: CodingKey>(
            keyedBy keyType: NestedKey.Type
        ) -> KeyedEncodingContainer<NestedKey> {
            let nested = Members(level: elements.level + 1)
            let path = codingPath + [nextKey]
            elements.slots.append(scope.admitted(.object(nested), level: nested.level))
            return KeyedEncodingContainer(KeyedContainer<NestedKey>(scope: scope, members: nested, codingPath: path))
        }

        func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer {
            let nested = Elements(level: elements.level + 1)
            let path = codingPath + [nextKey]
            elements.slots.append(scope.admitted(.list(nested), level: nested.level))
            return UnkeyedContainer(scope: scope, elements: nested, codingPath: path)
        }

        func superEncoder() -> any Encoder {
            let encoder = JSONValueEncoder(scope, level: elements.level, codingPath: codingPath + [nextKey])
            elements.slots.append(.encoder(encoder))
            return encoder
        }

        private var nextKey: PlainKey { PlainKey(intValue: count) }
    }

    /// The key of an element or of a superclass.
    private struct PlainKey: CodingKey {
        static let `super` = PlainKey(stringValue: "super")

        let stringValue: String
        let intValue: Int?

        init(stringValue: String) {
            self.stringValue = stringValue
            intValue = nil
        }

        init(intValue: Int) {
            stringValue = "Index \(intValue)"
            self.intValue = intValue
        }
    }
}
