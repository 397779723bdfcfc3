import Foundation
import Testing
import Tiller
import TillerTesting

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

@Suite(.timeLimit(.minutes(5)))
struct LocalDataPlaneTests {
    // MARK: Batches

    @Test func acceptsABatchInOrder() async throws {
        let plane = try LocalDataPlane()
        let answer = try await post(
            #"{"batch":[{"type":"track","event":"Opened","messageId":"m-1","anonymousId":"a"},"#
                + #"{"type":"screen","event":"Home","messageId":"m-2","userId":"u"}]}"#,
            to: plane, headers: ["AnonymousId": "a"])
        #expect(answer.status == 200)
        #expect(answer.body == "ok")
        #expect(answer.contentType == "text/plain; charset=utf-8")
        let events = plane.events
        #expect(events.map(\.name) == ["Opened", "Home"])
        #expect(events.map(\.messageId) == ["m-1", "m-2"])
        #expect(events.map(\.kind) == [.track, .screen])
        #expect(events.map(\.writeKey) == ["wk", "wk"])
        #expect(events.map(\.anonymousIdHeader) == ["a", "a"])
        #expect(events.map(\.userId) == [nil, "u"])
    }

    @Test func readsSessionsAndContextOfAnEvent() async throws {
        let plane = try LocalDataPlane()
        _ = try await post(
            #"{"batch":[{"type":"identify","userId":"u","properties":{"a":1},"context":{"sessionId":1700000000,"#
                + #""sessionStart":true,"traits":{"plan":"pro"}}},{"type":"Other","userId":"u","#
                + #""context":{"sessionId":"1","sessionStart":1}},{"userId":"u","context":7}]}"#, to: plane)
        let events = plane.events
        try #require(events.count == 3)
        #expect(events.map(\.sessionId) == [1_700_000_000, nil, nil])
        #expect(events.map(\.isSessionStart) == [true, false, false])
        #expect(events.map(\.type) == ["identify", "Other", nil])
        #expect(events.map(\.kind) == [.identify, nil, nil])
        #expect(events[0].context["traits"]?["plan"] == "pro")
        #expect(events[0].properties == ["a": 1])
        #expect(events[2].context.isEmpty)
        #expect(events[2].json == ["userId": "u", "context": 7])
        #expect(events[2].anonymousIdHeader == nil)
    }

    @Test func answersHealth() async throws {
        let plane = try LocalDataPlane()
        let answer = try await RawClient.run(plane.url) { client in
            try client.send("GET /health HTTP/1.1\r\nHost: h\r\n\r\n")
            return try client.answer()
        }
        #expect(answer.status == 200)
        #expect(answer.body.contains(#""server":"UP""#))
        #expect(answer.headers["Content-Type"] == "application/json; charset=utf-8")
        #expect(plane.requests.map(\.path) == ["/health"])
    }

    @Test(arguments: [
        ("", 400, "invalid json\n"),
        ("{", 400, "invalid json\n"),
        (#"{"batch":[]} {}"#, 400, "invalid json\n"),
        ("\u{FEFF}{}", 400, "invalid json\n"),
        ("{}", 400, "empty batch payload\n"),
        ("[]", 400, "empty batch payload\n"),
        ("null", 400, "empty batch payload\n"),
        (#"{"batch":[]}"#, 400, "empty batch payload\n"),
        (#"{"batch":null}"#, 400, "empty batch payload\n"),
        (#"{"Batch":[{"userId":"u"}]}"#, 400, "empty batch payload\n"),
        (#"{"batch":"x"}"#, 400, "event is not a valid rudder event\n"),
        (#"{"batch":[7]}"#, 400, "event is not a valid rudder event\n"),
        (#"{"batch":[null]}"#, 400, "event is not a valid rudder event\n"),
        (#"{"batch":[{"userId":"u"},[]]}"#, 400, "event is not a valid rudder event\n"),
        (#"{"batch":[{"type":"track"},7]}"#, 400, "request neither has anonymousId nor userId\n"),
        (#"{"batch":[7,{"type":"track"}]}"#, 400, "event is not a valid rudder event\n"),
        (#"{"batch":[{"userId":"u"},{"userId":null}]}"#, 400, "request neither has anonymousId nor userId\n"),
        (#"{"batch":[{"userId":"\t","anonymousId":""}]}"#, 400, "request neither has anonymousId nor userId\n"),
        (
            #"{"batch":[{"userId":"  ","anonymousId":"\u200b\u00a0"}]}"#, 400,
            "request neither has anonymousId nor userId\n"
        ),
    ])
    func refusesWithTheGatewaysText(body: String, status: Int, text: String) async throws {
        let plane = try LocalDataPlane()
        let answer = try await post(body, to: plane)
        #expect(answer.status == status)
        #expect(answer.body == text)
        #expect(answer.contentType == "text/plain; charset=utf-8")
        #expect(plane.events.isEmpty)
        #expect(plane.requests.map(\.body) == [Array(body.utf8)])
    }

    @Test(arguments: [
        #"{"batch":[{"userId":0}]}"#, #"{"batch":[{"userId":{}}]}"#, #"{"batch":[{"anonymousId":"a","userId":null}]}"#,
        #"{"batch":{"userId":"one object"}}"#, #"{"batch":[{"type":"record"}]}"#, " {\"batch\":[{\"userId\":\"u\"}]}\n",
    ])
    func acceptsWhatTheGatewayAccepts(body: String) async throws {
        let plane = try LocalDataPlane()
        #expect(try await post(body, to: plane).status == 200)
        #expect(plane.events.count == 1)
    }

    @Test func refusesABatchAboveTheLimitAfterItsOtherFaults() async throws {
        let plane = try LocalDataPlane()
        func body(_ batch: String, count: Int) -> String {
            batch + String(repeating: " ", count: count - batch.utf8.count)
        }
        let good = #"{"batch":[{"userId":"u"}]}"#
        #expect(try await post(body(good, count: 4_096_000), to: plane).status == 200)
        let tooLarge = try await post(body(good, count: 4_096_001), to: plane)
        #expect(tooLarge.status == 413)
        #expect(tooLarge.body == "request size exceeds max limit\n")
        let empty = try await post(body("{}", count: 4_096_001), to: plane)
        #expect(empty.status == 413)
        let anonymous = try await post(body(#"{"batch":[{}]}"#, count: 4_096_001), to: plane)
        #expect(anonymous.body == "request neither has anonymousId nor userId\n")
        let malformed = try await post(body("{", count: 4_096_001), to: plane)
        #expect(malformed.body == "invalid json\n")
        #expect(plane.events.count == 1)
    }

    @Test func refusesAGiantBodyByItsHead() async throws {
        let plane = try LocalDataPlane()
        let (answer, rest) = try await RawClient.run(plane.url) { client in
            try client.send(head(["Content-Length: 99999999999"]))
            return (try client.answer(), try client.rest())
        }
        #expect(answer.status == 413)
        #expect(answer.headers["Connection"] == "close")
        #expect(rest.isEmpty)
        let chunked = try await RawClient.run(plane.url) { client in
            try client.send(head(["Transfer-Encoding: chunked"]) + "7fffffffffffffff\r\n")
            return try client.answer()
        }
        #expect(chunked.status == 413)
        #expect(plane.requests.isEmpty)
    }

    @Test func judgesTheDeepestNestingOnItsOwnStack() async throws {
        let plane = try LocalDataPlane()
        func body(depth: Int) -> String {
            #"{"batch":[{"userId":"u","p":"# + String(repeating: #"{"a":["#, count: depth / 2)
                + String(repeating: "]}", count: depth / 2) + "}]}"
        }
        #expect(try await post(body(depth: 510), to: plane).status == 200)
        #expect(try await post(body(depth: 100_000), to: plane).status == 200)
        let depths = plane.events.map { event in
            var depth = 0
            var value = event.json["p"]
            while let inner = value?["a"]?.array ?? value?.array {
                depth += value?.array == nil ? 2 : 1
                value = inner.first
            }
            return depth
        }
        #expect(depths == [510, 510])  // the event itself is a level, and the last object is cut
    }

    // MARK: Write keys and routes

    @Test(arguments: [
        ("Basic d2s6", 200, "ok"),  // wk:
        ("basic d2s6", 200, "ok"),
        ("Basic d2s6cGFzc3dvcmQ=", 200, "ok"),  // wk:password
        (nil, 401, "failed to read writekey from header\n"),
        ("Bearer d2s6", 401, "failed to read writekey from header\n"),
        ("Basic d2s=", 401, "failed to read writekey from header\n"),  // no colon
        ("Basic OnA=", 401, "failed to read writekey from header\n"),  // no user
        ("Basic d2stZW5hYmxlZDo", 401, "failed to read writekey from header\n"),  // no padding
        ("Basic !!", 401, "failed to read writekey from header\n"),
        ("Basic", 401, "failed to read writekey from header\n"),
        ("Basic d2sgOg==", 401, "invalid write key\n"),  // a trailing blank
        ("Basic V0s6", 401, "invalid write key\n"),  // upper case
    ])
    func readsTheWriteKey(authorization: String?, status: Int, text: String) async throws {
        let plane = try LocalDataPlane(writeKeys: ["wk", "other"])
        let answer = try await post(one, to: plane, headers: ["Authorization": authorization])
        #expect(answer.status == status)
        #expect(answer.body == text)
        #expect(plane.events.count == (status == 200 ? 1 : 0))
        #expect(plane.requests.count == 1)
    }

    @Test func checksTheKeyBeforeTheBody() async throws {
        let plane = try LocalDataPlane(writeKeys: [])
        #expect(try await post("{", to: plane).body == "invalid write key\n")
    }

    @Test(arguments: ["/nothing", "/v1/batch/", "/V1/batch", "/v1//batch", "/v1/import", "/v1/batch%20"])
    func knowsNoOtherPath(path: String) async throws {
        let plane = try LocalDataPlane()
        let answer = try await post(one, to: plane, path: path)
        #expect(answer.status == 404)
        #expect(answer.body == "404 page not found\n")
        #expect(plane.requests.map(\.path) == [path])
    }

    @Test func ignoresAQuery() async throws {
        let plane = try LocalDataPlane()
        #expect(try await post(one, to: plane, path: "/v1/batch?a=b").status == 200)
        #expect(plane.requests.map(\.path) == ["/v1/batch"])
    }

    @Test(arguments: [("GET", "/v1/batch", "POST"), ("HEAD", "/v1/batch", "POST"), ("POST", "/health", "GET")])
    func refusesOtherMethods(method: String, path: String, allowed: String) async throws {
        let plane = try LocalDataPlane()
        let answer = try await RawClient.run(plane.url) { client in
            try client.send("\(method) \(path) HTTP/1.1\r\nHost: h\r\n\r\n")
            return try client.answer()
        }
        #expect(answer.status == 405)
        #expect(answer.body.isEmpty)
        #expect(answer.headers == ["Allow": allowed, "Content-Length": "0", "Vary": "Origin"])
    }

    @Test func answersHeadWithoutABody() async throws {
        let plane = try LocalDataPlane()
        let (first, second) = try await RawClient.run(plane.url) { client in
            try client.send("HEAD /nothing HTTP/1.1\r\nHost: h\r\n\r\n")
            let first = try client.answer(toHead: true)
            try client.send("GET /health HTTP/1.1\r\nHost: h\r\n\r\n")
            return (first, try client.answer())
        }
        #expect(first.status == 404)
        #expect(first.headers["Content-Length"] == "19")
        #expect(second.status == 200)
    }
}

// MARK: - HTTP

@Suite(.timeLimit(.minutes(5)))
struct LocalDataPlaneHTTPTests {
    @Test func keepsAConnectionForSeveralRequests() async throws {
        let plane = try LocalDataPlane()
        let answers = try await RawClient.run(plane.url) { client in
            try client.send(request("{}"))
            let refused = try client.answer()
            try client.send(request(one))
            return [refused, try client.answer()]
        }
        #expect(answers.map(\.status) == [400, 200])
        #expect(answers.allSatisfy { $0.headers["Connection"] == nil })
        #expect(answers[0].headers["X-Content-Type-Options"] == "nosniff")
        #expect(
            answers[1].headers == [
                "Content-Type": "text/plain; charset=utf-8", "Content-Length": "2", "Vary": "Origin",
            ])
        #expect(plane.requests.count == 2)
    }

    @Test func answersPipelinedRequestsInOrder() async throws {
        let plane = try LocalDataPlane()
        let answers = try await RawClient.run(plane.url) { client in
            try client.send((0..<50).map { request(batch("\($0)")) + "\r\n" }.joined())
            return try (0..<50).map { _ in try client.answer().status }
        }
        #expect(answers == Array(repeating: 200, count: 50))
        #expect(plane.events.map(\.name) == (0..<50).map(String.init))
    }

    @Test(arguments: ["Connection: close", "connection: Keep-Alive, CLOSE"])
    func closesWhenAsked(field: String) async throws {
        let plane = try LocalDataPlane()
        let (answer, rest) = try await RawClient.run(plane.url) { client in
            try client.send(request(one, [field]) + request(one))
            return (try client.answer(), try client.rest())
        }
        #expect(answer.headers["Connection"] == "close")
        #expect(rest.isEmpty)
        #expect(plane.requests.count == 1)
    }

    @Test func servesTheOldProtocolOnce() async throws {
        let plane = try LocalDataPlane()
        let text = try await RawClient.run(plane.url) { client in
            try client.send("GET /health HTTP/1.0\r\n\r\n")
            return try client.rest()
        }
        #expect(text.hasPrefix("HTTP/1.1 200 OK\r\n"))
        #expect(text.hasSuffix(#"{"server":"UP"}"#))
    }

    @Test func takesLineFeedsAlone() async throws {
        let plane = try LocalDataPlane()
        let answer = try await RawClient.run(plane.url) { client in
            try client.send(request(one).replacingOccurrences(of: "\r\n", with: "\n"))
            return try client.answer()
        }
        #expect(answer.status == 200)
    }

    @Test func readsAChunkedBody() async throws {
        let plane = try LocalDataPlane()
        let whole = batch("Chunked")
        let answers = try await RawClient.run(plane.url) { client in
            let chunks = whole.map { "1;name=value\r\n\($0)\r\n" }.joined()
            try client.send(head(["Transfer-Encoding: chunked"]) + chunks + "0\r\nTrailer: t\r\n\r\n")
            let first = try client.answer()
            let size = String(whole.utf8.count, radix: 16, uppercase: true)
            try client.send(head(["Transfer-Encoding: Chunked"]) + "\(size)\r\n\(whole)\r\n0\r\n\r\n")
            return [first, try client.answer()]
        }
        #expect(answers.map(\.status) == [200, 200])
        #expect(plane.events.map(\.name) == ["Chunked", "Chunked"])
        #expect(plane.requests.map(\.body) == [Array(whole.utf8), Array(whole.utf8)])
    }

    @Test func readsWhatTricklesIn() async throws {
        let plane = try LocalDataPlane()
        let answer = try await RawClient.run(plane.url) { client in
            for character in request(one) { try client.send(String(character)) }
            return try client.answer()
        }
        #expect(answer.status == 200)
    }

    @Test func asksForABodyThatIsOffered() async throws {
        let plane = try LocalDataPlane()
        let statuses = try await RawClient.run(plane.url) { client in
            try client.send(head(["Expect: 100-continue", "Content-Length: \(one.utf8.count)"]))
            let first = try client.answer()
            try client.send(one)
            return [first.status, try client.answer().status]
        }
        #expect(statuses == [100, 200])
        #expect(plane.events.count == 1)
    }

    @Test func refusesABodyThatIsOfferedWithABadKey() async throws {
        let plane = try LocalDataPlane(writeKeys: ["other"])
        let (answer, rest) = try await RawClient.run(plane.url) { client in
            try client.send(head(["Expect: 100-continue", "Content-Length: 9"]))
            return (try client.answer(), try client.rest())
        }
        #expect(answer.status == 401)
        #expect(answer.body == "invalid write key\n")
        #expect(rest.isEmpty)
        #expect(plane.requests.map(\.body) == [[]])
    }

    @Test(arguments: [
        "garbage\r\n\r\n", "\u{0}\u{1}\u{2}\r\n\r\n", "GET /health\r\n\r\n", "GET  /health HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET /health HTTP/3.0\r\nHost: h\r\n\r\n", "GET health HTTP/1.1\r\nHost: h\r\n\r\n",
        "G\u{E9}T /health HTTP/1.1\r\nHost: h\r\n\r\n", "GET /he\tlth HTTP/1.1 \r\nHost: h\r\n\r\n",
        "GET /health HTTP/1.1\r\nHost : h\r\n\r\n", "GET /health HTTP/1.1\r\nHost: h\r\n folded\r\n\r\n",
        "GET /health HTTP/1.1\r\nHost: h\r\nno colon\r\n\r\n", "GET /health HTTP/1.1\r\nHost: h\r\n: v\r\n\r\n",
        "GET /health HTTP/1.1\r\nHost: h\r\nA: \u{0}\r\n\r\n", "GET /health HTTP/1.1\r\n\r\n",
        "GET /health HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n",
        "GET /health HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",
        "GET /health HTTP/1.1\r\nHost: h\r\nContent-Length: +1\r\n\r\n",
        "GET /health HTTP/1.1\r\nHost: h\r\nContent-Length:\r\n\r\n",
        "GET /health HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "GET /health HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "GET /health HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    ])
    func refusesWhatIsNoRequest(text: String) async throws {
        let plane = try LocalDataPlane()
        let (answer, rest) = try await RawClient.run(plane.url) { client in
            try client.send(text)
            let answer = try client.answer()
            return (answer, try client.rest())
        }
        #expect(answer.status == 400)
        #expect(answer.headers["Connection"] == "close")
        #expect(rest.hasPrefix("400 Bad Request") || answer.body.hasPrefix("400 Bad Request"))
        #expect(plane.requests.isEmpty)
        #expect(try await post(one, to: plane).status == 200)
    }

    @Test func refusesOtherTransferEncodings() async throws {
        let plane = try LocalDataPlane()
        let answer = try await RawClient.run(plane.url) { client in
            try client.send(head(["Transfer-Encoding: gzip, chunked"]))
            return try client.answer()
        }
        #expect(answer.status == 501)
    }

    @Test func aRefusedClientThatSendsOnStillGetsItsAnswer() async throws {
        let plane = try LocalDataPlane()
        let answer = try await RawClient.run(plane.url) { client in
            let body = String(repeating: " ", count: 17 << 20)
            try client.send(request(body))
            return try client.answer()
        }
        #expect(answer.status == 413)
        #expect(answer.headers["Connection"] == "close")
    }

    @Test func limitsTheHead() async throws {
        let plane = try LocalDataPlane()
        let large = String(repeating: "x", count: 500_000)
        let statuses = try await RawClient.run(plane.url) { client in
            try client.send(request(one, ["A: \(large)"]))
            let first = try client.answer().status
            try client.send(head(["A: \(large)", "B: \(large)"]))
            return [first, try client.answer().status]
        }
        #expect(statuses == [200, 431])
        let endless = try await RawClient.run(plane.url) { client in
            try client.send("GET /" + large + large)
            return try client.answer().status
        }
        #expect(endless == 431)
    }

    @Test(arguments: [
        ["Content-Length: 100"], ["Transfer-Encoding: chunked"],
    ])
    func answersABodyThatBreaksOff(fields: [String]) async throws {
        let plane = try LocalDataPlane()
        let (answer, rest) = try await RawClient.run(plane.url) { client in
            try client.send(head(fields) + "9\r\nabc")
            client.endSending()
            return (try client.answer(), try client.rest())
        }
        #expect(answer.status == 500)
        #expect(answer.body == "failed to read body from request\n")
        #expect(rest.isEmpty)
        #expect(plane.requests.isEmpty)
    }

    @Test(arguments: [
        "x\r\n", "\r\n", "-1\r\n", "3\r\nabcd\r\n", "3\r\nabcde",
        "1" + String(repeating: ";", count: 5_000),
    ])
    func refusesBrokenChunks(body: String) async throws {
        let plane = try LocalDataPlane()
        let answer = try await RawClient.run(plane.url) { client in
            try client.send(head(["Transfer-Encoding: chunked"]) + body)
            return try client.answer()
        }
        #expect(answer.status == 500)
        #expect(answer.body == "failed to read body from request\n")
    }

    @Test func aBadKeyComesBeforeABrokenBody() async throws {
        let plane = try LocalDataPlane(writeKeys: [])
        let answer = try await RawClient.run(plane.url) { client in
            try client.send(head(["Transfer-Encoding: chunked"]) + "x\r\n")
            return try client.answer()
        }
        #expect(answer.status == 401)
    }

    @Test func survivesClientsThatVanish() async throws {
        let plane = try LocalDataPlane()
        for text in ["", "PO", head(["Content-Length: 100"]), head(["Content-Length: 100"]) + "{", request(one)] {
            for isReset in [false, true] {
                try await RawClient.run(plane.url) { client in
                    if isReset { client.resetWhenClosed() }
                    try client.send(text)
                }
            }
        }
        #expect(try await post(one, to: plane).status == 200)
        plane.stop()
        #expect((1...3).contains(plane.requests.count))
    }

    @Test func refusesConnectionsAboveTheCap() async throws {
        let plane = try LocalDataPlane()
        let url = plane.url
        let refused = try await RawClient.run(url) { first in
            // Each has been accepted once it got an answer.
            let clients = try [first] + (1..<128).map { _ in try RawClient(url) }
            for client in clients {
                try client.send(request(one))
                _ = try client.answer()
            }
            let refused = try RawClient(url).rest()
            try first.send(request(one))
            _ = try first.answer()
            return withExtendedLifetime(clients) { refused }
        }
        #expect(refused.isEmpty)
        #expect(plane.events.count == 129)
    }
}

// MARK: - Scripts

@Suite(.timeLimit(.minutes(5)))
struct LocalDataPlaneScriptTests {
    @Test func scriptedAnswersComeFirst() async throws {
        let plane = try LocalDataPlane(writeKeys: ["wk"])
        plane.answerNext(.status(503, "Service Unavailable\n"), .status(429, headers: ["Retry-After": "5"]))
        plane.answerNext(.ok)
        let answers = try await RawClient.run(plane.url) { client in
            try ["first", "second", "third", "fourth"].map { name in
                try client.send("GET /health HTTP/1.1\r\nHost: h\r\n\r\n")  // takes none of them
                #expect(try client.answer().status == 200)
                try client.send(request(batch(name)))
                return try client.answer()
            }
        }
        #expect(answers.map(\.status) == [503, 429, 200, 200])
        #expect(answers.map(\.body) == ["Service Unavailable\n", "", "ok", "ok"])
        #expect(answers[1].headers == ["Retry-After": "5", "Content-Length": "0"])
        #expect(plane.events.map(\.name) == ["third", "fourth"])
        #expect(plane.requests.count == 8)
    }

    @Test func aScriptedSuccessAcceptsNoBadBatch() async throws {
        let plane = try LocalDataPlane()
        plane.answerNext(.ok)
        #expect(try await post("{", to: plane).body == "ok")
        #expect(plane.events.isEmpty)
    }

    @Test func scriptedFieldsReplaceTheServersOwn() async throws {
        let plane = try LocalDataPlane()
        plane.answerNext(.status(502, "<html>", headers: ["content-type": "text/html"]))
        let answer = try await RawClient.run(plane.url) { client in
            try client.send(request(one))
            return try client.answer()
        }
        #expect(answer.headers == ["content-type": "text/html", "Content-Length": "6"])
    }

    @Test func closesWithoutAnAnswer() async throws {
        let plane = try LocalDataPlane()
        plane.answerNext(.closed, .ok.lost())
        for name in ["refused", "accepted"] {
            let rest = try await RawClient.run(plane.url) { client in
                try client.send(request(batch(name)))
                return try client.rest()
            }
            #expect(rest.isEmpty)
        }
        #expect(plane.events.map(\.name) == ["accepted"])
        #expect(plane.requests.count == 2)
    }

    @Test func aSessionSeesAConnectionThatClosesWithoutAnAnswer() async throws {
        let plane = try LocalDataPlane()
        plane.answerNext(.closed, .closed, .closed, .closed)  // some clients try again by themselves
        await #expect(throws: URLError.self) { _ = try await post(one, to: plane) }
    }

    @Test func heldAnswersWaitForTheirRelease() async throws {
        let plane = try LocalDataPlane()
        plane.answerNext(.ok.held(), .status(503).held())
        let released = Flag()
        try await withThrowingTaskGroup(of: Int.self) { group in
            for name in ["a", "b"] {
                group.addTask {
                    let status = try await post(batch(name), to: plane).status
                    #expect(released.isSet)
                    return status
                }
            }
            #expect(try await plane.requests(count: 2).count == 2)
            #expect(plane.events.count == 1)
            #expect(try await post(batch("c"), to: plane).status == 200)
            released.set()
            plane.releaseHeld()
            let statuses = try await group.reduce(into: []) { $0.append($1) }
            #expect(statuses.sorted() == [200, 503])
        }
    }

    @Test func aReleaseDoesNotReachLaterRequests() async throws {
        let plane = try LocalDataPlane()
        plane.answerNext(.ok.held(), .ok.held())
        plane.releaseHeld()
        for count in 1...2 {
            async let status = post(one, to: plane).status
            _ = try await plane.requests(count: count)
            plane.releaseHeld()
            #expect(try await status == 200)
        }
    }

    @Test func aClientMayLeaveWhileItsAnswerIsHeld() async throws {
        let plane = try LocalDataPlane()
        plane.answerNext(.ok.held())
        try await RawClient.run(plane.url) { client in
            client.resetWhenClosed()
            try client.send(request(one))
        }
        _ = try? await plane.requests(count: 1)
        plane.releaseHeld()
        #expect(try await post(one, to: plane).status == 200)
    }
}

// MARK: - Waiting

@Suite(.timeLimit(.minutes(5)))
struct LocalDataPlaneWaitingTests {
    @Test func waitsForEvents() async throws {
        let plane = try LocalDataPlane()
        #expect(try await plane.events(count: 0).isEmpty)
        async let two = plane.events(count: 2)
        async let three = plane.events(count: 3)
        for name in ["a", "b", "c"] { _ = try await post(batch(name), to: plane) }
        #expect(try await two.prefix(2).map(\.name) == ["a", "b"])
        #expect(try await three.map(\.name) == ["a", "b", "c"])
        #expect(try await plane.events(count: 3).count == 3)
    }

    @Test func aCancelledTaskStopsWaiting() async throws {
        let plane = try LocalDataPlane()
        let task = Task { try await plane.events(count: 1) }
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        // Here the cancellation surely comes before the wait.
        await withTaskGroup(of: Void.self) { group in
            group.cancelAll()
            group.addTask {
                await #expect(throws: CancellationError.self) { try await plane.events(count: 1) }
            }
        }
        #expect(try await post(one, to: plane).status == 200)
    }

    @Test func manyWaitersAreResumedOnce() async throws {
        let plane = try LocalDataPlane()
        let counts = try await withThrowingTaskGroup(of: Int.self) { group in
            for index in 0..<200 {
                group.addTask {
                    do {
                        return try await plane.events(count: index % 4 + 1).count
                    } catch {
                        return 0
                    }
                }
            }
            for _ in 0..<3 { _ = try await post(one, to: plane) }
            plane.stop()
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(counts.count { $0 == 0 } == 50)
    }

    @Test func stoppingEndsTheWait() async throws {
        let plane = try LocalDataPlane()
        let task = Task { try await plane.events(count: 1) }
        let other = Task { try await plane.requests(count: 1) }
        await Task.yield()
        plane.stop()
        await #expect(throws: LocalDataPlane.StoppedError.self) { try await task.value }
        await #expect(throws: LocalDataPlane.StoppedError.self) { try await other.value }
        await #expect(throws: LocalDataPlane.StoppedError.self) { try await plane.events(count: 1) }
    }
}

// MARK: - Beginning and end

@Suite(.timeLimit(.minutes(5)))
struct LocalDataPlaneLifetimeTests {
    @Test func stoppingClosesHeldIdleAndHalfReadConnections() async throws {
        let plane = try LocalDataPlane()
        _ = try await post(one, to: plane)
        plane.answerNext(.status(503).held())
        async let held = RawClient.run(plane.url) { client in
            try client.send(request(one))
            return try client.rest()
        }
        _ = try await plane.requests(count: 2)
        async let half = RawClient.run(plane.url) { client in
            try client.send(request(one) + "POST /v1/batch HTTP/1.1\r\n")
            _ = try client.answer()
            return try client.rest()
        }
        async let idle = RawClient.run(plane.url) { client in
            try client.send(request(one))
            _ = try client.answer()
            return try client.rest()
        }
        _ = try await plane.events(count: 3)
        plane.stop()
        plane.stop()
        #expect(try await held.isEmpty)
        #expect((try? await half) ?? "" == "")
        #expect((try? await idle) ?? "" == "")
        #expect(try await plane.events(count: 3).count == 3)
    }

    @Test func stoppingFromSeveralThreadsIsTheSame() async throws {
        let plane = try planeOnAPort(in: 21_700..<21_750)
        let url = plane.url
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<8 { group.addTask { plane.stop() } }
        }
        #expect(plane.url == url)
        await expectRefused(url)
    }

    @Test func twentyServersAtOnce() async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for index in 0..<20 {
                group.addTask {
                    let plane = try LocalDataPlane()
                    for name in ["a", "b", "c"] {
                        #expect(try await post(batch("\(name)\(index)"), to: plane).status == 200)
                    }
                    let names = try await plane.events(count: 3).map(\.name)
                    #expect(names == ["a\(index)", "b\(index)", "c\(index)"])
                }
            }
            try await group.waitForAll()
        }
    }

    @Test func servesManyClientsAtOnce() async throws {
        let plane = try LocalDataPlane()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for client in 0..<16 {
                group.addTask {
                    try await RawClient.run(plane.url) { connection in
                        for index in 0..<20 {
                            try connection.send(request(batch("\(client)-\(index)")))
                            _ = try connection.answer()
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        let events = try await plane.events(count: 320)
        for client in 0..<16 {
            let names = events.compactMap(\.name).filter { $0.hasPrefix("\(client)-") }
            #expect(names == (0..<20).map { "\(client)-\($0)" })
        }
    }

    @Test func droppingFreesThePort() async throws {
        var plane: LocalDataPlane? = try planeOnAPort(in: 21_000..<21_200)
        weak var dropped: LocalDataPlane?
        dropped = plane
        let url = try #require(plane).url
        _ = try await RawClient.run(url) { client in
            try client.send(request(one))
            return try client.answer().status
        }
        plane = nil
        #expect(dropped == nil)
        await expectRefused(url)
        let port = try #require(URL(string: url)?.port.flatMap(UInt16.init(exactly:)))
        let next = try LocalDataPlane(port: port)
        #expect(next.url == url)
    }

    @Test func aTakenPortIsAnError() throws {
        let plane = try LocalDataPlane()
        let port = try #require(URL(string: plane.url)?.port.flatMap(UInt16.init(exactly:)))
        let error = #expect(throws: LocalDataPlane.ListeningError.self) { try LocalDataPlane(port: port) }
        #expect(error?.port == port)
        #expect(error.map { "\($0)".hasPrefix("can't listen on 127.0.0.1:\(port): ") } == true)
    }

    /// On a port that no other test is given once it is free: the system gives out higher ones.
    private func planeOnAPort(in range: Range<UInt16>) throws -> LocalDataPlane {
        for port in range.dropLast() {
            if let plane = try? LocalDataPlane(port: port) { return plane }
        }
        return try LocalDataPlane(port: range.upperBound - 1)
    }

    private func expectRefused(_ url: String) async {
        await #expect(throws: RawClient.Failure(reason: "connect", code: ECONNREFUSED)) {
            try await RawClient.run(url) { _ in }
        }
    }
}

// MARK: - Requests

private let one = batch("One")

private func batch(_ name: String) -> String {
    #"{"batch":[{"type":"track","event":"\#(name)","userId":"u"}]}"#
}

/// A batch request's head, without what frames its body.
private func head(_ fields: [String]) -> String {
    (["POST /v1/batch HTTP/1.1", "Host: h", "Authorization: Basic d2s6"] + fields + ["", ""])
        .joined(separator: "\r\n")
}

private func request(_ body: String, _ fields: [String] = []) -> String {
    head(fields + ["Content-Length: \(body.utf8.count)"]) + body
}

/// Posts by `URLSession`; a header of `nil` is left out.
private func post(
    _ body: String, to plane: LocalDataPlane, path: String = "/v1/batch", headers: [String: String?] = [:]
) async throws -> (status: Int, body: String, contentType: String?) {
    var request = URLRequest(url: try #require(URL(string: plane.url + path)))
    request.httpMethod = "POST"
    request.httpBody = Data(body.utf8)
    for (name, value) in ["Authorization": "Basic d2s6"].merging(headers, uniquingKeysWith: { $1 }) {
        request.setValue(value, forHTTPHeaderField: name)
    }
    let (data, response) = try await URLSession.shared.data(for: request)
    let answer = try #require(response as? HTTPURLResponse)
    return (
        answer.statusCode, String(decoding: data, as: UTF8.self), answer.value(forHTTPHeaderField: "Content-Type")
    )
}

/// A flag that goes up once.
private final class Flag: Sendable {
    private let state = Locked(false)
    var isSet: Bool { state.withLock { $0 } }
    func set() { state.withLock { $0 = true } }
}
