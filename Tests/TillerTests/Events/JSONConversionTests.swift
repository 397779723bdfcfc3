import Foundation
import Testing

@testable import Tiller

/// The table at `JSONValue.init(any:)`.
struct JSONConversionTests {
    // MARK: Values that have a JSON form

    struct Row: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let json: String
        let value: @Sendable () -> Any

        init(_ name: String, _ json: String, _ value: @escaping @Sendable () -> Any) {
            testDescription = name
            self.json = json
            self.value = value
        }
    }

    static let numbers = [
        Row("Int", "-5") { -5 },
        Row("Int.min", "-9223372036854775808") { Int64.min },
        Row("Int8", "-128") { Int8.min },
        Row("Int16", "-32768") { Int16.min },
        Row("Int32", "-2147483648") { Int32.min },
        Row("Int64", "9223372036854775807") { Int64.max },
        Row("UInt", "7") { UInt(7) },
        Row("UInt8", "255") { UInt8.max },
        Row("UInt16", "65535") { UInt16.max },
        Row("UInt32", "4294967295") { UInt32.max },
        Row("UInt64", "18446744073709551615") { UInt64.max },
        Row("2^53 + 1", "9007199254740993") { 9_007_199_254_740_993 },
        Row("Double", "0.1") { 0.1 },
        Row("Double with all digits", "0.30000000000000004") { 0.1 + 0.2 },
        Row("Double without a fraction", "36442820.0") { 36_442_820.0 },
        Row("Double, large", "1e+300") { 1e300 },
        Row("Double, negative zero", "-0.0") { -0.0 },
        Row("Float", "1.1") { Float(1.1) },
        Row("Float, whole", "16777216.0") { Float(16_777_216) },
        Row("Float.greatestFiniteMagnitude", "3.4028235e+38") { Float.greatestFiniteMagnitude },
        Row("Float.leastNonzeroMagnitude", "1e-45") { Float.leastNonzeroMagnitude },
        Row("CGFloat", "1.1") { CGFloat(1.1) },
        Row("Decimal", "12345678901234567890.123456789") {
            Decimal(string: "12345678901234567890.123456789", locale: nil) as Any
        },
        Row("Decimal, negative", "-0.1") { Decimal(sign: .minus, exponent: -1, significand: 1) },
        Row("Bool true", "true") { true },
        Row("Bool false", "false") { false },
    ]

    static let texts = [
        Row("String", #""a\"b""#) { #"a"b"# },
        Row("String, empty", #""""#) { "" },
        Row("Substring", #""bc""#) { "abcd".dropFirst().dropLast() },
        Row("Character", #""👨‍👩‍👧""#) { Character("👨‍👩‍👧") },
        Row("Date", #""2026-03-05T13:00:05.005Z""#) { Date(timeIntervalSince1970: 1_772_715_605.005) },
        Row("URL", #""https://a.example/b?c=d#e""#) { URL(string: "https://a.example/b?c=d#e") as Any },
        Row("URL, relative", #""https://a.example/b""#) {
            URL(string: "b", relativeTo: URL(string: "https://a.example/")) as Any
        },
        Row("UUID", #""e621e1f8-c36c-495a-93fc-0c247a3e6e5f""#) {
            UUID(uuidString: "E621E1F8-C36C-495A-93FC-0C247A3E6E5F") as Any
        },
        Row("Data", #""AP/+""#) { Data([0, 0xFF, 0xFE]) },
    ]

    static let absent = [
        Row("Optional<Int>.none", "null") { Int?.none as Any },
        Row("Optional of Optional, inner nil", "null") { Int??.some(nil) as Any },
        Row("NSNull", "null") { NSNull() },
        Row("Optional<Date>.some", #""1970-01-01T00:00:00.000Z""#) {
            Date?.some(Date(timeIntervalSince1970: 0)) as Any
        },
        Row("Optional of Optional, some", "3") { Int??.some(3) as Any },
        Row("a list of optionals", #"[1,null,"a"]"#) { [1, nil, "a"] as [Any?] },
        Row("a dictionary of optionals", #"{"a":null,"b":1}"#) { ["b": 1, "a": nil] as [String: Any?] },
    ]

    static let collections = [
        Row("[Any]", #"[1,"a",true,[2.5]]"#) { [1, "a", true, [2.5]] as [Any] },
        Row("[String]", #"["b","a"]"#) { ["b", "a"] },
        Row("[Int]", "[3,1,2]") { [3, 1, 2] },
        Row("[Float]", "[1.1]") { [Float(1.1)] },
        Row("[any Encodable]", #"[1,"a"]"#) { [1, "a"] as [any Encodable] },
        Row("empty list", "[]") { [Int]() },
        Row("list of lists", "[[],[[1]]]") { [[], [[1]]] as [[[Int]]] },
        Row("ArraySlice", "[2,3]") { [1, 2, 3][1...] },
        Row("ContiguousArray", "[1,2]") { ContiguousArray([1, 2]) },
        Row("reversed array", "[2,1]") { [1, 2].reversed() as ReversedCollection<[Int]> },
        Row("CollectionOfOne", "[1]") { CollectionOfOne(1) },
        Row("EmptyCollection", "[]") { EmptyCollection<Int>() },
        Row("Set", #"["a","b","c","d","e","f"]"#) { Set(["f", "e", "d", "c", "b", "a"]) },
        Row("Set of numbers, by their text", "[1,10,11,2,3]") { Set([1, 2, 3, 10, 11]) },
        Row("Set of AnyHashable", #"["1",1,true]"#) { Set<AnyHashable>(["1", 1, true]) },
        Row("Dictionary.Keys", #"["a","b","c"]"#) { ["c": 1, "a": 2, "b": 3].keys },
        Row("Dictionary.Values", "[1,2,3]") { ["c": 1, "a": 2, "b": 3].values },
        Row("AnyHashable", #"["a",1]"#) { AnyHashable(["a", 1] as [AnyHashable]) },
        Row("AnyHashable of a Date", #""1970-01-01T00:00:00.000Z""#) { AnyHashable(Date(timeIntervalSince1970: 0)) },
        Row("AnyHashable of a Substring", #""b""#) { AnyHashable("ab".dropFirst()) },
        Row("Range", "[1,5]") { 1..<5 },
    ]

    static let dictionaries = [
        Row("[String: Any]", #"{"a":[true],"b":1,"c":{"d":null}}"#) {
            ["c": ["d": NSNull()], "b": 1, "a": [true]] as [String: Any]
        },
        Row("[String: Int]", #"{"":0,"$x":2,"a.b":1}"#) { ["a.b": 1, "": 0, "$x": 2] },
        Row("empty", "{}") { [String: Int]() },
        Row("empty, of Any", "{}") { [String: Any]() },
        Row("[Substring: Int]", #"{"a":1,"b":2}"#) { [Substring("b"): 2, Substring("a"): 1] },
        Row("[AnyHashable: Any]", #"{"a":"x","b":2,"c":3}"#) {
            ["b": 2, "a": "x", AnyHashable(Substring("c")): 3] as [AnyHashable: Any]
        },
        Row("[AnyHashable: Any], empty", "{}") { [AnyHashable: Any]() },
        Row("KeyValuePairs, the first wins", #"{"b":1,"a":2}"#) {
            ["b": 1, "a": 2, "b": 3] as KeyValuePairs<String, Int>
        },
        Row("many keys", "{" + (100..<400).map { "\"\($0)\":\($0)" }.joined(separator: ",") + "}") {
            Dictionary(uniqueKeysWithValues: (100..<400).map { ("\($0)", $0) })
        },
    ]

    static let json = [
        Row("JSONValue", #"{"b":[1,null],"a":18446744073709551615}"#) {
            ["b": [1, nil], "a": .uint(.max)] as JSONValue
        },
        Row("JSONObject", #"{"b":1,"a":2}"#) { ["b": 1, "a": 2] as JSONObject },
        Row("[String: JSONValue]", #"{"a":1.5,"b":"x"}"#) { ["b": "x", "a": 1.5] as [String: JSONValue] },
        Row("[JSONObject]", #"[{"a":1}]"#) { [["a": 1]] as [JSONObject] },
    ]

    enum Size: String { case small = "S" }
    enum Level: Int { case high = 3 }
    struct Flags: OptionSet { let rawValue: UInt8 }
    struct Wrapper<RawValue>: RawRepresentable { let rawValue: RawValue }
    /// Encodable, but by the table its raw value counts.
    enum Plan: String, Encodable {
        case pro
        func encode(to encoder: any Encoder) throws { try "not this".encode(to: encoder) }
    }

    static let rawValues = [
        Row("String enum", #""S""#) { Size.small },
        Row("Int enum", "3") { Level.high },
        Row("OptionSet", "5") { Flags(rawValue: 5) },
        Row("of a Date", #""1970-01-01T00:00:00.000Z""#) { Wrapper(rawValue: Date(timeIntervalSince1970: 0)) },
        Row("of nil", "null") { Wrapper(rawValue: Int?.none) },
        Row("of another", #"["S"]"#) { Wrapper(rawValue: Wrapper(rawValue: [Size.small])) },
        Row("before Encodable", #""pro""#) { Plan.pro },
        Row("in a list and an optional", #"["S",null]"#) { [Size.small, nil] as [Size?] },
    ]

    static let references = [
        Row("NSString", #""é日本""#) { NSString(string: "é日本") },
        Row("NSMutableString", #""a""#) { NSMutableString(string: "a") },
        Row("NSNumber of true", "true") { NSNumber(value: true) },
        Row("NSNumber of false", "false") { NSNumber(value: false) },
        Row("NSNumber of Int8 1", "1") { NSNumber(value: Int8(1)) },
        Row("NSNumber of UInt8 0", "0") { NSNumber(value: UInt8(0)) },
        Row("NSNumber of Int 1", "1") { NSNumber(value: 1) },
        Row("NSNumber of Int64.min", "-9223372036854775808") { NSNumber(value: Int64.min) },
        Row("NSNumber of UInt64.max", "18446744073709551615") { NSNumber(value: UInt64.max) },
        Row("NSNumber of UInt32.max", "4294967295") { NSNumber(value: UInt32.max) },
        Row("NSNumber of Double 1", "1.0") { NSNumber(value: 1.0) },
        Row("NSNumber of Float", "1.1") { NSNumber(value: Float(1.1)) },
        Row("NSDecimalNumber", "12345678901234567890.123456789") {
            NSDecimalNumber(string: "12345678901234567890.123456789")
        },
        Row("NSDate", #""2026-03-05T13:00:05.005Z""#) { NSDate(timeIntervalSince1970: 1_772_715_605.005) },
        Row("NSURL", #""https://a.example/b""#) { NSURL(string: "https://a.example/b") as Any },
        Row("NSUUID", #""e621e1f8-c36c-495a-93fc-0c247a3e6e5f""#) {
            NSUUID(uuidString: "E621E1F8-C36C-495A-93FC-0C247A3E6E5F") as Any
        },
        Row("NSData", #""AP/+""#) { NSData(data: Data([0, 0xFF, 0xFE])) },
        Row("NSMutableData", #""AA==""#) {
            let data = NSMutableData()
            data.append(Data([0]))
            return data
        },
        Row("NSArray", #"[1,"a",true,1.5,null,"1970-01-01T00:00:00.000Z","a:b",[2],{"k":3},["x"]]"#) {
            NSArray(array: [
                1, "a", true, 1.5, NSNull(), NSDate(timeIntervalSince1970: 0), URL(string: "a:b") as Any,
                NSMutableArray(array: [2]), NSMutableDictionary(dictionary: ["k": 3]), NSSet(array: ["x"]),
            ])
        },
        Row("NSMutableArray, empty", "[]") { NSMutableArray() },
        Row("NSOrderedSet", #"["b","a"]"#) { NSOrderedSet(array: ["b", "a"]) },
        Row("NSSet", #"["a","b",["c"]]"#) { NSSet(array: ["b", "a", NSArray(array: ["c"])]) },
        Row("NSMutableSet", "[10,2,true]") { NSMutableSet(array: [2, 10, NSNumber(value: true)]) },
        Row("NSCountedSet", "[1]") { NSCountedSet(array: [1, 1]) },
        Row("NSDictionary", #"{"a":true,"b":{"c":[1]}}"#) {
            NSDictionary(dictionary: [
                "b": NSDictionary(dictionary: ["c": NSArray(array: [1])]), "a": NSNumber(value: true),
            ])
        },
        Row("NSMutableDictionary, empty", "{}") { NSMutableDictionary() },
        Row("a list with Swift values inside", #"[{"name":"a"},"S","b"]"#) {
            NSArray(array: [Pet(name: "a"), Size.small, "ab".dropFirst()])
        },
        Row("a dictionary with Swift values inside", #"{"c":"x","p":{"name":"a"},"s":"S","t":"b"}"#) {
            NSDictionary(dictionary: [
                "p": Pet(name: "a"), "s": Size.small, "t": "ab".dropFirst(), "c": Character("x"),
            ])
        },
        Row("a set with Swift values inside", #"["S","b","x",["c"],{"name":"a"}]"#) {
            NSSet(array: [Pet(name: "a"), Size.small, "ab".dropFirst(), Character("x"), NSArray(array: ["c"])])
        },
    ]

    struct Pet: Encodable, Hashable { var name: String }

    @Test(
        arguments: [numbers, texts, absent, collections, dictionaries, json, rawValues, references].flatMap { $0 })
    func everyTypeOfTheTableHasItsForm(_ row: Row) {
        let (text, problems) = convert(row.value())
        #expect(text == row.json)
        #expect(problems == [])
    }

    @Test func integersThatAreNotNamedHaveTheirDigitsToo() {
        guard #available(macOS 15, iOS 18, tvOS 18, watchOS 11, visionOS 2, *) else { return }
        #expect(convert(Int128(-5)) == ("-5", []))
        #expect(convert(UInt128(UInt64.max)) == ("18446744073709551615", []))
        #expect(convert(Int128.min) == ("-170141183460469231731687303715884105728", []))
        #expect(convert(UInt128.max) == ("340282366920938463463374607431768211455", []))
    }

    @Test func theSameValueStaysTheSameUnderAnyWrapping() {
        let wrappings: [(Any) -> Any] = [{ $0 }, { [$0] }, { ["k": $0] }, { NSArray(array: [$0]) }, { [$0 as Any?] }]
        let shapes = ["%", "[%]", #"{"k":%}"#, "[%]", "[%]"]
        for row in Self.numbers + Self.texts {
            for (wrap, shape) in zip(wrappings, shapes) {
                #expect(convert(wrap(row.value())).text == shape.replacingOccurrences(of: "%", with: row.json))
            }
        }
    }

    // MARK: Values that have none

    final class Handler {}
    struct Plain { var secret = "s3cret" }
    enum Failure: Error { case secret(String) }

    static let formless = [
        Row("Double.nan", "Double that is not finite") { Double.nan },
        Row("infinity", "Double that is not finite") { Double.infinity },
        Row("-infinity", "Double that is not finite") { -Double.infinity },
        Row("Float.nan", "Float that is not finite") { Float.nan },
        Row("Float infinity", "Float that is not finite") { Float.infinity },
        Row("CGFloat.nan", "CGFloat that is not finite") { CGFloat.nan },
        Row("Decimal.nan", "Decimal that is not finite") { Decimal.nan },
        Row("NSNumber of NaN", "NSNumber that is not finite") { NSNumber(value: Double.nan) },
        Row("NSDecimalNumber NaN", "NSDecimalNumber that is not finite") { NSDecimalNumber.notANumber },
        Row("JSONValue NaN", "Double that is not finite") { JSONValue.double(.nan) },
        Row("JSONValue Decimal NaN", "Decimal that is not finite") { JSONValue.decimal(.nan) },
        Row("Date too late", "Date outside the years 0000 to 9999") { Date(timeIntervalSince1970: 253_402_300_800) },
        Row("Date too early", "Date outside the years 0000 to 9999") { Date.distantPast.addingTimeInterval(-1e11) },
        Row("NSDate too late", "Date outside the years 0000 to 9999") { NSDate(timeIntervalSince1970: 1e20) },
        Row("closure", "(Int) -> String has no JSON form") { { (number: Int) in "\(number)" } },
        Row("class", "Handler has no JSON form") { Handler() },
        Row("struct", "Plain has no JSON form") { Plain() },
        Row("error", "Failure has no JSON form") { Failure.secret("s3cret") },
        Row("tuple", "(Int, String) has no JSON form") { (1, "a") },
        Row("metatype", "Int.Type has no JSON form") { Int.self },
        Row("NSObject", "NSObject has no JSON form") { NSObject() },
        Row("raw value without a form", "Plain has no JSON form") { Wrapper(rawValue: Plain()) },
        Row("endless lazy collection", "LazyMapSequence<Range<Int>, Int> has no JSON form") {
            (0..<Int.max).lazy.map { $0 }
        },
        Row("[Int: String]", "Dictionary<Int, String> with keys that are not strings") { [1: "a"] },
        Row("[Int: String], empty", "Dictionary<Int, String> with keys that are not strings") { [Int: String]() },
        Row("[Size: Int]", "Dictionary<Size, Int> with keys that are not strings") { [Size.small: 1] },
        Row("[AnyHashable: Any] with a number", "Dictionary<AnyHashable, Any> with keys that are not strings") {
            ["a": Handler(), 1: 2] as [AnyHashable: Any]
        },
    ]

    @Test(arguments: formless)
    func whatHasNoFormIsNullAndNamesItsType(_ row: Row) {
        let (text, problems) = convert(row.value())
        #expect(text == "null")
        #expect(problems == [row.json])
    }

    @Test(arguments: formless)
    func whatHasNoFormCostsNothingAroundIt(_ row: Row) {
        let value = row.value()
        let around: [String: Any] = ["a": 1, "b": [true, value, "x"], "c": ["d": value, "e": 2.5], "f": value]
        let (text, problems) = convert(around)
        #expect(text == #"{"a":1,"b":[true,null,"x"],"c":{"d":null,"e":2.5},"f":null}"#)
        #expect(problems == [row.json])
    }

    @Test func problemsNeverHoldTheValue() {
        let (_, problems) = convert([
            Plain(), Failure.secret("s3cret"), ["s3cret": Plain()], Date(timeIntervalSince1970: 1e20), [42: "s3cret"],
        ])
        #expect(problems.count == 4)
        #expect(!problems.contains { $0.contains("s3cret") || $0.contains("42") || $0.contains("1e") })
    }

    @Test func problemsComeInTheSameOrderInEveryRun() {
        let values: [String: Any] = ["a": Handler(), "b": Plain(), "c": Double.nan, "d": NSObject(), "e": Float.nan]
        #expect(
            convert(values).problems == [
                "Double that is not finite", "Float that is not finite", "Handler has no JSON form",
                "NSObject has no JSON form", "Plain has no JSON form",
            ])
    }

    @Test func manyProblemsOfOneKindAreOne() {
        #expect(convert(Array(repeating: Double.nan, count: 1_000)).problems == ["Double that is not finite"])
    }

    /// `AnyHashable` tells a `String` from a `Substring`, and Foundation on Apple "é" from "e" and an accent.
    @Test func keysThatAreEqualAsTextsAreOne() {
        let texts: [AnyHashable: Any] = [
            "a": 1, AnyHashable(Substring("a")): 1, "b": 2, AnyHashable(Substring("c")): 3,
        ]
        #expect(texts.count == 4)
        #expect(convert(texts) == (#"{"a":1,"b":2,"c":3}"#, []))
    }

    @Test func wrappersAreCountedByTheirOwnValueOnly() {
        let text = "[" + Array(repeating: "1", count: 500).joined(separator: ",") + "]"
        #expect(convert(Array(repeating: Wrapper(rawValue: 1), count: 500)) == (text, []))
    }

    // MARK: JSON that goes through

    @Test func aSharedBaseStaysShared() {
        var object: JSONObject = ["own": 1]
        object.lay(over: JSONObject.Base(["base": 2]))
        var conversion = JSONConversion()
        let result = conversion.value(object).object
        #expect(result?.withParts { _, layer in layer != nil } == true)
        #expect(result?.description == #"{"base":2,"own":1}"#)
    }

    @Test func badNumbersInsideJSONAreMended() {
        let value: JSONValue = ["a": [.double(.nan), 1], "b": ["c": .decimal(.nan), "d": .double(2)]]
        let (text, problems) = convert(value)
        #expect(text == #"{"a":[null,1],"b":{"c":null,"d":2.0}}"#)
        #expect(problems == ["Decimal that is not finite", "Double that is not finite"])
    }

    // MARK: Depth

    static let plainNestings = [
        Nesting("[Any]") { [$0] },
        Nesting("[String: Any]") { ["k": $0] },
        Nesting("[[String: Any]], two levels at once", levels: 2) { [["k": $0]] },
        Nesting("JSONValue") { .array([$0 as? JSONValue ?? "leaf"]) as JSONValue },
    ]

    static let nestings =
        plainNestings + [
            Nesting("NSArray") { NSArray(array: [$0]) },
            Nesting("NSDictionary") { NSDictionary(dictionary: ["k": $0]) },
            Nesting("Set") { Set([AnyHashableBox($0)]) },
            Nesting("Encodable") { Holder($0) },
            Nesting("Encodable class") { HolderObject($0) },
            Nesting("an optional, two raw values, one list") {
                Wrapper(rawValue: Wrapper(rawValue: [$0])) as Any? as Any
            },
        ]

    struct Nesting: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let levels: Int
        let wrap: @Sendable (Any) -> Any

        init(_ name: String, levels: Int = 1, _ wrap: @escaping @Sendable (Any) -> Any) {
            testDescription = name
            self.levels = levels
            self.wrap = wrap
        }

        func value(depth: Int) -> Any { (0..<depth / levels).reduce("leaf" as Any) { value, _ in wrap(value) } }
    }

    /// A key of a set by identity, whose raw value is anything.
    final class AnyHashableBox: RawRepresentable, Hashable {
        let rawValue: Any
        init(_ value: Any) { rawValue = value }
        convenience init(rawValue: Any) { self.init(rawValue) }
        static func == (left: AnyHashableBox, right: AnyHashableBox) -> Bool { left === right }
        func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
    }

    struct Holder: Encodable {
        let value: any Encodable
        init(_ value: Any) { self.value = value as? any Encodable ?? "?" }
        enum CodingKeys: CodingKey { case value }
        func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(value, forKey: .value)
        }
    }

    final class HolderObject: Encodable {
        let value: any Encodable
        init(_ value: Any) { self.value = value as? any Encodable ?? "?" }
        func encode(to encoder: any Encoder) throws {
            var container = encoder.unkeyedContainer()
            try container.encode(value)
        }
    }

    @Test(arguments: nestings)
    func twoHundredLevelsAreKept(_ nesting: Nesting) {
        let (text, problems) = convert(nesting.value(depth: 200))
        #expect(text.contains("leaf"))
        #expect(depth(of: text) == 200)
        #expect(problems == [])
    }

    @Test(arguments: nestings)
    func whatLiesDeeperIsCut(_ nesting: Nesting) {
        let (text, problems) = convert([1, nesting.value(depth: 200), 2])
        #expect(depth(of: text) == 200)
        #expect(text.contains("null"))
        #expect(text.hasPrefix("[1,") && text.hasSuffix(",2]"))
        #expect(problems == ["deeper than 200 levels"])
    }

    @Test func theObjectOfACallIsTheFirstLevel() {
        var conversion = JSONConversion()
        let kept = conversion.object(["k": Self.nestings[0].value(depth: 199)])
        #expect(kept.description.contains("leaf"))
        #expect(conversion.problems == [])
        let cut = conversion.object(["k": Self.nestings[0].value(depth: 200)])
        #expect(!cut.description.contains("leaf"))
        #expect(conversion.problems.map(\.reason) == ["deeper than 200 levels"])
    }

    @Test func siblingsOfADeepValueAreNotDeep() {
        let deep = Self.nestings[0].value(depth: 300)
        let (text, problems) = convert([deep, [[["kept"]]], Wrapper(rawValue: ["kept"]), deep, Holder("kept")])
        #expect(text.components(separatedBy: "kept").count == 4)
        #expect(problems == ["deeper than 200 levels"])
    }

    /// A secondary thread on Apple has 512 KB, and a debug build needs most: half of it for these, nearly all for Foundation's
    /// containers, and more for encodables, which in a release build fit, too. The sanitizer's frames are several times as large.
    @Test(.disabled(if: isUnderThreadSanitizer), arguments: plainNestings)
    func aDeepValueFitsASmallStack(_ nesting: Nesting) async {
        let text = await onSmallStack { convert(nesting.value(depth: 250)).text }
        #expect(depth(of: text) == 200)
    }

    // MARK: Cycles

    @Test func aListThatContainsItselfEnds() {
        let list = NSMutableArray(array: [1])
        list.add(list)
        list.add(list)
        list.add(2)
        let (text, problems) = convert(list)
        #expect(text == "[1,null,null,2]")
        #expect(problems == ["NSMutableArray that contains itself"])
        list.removeAllObjects()
    }

    @Test func parentsAndChildrenEnd() {
        let parent = NSMutableDictionary()
        let children = NSMutableArray()
        for name in ["a", "b", "c"] { children.add(NSMutableDictionary(dictionary: ["name": name, "parent": parent])) }
        parent["children"] = children
        let (text, problems) = convert(["p": parent])
        let child = { (name: String) in #"{"name":"\#(name)","parent":null}"# }
        #expect(text == #"{"p":{"children":[\#(child("a")),\#(child("b")),\#(child("c"))]}}"#)
        #expect(problems == ["NSMutableDictionary that contains itself"])
        parent.removeAllObjects()
    }

    @Test func theSameObjectTwiceIsNoCycle() {
        let shared = NSMutableArray(array: ["x"])
        #expect(convert(["a": shared, "b": [shared, shared]]) == (#"{"a":["x"],"b":[["x"],["x"]]}"#, []))
    }

    @Test func aRawValueThatIsItselfEnds() {
        struct Endless: RawRepresentable {
            var rawValue: Any { self }
            init() {}
            init(rawValue: Any) {}
        }
        #expect(convert([Endless(), 1]) == ("[null,1]", ["deeper than 200 levels"]))
    }

    // MARK: Copies

    @Test func mutableObjectsAreCopiedToTheBottom() {
        let text = NSMutableString(string: "before")
        let list = NSMutableArray(array: [text])
        let dictionary = NSMutableDictionary(dictionary: ["list": list])
        let data = NSMutableData(data: Data([1]))
        let object = JSONObject(["d": dictionary, "data": data])
        text.setString("after")
        list.add("after")
        dictionary["more"] = "after"
        data.append(Data([2]))
        #expect(object.description == #"{"d":{"list":["before"]},"data":"AQ=="}"#)
    }

    @Test func thePublicInitializersDoTheSame() {
        #expect(JSONValue(any: ["a": [1, Double.nan] as [Any]]) == ["a": [1, nil]])
        #expect(JSONObject(["b": Size.small, "a": Float(1.1)]).description == #"{"a":1.1,"b":"S"}"#)
    }
}

// MARK: - Helpers

private func convert(_ value: Any) -> (text: String, problems: [String]) {
    var conversion = JSONConversion()
    let json = conversion.value(value)
    return (json.description, conversion.problems.map(\.reason))
}

private func == (left: (text: String, problems: [String]), right: (String, [String])) -> Bool {
    left.text == right.0 && left.problems == right.1
}

/// How deep the brackets of a text nest (no text in these tests contains one).
func depth(of text: String) -> Int {
    var depth = 0
    var deepest = 0
    for byte in text.utf8 {
        if byte == UInt8(ascii: "[") || byte == UInt8(ascii: "{") { depth += 1 }
        if byte == UInt8(ascii: "]") || byte == UInt8(ascii: "}") { depth -= 1 }
        deepest = max(deepest, depth)
    }
    return deepest
}

/// Runs work on a thread with the smallest stack that a platform gives by default.
func onSmallStack<Result: Sendable>(_ body: @escaping @Sendable () -> Result) async -> Result {
    await withCheckedContinuation { continuation in
        let thread = Thread { continuation.resume(returning: body()) }
        thread.stackSize = 512 * 1_024
        thread.start()
    }
}
