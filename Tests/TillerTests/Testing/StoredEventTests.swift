import Foundation
import Testing
import Tiller
import TillerTesting

/// What the local data plane stores, beside what was sent.
@Suite(.timeLimit(.minutes(5)))
struct StoredEventTests {
    // MARK: Values

    @Test(arguments: [
        ("9007199254740993", "9007199254740992"), ("1.0", "1"), ("-0", "0"), ("-0.0", "0"), ("1e2", "100"),
        ("18446744073709551615", "18446744073709552000"), ("-9223372036854775807", "-9223372036854776000"),
        ("123456789012345678.25", "123456789012345680"), ("9007199254740995", "9007199254740996"),
        ("1234567890123456789", "1234567890123456800"),
        ("1e20", "100000000000000000000"),
        ("1.5E21", "1.5e+21"), ("0.00000125", "0.00000125"), ("-1.25e-7", "-1.25e-7"), ("1e-6", "0.000001"),
        ("0.1", "0.1"), ("0.12345678901234567890123", "0.12345678901234568"), ("1740463597", "1740463597"),
        (#""\uD800x""#, "\"\u{FFFD}x\""), (#"{"b":1,"a":2,"b":3}"#, #"{"b":1,"a":2}"#), ("[null,true]", "[null,true]"),
        (#""\"\\\/\b\u001f\u00e9""#, #""\"\\/\u0008\u001fé""#),
    ])
    func valuesAreStoredAsTheGatewayDoes(sent: String, stored: String) async throws {
        let event = try await only(#"{"userId":"u","p":\#(sent)}"#)
        let text = event.storedText
        #expect(text.contains(#""p":\#(stored),"#), "\(text)")
        #expect(event.json["p"] == (try JSONValue(parsing: sent)))
        #expect(event.stored["p"] == (try JSONValue(parsing: stored)))
    }

    @Test func bytesThatAreNoUTF8BecomeReplacementCharacters() async throws {
        let body = Array(#"{"userId":"u","p":"a"#.utf8) + [0xFF] + Array(#"b"}"#.utf8)
        let event = try await only(body, [])
        #expect(event.stored["p"] == "a\u{FFFD}b")
        #expect(event.json["p"] == "a\u{FFFD}b")
    }

    @Test func whatWasSentStaysAsItWas() async throws {
        let event = try await only(#"{"type":"identify","rudderId":"mine","userId":"u","messageId":" m ","n":1.0}"#)
        #expect(event.json == ["type": "identify", "rudderId": "mine", "userId": "u", "messageId": " m ", "n": 1.0])
        #expect(event.type == "identify")
        #expect(event.stored["type"] == "track")
        #expect(event.stored["messageId"] == "m")
    }

    // MARK: Members

    @Test(arguments: [
        (#""userId":"u""#, "61763869-6114-4ab2-bdac-9ba13af24508"),
        (#""userId":"u","anonymousId":"a""#, "d7374af0-fa5c-4067-a818-1c4963a3798c"),
        (#""anonymousId":"a""#, "66c06124-682b-405f-a56f-e90e3325cf79"),
        (#""userId":"u1""#, "5eff0fc3-0944-48fa-9c04-38f62e3890ca"),
        (#""userId":" u\u200b ","rudderId":"mine""#, "61763869-6114-4ab2-bdac-9ba13af24508"),
    ])
    func rudderIdIsOfBothIds(members: String, rudderId: String) async throws {
        let event = try await only("{\(members)}")
        #expect(event.stored["rudderId"]?.string == rudderId)
    }

    @Test func theAddressIsThatOfTheSocketOrTheFirstForwarded() async throws {
        let plain = try await only(#"{"userId":"u"}"#)
        #expect(plain.stored["request_ip"] == "127.0.0.1")
        let forwarded = try await only(Array(#"{"userId":"u"}"#.utf8), ["X-Forwarded-For: 1.2.3.4, 5.6.7.8"])
        #expect(forwarded.stored["request_ip"] == "1.2.3.4")
    }

    @Test func aClientsAddressHoldsForTheRestOfItsBatch() async throws {
        let plane = try LocalDataPlane()
        let body = #"{"batch":[{"userId":"a"},{"userId":"b","request_ip":"9.9.9.9"},{"userId":"c"}]}"#
        try await post(plane, "/v1/batch", Array(body.utf8), [])
        try await post(plane, "/v1/batch", Array(#"{"batch":[{"userId":"d"}]}"#.utf8), [])
        #expect(plane.events.map { $0.stored["request_ip"] } == ["127.0.0.1", "9.9.9.9", "9.9.9.9", "127.0.0.1"])
    }

    @Test func receivedAtIsTheServersWallClock() async throws {
        let time = VirtualTime(wallMilliseconds: 1_740_463_597_005)
        let plane = try LocalDataPlane(rules: .init(), timeSource: time)
        try await post(plane, "/v1/track", Array(#"{"userId":"u"}"#.utf8), [])
        time.advance(by: .seconds(1))
        try await post(plane, "/v1/track", Array(#"{"userId":"u"}"#.utf8), [])
        #expect(
            plane.events.map { $0.stored["receivedAt"] } == ["2025-02-25T06:06:37.005Z", "2025-02-25T06:06:38.005Z"])
        #expect(plane.events.map(\.receivedAt.timeIntervalSince1970) == [1_740_463_597.005, 1_740_463_598.005])
    }

    // MARK: The size on the routes for single events

    /// The gateway wraps the event first: 21 bytes and the type.
    @Test(arguments: [("track", 36), ("page", 35), ("identify", 39)])
    func aSingleEventHasAFewBytesLess(route: String, wrapping: Int) async throws {
        let plane = try LocalDataPlane()
        func body(_ count: Int) -> [UInt8] {
            Array(#"{"userId":"u"}"#.utf8) + [UInt8](repeating: 0x20, count: count - 14)
        }
        #expect(try await post(plane, "/v1/" + route, body(4_096_000 - wrapping), []).status == 200)
        #expect(try await post(plane, "/v1/" + route, body(4_096_001 - wrapping), []).status == 413)
    }

    // MARK: What has arrived, over HTTP

    @Test func showsWhatHasArrivedInOrder() async throws {
        let plane = try LocalDataPlane()
        #expect(try await events(of: plane).isEmpty)
        for name in ["a", "b\"\\"] {
            let body = JSONValue.object(["userId": "u", "event": .string(name)]).description
            try await post(plane, "/v1/track", Array(body.utf8), [])
        }
        let shown = try await events(of: plane)
        #expect(shown.map(\.keys) == Array(repeating: ["receivedAt", "writeKey", "event"], count: 2))
        #expect(shown.map { $0["writeKey"] } == ["wk", "wk"])
        #expect(shown.map { $0["event"]?["event"] } == ["a", "b\"\\"])
        #expect(shown.compactMap { $0["event"]?.object } == plane.events.map(\.stored))
    }

    @Test(arguments: [
        ("127.0.0.1:80", 200), ("LOCALHOST", 200), ("evil.example", 403), ("127.0.0.1.evil.example:80", 403),
    ])
    func showsItOnlyUnderNamesOfThisMachine(host: String, status: Int) async throws {
        let plane = try LocalDataPlane()
        let answer = try await RawClient.run(plane.url) { client in
            try client.send("GET /tiller/events HTTP/1.1\r\nHost: \(host)\r\nOrigin: http://evil.example\r\n\r\n")
            return try client.answer()
        }
        #expect(answer.status == status)
        #expect(answer.headers["Access-Control-Allow-Origin"] == nil)
    }

    // MARK: What is kept

    @Test func keepsOnlyTheStoredFormIfThatIsEnough() async throws {
        var rules = LocalDataPlane.Rules()
        rules.retention = .storedEvents
        let plane = try LocalDataPlane(rules: rules)
        try await post(plane, "/v1/track", Array(#"{"userId":"u"}"#.utf8), [])
        #expect(try await plane.requests(count: 1).isEmpty)
        let event = try #require(try await plane.events(count: 1).first)
        #expect(event.json == event.stored)
        #expect(event.json["type"] == "track")
        plane.rules.retention = .nothing
        try await post(plane, "/v1/track", Array(#"{"userId":"u"}"#.utf8), [])
        #expect(try await plane.events(count: 2).count == 1)
        #expect(try await events(of: plane).count == 1)
    }

    @Test func keepsABodyInflatedAndItsSizeOnTheWire() async throws {
        let plane = try LocalDataPlane()
        let body = Array((#"{"batch":[{"userId":"u"}]}"# + String(repeating: " ", count: 1_000)).utf8)
        let gzip = Gzip.compress(body) ?? []
        try await post(plane, "/v1/batch", gzip, ["Content-Encoding: gzip"])
        try await post(plane, "/v1/batch", body, [])
        #expect(plane.requests.map(\.body) == [body, body])
        #expect(plane.requests.map(\.encodedBodySize) == [gzip.count, body.count])
    }

    // MARK: The hosted service's limits

    @Test(arguments: [
        (32_768, 1, 200, "ok"),
        (32_769, 1, 400, "hosted limit: an event has at most 32768 bytes (32 KB), event 2 has 32769\n"),
        (100, 198, 200, "ok"),
        (100, 199, 200, "ok"),
        (100, 200, 400, "hosted limit: an event has at most 200 levels of nesting, event 2 has 201\n"),
    ])
    func strictnessNamesTheLimit(size: Int, depth: Int, status: Int, text: String) async throws {
        var rules = LocalDataPlane.Rules()
        rules.isStrict = true
        let plane = try LocalDataPlane(rules: rules)
        var event = #"{"userId":"u","p":"# + String(repeating: "[", count: depth)
        event += String(repeating: "]", count: depth) + "}"
        let padding = String(repeating: " ", count: max(0, size - event.utf8.count))
        event = event.dropLast() + padding + "}"
        let body = Array(#"{"batch":[{"userId":"first"},\#(event)]}"#.utf8)
        let answer = try await post(plane, "/v1/batch", body, [])
        #expect(answer.status == status)
        #expect(answer.body == text)
        #expect(plane.events.count == (status == 200 ? 2 : 0))
        plane.rules.isStrict = false
        #expect(try await post(plane, "/v1/batch", body, []).status == 200)
    }

    @Test func strictnessLimitsTheBatch() async throws {
        var rules = LocalDataPlane.Rules()
        rules.isStrict = true
        let plane = try LocalDataPlane(rules: rules)
        let batch = Array(#"{"batch":[{"userId":"u"}]}"#.utf8)
        func body(_ count: Int) -> [UInt8] { batch + [UInt8](repeating: 0x20, count: count - batch.count) }
        #expect(try await post(plane, "/v1/batch", body(4_000_000), []).status == 200)
        let answer = try await post(plane, "/v1/batch", body(4_000_001), [])
        #expect(answer.status == 400)
        #expect(answer.body == "hosted limit: a batch has at most 4000000 bytes (4 MB), this one has 4000001\n")
    }

    // MARK: Steps

    @discardableResult
    private func post(
        _ plane: LocalDataPlane, _ path: String, _ body: [UInt8], _ fields: [String]
    ) async throws -> RawClient.Answer {
        let head = [
            "POST \(path) HTTP/1.1", "Host: h", "Authorization: Basic d2s6", "Content-Length: \(body.count)",
        ]
        return try await RawClient.run(plane.url) { client in
            try client.send((head + fields + ["", ""]).joined(separator: "\r\n"))
            try client.send(body)
            return try client.answer()
        }
    }

    /// Sends an event to /v1/track.
    private func only(_ event: String) async throws -> LocalDataPlane.ReceivedEvent {
        try await only(Array(event.utf8), [])
    }

    private func only(_ event: [UInt8], _ fields: [String]) async throws -> LocalDataPlane.ReceivedEvent {
        let plane = try LocalDataPlane()
        #expect(try await post(plane, "/v1/track", event, fields).status == 200)
        return try #require(plane.events.first)
    }
}
