import Foundation
import Testing

@testable import Tiller

/// The cases B64 to B80 of `bug-cases.md` as far as converting, encoding and reading go. Recording, restarts and delivery
/// around them are tested with the whole SDK, under other names.
struct BugCasesEncodingTests {
    /// The case's restart and delivery are the SDK's; here, the event with NaN and the one after it are sound JSON.
    @Test func b64_nanCostsTheValueOnly() throws {
        let first = try Sent(["x": Double.nan, "y": 1])
        let second = try Sent(["z": 2])
        #expect(first.properties == ["x": nil, "y": 1])
        #expect(second.properties == ["z": 2])
    }

    static let notFinite: [@Sendable () -> Any] = [
        { Double.nan }, { Double.infinity }, { -Double.infinity }, { Float.nan }, { Float.infinity },
        { -Float.infinity },
        { NSNumber(value: Double.nan) }, { CGFloat.infinity }, { JSONValue.double(.nan) },
    ]

    @Test(arguments: notFinite.indices)
    func b65_oneRuleForNumbersThatAreNotFinite(index: Int) throws {
        let bad = Self.notFinite[index]()
        let values: [String: Any] = ["v": bad, "list": [1, bad], "a": ["b": ["c": bad, "d": true]]]
        let expected: JSONObject = ["a": ["b": ["c": nil, "d": true]], "list": [1, nil], "v": nil]
        let sent = try Sent(
            values, traits: values, options: RudderOption(integrations: ["X": values], customContext: values))
        #expect(sent.properties == expected)
        #expect(sent.value["traits"]?.object == expected)
        #expect(sent.value["integrations"]["X"]?.object == expected)
        #expect(sent.value["context"]?.object == expected)
        #expect(sent.options?.problems.count == 1)
    }

    /// The same where no conversion was needed: a NaN in a literal of the typed path.
    @Test func b65_theRuleHoldsForTypedLiteralsToo() throws {
        let event = Event(.track, name: "a", properties: ["v": .double(.nan), "list": [.double(.infinity), 1]])
        var writer = JSONWriter()
        let encoded = EncodedEvent(event, channel: .mobile, with: &writer)
        let count = writer.nonFiniteCount
        #expect(count == 2)
        #expect(try JSONValue(parsing: Array(encoded.bytes))["properties"]?.object == ["v": nil, "list": [nil, 1]])
    }

    /// "Same after restart" is what is read back from the event's bytes, which are what is stored.
    @Test func b66_dateURLAndNullHaveOneFormEverywhere() throws {
        let date = Date(timeIntervalSince1970: 1_772_715_605.005)
        let url = URL(string: "https://a.example/p?q=1")
        let flat: [String: Any] = ["date": date, "url": url as Any, "null": NSNull(), "nil": String?.none as Any]
        var values = flat
        values["list"] = [date, url as Any, NSNull()]
        values["deep"] = ["deeper": flat]
        let form: JSONObject = [
            "date": "2026-03-05T13:00:05.005Z", "url": "https://a.example/p?q=1", "null": nil, "nil": nil,
        ]
        var expected = form
        expected["list"] = ["2026-03-05T13:00:05.005Z", "https://a.example/p?q=1", nil]
        expected["deep"] = ["deeper": .object(form)]
        let sent = try Sent(values, traits: values, options: RudderOption(customContext: values))
        #expect(sent.properties == expected)
        #expect(sent.value["traits"]?.object == expected)
        #expect(sent.value["context"]?.object == expected)
        #expect(sent.options?.problems == [])
    }

    @Test func b67_aNullIsKeptAndItsNeighboursToo() throws {
        let events = try (1...10).map { try Sent(["n": $0, "x": $0 == 5 ? NSNull() : "v"]) }
        #expect(events.compactMap { $0.properties["n"]?.int } == Array(1...10))
        #expect(events[4].properties["x"] == .some(.null))
        #expect(events[5].properties["x"] == "v")
    }

    /// Content length and gzip are the transport's; here, the bytes are UTF-8 with the very same scalars.
    @Test(arguments: [
        "😀", "👨‍👩‍👧", "日本語", "שלום עולם", "مرحبا", "\u{0}", "\u{1F}", "\u{2028}\u{2029}", #"""#, #"\"#, #"\u0041"#,
        "e\u{301}",
        "\u{E9}", "\u{FEFF}x", "\u{10FFFF}", "\r\n",
    ])
    func b70_everyScalarArrives(text: String) throws {
        let sent = try Sent([text: text, "list": [text]])
        let key = try #require(sent.properties.keys.first { $0 != "list" })
        for read in [key, sent.properties[text]?.string, sent.properties["list"]?.array?.first?.string] {
            #expect(read.map { Array($0.unicodeScalars) } == Array(text.unicodeScalars))
        }
        #expect(String(bytes: sent.bytes, encoding: .utf8)?.utf8.count == sent.bytes.count)
        // And Foundation's reader sees the same.
        let other = try JSONDecoder().decode(Envelope.self, from: Data(sent.bytes))
        #expect(other.properties.list.map { Array($0.unicodeScalars) } == [Array(text.unicodeScalars)])
    }

    private struct Envelope: Decodable {
        struct Properties: Decodable { var list: [String] }
        var properties: Properties
    }

    @Test func b71_oneUnsupportedValueCostsNothingElse() throws {
        final class Custom {}
        var conversion = JSONConversion()
        let object = conversion.object([
            "ok": 1, "decimal": Decimal(sign: .plus, exponent: -2, significand: 1_299), "float": Float(1.5),
            "int8": Int8(5), "uint": UInt(7), "uuid": UUID(uuidString: "E621E1F8-C36C-495A-93FC-0C247A3E6E5F") as Any,
            "data": Data([1, 2, 3, 4]), "set": Set(["b", "a"]), "absent": Int?.none as Any, "custom": Custom(),
            "closure": { (number: Int) in number },
        ])
        #expect(
            object.description
                == #"""
                {"absent":null,"closure":null,"custom":null,"data":"AQIDBA==","decimal":12.99,"float":1.5,"int8":5,
                "ok":1,"set":["a","b"],"uint":7,"uuid":"e621e1f8-c36c-495a-93fc-0c247a3e6e5f"}
                """#.replacingOccurrences(of: "\n", with: ""))
        #expect(conversion.problems.map(\.reason) == ["(Int) -> Int has no JSON form", "Custom has no JSON form"])
    }

    @Test func b72_nestedCollectionsKeepTheirShapeAndKeys() throws {
        let values: [String: Any] = [
            "matrix": [[1, 2], [], [[3]]] as [Any], "tree": ["list": [["k": [["deep": true]]]]], "emptyList": [Int](),
            "emptyObject": [String: Any](), "": "empty key", "a.b": 1, "$x": 2,
            "foundation": NSDictionary(dictionary: ["l": NSArray(array: [NSDictionary(dictionary: ["m": NSArray()])])]),
        ]
        #expect(
            try Sent(values).properties == [
                "matrix": [[1, 2], [], [[3]]], "tree": ["list": [["k": [["deep": true]]]]], "emptyList": [],
                "emptyObject": [:], "": "empty key", "a.b": 1, "$x": 2, "foundation": ["l": [["m": []]]],
            ])
    }

    @Test func b73_noDigitIsLost() throws {
        let values: [String: Any] = [
            "a": UInt64.max, "b": Int64.min, "c": 9_007_199_254_740_993, "d": 36_442_820, "e": 0.1, "f": 1e300,
            "g": Float(1.1), "h": try #require(Decimal(string: "12345678901234567890.123456789", locale: nil)),
            "i": NSNumber(value: UInt64.max), "j": NSNumber(value: 36_442_820),
        ]
        let expected = #"""
            {"a":18446744073709551615,"b":-9223372036854775808,"c":9007199254740993,"d":36442820,"e":0.1,"f":1e+300,
            "g":1.1,"h":12345678901234567890.123456789,"i":18446744073709551615,"j":36442820}
            """#.replacingOccurrences(of: "\n", with: "")
        #expect(JSONObject(values).description == expected)
        #expect(try Sent(values).properties.description == expected)
    }

    /// The text is made by arithmetic: there is no formatter that could take anything from the device.
    @Test(arguments: [
        ("ar_SA", Calendar.Identifier.islamicUmmAlQura), ("fa_IR", .persian), ("th_TH", .buddhist),
        ("ja_JP", .japanese),
        ("en_US", .gregorian), ("he_IL", .hebrew),
    ])
    func b74_theTextOfAnInstantKnowsNoLocale(locale: String, calendar: Calendar.Identifier) throws {
        var local = Calendar(identifier: calendar)
        local.locale = Locale(identifier: locale)
        local.timeZone = try #require(TimeZone(secondsFromGMT: 5 * 3_600 + 45 * 60))
        let instant = Date(timeIntervalSince1970: 1_772_715_605.005)
        let components = local.dateComponents([.era, .year, .month, .day, .hour, .minute, .second], from: instant)
        let sameSecond = try #require(local.date(from: components))
        #expect(JSONValue(any: instant) == "2026-03-05T13:00:05.005Z")
        #expect(JSONValue(any: sameSecond) == "2026-03-05T13:00:05.000Z")
        #expect(timestampText(1_772_715_605_005) == "2026-03-05T13:00:05.005Z")
    }

    @Test(arguments: [
        (0.0, "000"), (0.005, "005"), (0.050, "050"), (0.500, "500"), (0.999, "999"), (0.9996, "999"),
    ])
    func b75_millisecondsHaveThreeDigits(fraction: Double, digits: String) {
        let date = Date(timeIntervalSince1970: 1_772_715_605 + fraction)
        #expect(JSONValue(any: date) == .string("2026-03-05T13:00:05.\(digits)Z"))
        #expect(JSONValue(any: date as NSDate) == .string("2026-03-05T13:00:05.\(digits)Z"))
    }

    /// This layer reads times as the texts that they are, so that no form of one fails a document; who needs an instant
    /// parses the text itself.
    @Test(arguments: [
        "2025-04-23T10:00:00Z", "2025-04-23T10:00:00.1Z", "2025-04-23T10:00:00.123456Z", "2025-04-23T10:00:00+02:00",
        "soon",
    ])
    func b76_timesOfAnyFormAreRead(text: String) throws {
        #expect(try JSONValue(parsing: #"{"a":"\#(text)","b":1}"#) == ["a": .string(text), "b": 1])
    }

    /// The caller may go on at once: nothing of its objects is kept. (That values are `Sendable` is the compiler's proof
    /// that no other thread can change them.)
    @Test func b77_laterChangesOfTheCallersObjectsAreNotSeen() throws {
        let inner = NSMutableArray(array: ["before"])
        let middle = NSMutableDictionary(dictionary: ["list": inner])
        let outer: [String: Any] = ["d": middle, "l": [inner]]
        let properties = JSONObject(outer)
        inner.add("after")
        middle.removeAllObjects()
        #expect(properties == ["d": ["list": ["before"]], "l": [["before"]]])
    }

    @Test func b77_aChangedContextIsOneEventsAlone() throws {
        let base = JSONObject.Base(["app": ["name": "x"], "os": "linux"])
        var first = Event(.track, name: "1")
        first.context.lay(over: base)
        var second = Event(.track, name: "2")
        second.context.lay(over: base)
        first.context["app"]["name"] = "changed"
        first.context["os"] = nil
        #expect(second.context == ["app": ["name": "x"], "os": "linux"])
        #expect(first.context == ["app": ["name": "changed"]])
    }

    /// Delivery after a restart goes by the stored bytes; here, reading and writing them again changes nothing.
    @Test func b78_textThatLooksLikeJSONStaysAText() throws {
        let text = "\"\\\n{\"x\":1}"
        let sent = try Sent(["text": text, "a\"b": "[1,2]", "c": "null", "d": "1", "e": #"{"a":1}"#])
        #expect(sent.properties["text"] == .string(text))
        #expect(sent.properties == ["text": .string(text), "a\"b": "[1,2]", "c": "null", "d": "1", "e": #"{"a":1}"#])
        #expect(sent.value.description == String(decoding: sent.bytes, as: UTF8.self))
    }

    @Test func b79_whatIsWrittenCanBeRead() throws {
        let deep = (0..<600).reduce("leaf" as Any) { value, _ in [value] }
        let properties = JSONObject(["a": 1, "b": 2, "deep": deep])
        let encoded = EncodedEvent(Event(.track, name: "x", properties: properties), channel: .mobile)
        let read = try JSONValue(parsing: Array(encoded.bytes))
        #expect(read["properties"]["a"] == 1)
        #expect(read["properties"]["b"] == 2)
        #expect(depth(of: String(decoding: encoded.bytes, as: UTF8.self)) == 200)
        #expect(throws: Never.self) { try JSONSerialization.jsonObject(with: Data(encoded.bytes)) }
        // As traits are stored: by themselves.
        #expect(try JSONValue(parsing: properties.description).object == properties)
    }

    /// The fields of the SDK are written and spliced by their place; no text is searched or replaced.
    @Test(arguments: [
        "sentAt", #""sentAt":"2026-03-05T13:00:05.005Z""#, "{{sentAt}}", "_RSA_SENT_AT_", #""anonymousId":"someone""#,
        "}}",
        #"}},"context":{"#, "\u{1E}", "\n",
    ])
    func b80_textLikeAMarkerIsLeftAlone(text: String) throws {
        var event = Event(.track, name: text, properties: [text: .string(text), "copy": .string("x\(text)x")])
        event.anonymousId = "the-real-one"
        event.context[text] = .string(text)
        var encoded = EncodedEvent(event, channel: .mobile)
        encoded.splice("sessionId", 5)
        let read = try JSONValue(parsing: Array(encoded.bytes))
        #expect(read["event"] == .string(text))
        #expect(read["properties"]?.object == [text: .string(text), "copy": .string("x\(text)x")])
        #expect(read["context"]?.object == [text: .string(text), "sessionId": 5])
        #expect(read["anonymousId"] == "the-real-one")
        #expect(!encoded.bytes.contains { $0 < 0x20 })
    }
}

/// An event made of values of any type, encoded, and read again as the server would.
private struct Sent {
    let bytes: [UInt8]
    let value: JSONValue
    let options: EventOptions?

    var properties: JSONObject { value["properties"]?.object ?? [:] }

    init(_ properties: [String: Any], traits: [String: Any] = [:], options: EventOptions? = nil) throws {
        let event = Event(
            .track, name: "a", properties: JSONObject(properties), traits: JSONObject(traits), options: options)
        var writer = JSONWriter()
        bytes = Array(EncodedEvent(event, channel: .mobile, with: &writer).bytes)
        value = try JSONValue(parsing: bytes)
        self.options = options
        let count = writer.nonFiniteCount
        try #require(count == 0)
        _ = try JSONSerialization.jsonObject(with: Data(bytes))
    }
}

extension EncodedEvent {
    fileprivate init(_ event: borrowing Event, channel: Channel) {
        var writer = JSONWriter()
        self.init(event, channel: channel, with: &writer)
    }

    fileprivate init(_ event: borrowing Event, channel: Channel, with writer: inout JSONWriter) {
        var texts: [UInt8] = []
        let anonymousId = writer.write(event, channel: channel)
        let written = texts.append(writer, anonymousId: anonymousId)
        self.init(written, in: texts, moment: event.moment)
    }
}
