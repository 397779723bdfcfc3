/// A JSON object that keeps the order of its keys.
///
/// It can lie over a `Base`, an object that many events share (the static
/// context): the base's encoded form is copied into the event's bytes as it
/// is, and its values are still read, replaced and removed like any others.
///
/// Of equal keys the first wins, as at the gateway.
public struct JSONObject: Sendable {
    /// A key and its value: without names, so that the array of a literal is taken as it is.
    typealias Pair = (String, JSONValue)

    /// Own members, in order; no key twice, and none that the visible part of the base has.
    private var pairs: [Pair]
    private var base: Base?

    /// An object without members.
    public init() { pairs = [] }

    /// Of equal keys the first wins.
    init(literal elements: [Pair]) {
        pairs = elements
        if !elements.areDistinct {
            pairs = []
            for pair in elements where !pairs.contains(where: { $0.0 == pair.0 }) { pairs.append(pair) }
        }
    }

    /// For keys that are known to differ.
    init(distinct pairs: [Pair]) { self.pairs = pairs }
}

// MARK: - Members

extension JSONObject {
    /// How many members there are.
    public var count: Int { pairs.count + (base?.visibleCount ?? 0) }

    /// Whether there is no member.
    public var isEmpty: Bool { pairs.isEmpty && (base?.visibleCount ?? 0) == 0 }

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
            for index in pairs.indices where pairs[index].0 == key { return pairs[index].1 }
            return base?[key]
        }
        set {
            if let index = pairs.firstIndex(where: { $0.0 == key }) {
                if let newValue { pairs[index].1 = newValue } else { pairs.remove(at: index) }
                return
            }
            if let hidden = base?.hiding(key) { base = hidden }
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
            let baseCount = object.base?.pairs.count ?? 0
            while index < baseCount, object.base?.isHidden(index) == true { index += 1 }
            defer { index += 1 }
            if index < baseCount { return object.base?.pairs[index] }
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
        let pairs: [Pair]
        /// What is not shared: 64 members can be told apart.
        let rest: [Pair]
        /// The members as JSON text, comma between them, without the braces.
        let encoded: [UInt8]
        /// A mark of each key; `nil`: they tell nothing.
        fileprivate let marks: UInt64?
        /// Where each member stands in `encoded`.
        let ranges: [Range<Int>]
        /// The members that are replaced or removed in an object that lies over this, one bit each.
        let hidden: UInt64
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
            let all = object.map { ($0.key, $0.value) }
            pairs = Array(all.prefix(64))
            rest = Array(all.dropFirst(64))
            for (key, value) in pairs {
                if !ranges.isEmpty { writer.append(UInt8(ascii: ",")) }
                let start = writer.count
                writer.writeMember(key, value)
                ranges.append(start..<writer.count)
            }
            encoded = writer.bytes
            marks = Keys(pairs.map(\.0)).marks
            self.ranges = ranges
            hidden = 0
        }

        private init(_ base: Base, hiding index: Int) {
            pairs = base.pairs
            rest = base.rest
            encoded = base.encoded
            marks = base.marks
            ranges = base.ranges
            hidden = base.hidden | (1 << UInt64(index))
        }

        var visibleCount: Int { pairs.count - hidden.nonzeroBitCount }

        func isHidden(_ index: Int) -> Bool { hidden & (1 << UInt64(index)) != 0 }

        subscript(key: String) -> JSONValue? {
            guard let index = visibleIndex(of: key) else { return nil }
            return pairs[index].1
        }

        /// The base without a key; `nil` if it shows none such.
        func hiding(_ key: String) -> Base? {
            guard let index = visibleIndex(of: key) else { return nil }
            return Base(self, hiding: index)
        }

        func hasMember(_ key: String) -> Bool { pairs.has(key) || !rest.isEmpty && rest.has(key) }

        private func visibleIndex(of key: String) -> Int? {
            guard let index = pairs.firstIndex(where: { $0.0 == key }), !isHidden(index) else { return nil }
            return index
        }
    }

    /// Lays this object over a base: what the base has wins over own members of the same key.
    ///
    /// A base that lay there before becomes ordinary members first.
    ///
    /// - Parameter base: The shared members.
    public mutating func lay(over base: Base) {
        if self.base != nil {
            pairs = map { ($0.key, $0.value) }
            self.base = nil
        }
        // Asked first: who removes nothing from an array copies it all the same.
        if pairs.contains(where: { base.hasMember($0.0) }) { pairs.removeAll { base.hasMember($0.0) } }
        if !base.rest.isEmpty { pairs += base.rest }
        self.base = base
    }

    /// Keys that are looked for in many objects.
    struct Keys: Sendable {
        let texts: [String]
        /// A mark of each; `nil` where one is no ASCII.
        fileprivate let marks: UInt64?

        init(_ texts: [String]) {
            self.texts = texts
            marks = texts.reduce(0) { marks, text in marks.flatMap { all in text.asciiMark.map { all | $0 } } }
        }
    }

    /// Whether nothing under these keys is other than in an object that this was a copy of. May be false though it is so.
    func isUntouched(under keys: Keys, since before: JSONObject) -> Bool {
        let isSameArray = pairs.withUnsafeBufferPointer { own in
            before.pairs.withUnsafeBufferPointer { own.baseAddress == $0.baseAddress && own.count == $0.count }
        }
        guard isSameArray, before.base == nil else { return false }
        guard let base else { return true }
        guard let mine = base.marks, let theirs = keys.marks else { return false }
        return mine & theirs == 0
    }

    /// Own members and the base, for the writer.
    func withParts<Result>(_ body: (_ own: [Pair], _ base: Base?) -> Result) -> Result { body(pairs, base) }
}

extension [JSONObject.Pair] {
    fileprivate func has(_ key: String) -> Bool {
        for index in indices where self[index].0 == key { return true }
        return false
    }

    /// Whether no key is there twice; may be false for keys that are not all ASCII.
    fileprivate var areDistinct: Bool {
        if count < 2 { return true }
        // Equal keys of ASCII have the same mark; those that share one are compared.
        var seen: UInt64 = 0
        for index in indices {
            guard let mark = self[index].0.asciiMark else { return false }
            if seen & mark != 0, self[..<index].contains(where: { $0.0 == self[index].0 }) { return false }
            seen |= mark
        }
        return true
    }
}

extension String {
    /// One bit of 64, the same for equal texts; `nil` if there is anything but ASCII in it.
    fileprivate var asciiMark: UInt64? {
        utf8.withContiguousStorageIfAvailable { utf8 -> UInt64? in
            let raw = UnsafeRawBufferPointer(utf8)
            let count = raw.count
            var mixed = UInt64(truncatingIfNeeded: count)
            var all: UInt64 = 0
            func take(_ word: UInt64) {
                all |= word
                mixed = (mixed ^ word) &* 0x9E37_79B9_7F4A_7C15
            }
            switch count {
            case 8...:
                // The last eight bytes whatever the length, some of them once more.
                for index in stride(from: 0, to: count - 8, by: 8) {
                    take(raw.loadUnaligned(fromByteOffset: index, as: UInt64.self))
                }
                take(raw.loadUnaligned(fromByteOffset: count - 8, as: UInt64.self))
            case 4...:
                take(UInt64(raw.loadUnaligned(fromByteOffset: 0, as: UInt32.self)))
                take(UInt64(raw.loadUnaligned(fromByteOffset: count - 4, as: UInt32.self)))
            default: for byte in raw { take(UInt64(byte)) }
            }
            return all & 0x8080_8080_8080_8080 == 0 ? 1 << (mixed >> 58) : nil
        } ?? nil
    }
}
