import Foundation
import Testing

@testable import Tiller

/// What becomes of an `Encodable`, by the rules at `JSONValue.init(any:)`.
struct JSONValueEncoderTests {
    // MARK: The rules of the table, inside

    struct Everything: Encodable {
        enum Kind: String, Encodable { case a = "A" }
        var int = -1
        var uint = UInt64.max
        var int8 = Int8(5)
        var float = Float(1.1)
        var double = 0.1
        var bool = true
        var text = "x"
        var date = Date(timeIntervalSince1970: 1_772_715_605.005)
        var url = URL(string: "https://a.example/b")
        var id = UUID(uuidString: "E621E1F8-C36C-495A-93FC-0C247A3E6E5F")
        var data = Data([0, 0xFF, 0xFE])
        var decimal = Decimal(string: "12345678901234567890.123456789", locale: nil)
        var kind = Kind.a
        var list = [Date(timeIntervalSince1970: 0)]
        var set: Set = ["b", "a"]
        var dictionary = ["b": Float(1.1), "a": 2]
        var absent: Int?
        var nested = Nested()
        struct Nested: Encodable { var size = CGFloat(2.5) }
    }

    @Test func partsFollowTheTableAndKeepTheirOrder() {
        #expect(
            encode(Everything()) == (
                #"""
                {"int":-1,"uint":18446744073709551615,"int8":5,"float":1.1,"double":0.1,"bool":true,"text":"x",
                "date":"2026-03-05T13:00:05.005Z","url":"https://a.example/b",
                "id":"e621e1f8-c36c-495a-93fc-0c247a3e6e5f","data":"AP/+","decimal":12345678901234567890.123456789,
                "kind":"A","list":["1970-01-01T00:00:00.000Z"],"set":["a","b"],"dictionary":{"a":2.0,"b":1.1},
                "nested":{"size":2.5}}
                """#.replacingOccurrences(of: "\n", with: ""), []
            ))
    }

    @Test func partsWithoutAFormCostThemselvesOnly() {
        struct Bad: Encodable {
            var nan = Double.nan
            var list = [1, Float.infinity]
            var keys = [1: "a"]
            var late = Date(timeIntervalSince1970: 1e20)
            var ok = 1
        }
        let (text, problems) = encode(Bad())
        #expect(text == #"{"nan":null,"list":[1.0,null],"keys":null,"late":null,"ok":1}"#)
        #expect(
            problems == [
                "Date outside the years 0000 to 9999", "Dictionary<Int, String> with keys that are not strings",
                "Double that is not finite", "Float that is not finite",
            ])
    }

    @Test func aValueThatEncodesNothingIsAnEmptyObject() {
        struct Nothing: Encodable {}
        struct Silent: Encodable { func encode(to encoder: any Encoder) {} }
        #expect(encode([Nothing()]) == ("[{}]", []))
        #expect(encode(["a": Silent()]) == (#"{"a":{}}"#, []))
    }

    @Test func enumsWithAssociatedValuesAreObjects() {
        enum Payment: Encodable {
            case cash
            case card(number: String, Int)
        }
        #expect(
            encode([Payment.cash, .card(number: "x", 3)]) == (#"[{"cash":{}},{"card":{"number":"x","_1":3}}]"#, []))
    }

    // MARK: Containers

    struct Built: Encodable {
        enum Key: String, CodingKey { case a, b, c, d, e, f }
        let build: (any Encoder) throws -> Void
        init(_ build: @escaping (any Encoder) throws -> Void) { self.build = build }
        func encode(to encoder: any Encoder) throws { try build(encoder) }
    }

    typealias Key = Built.Key

    @Test func nestedContainersKeepTheirPlaceWhileOthersAreFilled() {
        let value = Built { encoder in
            var root = encoder.container(keyedBy: Key.self)
            var list = root.nestedUnkeyedContainer(forKey: .a)
            var object = root.nestedContainer(keyedBy: Key.self, forKey: .b)
            try root.encode(1, forKey: .c)
            try list.encode("x")
            try object.encode(true, forKey: .a)
            var inner = list.nestedContainer(keyedBy: Key.self)
            var innermost = list.nestedUnkeyedContainer()
            try list.encodeNil()
            try innermost.encode(contentsOf: [1, 2])
            try inner.encode(2.5, forKey: .d)
            try object.encodeNil(forKey: .e)
            try object.encodeIfPresent(Int?.none, forKey: .f)
            #expect(list.count == 4)
        }
        #expect(encode(value) == (#"{"a":["x",{"d":2.5},[1,2],null],"b":{"a":true,"e":null},"c":1}"#, []))
    }

    @Test func ofEqualKeysTheLastWinsAtTheFirstPlace() {
        let value = Built { encoder in
            var root = encoder.container(keyedBy: Key.self)
            try root.encode(1, forKey: .a)
            try root.encode(2, forKey: .b)
            try root.encode(3, forKey: .a)
        }
        #expect(encode(value) == (#"{"a":3,"b":2}"#, []))
    }

    /// On both sides of the size at which keys are no longer looked for one by one.
    @Test(arguments: [1, 15, 16, 17, 300])
    func manyKeysAreKeptOnceEach(count: Int) {
        struct Name: CodingKey {
            let stringValue: String
            init(stringValue: String) { self.stringValue = stringValue }
            var intValue: Int? { nil }
            init?(intValue: Int) { nil }
        }
        let value = Built { encoder in
            var root = encoder.container(keyedBy: Name.self)
            for round in 1...2 {
                for index in 0..<count { try root.encode(index * round, forKey: Name(stringValue: "k\(index)")) }
            }
        }
        let members = (0..<count).map { "\"k\($0)\":\($0 * 2)" }.joined(separator: ",")
        #expect(encode(value) == ("{\(members)}", []))
    }

    @Test func aContainerAskedForTwiceIsTheSame() {
        let value = Built { encoder in
            var first = encoder.container(keyedBy: Key.self)
            try first.encode(1, forKey: .a)
            var second = encoder.container(keyedBy: Key.self)
            try second.encode(2, forKey: .b)
            var nested = first.nestedContainer(keyedBy: Key.self, forKey: .c)
            try nested.encode(3, forKey: .a)
            var again = second.nestedContainer(keyedBy: Key.self, forKey: .c)
            try again.encode(4, forKey: .b)
            var list = first.nestedUnkeyedContainer(forKey: .d)
            try list.encode(5)
            var sameList = first.nestedUnkeyedContainer(forKey: .d)
            try sameList.encode(6)
        }
        #expect(encode(value) == (#"{"a":1,"b":2,"c":{"a":3,"b":4},"d":[5,6]}"#, []))
        let list = Built { encoder in
            var first = encoder.unkeyedContainer()
            try first.encode(1)
            var second = encoder.unkeyedContainer()
            try second.encode(2)
        }
        #expect(encode(list) == ("[1,2]", []))
    }

    class Animal: Encodable {
        var legs = 4
        enum CodingKeys: CodingKey { case legs }
        func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(legs, forKey: .legs)
        }
    }

    final class Dog: Animal {
        var name = "Rex"
        let usesSuperEncoder: Bool
        init(usesSuperEncoder: Bool) { self.usesSuperEncoder = usesSuperEncoder }
        enum DogKeys: CodingKey { case name }
        override func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: DogKeys.self)
            try super.encode(to: usesSuperEncoder ? container.superEncoder() : encoder)
            try container.encode(name, forKey: .name)
        }
    }

    @Test func aSuperclassSharesTheObjectOrHasItsOwn() {
        #expect(encode(Dog(usesSuperEncoder: false)) == (#"{"legs":4,"name":"Rex"}"#, []))
        #expect(encode(Dog(usesSuperEncoder: true)) == (#"{"super":{"legs":4},"name":"Rex"}"#, []))
    }

    @Test func superEncodersFillTheirPlaceLater() {
        let value = Built { encoder in
            var root = encoder.container(keyedBy: Key.self)
            let late = root.superEncoder(forKey: .a)
            _ = root.superEncoder(forKey: .b)  // never used
            var list = root.nestedUnkeyedContainer(forKey: .c)
            let inList = list.superEncoder()
            try list.encode(2)
            try root.encode(3, forKey: .d)
            try 1.encode(to: inList)
            var container = late.container(keyedBy: Key.self)
            try container.encode(Float(1.1), forKey: .f)
            try Date(timeIntervalSince1970: 0).encode(to: root.superEncoder())
        }
        let (text, problems) = encode(value)
        // `Date.encode(to:)` is Foundation's own when it is called by hand: a number.
        #expect(text == #"{"a":{"f":1.1},"b":{},"c":[1,2],"d":3,"super":-978307200.0}"#)
        #expect(problems == [])
    }

    @Test func aSingleValueIsTheValueItself() {
        struct Name: Encodable, Hashable {
            var text = "n"
            func encode(to encoder: any Encoder) throws {
                var container = encoder.singleValueContainer()
                try container.encode(text)
            }
        }
        struct Nil: Encodable {
            func encode(to encoder: any Encoder) throws {
                var container = encoder.singleValueContainer()
                try container.encodeNil()
            }
        }
        #expect(encode(["a": [Name(), Name()]]) == (#"{"a":["n","n"]}"#, []))
        #expect(encode([Nil()]) == ("[null]", []))
        #expect(encode(Set([Name(text: "b"), Name(text: "a")])) == (#"["a","b"]"#, []))
    }

    @Test func theCodingPathLeadsToTheValue() {
        struct Asking: Encodable {
            func encode(to encoder: any Encoder) throws {
                var container = encoder.singleValueContainer()
                try container.encode(path(encoder.codingPath) + "|" + path(container.codingPath))
            }
        }
        let value = Built { encoder in
            #expect(encoder.codingPath.isEmpty && encoder.userInfo.isEmpty)
            var root = encoder.container(keyedBy: Key.self)
            try root.encode(Asking(), forKey: .a)
            var list = root.nestedUnkeyedContainer(forKey: .b)
            try list.encode(Asking())
            try list.encode(Asking())
            var object = list.nestedContainer(keyedBy: Key.self)
            try object.encode(Asking(), forKey: .c)
            try Asking().encode(to: object.superEncoder(forKey: .d))
            try Asking().encode(to: list.superEncoder())
            #expect(path(object.codingPath) == "b.Index 2")
            try root.encode(Built { try Asking().encode(to: $0) }, forKey: .e)
        }
        #expect(
            encode(value).text
                == #"""
                {"a":"a|a","b":["b.Index 0|b.Index 0","b.Index 1|b.Index 1",
                {"c":"b.Index 2.c|b.Index 2.c","d":"b.Index 2.d|b.Index 2.d"},"b.Index 3|b.Index 3"],"e":"e|e"}
                """#.replacingOccurrences(of: "\n", with: ""))
    }

    // MARK: Errors

    struct Refusal: Error { var secret = "s3cret" }

    struct Throwing: Encodable {
        func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: Key.self)
            try container.encode("s3cret", forKey: .a)
            throw Refusal()
        }
    }

    @Test func whatThrowsIsNullAndItsNeighboursAreKept() {
        let expected = ["Throwing that threw Refusal when encoded"]
        #expect(encode(Throwing()) == ("null", expected))
        #expect(encode([1, Throwing(), 2] as [any Encodable]) == ("[1,null,2]", expected))
        let outer = Built { encoder in
            var root = encoder.container(keyedBy: Key.self)
            try root.encode(1, forKey: .a)
            try root.encode(Throwing(), forKey: .b)
            try root.encode([Throwing()], forKey: .c)
            try root.encode(2, forKey: .d)
        }
        #expect(encode(outer) == (#"{"a":1,"b":null,"c":[null],"d":2}"#, expected))
    }

    @Test func problemsBeforeAnErrorAreKept() {
        let value = Built { encoder in
            var root = encoder.container(keyedBy: Key.self)
            try root.encode(Double.nan, forKey: .a)
            throw Refusal()
        }
        #expect(encode([value]) == ("[null]", ["Built that threw Refusal when encoded", "Double that is not finite"]))
    }

    /// Foundation's encoders stop the process for these. (So the cases must not be `Encodable`: the testing library would
    /// encode them to tell them apart.)
    static let misuses: [@Sendable (any Encoder) throws -> Void] = [
        { encoder in
            _ = encoder.container(keyedBy: Key.self)
            _ = encoder.unkeyedContainer()
        },
        { encoder in
            _ = encoder.unkeyedContainer()
            _ = encoder.container(keyedBy: Key.self)
        },
        { encoder in
            _ = encoder.unkeyedContainer()
            try 1.encode(to: encoder)
        },
        { encoder in
            try 1.encode(to: encoder)
            try 2.encode(to: encoder)
        },
        { encoder in
            try 1.encode(to: encoder)
            var container = encoder.container(keyedBy: Key.self)
            try container.encode(1, forKey: .a)
        },
    ]

    @Test(arguments: misuses.indices)
    func misuseCostsTheValue(index: Int) {
        let value = Built(Self.misuses[index])
        #expect(encode([1, value, 2] as [any Encodable]) == ("[1,null,2]", ["Built that encodes itself twice"]))
    }

    @Test func containersUsedAfterwardsDoNoHarm() {
        let kept = Locker()
        let value = Built { encoder in
            var container = encoder.container(keyedBy: Key.self)
            try container.encode(1, forKey: .a)
            kept.later = {
                try container.encode(2, forKey: .b)
                _ = container.nestedUnkeyedContainer(forKey: .c)
            }
        }
        #expect(encode(value) == (#"{"a":1}"#, []))
        #expect(throws: Never.self) { try kept.later() }
    }

    final class Locker { var later: () throws -> Void = {} }

    @Test func aPartMayWriteToWhatEnclosesIt() {
        let value = Built { encoder in
            let outer = encoder.container(keyedBy: Key.self)
            var root = outer
            let box = Locker()
            box.later = {
                var outer = outer
                try outer.encode("from within", forKey: .b)
            }
            try root.encode(
                Built { inner in
                    try box.later()
                    try 1.encode(to: inner)
                }, forKey: .a)
        }
        #expect(encode(value).text == #"{"b":"from within","a":1}"#)
    }

    // MARK: Depth and cycles

    @Test func containersNestTwoHundredLevels() {
        #expect(encode(chain(200)) == (String(repeating: "[", count: 200) + String(repeating: "]", count: 200), []))
        let (text, problems) = encode(chain(300))
        #expect(depth(of: text) == 200)
        #expect(text.contains("[null]"))
        #expect(problems == ["deeper than 200 levels"])
        let (objects, objectProblems) = encode(objectChain(300))
        #expect(depth(of: objects) == 200)
        #expect(objectProblems == ["deeper than 200 levels"])
    }

    private func chain(_ levels: Int) -> Built {
        Built { encoder in
            var container = encoder.unkeyedContainer()
            for _ in 1..<levels { container = container.nestedUnkeyedContainer() }
        }
    }

    private func objectChain(_ levels: Int) -> Built {
        Built { encoder in
            var container = encoder.container(keyedBy: Key.self)
            for level in 1..<levels {
                if level.isMultiple(of: 2) {
                    container = container.nestedContainer(keyedBy: Key.self, forKey: .a)
                } else {
                    container = container.superEncoder(forKey: .b).container(keyedBy: Key.self)
                }
            }
        }
    }

    @Test func levelsBeforeTheEncodableCount() {
        let (text, problems) = encode([[["k": chain(198)]]])
        #expect(depth(of: text) == 200)
        #expect(problems == ["deeper than 200 levels"])
        #expect(encode([[["k": chain(197)]]]).problems == [])
    }

    @Test func aValueThatEncodesItselfEnds() {
        struct Endless: Encodable {
            func encode(to encoder: any Encoder) throws {
                var container = encoder.singleValueContainer()
                try container.encode(self)
            }
        }
        #expect(encode([Endless()]) == ("[null]", ["deeper than 200 levels"]))
    }

    final class Node: Encodable {
        var name: String
        var parent: Node?
        var children: [Node] = []
        init(_ name: String) { self.name = name }
    }

    @Test func aTreeThatKnowsItsParentsEnds() {
        let root = Node("root")
        for name in ["a", "b", "c"] {
            let child = Node(name)
            child.parent = root
            root.children.append(child)
        }
        let (text, problems) = encode(root)
        #expect(
            text
                == #"""
                {"name":"root","children":[{"name":"a","parent":null,"children":[]},
                {"name":"b","parent":null,"children":[]},{"name":"c","parent":null,"children":[]}]}
                """#.replacingOccurrences(of: "\n", with: ""))
        #expect(problems == ["Node that contains itself"])
        root.children = []
    }
}

private func encode(_ value: Any) -> (text: String, problems: [String]) {
    var conversion = JSONConversion()
    let json = conversion.value(value)
    return (json.description, conversion.problems.map(\.reason))
}

private func == (left: (text: String, problems: [String]), right: (String, [String])) -> Bool {
    left.text == right.0 && left.problems == right.1
}

private func path(_ keys: [any CodingKey]) -> String { keys.map(\.stringValue).joined(separator: ".") }
