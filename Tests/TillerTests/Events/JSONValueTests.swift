import Foundation
import Testing
import Tiller

struct JSONValueTests {
    @Test func literalsHaveTheirCases() {
        let value: JSONValue = ["a": 1, "b": 1.5, "c": true, "d": nil, "e": ["x", 2], "f": "v\(1)"]
        #expect(value.description == #"{"a":1,"b":1.5,"c":true,"d":null,"e":["x",2],"f":"v1"}"#)
    }

    @Test func gettersGiveTheirOwnCaseOnly() {
        let values: [JSONValue] = [nil, true, 1, 1.5, "x", [1], ["a": 1]]
        #expect(values.map(\.bool) == [nil, true, nil, nil, nil, nil, nil])
        #expect(values.map(\.int) == [nil, nil, 1, nil, nil, nil, nil])
        #expect(values.map(\.uint) == [nil, nil, 1, nil, nil, nil, nil])
        #expect(values.map(\.double) == [nil, nil, 1, 1.5, nil, nil, nil])
        #expect(values.map(\.string) == [nil, nil, nil, nil, "x", nil, nil])
        #expect(values.map(\.array) == [nil, nil, nil, nil, nil, [1], nil])
        #expect(values.map(\.object) == [nil, nil, nil, nil, nil, nil, ["a": 1]])
    }

    @Test func wholeNumbersAreGivenWhereTheyFit() {
        #expect(JSONValue.uint(5).int == 5)
        #expect(JSONValue.uint(.max).int == nil)
        #expect(JSONValue.int(-1).uint == nil)
        #expect(JSONValue.int(.max).uint == UInt64(Int64.max))
        #expect(JSONValue.int(.min).int == .min)
    }

    @Test(arguments: [
        "0.1", "0.30000000000000004", "12.345678901234567", "1e-20", "-5", "12345678901234567890.123456789",
    ])
    func aDecimalAsDoubleIsTheNearestOne(text: String) throws {
        let decimal = try #require(Decimal(string: text, locale: nil))
        #expect(JSONValue.decimal(decimal).double == Double(text))
    }

    static let equal: [(JSONValue, JSONValue)] = [
        (nil, nil), (true, true), (1, .uint(1)), (.int(.max), .uint(UInt64(Int64.max))), (1.5, 1.5),
        (.decimal(5), 5), (.decimal(5), .uint(5)), (.decimal(Decimal(UInt64.max)), .uint(.max)),
        (.decimal(Decimal(sign: .plus, exponent: -1, significand: 1)), 0.1),
        (.decimal(Decimal(sign: .minus, exponent: -1, significand: 15)), -1.5),
        ("a", "a"), ("\u{E9}", "e\u{301}"), ([1, [2]], [.uint(1), [2]]), (["a": 1, "b": 2], ["b": 2, "a": 1]),
    ]

    static let different: [(JSONValue, JSONValue)] = [
        (nil, false), (nil, 0), (true, 1), (false, 0), (true, "true"), (1, 1.0), (1, "1"), (.int(-1), .uint(.max)),
        (.decimal(5), 5.0), (.decimal(5), 6), (.decimal(Decimal(sign: .plus, exponent: -1, significand: 1)), 0.2),
        (.decimal(Decimal(sign: .plus, exponent: -17, significand: 10_000_000_000_000_001)), 0.1),
        (.decimal(.nan), .double(.nan)), (.decimal(5), "5"), (.double(.nan), .double(.nan)),
        ([], [:]), ([1], [1, 1]), ([1, 2], [2, 1]), ("a", "A"), ([nil], []),
    ]

    @Test(arguments: equal)
    func equalAsJSON(left: JSONValue, right: JSONValue) {
        #expect(left == right)
        #expect(right == left)
    }

    @Test(arguments: different)
    func differentAsJSON(left: JSONValue, right: JSONValue) {
        #expect(left != right)
        #expect(right != left)
    }

    @Test func aKeyOfWhatIsNoObjectIsAbsent() {
        for value in [nil, true, 1, 1.5, "x", [1]] as [JSONValue] {
            var value = value
            #expect(value["a"] == nil)
            let before = value
            value["a"] = nil
            #expect(value.description == before.description)
            value["a"] = 2
            #expect(value.description == #"{"a":2}"#)
        }
    }
}
