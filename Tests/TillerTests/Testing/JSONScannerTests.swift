import Testing
import Tiller

@testable import TillerTesting

@Suite struct JSONScannerTests {
    /// What is JSON to one is JSON to the other.
    @Test(arguments: [
        "null", "true", "false", "0", "-0", "12", "-1.5e-10", "1E+2", "0.0", #""""#,
        #""a\"\\\/\b\f\n\r\t\u00e9\uD800""#,
        "[]", "{}", "[1,[2,{}],\"x\"]", #"{"a":{"b":[]},"":null}"#, " \t\r\n{ \"a\" : [ 1 , 2 ] } ", "1e308",
        "\"é\u{2028}\"",
        // and what is none
        "", " ", "nul", "nulll", "True", "01", "-", "+1", "1.", ".5", "1e", "1e+", "1e999", "-1e999", "0x1", "NaN",
        "Infinity", "\"", "\"\\\"", #""\x""#, #""\u12g4""#, #""\u12"#, "\"\u{1}\"", "\"\n\"", "[", "]", "[1", "[1,",
        "[1,]",
        "[,1]", "[1 2]", "{", "}", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":1,", "{\"a\":1,}", "{,}", "{a:1}", "{1:1}",
        "{\"a\" 1}", "[}", "{]", "[[}]", "{}{}", "[] []", "1 2", "\u{FEFF}1", "'a'", "[1]x", "{\"a\":1}}", "//",
        "[\"a\":1]",
    ])
    func agreesWithTheReader(text: String) {
        let isJSON = (try? JSONValue(parsing: text)) != nil
        #expect(((try? JSONScanner.value(in: Array(text.utf8))) != nil) == isJSON)
        #expect(((try? JSONScanner.batch(in: Array(text.utf8))) != nil) == isJSON)
        let wrapped = Array(#"{"x":\#(text),"batch":[\#(text)]}"#.utf8)
        #expect(((try? JSONScanner.batch(in: wrapped)) != nil) == ((try? JSONValue(parsing: wrapped)) != nil))
    }

    @Test func tellsWhereElementsStandAndHowDeepTheyAre() throws {
        let text = #" { "a":[[[]]], "batch" : [ {"p":[{}]} , 7,null,"s", [] ] } "#
        let elements = try JSONScanner.batch(in: Array(text.utf8))
        let texts = elements.map { String(decoding: Array(text.utf8)[$0.range], as: UTF8.self) }
        #expect(texts == [#"{"p":[{}]}"#, "7", "null", #""s""#, "[]"])
        #expect(elements.map(\.depth) == [3, 0, 0, 0, 1])
        #expect(elements.map(\.kind) == [.object, .other, .null, .other, .array])
    }

    @Test(arguments: [511, 512, 513, 514, 200_000])
    func tellsApartWhatIsTooDeepForTheReader(depth: Int) throws {
        let text = String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
        let value = try JSONScanner.value(in: Array(text.utf8))
        #expect(value.depth == depth)
        #expect(value.tooDeep == (depth > 512 ? [512..<(2 * depth - 512)] : []))
    }
}
