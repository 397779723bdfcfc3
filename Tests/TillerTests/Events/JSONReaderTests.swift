import Foundation
import Testing
import Tiller

struct JSONReaderTests {
    // MARK: Strictness (RFC 8259)

    @Test(arguments: [
        ("", 0, "unexpected end"),
        ("  ", 2, "unexpected end"),
        ("nul", 0, "unexpected character"),
        ("nulL", 0, "unexpected character"),
        ("True", 0, "unexpected character"),
        ("nan", 0, "unexpected character"),
        ("NaN", 0, "unexpected character"),
        ("Infinity", 0, "unexpected character"),
        ("-Infinity", 1, "expected a digit"),
        ("1 2", 2, "text after the value"),
        ("{} ,", 3, "text after the value"),
        ("null\u{0}", 4, "text after the value"),
        ("\u{FEFF}1", 0, "unexpected character"),
        ("\u{A0}1", 0, "unexpected character"),
        ("\u{B}1", 0, "unexpected character"),
        ("/**/1", 0, "unexpected character"),
        ("'a'", 0, "unexpected character"),
        ("[", 1, "unexpected end"),
        ("[1", 2, "expected ',' or ']'"),
        ("[1,", 3, "unexpected end"),
        ("[1,]", 3, "unexpected character"),
        ("[,1]", 1, "unexpected character"),
        ("[1 2]", 3, "expected ',' or ']'"),
        ("[1}", 2, "expected ',' or ']'"),
        ("]", 0, "unexpected character"),
        ("{", 1, "expected a key"),
        ("{\"a\"", 4, "expected ':'"),
        ("{\"a\":", 5, "unexpected end"),
        ("{\"a\" 1}", 5, "expected ':'"),
        ("{\"a\":1", 6, "expected ',' or '}'"),
        ("{\"a\":1,}", 7, "expected a key"),
        ("{a:1}", 1, "expected a key"),
        ("{1:1}", 1, "expected a key"),
        ("{\"a\":1]", 6, "expected ',' or '}'"),
        ("\"", 1, "unterminated string"),
        ("\"abc", 4, "unterminated string"),
        ("\"\\", 2, "unterminated string"),
        ("\"a\nb\"", 2, "raw control character"),
        ("\"a\u{0}b\"", 2, "raw control character"),
        ("\"\u{1F}\"", 1, "raw control character"),
        ("\"\\x\"", 2, "unknown escape"),
        ("\"\\'\"", 2, "unknown escape"),
        ("\"\\U0041\"", 2, "unknown escape"),
        ("\"\\u12\"", 5, "expected four hexadecimal digits"),
        ("\"\\u12G4\"", 5, "expected four hexadecimal digits"),
        ("\"\\u-123\"", 3, "expected four hexadecimal digits"),
        ("\"\\u１234\"", 3, "expected four hexadecimal digits"),
        ("\"\\uD83D\\u12\"", 11, "expected four hexadecimal digits"),
        ("-", 1, "expected a digit"),
        ("+1", 0, "unexpected character"),
        (".5", 0, "unexpected character"),
        ("1.", 2, "expected a digit"),
        ("1.e5", 2, "expected a digit"),
        ("1e", 2, "expected a digit"),
        ("1e+", 3, "expected a digit"),
        ("1e+-5", 3, "expected a digit"),
        ("01", 2, "leading zero"),
        ("-01", 3, "leading zero"),
        ("00", 2, "leading zero"),
        ("0x10", 1, "text after the value"),
        ("1_000", 1, "text after the value"),
        ("１", 0, "unexpected character"),
        ("1e400", 5, "number out of range"),
        ("-1e400", 6, "number out of range"),
    ])
    func whatIsNoJSONIsRefusedWithItsPlace(text: String, offset: Int, reason: String) {
        let error = #expect(throws: JSONValue.ParsingError.self) { try JSONValue(parsing: text) }
        #expect(error?.offset == offset)
        #expect(error?.reason == reason)
        #expect(error?.description == "\(reason) at byte \(offset)")
    }

    @Test(arguments: [
        (" \t\r\n[ 1 , { \"a\" : null } ] \n", #"[1,{"a":null}]"#), ("\t1\r", "1"),
        ("[]", "[]"), ("[ ]", "[]"), ("{}", "{}"), ("{ }", "{}"),
        ("true", "true"), ("false", "false"), ("null", "null"), ("\"\"", "\"\""),
        ("[[],[[]],{}]", "[[],[[]],{}]"),
    ])
    func blanksAndShapesAreRead(text: String, compact: String) throws {
        #expect(try JSONValue(parsing: text).description == compact)
    }

    // MARK: Numbers

    /// The text that it is written as says which case it was read into, and that no digit was lost.
    @Test(arguments: [
        ("0", "0"), ("-0", "0"), ("7", "7"), ("-7", "-7"),
        ("9223372036854775807", "9223372036854775807"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("9223372036854775808", "9223372036854775808"),
        ("18446744073709551615", "18446744073709551615"),
        ("18446744073709551616", "18446744073709551616"),
        ("-9223372036854775809", "-9223372036854775809"),
        ("9007199254740993", "9007199254740993"),
        ("1.0", "1.0"), ("-0.0", "-0.0"), ("1e2", "100.0"), ("1E+2", "100.0"), ("25e-1", "2.5"),
        ("0.1", "0.1"), ("0.30000000000000004", "0.30000000000000004"),
        ("0.00012345678901234567", "0.00012345678901234567"),
        ("5e-324", "5e-324"), ("1e300", "1e+300"), ("1.7976931348623157e308", "1.7976931348623157e+308"),
        ("1e-400", "0.0"),
        ("100000000000000000000", "1e+20"),
        ("0.100000000000000000000", "0.1"),
        ("0.10000000000000001", "0.10000000000000001"),
        ("12345678901234567890.123456789", "12345678901234567890.123456789"),
        ("1.2345678901234567890123e5", "123456.78901234567890123"),
        ("-170141183460469231731687303715884105728", "-170141183460469231731687303715884105728"),
        ("340282366920938463463374607431768211455", "340282366920938463463374607431768211455"),
        // More than a decimal holds: the nearest double, rather than digits cut off somewhere.
        ("340282366920938463463374607431768211457", "3.402823669209385e+38"),
        ("0.1000000000000000055511151231257827021181583404541015625", "0.1"),
        ("12345678901234567890e120", "12345678901234567890" + String(repeating: "0", count: 120)),
        ("12345678901234567890e200", "1.2345678901234568e+219"),
        ("12345678901234567890e-200", "1.2345678901234567e-181"),
    ])
    func numbersKeepTheirDigits(text: String, written: String) throws {
        #expect(try JSONValue(parsing: text).description == written)
    }

    @Test func numbersHaveTheCaseThatHoldsThem() throws {
        let cases = try JSONValue(parsing: "[1,18446744073709551615,1.0,0.30000000000000004,1.00000000000000000001]")
        let names = cases.array?.map { value in
            switch value {
            case .int: "int"
            case .uint: "uint"
            case .double: "double"
            case .decimal: "decimal"
            default: "other"
            }
        }
        #expect(names == ["int", "uint", "double", "double", "decimal"])
    }

    /// Doubles of every size and sign, by their bits, and between 0 and 1.
    @Test func everyDoubleIsReadAsTheSameDouble() throws {
        var state: UInt64 = 1
        var wrong: [Double] = []
        for _ in 0..<10_000 {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            for number in [Double(bitPattern: state), Double(state >> 11) / 9_007_199_254_740_992] where number.isFinite
            {
                let read = try JSONValue(parsing: JSONValue.double(number).description)
                if case .double(let same) = read, same.bitPattern == number.bitPattern { continue }
                wrong.append(number)
            }
        }
        #expect(wrong == [])
    }

    @Test(arguments: [
        "0.1", "5", "-5", "18446744073709551615", "36893488147419103231", "0.1234567890123456", "12.345678901234567",
        "0.10000000000000001", "1234567890123456789.0987654321", "99999999999999999999999999999999999999",
        "0.00000000000000000000000000000000000001",
    ])
    func aDecimalIsReadAsAnEqualValue(text: String) throws {
        let decimal = JSONValue.decimal(try #require(Decimal(string: text, locale: nil)))
        let read = try JSONValue(parsing: decimal.description)
        #expect(read == decimal)
        #expect(decimal == read)
        #expect(try JSONValue(parsing: read.description) == decimal)
    }

    // MARK: Texts

    @Test(arguments: [
        (#""\"\\\/\b\f\n\r\t""#, "\"\\/\u{8}\u{C}\n\r\t"),
        (#""\u0041\u00e9\u00E9\u65e5""#, "Aéé日"),
        (#""\u0000""#, "\u{0}"),
        (#""\uD83D\uDE00""#, "😀"),
        (#""\ud83d\ude00x""#, "😀x"),
        (#""\uDBFF\uDFFF""#, "\u{10FFFF}"),
        (#""\uD83D""#, "\u{FFFD}"),
        (#""\uD83Dx""#, "\u{FFFD}x"),
        (#""\uDE00""#, "\u{FFFD}"),
        (#""\uDE00\uD83D""#, "\u{FFFD}\u{FFFD}"),
        (#""\uD83D\uD83D\uDE00""#, "\u{FFFD}😀"),
        (#""\uD83D\u0041""#, "\u{FFFD}A"),
        (#""\uD83D\n""#, "\u{FFFD}\n"),
        (#""\uD83D\\""#, "\u{FFFD}\\"),
        (#""\u2028\u2029""#, "\u{2028}\u{2029}"),
        ("\"\u{2028}\u{7F}\"", "\u{2028}\u{7F}"),
        (#""\uFFFE\uFEFF""#, "\u{FFFE}\u{FEFF}"),
    ])
    func escapesAreRead(json: String, text: String) throws {
        let read = try #require(try JSONValue(parsing: json).string)
        #expect(Array(read.unicodeScalars) == Array(text.unicodeScalars))
        let key = try #require(try JSONValue(parsing: "{\(json):1}").object?.keys.first)
        #expect(Array(key.unicodeScalars) == Array(text.unicodeScalars))
    }

    @Test(
        arguments: [
            ([0x22, 0xFF, 0x22], "\u{FFFD}"),
            ([0x22, 0x61, 0xC3, 0x22], "a\u{FFFD}"),
            ([0x22, 0xED, 0xA0, 0x80, 0x22], "\u{FFFD}\u{FFFD}\u{FFFD}"),
            ([0x22, 0xF0, 0x9F, 0x98, 0x80, 0x22], "😀"),
        ] as [([UInt8], String)])
    func bytesThatAreNotUTF8AreReplaced(bytes: [UInt8], text: String) throws {
        #expect(try JSONValue(parsing: bytes).string == text)
    }

    @Test func bytesThatAreNotUTF8OutsideOfTextsAreRefused() {
        #expect(throws: JSONValue.ParsingError.self) { try JSONValue(parsing: [0x5B, 0xFF, 0x5D]) }
    }

    // MARK: Objects

    @Test func keysKeepTheirOrder() throws {
        let object = try #require(try JSONValue(parsing: #"{"b":1,"a":2,"":3,"a.b":4,"$x":5}"#).object)
        #expect(object.keys == ["b", "a", "", "a.b", "$x"])
    }

    @Test func ofEqualKeysTheFirstWins() throws {
        let value = try JSONValue(parsing: #"{"a":1,"b":2,"a":3,"\u0061":4,"b":{"a":5,"a":6}}"#)
        #expect(value.description == #"{"a":1,"b":2}"#)
    }

    @Test func anObjectWithManyKeysIsReadInOneGo() throws {
        let members = (0..<20_000).map { "\"k\($0)\":\($0)" }.joined(separator: ",")
        #expect(try JSONValue(parsing: "{\(members)}").object?.count == 20_000)
    }

    // MARK: Depth

    @Test(arguments: [("[", "", "]"), ("{\"k\":", "1", "}"), ("[{\"k\":", "1", "}]")])
    func fiveHundredAndTwelveLevelsAreReadAndNoMore(open: String, leaf: String, close: String) throws {
        let levels = open.hasPrefix("[{") ? 2 : 1
        let text = { (depth: Int) in
            String(repeating: open, count: depth / levels) + leaf + String(repeating: close, count: depth / levels)
        }
        #expect(try JSONValue(parsing: text(512)).description.hasPrefix(open))
        let error = #expect(throws: JSONValue.ParsingError.self) { try JSONValue(parsing: text(512 + levels)) }
        #expect(error?.reason == "nesting deeper than 512 levels")
        #expect(throws: JSONValue.ParsingError.self) { try JSONValue(parsing: String(repeating: open, count: 100_000)) }
    }

    @Test func whatWasClosedIsNotDeep() throws {
        let flat = "[" + Array(repeating: "[[{}]]", count: 1_000).joined(separator: ",") + "]"
        #expect(try JSONValue(parsing: flat).array?.count == 1_000)
    }

    /// As deep as the SDK writes, on the smallest stack that a platform gives by default.
    @Test(.disabled(if: isUnderThreadSanitizer)) func whatThisSDKWritesFitsASmallStack() async {
        let text = String(repeating: #"{"k":"#, count: 200) + "1" + String(repeating: "}", count: 200)
        #expect(await onSmallStack { (try? JSONValue(parsing: text))?.description } == text)
    }

    // MARK: Round trip

    @Test func aDocumentOfEverythingIsReadBack() throws {
        let document: JSONValue = [
            "empty": [[], [:], ""], "deep": [[[["a": [["b": [nil]]]]]]], "text": "\u{0}\"\\\u{2028}👨‍👩‍👧é",
            "numbers": [0, -1, .int(.max), .uint(.max), 0.1, 1e300, .double(.leastNonzeroMagnitude)],
            "flags": [true, false, nil], "": ["": ""],
        ]
        let read = try JSONValue(parsing: document.description)
        #expect(read == document)
        #expect(read.description == document.description)
        #expect(try JSONValue(parsing: Array(document.description.utf8)) == document)
    }
}
