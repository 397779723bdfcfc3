import Testing
import Tiller

struct JSONObjectTests {
    // MARK: Members

    @Test func keysKeepTheOrderTheyCameIn() {
        var object: JSONObject = ["b": 1, "a": 2]
        object["c"] = 3
        object["a"] = 4
        #expect(object.keys == ["b", "a", "c"])
        #expect(object.description == #"{"b":1,"a":4,"c":3}"#)
        #expect(object.map(\.key) == object.keys)
    }

    @Test func ofEqualKeysInALiteralTheFirstWins() {
        let object: JSONObject = ["a": 1, "b": 2, "a": 3]
        #expect(object.description == #"{"a":1,"b":2}"#)
        let value: JSONValue = ["a": 1, "a": ["b": 1, "b": 2]]
        #expect(value.description == #"{"a":1}"#)
    }

    @Test func settingNilRemoves() {
        var object: JSONObject = ["a": 1, "b": nil]
        #expect(object.count == 2)
        #expect(object["b"] == .some(.null))
        object["b"] = nil
        object["missing"] = nil
        #expect(object.description == #"{"a":1}"#)
        object["b"] = .some(.null)
        #expect(object.description == #"{"a":1,"b":null}"#)
        object["a"] = nil
        object["b"] = nil
        #expect(object.isEmpty)
        #expect(object == JSONObject())
    }

    @Test func copiesAreIndependent() {
        let original: JSONObject = ["a": ["b": 1]]
        var copy = original
        copy["a"]["b"] = 2
        copy["c"] = 3
        #expect(original.description == #"{"a":{"b":1}}"#)
        #expect(copy.description == #"{"a":{"b":2},"c":3}"#)
    }

    @Test func mergingTakesTheOthersValuesAndKeepsThePlace() {
        var object: JSONObject = ["a": 1, "b": ["x": 1]]
        object.merge(["b": ["y": 2], "c": nil])
        #expect(object.description == #"{"a":1,"b":{"y":2},"c":null}"#)
        var empty = JSONObject()
        empty.merge(object)
        #expect(empty.description == object.description)
        object.merge([:])
        #expect(empty == object)
    }

    // MARK: Equality

    static let pairs: [(JSONObject, JSONObject, Bool)] = [
        ([:], [:], true),
        (["a": 1, "b": 2], ["b": 2, "a": 1], true),
        (["a": 1], ["a": .uint(1)], true),
        (["a": ["b": 1, "c": 2]], ["a": ["c": 2, "b": 1]], true),
        (["a": 1], ["a": 1, "b": 2], false),
        (["a": 1, "b": 2], ["a": 1], false),
        (["a": 1], ["b": 1], false),
        (["a": 1], ["a": 2], false),
        (["a": nil], [:], false),
        (["a": [1, 2]], ["a": [2, 1]], false),
    ]

    @Test(arguments: pairs)
    func orderOfKeysDoesNotCount(left: JSONObject, right: JSONObject, areEqual: Bool) {
        #expect((left == right) == areEqual)
        #expect((right == left) == areEqual)
    }

    @Test func aBaseDoesNotCountForEquality() {
        var laid: JSONObject = ["own": 1]
        laid.lay(over: JSONObject.Base(["base": 2]))
        #expect(laid == ["own": 1, "base": 2])
        #expect(laid != ["own": 1])
        laid["base"] = nil
        #expect(laid == ["own": 1])
    }

    // MARK: Paths

    @Test func aPathIsSetInOneLine() {
        var object = JSONObject()
        object["a"]["b"]["c"] = 1
        object["a"]["b"]["d"] = ["x"]
        #expect(object.description == #"{"a":{"b":{"c":1,"d":["x"]}}}"#)
        #expect(object["a"]["b"]["c"] == 1)
        #expect(object["a"]["missing"]["c"] == nil)
        #expect(object["a"]["b"]["c"]["deeper"] == nil)
    }

    @Test func removingAPathMakesAndBreaksNothing() {
        var object: JSONObject = ["a": ["b": 1, "c": 2], "text": "kept", "list": [1], "nothing": nil]
        object["a"]["b"] = nil
        object["missing"]["b"] = nil
        object["a"]["missing"]["x"] = nil
        object["text"]["b"] = nil
        object["list"]["b"]["c"] = nil
        object["nothing"]["b"] = nil
        #expect(object.description == #"{"a":{"c":2},"text":"kept","list":[1],"nothing":null}"#)
    }

    @Test func settingAPathMakesAnObjectOfWhatWasNone() {
        var object: JSONObject = ["a": "text"]
        object["a"]["b"] = 1
        #expect(object.description == #"{"a":{"b":1}}"#)
    }

    @Test func aPathIntoTheBaseChangesThisObjectOnly() {
        let base = JSONObject.Base(["app": ["name": "x", "build": "1"], "os": "linux"])
        var first = JSONObject()
        var second = JSONObject()
        first.lay(over: base)
        second.lay(over: base)
        first["app"]["name"] = "y"
        first["app"]["build"] = nil
        #expect(first.description == #"{"os":"linux","app":{"name":"y"}}"#)
        #expect(second.description == #"{"app":{"name":"x","build":"1"},"os":"linux"}"#)
    }

    // MARK: The base

    private static let base = JSONObject.Base(["a": 1, "b": "two", "c": [3]])

    private func laid(_ own: JSONObject = [:]) -> JSONObject {
        var object = own
        object.lay(over: Self.base)
        return object
    }

    @Test func theBaseComesFirst() {
        let object = laid(["x": true, "y": nil])
        #expect(object.description == #"{"a":1,"b":"two","c":[3],"x":true,"y":null}"#)
        #expect(object.keys == ["a", "b", "c", "x", "y"])
        #expect(object.count == 5)
        #expect(object.map(\.value) == [1, "two", [3], true, nil])
        #expect(object["b"] == "two")
        #expect(laid().description == #"{"a":1,"b":"two","c":[3]}"#)
    }

    @Test func theBaseWinsOverOwnMembers() {
        #expect(laid(["b": "mine", "x": 1]).description == #"{"a":1,"b":"two","c":[3],"x":1}"#)
    }

    @Test(arguments: [
        ("a", #"{"b":"two","c":[3],"x":1}"#), ("b", #"{"a":1,"c":[3],"x":1}"#), ("c", #"{"a":1,"b":"two","x":1}"#),
    ])
    func aMemberOfTheBaseIsRemoved(key: String, json: String) {
        var object = laid(["x": 1])
        object[key] = nil
        #expect(object.description == json)
        #expect(object[key] == nil)
        #expect(object.count == 3)
        #expect(!object.keys.contains(key))
        object[key] = nil
        #expect(object.description == json)
    }

    @Test func aMemberOfTheBaseIsReplacedOnce() {
        var object = laid(["x": 1])
        object["b"] = "mine"
        #expect(object.description == #"{"a":1,"c":[3],"x":1,"b":"mine"}"#)
        object["b"] = "again"
        #expect(object["b"] == "again")
        #expect(object.count == 4)
        object["b"] = nil
        #expect(object["b"] == nil)
        #expect(object.description == #"{"a":1,"c":[3],"x":1}"#)
    }

    @Test func everythingOfTheBaseCanBeRemoved() {
        var object = laid()
        for key in ["a", "b", "c"] { object[key] = nil }
        #expect(object.isEmpty)
        #expect(object.description == "{}")
        object["x"] = 1
        #expect(object.description == #"{"x":1}"#)
    }

    @Test func otherObjectsOverTheSameBaseAreUntouched() {
        var first = laid()
        let second = laid()
        first["a"] = nil
        let third = first
        first["b"] = 5
        #expect(second.description == #"{"a":1,"b":"two","c":[3]}"#)
        #expect(third.description == #"{"b":"two","c":[3]}"#)
        #expect(laid().count == 3)
    }

    @Test func laidOverASecondBaseTheFirstBecomesOrdinaryMembers() {
        var object = laid(["x": 1])
        object["b"] = nil
        object.lay(over: JSONObject.Base(["c": "new", "z": 0]))
        #expect(object.description == #"{"c":"new","z":0,"a":1,"x":1}"#)
        #expect(object["c"] == "new")
    }

    @Test func mergingIntoALaidObjectReplacesTheBasesMembers() {
        var object = laid()
        object.merge(["a": 5, "x": 6])
        #expect(object.description == #"{"b":"two","c":[3],"a":5,"x":6}"#)
    }

    @Test func anEmptyBaseAddsNothing() {
        var object: JSONObject = ["x": 1]
        object.lay(over: JSONObject.Base([:]))
        #expect(object.description == #"{"x":1}"#)
        #expect(object.count == 1)
    }

    @Test func aBaseOfALaidObjectHasAllItsMembers() {
        var object: JSONObject = ["own": 1]
        object.lay(over: JSONObject.Base(laid(["x": 1])))
        #expect(object.description == #"{"a":1,"b":"two","c":[3],"x":1,"own":1}"#)
    }

    /// A layer tells 64 members apart; the others must not be lost.
    @Test(arguments: [63, 64, 65, 200])
    func aLargeBaseIsComplete(count: Int) {
        var members = JSONObject()
        for index in 0..<count { members["k\(index)"] = .int(Int64(index)) }
        var object: JSONObject = ["own": true, "k\(count - 1)": "loses"]
        object.lay(over: JSONObject.Base(members))
        #expect(object.count == count + 1)
        #expect(
            object.keys == (0..<count).prefix(64).map { "k\($0)" } + ["own"]
                + (0..<count).dropFirst(64).map { "k\($0)" })
        for index in 0..<count { #expect(object["k\(index)"] == .int(Int64(index))) }
        for index in 0..<count where index.isMultiple(of: 2) { object["k\(index)"] = nil }
        #expect(object.count == count / 2 + 1)
        #expect(object["k1"] == 1)
    }

    @Test func textsInTheBaseAreEscaped() throws {
        var object = JSONObject()
        object.lay(over: JSONObject.Base([#"a"\"#: "\u{0}\n\"", "é": "😀"]))
        #expect(object.description == #"{"a\"\\":"\u0000\n\"","é":"😀"}"#)
        #expect(try JSONValue(parsing: object.description).object == object)
    }
}
