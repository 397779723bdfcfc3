import Foundation
import Testing

@testable import Tiller

struct JSONWriterTests {
    static let values: [(JSONValue, String)] = [
        (.null, "null"),
        (true, "true"),
        (false, "false"),
        (0, "0"),
        (.int(.min), "-9223372036854775808"),
        (.int(.max), "9223372036854775807"),
        (.uint(.max), "18446744073709551615"),
        (.int(-7), "-7"),
        (1.0, "1.0"),
        (.double(-0.0), "-0.0"),
        (0.1, "0.1"),
        (1e300, "1e+300"),
        (.double(.leastNonzeroMagnitude), "5e-324"),
        (.double(1e16), "1e+16"),
        (
            .decimal(Decimal(sign: .minus, exponent: -29, significand: 1_234_567_890_123_456_789)),
            "-0.00000000001234567890123456789"
        ),
        (.decimal(Decimal(sign: .plus, exponent: 20, significand: 3)), "300000000000000000000"),
        ([], "[]"),
        ([:], "{}"),
        ([1, [nil, "a"], ["b": []]], #"[1,[null,"a"],{"b":[]}]"#),
        (["b": 1, "a": ["c": true]], #"{"b":1,"a":{"c":true}}"#),
    ]

    @Test(arguments: values)
    func valuesAreCompactJSON(value: JSONValue, text: String) {
        #expect(value.description == text)
    }

    @Test(arguments: [
        ("", #""""#),
        ("plain", #""plain""#),
        (#"a"b\c/d"#, #""a\"b\\c/d""#),
        ("\n\r\t", #""\n\r\t""#),
        ("\u{0}\u{8}\u{C}\u{1F}", #""\u0000\u0008\u000c\u001f""#),
        ("\u{7F}\u{80}", "\"\u{7F}\u{80}\""),
        ("\u{2028}\u{2029}", "\"\u{2028}\u{2029}\""),
        ("é日本👨‍👩‍👧\u{10FFFF}", "\"é日本👨‍👩‍👧\u{10FFFF}\""),
        ("\u{1F}", #""\u001f""#),
        ("x\u{1}", #""x\u0001""#),
    ])
    func onlyWhatMustBeEscapedIs(text: String, json: String) {
        #expect(JSONValue.string(text).description == json)
        #expect(([text: 1] as [String: Any]).json == "{\(json):1}")
    }

    @Test func everyScalarOfTheBasicPlaneIsReadBack() throws {
        let scalars =
            (0...0x2FFF).compactMap { Unicode.Scalar(UInt32($0)) } + [
                "\u{D7FF}", "\u{E000}", "\u{FFFD}", "\u{FFFE}", "\u{FFFF}", "\u{10000}", "\u{10FFFF}",
            ]
        var text = ""
        text.unicodeScalars.append(contentsOf: scalars)
        let read = try JSONValue(parsing: JSONValue.string(text).description)
        #expect(read.string.map { Array($0.unicodeScalars) } == scalars)
    }

    /// The short way is the standard library's, digit by digit.
    @Test func pricesAreWrittenAsAnyOtherNumber() {
        var identifiers = IdentifierGenerator.seeded(5)
        var values: [Double] = [0.01, 0.1, 0.29, 1.005, 8.41, 129.95, 1e12, 9_999_999_999_999.99, 1e13, 0.005, 0.995]
        for _ in 0..<20_000 {
            let word = identifiers.nextWord()
            let number = Double(word >> UInt64(word % 60))
            values += [number, number / 10, number / 100, number / 1_000, Double(bitPattern: word)]
        }
        for value in values where value.isFinite {
            #expect(JSONValue.double(value).description == value.description)
            #expect(JSONValue.double(-value).description == (-value).description)
        }
    }

    /// A writer keeps the text of the last second.
    @Test func instantsInAnyOrderAreWrittenRightly() {
        var writer = JSONWriter()
        for milliseconds: Int64 in [0, 999, 1_000, -1, 0, 86_399_999, 86_400_000, -62_167_219_200_000, 0, .max, .min] {
            writer.clear()
            writer.writeTimestamp(milliseconds)
            let text = writer.text
            #expect(text == "\"\(timestampText(milliseconds))\"")
        }
    }

    /// Where the text must be escaped, and how long it is, decides how it is copied.
    @Test func eachPlaceOfATextOfAnyLengthIsEscaped() throws {
        for length in 0...40 {
            for place in 0..<length {
                var text = String(repeating: "a", count: length)
                let index = text.index(text.startIndex, offsetBy: place)
                text.replaceSubrange(index...index, with: place.isMultiple(of: 2) ? "\"" : "\n")
                #expect(try JSONValue(parsing: JSONValue.string(text).description).string == text)
            }
        }
    }

    @Test func aTextGrowsBeyondItsMemory() {
        var writer = JSONWriter(capacity: 1)
        for _ in 0..<1_000 { writer.raw("0123456789") }
        #expect(writer.count == 10_000)
        let text = writer.text
        #expect(text == String(repeating: "0123456789", count: 1_000))
    }

    @Test func numbersThatAreNotFiniteAreNullAndCounted() {
        var writer = JSONWriter()
        writer.write([.double(.nan), .double(.infinity), .double(-.infinity), .decimal(.nan), 1, ["a": .double(.nan)]])
        #expect(writer.text == #"[null,null,null,null,1,{"a":null}]"#)
        #expect(writer.nonFiniteCount == 5)
        #expect(writer.tooDeepCount == 0)
    }

    @Test(arguments: [false, true])
    func whatLiesDeeperThanTwoHundredLevelsIsNullAndCounted(asObjects: Bool) {
        let nested = { (levels: Int) in
            (0..<levels).reduce("leaf" as JSONValue) { value, _ in asObjects ? ["k": value] : [value] }
        }
        var writer = JSONWriter()
        writer.write(nested(200))
        #expect(depth(of: writer.text) == 200)
        #expect(writer.text.contains("leaf"))
        #expect(writer.tooDeepCount == 0)

        writer = JSONWriter()
        writer.write([nested(199), nested(200), nested(5), nested(1_000)])
        #expect(depth(of: writer.text) == 200)
        #expect(writer.text.components(separatedBy: "leaf").count == 3)
        #expect(writer.text.components(separatedBy: "null").count == 3)
        #expect(writer.tooDeepCount == 2)
    }

    @Test func whatIsWrittenIsAlwaysRead() throws {
        let deep = (0..<1_000).reduce(1 as JSONValue) { value, _ in [["k": value]] }
        let text = deep.description
        #expect(try JSONValue(parsing: text).description == text)
    }
}

extension [String: Any] {
    /// As JSON text.
    fileprivate var json: String { JSONObject(self).description }
}
