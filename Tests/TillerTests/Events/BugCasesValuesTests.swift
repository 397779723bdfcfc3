import Foundation
import Testing
import Tiller
import TillerTesting

/// Values on their whole way: from the call to the body of a request, and for traits over a restart (`bug-cases.md` F).
///
/// How single values are converted is tested with the conversion.
@Suite(.timeLimit(.minutes(5)))
struct BugCasesValuesTests {
    private let transport = StubTransport()
    private let logger = RecordingLogger()
    private let folder = TestFolder()

    private func launch() -> Analytics {
        Analytics(configuration: .test(storage: .folder(folder.url), transport: transport, logger: logger))
    }

    private func values(of name: String, _ analytics: Analytics) async throws -> JSONValue {
        let event = await analytics.delivered(to: transport).last { $0["event"]?.string == name }
        return try #require(event?["properties"])
    }

    @Test func b64_nanCrashesNeitherThisRunNorTheNext() async {
        let first = launch()
        first.track(name: "a", properties: ["x": Double.nan, "ok": 1 as Any])
        first.track(name: "b")
        first.identify(userId: "u1", traits: ["x": Double.nan as Any])
        #expect(await first.flushed() == .delivered)
        await first.shutdownAndWait()
        let second = launch()
        #expect(second.traits == ["x": nil])
        second.track(name: "c")
        let events = await second.delivered(to: transport)
        #expect(events.compactMap { $0["event"]?.string } == ["a", "b", "identify", "c"])
        #expect(events[0]["properties"] == ["x": nil, "ok": 1])
        #expect(events[3]["context"]["traits"] == ["x": nil])
        await second.shutdownAndWait()
    }

    @Test func b65_oneRuleForNumbersThatAreNotFiniteEverywhere() async throws {
        let analytics = launch()
        let odd: [Any] = [
            Double.nan, Double.infinity, -Double.infinity, Float.nan, Float.infinity, -Float.infinity, Decimal.nan,
        ]
        let values: [String: Any] = ["top": Double.nan, "list": odd, "deep": ["a": ["b": ["c": odd]]], "ok": 1]
        let expected: JSONValue = [
            "top": nil, "list": [nil, nil, nil, nil, nil, nil, nil],
            "deep": ["a": ["b": ["c": [nil, nil, nil, nil, nil, nil, nil]]]], "ok": 1,
        ]
        let options = EventOptions(integrations: ["Amplitude": values], customContext: ["own": values])
        analytics.track(name: "a", properties: values, options: options)
        analytics.screen(screenName: "s", properties: values)
        analytics.group(groupId: "g", traits: values)
        analytics.identify(userId: "u1", traits: values)
        let events = await analytics.delivered(to: transport)
        try #require(events.count == 4)
        #expect(events[0]["properties"] == expected)
        #expect(events[0]["integrations"]["Amplitude"] == expected)
        #expect(events[0]["context"]["own"] == expected)
        #expect(events[1]["properties"]["deep"] == expected["deep"])
        #expect(events[2]["traits"] == expected)
        #expect(events[3]["context"]["traits"] == expected)
        #expect(try strictlyParsed(transport.requests[0].body) != nil)
        await analytics.shutdownAndWait()
    }

    @Test func b66_datesURLsAndNullsKeepTheirFormAtEveryDepthAndAfterARestart() async throws {
        let url = try #require(URL(string: "https://example.com/a%20b?q=%C3%BC#f"))
        let date = Date(timeIntervalSince1970: 1_772_715_605.005)
        let leaves: [Any] = [date, url, NSNull(), Optional<String>.none as Any]
        let values: [String: Any] = ["date": date, "url": url, "null": NSNull(), "list": leaves, "deep": ["a": leaves]]
        let jsonLeaves: JSONValue = [
            "2026-03-05T13:00:05.005Z", "https://example.com/a%20b?q=%C3%BC#f", nil, nil,
        ]
        let expected: JSONObject = [
            "date": "2026-03-05T13:00:05.005Z", "url": "https://example.com/a%20b?q=%C3%BC#f", "null": nil,
            "list": jsonLeaves, "deep": ["a": jsonLeaves],
        ]
        let first = launch()
        first.track(name: "a", properties: values, options: EventOptions(customContext: ["own": values]))
        first.identify(userId: "u1", traits: values)
        let events = await first.delivered(to: transport)
        #expect(events[0]["properties"] == .object(expected))
        #expect(events[0]["context"]["own"] == .object(expected))
        #expect(events[1]["context"]["traits"] == .object(expected))
        await first.shutdownAndWait()
        let second = launch()
        #expect(second.traits == expected)
        second.track(name: "b")
        #expect(await second.delivered(to: transport).last?["context"]["traits"] == .object(expected))
        await second.shutdownAndWait()
    }

    @Test func b67_aNullCostsNoEventAndStays() async {
        let analytics = launch()
        for index in 0..<10 {
            let value: Any = index == 4 ? NSNull() : index
            analytics.track(name: "\(index)", properties: ["v": value])
        }
        let events = await analytics.delivered(to: transport)
        #expect(events.compactMap { $0["event"]?.string } == (0..<10).map(String.init))
        let values = events.compactMap { $0["properties"]["v"] }
        #expect(values == [0, 1, 2, 3, nil, 5, 6, 7, 8, 9])
        await analytics.shutdownAndWait()
    }

    @Test func b70_textArrivesScalarForScalar() async throws {
        let texts = [
            "👍", "👨‍👩‍👧‍👦", "日本語", "مرحبا\u{200F}", "\u{0}", "\u{1F}", "a\u{2028}b\u{2029}", "\"quoted\"", "back\\slash",
            "e\u{301}", "é", "\r\n\t", "</script>", "\u{FEFF}", "\u{10FFFF}",
        ]
        let first = launch()
        for text in texts {
            first.track(name: "plain", properties: ["list": [text], "k\(text)": 1 as Any])
            first.track(name: text, properties: JSONObject(["v": text]))
        }
        first.identify(userId: "u1", traits: ["list": texts])
        let events = await first.delivered(to: transport)
        for (index, text) in texts.enumerated() {
            let scalars = Array(text.unicodeScalars)
            let plain = events[2 * index]["properties"]
            #expect(plain["list"]?.array?.first?.string.map { Array($0.unicodeScalars) } == scalars)
            let key = plain?.object?.keys.first { $0.hasPrefix("k") }
            #expect(key.map { Array($0.unicodeScalars.dropFirst()) } == scalars)
            #expect(events[2 * index + 1]["event"]?.string.map { Array($0.unicodeScalars) } == scalars)
        }
        // Foundation reads the same.
        let body = try #require(transport.requests.first).body
        let object = try JSONSerialization.jsonObject(with: Data(body)) as? [String: Any]
        #expect((object?["batch"] as? [Any])?.count == events.count)
        await first.shutdownAndWait()
        let second = launch()
        let restored = second.traits?["list"]?.array?.compactMap(\.string) ?? []
        #expect(restored.map { Array($0.unicodeScalars) } == texts.map { Array($0.unicodeScalars) })
        await second.shutdownAndWait()
    }

    /// Has no JSON form.
    private final class Opaque {}

    @Test func b71_oneValueWithoutAJSONFormCostsThatValue() async throws {
        let analytics = launch()
        let uuid = try #require(UUID(uuidString: "E621E1F8-C36C-495A-93FC-0C247A3E6E5F"))
        let decimal = try #require(Decimal(string: "1.25"))
        for _ in 0..<2 {
            analytics.track(
                name: "a",
                properties: [
                    "ok": 1, "decimal": decimal, "float": Float(1.5), "small": Int8(5), "unsigned": UInt(7), "id": uuid,
                    "data": Data([1, 2, 3, 255]), "set": Set([2, 1]), "none": Optional<Int>.none as Any,
                    "object": Opaque(), "closure": { () -> Void in },
                ])
        }
        #expect(
            try await values(of: "a", analytics) == [
                "ok": 1, "decimal": 1.25, "float": 1.5, "small": 5, "unsigned": 7,
                "id": "e621e1f8-c36c-495a-93fc-0c247a3e6e5f", "data": "AQID/w==", "set": [1, 2], "none": nil,
                "object": nil, "closure": nil,
            ])
        #expect(logger.texts(.warn).filter { $0.contains("Opaque") }.count == 1)
        #expect(!logger.messages.contains { $0.text.contains("AQID") })
        await analytics.shutdownAndWait()
    }

    @Test func b72_nestedCollectionsKeepTheirShape() async throws {
        let analytics = launch()
        let values: [String: Any] = [
            "matrix": [[1, 2], [3], []], "rows": ["list": [["a": [1]], ["b": [["c": true]]]]], "empty": [Any](),
            "none": [String: Any](), "": "empty key", "a.b": 1, "$x": 2,
        ]
        analytics.track(name: "a", properties: values)
        #expect(
            try await self.values(of: "a", analytics) == [
                "matrix": [[1, 2], [3], []], "rows": ["list": [["a": [1]], ["b": [["c": true]]]]], "empty": [],
                "none": [:], "": "empty key", "a.b": 1, "$x": 2,
            ])
        await analytics.shutdownAndWait()
    }

    @Test func b73_numbersKeepTheirDigitsOnTheWireAndAfterARestart() async throws {
        let decimal = try #require(Decimal(string: "12345678901234567890.123456789"))
        let values: [String: Any] = [
            "umax": UInt64.max, "imin": Int64.min, "odd": 9_007_199_254_740_993, "plain": 36_442_820, "tenth": 0.1,
            "large": 1e300, "float": Float(1.1), "decimal": decimal,
        ]
        let digits = [
            "\"umax\":18446744073709551615", "\"imin\":-9223372036854775808", "\"odd\":9007199254740993",
            "\"plain\":36442820", "\"tenth\":0.1", "\"large\":1e+300", "\"float\":1.1",
            "\"decimal\":12345678901234567890.123456789",
        ]
        let first = launch()
        first.identify(userId: "u1", traits: values)
        await first.flushed()
        await first.shutdownAndWait()
        let second = launch()
        second.track(name: "a")
        await second.flushed()
        for request in transport.requests {
            let body = String(decoding: request.body, as: UTF8.self)
            for text in digits { #expect(body.contains(text + ",") || body.contains(text + "}")) }
        }
        #expect(transport.requests.count == 2)
        await second.shutdownAndWait()
    }

    @Test func b77_whatTheCallerChangesAfterTheCallChangesNothing() async throws {
        let stuck = StuckPlugin()
        let analytics = launch()
        analytics.add(plugin: stuck)
        for round in 0..<100 {
            let list = NSMutableArray(array: [1, 2])
            let values = NSMutableDictionary(dictionary: ["list": list, "k": "v"])
            analytics.track(name: "a", properties: ["values": values])
            list.add(round)
            list.replaceObject(at: 0, with: "changed")
            values["k"] = "changed"
            values["more"] = round
        }
        stuck.open()
        let events = await analytics.delivered(to: transport)
        #expect(events.count == 100)
        #expect(events.allSatisfy { $0["properties"] == ["values": ["list": [1, 2], "k": "v"]] })
        await analytics.shutdownAndWait()
    }

    @Test func b78_textThatLooksLikeJSONStaysTextOnEveryWay() async throws {
        let text = "\"\\\n{\"x\":1}"
        let key = "k\"ey"
        let destination = RecordingDestination()
        let first = launch()
        first.add(plugin: destination)
        first.identify(userId: "u1", traits: JSONObject([key: text]))
        first.track(name: "a", properties: JSONObject([key: text]))
        let sent = await first.delivered(to: transport)
        #expect(sent.last?["properties"] == .object(JSONObject([key: text])))
        #expect(sent.last?["properties"][key]?.string == text)
        #expect(await first.settled(destination).last?.properties[key]?.string == text)
        await first.shutdownAndWait()
        let second = launch()
        #expect(second.traits?[key]?.string == text)
        second.track(name: "b")
        #expect(await second.delivered(to: transport).last?["context"]["traits"]?[key]?.string == text)
        await second.shutdownAndWait()
    }

    @Test func b79_whatLiesTooDeepIsCutAndNothingBecomesUnreadable() async throws {
        let first = launch()
        var deep: Any = 1
        for _ in 0..<600 { deep = [deep] }
        first.track(name: "a")
        first.track(name: "deep", properties: ["typed": .nested(600), "flat": 1])
        first.track(name: "boxed", properties: ["any": deep, "flat": 1])
        first.identify(userId: "u1", traits: ["typed": .nested(600), "flat": 1])
        first.identify(userId: "u1", traits: ["any": deep])
        first.track(name: "b", options: EventOptions(customContext: ["traits": [:]]))
        let events = await first.delivered(to: transport)
        #expect(events.count == 6)
        #expect(events.allSatisfy { JSONValue.object($0).levels <= 200 })
        #expect(events[1]["properties"]["flat"] == 1)
        #expect(events[2]["properties"]["flat"] == 1)
        // Foundation's reader takes 512 levels.
        let body = try #require(transport.requests.first).body
        #expect(throws: Never.self) { try JSONSerialization.jsonObject(with: Data(body)) }
        await first.shutdownAndWait()
        let second = launch()
        #expect(second.userId == "u1")
        #expect(second.traits?["flat"] == 1)
        #expect(second.traits?["typed"] != nil)
        second.track(name: "c")
        #expect(await second.delivered(to: transport).count == 7)
        await second.shutdownAndWait()
    }

    /// The batch, if the text is strict JSON.
    private func strictlyParsed(_ body: [UInt8]) throws -> JSONValue? {
        _ = try JSONSerialization.jsonObject(with: Data(body))
        return try JSONValue(parsing: body)["batch"]
    }
}
