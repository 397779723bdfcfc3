/// A JSON object that keeps the order of its keys.
///
/// It can lie over a `Base`, an object that many events share (the static
/// context): the base's encoded form is copied into the event's bytes as it
/// is, and its values are still read, replaced and removed like any others.
///
/// Of equal keys the first wins, as at the gateway.
public struct JSONObject: Sendable {
    /// Own members, in order; no key twice, and none that the visible part of the base has.
    private var pairs: [(key: String, value: JSONValue)]
    private var layer: Layer?

    /// An object without members.
    public init() { pairs = [] }

    /// Of equal keys the first wins.
    init(literal elements: [(String, JSONValue)]) {
        pairs = []
        pairs.reserveCapacity(elements.count)
        for (key, value) in elements where !pairs.contains(where: { $0.key == key }) { pairs.append((key, value)) }
    }

    /// For keys that are known to differ.
    init(distinct pairs: [(key: String, value: JSONValue)]) { self.pairs = pairs }
}

// MARK: - Members

extension JSONObject {
    /// How many members there are.
    public var count: Int { pairs.count + (layer?.visibleCount ?? 0) }

    /// Whether there is no member.
    public var isEmpty: Bool { pairs.isEmpty && (layer?.visibleCount ?? 0) == 0 }

    /// The keys, the base's first, each group in its own order.
    public var keys: [String] { map(\.key) }

    /// The value under a key.
    ///
    /// Setting a new key appends it, setting a known one keeps its place
    /// (unless it is the base's: then the new value comes after the base),
    /// setting `nil` removes it. Linear in the number of members. Keys are
    /// compared as Swift compares texts, by canonical equivalence.
    ///
    /// In a conditional expression (`isKnown ? value : nil`) the `nil` would be
    /// the value `null`, for `JSONValue` has a `nil` literal: there, write
    /// `Optional.none`, or use `if`.
    public subscript(key: String) -> JSONValue? {
        get {
            for pair in pairs where pair.key == key { return pair.value }
            return layer?[key]
        }
        set {
            if let index = pairs.firstIndex(where: { $0.key == key }) {
                if let newValue { pairs[index].value = newValue } else { pairs.remove(at: index) }
                return
            }
            if let hidden = layer?.hiding(key) { layer = hidden }
            if let newValue { pairs.append((key, newValue)) }
        }
    }

    /// Takes over all members of another object; where both have a key, the other's value wins (a shallow merge).
    ///
    /// - Parameter other: Whose members are taken.
    public mutating func merge(_ other: JSONObject) {
        if isEmpty {
            self = other
            return
        }
        for (key, value) in other { self[key] = value }
    }
}

extension JSONObject: Sequence {
    /// Goes over the members, the base's first.
    public struct Iterator: IteratorProtocol, Sendable {
        fileprivate var index = 0
        fileprivate let object: JSONObject

        /// The next member.
        public mutating func next() -> (key: String, value: JSONValue)? {
            let baseCount = object.layer?.base.pairs.count ?? 0
            while index < baseCount, object.layer?.isHidden(index) == true { index += 1 }
            defer { index += 1 }
            if index < baseCount { return object.layer?.base.pairs[index] }
            return index - baseCount < object.pairs.count ? object.pairs[index - baseCount] : nil
        }
    }

    /// An iterator over the members as they are now.
    public func makeIterator() -> Iterator { Iterator(object: self) }
}

extension JSONObject: ExpressibleByDictionaryLiteral {
    /// An object from a literal; of equal keys the first wins.
    public init(dictionaryLiteral elements: (String, JSONValue)...) { self.init(literal: elements) }
}

extension JSONObject: Equatable {
    /// Equal as JSON: the same keys with equal values, in whatever order.
    public static func == (left: JSONObject, right: JSONObject) -> Bool {
        left.count == right.count && left.allSatisfy { right[$0.key] == $0.value }
    }
}

extension JSONObject: CustomStringConvertible {
    /// Compact JSON text.
    public var description: String { JSONValue.object(self).description }
}

// MARK: - The shared base

extension JSONObject {
    /// An object that is encoded once and shared by many.
    ///
    /// `Sendable` and immutable: make one when the values change, and lay it
    /// under each event's context with `JSONObject.lay(over:)`.
    public final class Base: Sendable {
        let pairs: [(key: String, value: JSONValue)]
        /// What is not shared: a layer can tell 64 members apart.
        let rest: [(key: String, value: JSONValue)]
        /// The members as JSON text, comma between them, without the braces.
        let encoded: [UInt8]
        /// Where each member stands in `encoded`.
        let ranges: [Range<Int>]
        /// A rough size in bytes.
        var cost: Int { encoded.count }

        /// Encodes an object.
        ///
        /// - Parameter object: Its members. The first 64 are shared; others
        ///   are copied into each object that is laid over this.
        public init(_ object: JSONObject) {
            var writer = JSONWriter()
            writer.enter()  // members of a top-level key of an event stand two levels deep
            writer.enter()
            var ranges: [Range<Int>] = []
            let all = Array(object)
            pairs = Array(all.prefix(64))
            rest = Array(all.dropFirst(64))
            for pair in pairs {
                if !ranges.isEmpty { writer.bytes.append(UInt8(ascii: ",")) }
                let start = writer.bytes.count
                writer.writeMember(pair.key, pair.value)
                ranges.append(start..<writer.bytes.count)
            }
            encoded = writer.bytes
            self.ranges = ranges
        }
    }

    /// Lays this object over a base: what the base has wins over own members of the same key.
    ///
    /// A base that lay there before becomes ordinary members first.
    ///
    /// - Parameter base: The shared members.
    public mutating func lay(over base: Base) {
        if layer != nil {
            pairs = Array(self)
            layer = nil
        }
        if !pairs.isEmpty {
            pairs.removeAll { pair in
                base.pairs.contains { $0.key == pair.key } || base.rest.contains { $0.key == pair.key }
            }
        }
        if !base.rest.isEmpty { pairs += base.rest }
        layer = Layer(base: base, hidden: 0)
    }

    /// Own members and what is visible of the base, for the writer.
    func withParts<Result>(_ body: (_ own: [(key: String, value: JSONValue)], _ layer: Layer?) -> Result) -> Result {
        body(pairs, layer)
    }

    /// A base, and which of its members are replaced or removed in this object. A class, so that an object is two words.
    final class Layer: Sendable {
        let base: Base
        let hidden: UInt64

        init(base: Base, hidden: UInt64) {
            self.base = base
            self.hidden = hidden
        }

        var visibleCount: Int { base.pairs.count - hidden.nonzeroBitCount }

        func isHidden(_ index: Int) -> Bool { hidden & (1 << UInt64(index)) != 0 }

        subscript(key: String) -> JSONValue? {
            guard let index = visibleIndex(of: key) else { return nil }
            return base.pairs[index].value
        }

        /// The layer without a key; `nil` if it shows none such.
        func hiding(_ key: String) -> Layer? {
            guard let index = visibleIndex(of: key) else { return nil }
            return Layer(base: base, hidden: hidden | (1 << UInt64(index)))
        }

        private func visibleIndex(of key: String) -> Int? {
            guard let index = base.pairs.firstIndex(where: { $0.key == key }), !isHidden(index) else { return nil }
            return index
        }
    }
}
