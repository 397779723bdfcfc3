import Foundation
import Testing
import Tiller
import TillerTesting

/// Answers that were observed at the gateway beside the conformance cases.
@Suite(.timeLimit(.minutes(5)))
struct ObservedAnswersTests {
    @Test(arguments: ObservedAnswer.all)
    func holds(_ observed: ObservedAnswer) async throws {
        let plane = try LocalDataPlane(rules: observed.rules)
        let answer = try await RawClient.run(plane.url) { client in
            try client.send(observed.request)
            if observed.endsEarly { client.endSending() }
            return try client.answer(toHead: observed.method == "HEAD")
        }
        #expect(answer.status == observed.status)
        #expect(answer.body == observed.text)
        for (name, value) in observed.headers { #expect(answer.headers[name] == value, "\(name)") }
        if observed.status >= 400, !observed.text.isEmpty, observed.status != 431 {
            #expect(answer.headers["X-Content-Type-Options"] == "nosniff")
        }
        #expect(plane.events.count == observed.stored)
    }

    // What one request and one answer can't show.

    @Test("DP-40 3 at once with a cap of 1")
    func theCapLetsOneThrough() async throws {
        var rules = LocalDataPlane.Rules()
        rules.maximumConcurrentRequests = 1
        let plane = try LocalDataPlane(rules: rules)
        plane.answerNext(.ok.held())
        async let first = post(plane, good)
        _ = try await plane.requests(count: 1)
        for _ in 0..<2 {
            let answer = try await post(plane, good)
            #expect(answer.status == 503)
            #expect(answer.body == "Service Unavailable\n")
            #expect(answer.headers["Retry-After"] == nil)
        }
        plane.releaseHeld()
        #expect(try await first.status == 200)
        // A request that had its answer no longer counts.
        for _ in 0..<50 { #expect(try await post(plane, good).status == 200) }
        #expect(plane.events.count == 51)
    }

    @Test("DP-41 a store that is slower than 10 s: closed after 10 s, no bytes", arguments: [10_001, 60_000])
    func aSlowStoreLosesItsClient(milliseconds: Int) async throws {
        let time = VirtualTime()
        var rules = LocalDataPlane.Rules()
        rules.storage = .taking(.milliseconds(milliseconds))
        let plane = try LocalDataPlane(rules: rules, timeSource: time)
        let closed = Flag()
        async let rest = RawClient.run(plane.url) { client in
            try client.send(batch(good))
            let rest = try client.rest()
            closed.set()
            return rest
        }
        _ = try await plane.requests(count: 1)
        time.advance(by: .milliseconds(9_999))
        #expect(!closed.isSet)
        #expect(plane.events.isEmpty)
        time.advance(by: .milliseconds(1))
        #expect(try await rest.isEmpty)
        #expect(plane.events.isEmpty)
        time.advance(by: .milliseconds(milliseconds - 10_000))
        #expect(try await plane.events(count: 1).count == 1)
    }

    @Test func aStoreOfTenSecondsIsWaitedFor() async throws {
        let time = VirtualTime()
        var rules = LocalDataPlane.Rules()
        rules.storage = .taking(.seconds(10))
        let plane = try LocalDataPlane(rules: rules, timeSource: time)
        async let answer = post(plane, good)
        _ = try await plane.requests(count: 1)
        #expect(plane.events.isEmpty)
        time.advance(by: .seconds(10))
        #expect(try await answer.status == 200)
        #expect(plane.events.count == 1)
    }

    @Test func stoppingEndsASlowStore() async throws {
        var rules = LocalDataPlane.Rules()
        rules.storage = .taking(.seconds(100))
        let plane = try LocalDataPlane(rules: rules, timeSource: VirtualTime())
        async let rest = RawClient.run(plane.url) { client in
            try client.send(batch(good))
            return try client.rest()
        }
        _ = try await plane.requests(count: 1)
        plane.stop()
        #expect(try await rest.isEmpty)
        #expect(plane.events.isEmpty)
    }

    @Test("DP-44 a 5 MB upload with a bad key: answered at once, closed while the client still writes")
    func aRefusedUploadIsCutOff() async throws {
        let plane = try LocalDataPlane(writeKeys: ["other"])
        let (answer, isCutOff) = try await RawClient.run(plane.url) { client in
            try client.send(head(["Content-Length: 5000000"]))
            let answer = try client.answer()  // not a byte of the body has been sent
            return (answer, client.isCutOffWhileSending(atMost: 32 << 20))
        }
        #expect(answer.status == 401)
        #expect(answer.body == "invalid write key\n")
        #expect(answer.headers["Connection"] == "close")
        #expect(isCutOff)
        #expect(plane.requests.map(\.body) == [[]])
    }

    /// The SDK's largest batch is received to its end, so that its client reads the answer and no reset.
    @Test func aRefusedBatchOfTheSDKStillReadsItsAnswer() async throws {
        let plane = try LocalDataPlane(writeKeys: ["other"])
        let answers = try await RawClient.run(plane.url) { client in
            try client.send(batch(String(repeating: " ", count: 250_000)))
            let first = try client.answer()
            try client.send(batch(String(repeating: " ", count: 500_000)))
            return [first, try client.answer()]
        }
        #expect(answers.map(\.status) == [401, 401])
        #expect(answers.map { $0.headers["Connection"] } == [nil, "close"])
    }

    @Test(
        "DP-46 messageId is cleaned, or made",
        arguments: [
            (#""messageId":"  ab\u200bc\u0000 ","#, "abc"), (#""messageId":" ","#, nil), (#""messageId":123,"#, nil),
            ("", nil), (#""messageId":"a b","#, "a b"),
        ])
    func messageIdIsCleanedOrMade(member: String, stored: String?) async throws {
        let plane = try LocalDataPlane()
        #expect(try await post(plane, #"{"batch":[{\#(member)"userId":"u"}]}"#).status == 200)
        let id = try #require(plane.events.first?.stored["messageId"]?.string)
        if let stored { #expect(id == stored) } else { #expect(id.wholeMatch(of: uuidOfVersion4) != nil) }
    }

    @Test("DP-47 a client's receivedAt and request_ip stay in the event, the envelope has the server's")
    func aClientsReceivedAtStaysInTheEventOnly() async throws {
        let plane = try LocalDataPlane(rules: .init(), timeSource: VirtualTime(wallMilliseconds: 1_740_463_597_005))
        let body = #"{"batch":[{"userId":"u","receivedAt":"2001-01-01T00:00:00.000Z","request_ip":"9.9.9.9"}]}"#
        #expect(try await post(plane, body).status == 200)
        let event = try #require(plane.events.first)
        #expect(event.stored["receivedAt"] == "2001-01-01T00:00:00.000Z")
        #expect(event.stored["request_ip"] == "9.9.9.9")
        #expect(event.receivedAt == Date(timeIntervalSince1970: 1_740_463_597.005))
        let shown = try await events(of: plane)
        #expect(shown.first?["receivedAt"] == "2025-02-25T06:06:37.005Z")
    }
}

// MARK: - The table

/// One request and its answer.
struct ObservedAnswer: Sendable, CustomTestStringConvertible {
    let testDescription: String
    var method = "POST"
    var path = "/v1/batch"
    /// Host is added, and the length of the body unless `length` says something else.
    var fields = ["Authorization: Basic d2s6"]
    var body: [UInt8]? = Array(good.utf8)
    var length: Int?
    /// Whether the client sends no more after it.
    var endsEarly = false
    var rules = LocalDataPlane.Rules()
    let status: Int
    let text: String
    var headers: [String: String] = [:]
    var stored: Int { status == 200 && method == "POST" && !isSuppressed ? 1 : 0 }
    var isSuppressed = false

    init(
        _ description: String, _ status: Int, _ text: String, _ change: (inout ObservedAnswer) -> Void = { _ in }
    ) {
        testDescription = description
        self.status = status
        self.text = text
        change(&self)
    }

    var request: [UInt8] {
        var lines = ["\(method) \(path) HTTP/1.1", "Host: h"] + fields
        if let length = length ?? body?.count { lines.append("Content-Length: \(length)") }
        return Array((lines + ["", ""]).joined(separator: "\r\n").utf8) + (body ?? [])
    }

    static let all: [ObservedAnswer] =
        keys + emptyBodies + batches + identities + compressed + sizes + orders + methods + origins + singleEvents

    private static let noKey = "failed to read writekey from header\n"
    private static let noIdentity = "request neither has anonymousId nor userId\n"
    private static let unreadable = "failed to read body from request\n"
    private static let tooLarge = "request size exceeds max limit\n"

    private static func body(_ text: String) -> (inout ObservedAnswer) -> Void { { $0.body = Array(text.utf8) } }

    private static func key(_ field: String) -> (inout ObservedAnswer) -> Void {
        {
            $0.fields = ["Authorization: \(field)"]
            $0.rules.writeKeys = ["wk"]
        }
    }

    private static let keys: [ObservedAnswer] = [
        .init("DP-26a Bearer", 401, noKey, key("Bearer d2s6")),
        .init("DP-26b empty user", 401, noKey, key("Basic OnA=")),
        .init("DP-26c no colon", 401, noKey, key("Basic d2s=")),
        .init("DP-26d bad base64", 401, noKey, key("Basic !!")),
        .init("DP-26e unpadded base64", 401, noKey, key("Basic d2stZW5hYmxlZDo")),
        .init("DP-27a basic in lower case", 200, "ok", key("basic d2s6")),
        .init("DP-27b any password", 200, "ok", key("Basic d2s6IiI=")),
        .init("DP-28 key with a trailing blank", 401, "invalid write key\n", key("Basic d2sgOg==")),
    ]

    private static let emptyBodies: [ObservedAnswer] = [
        .init("DP-29a empty body", 400, "invalid json\n", body("")),
        .init("DP-29b no body at all", 400, "invalid json\n") { $0.body = nil },
    ]

    private static let batches: [ObservedAnswer] =
        [
            ("a", #"{"batch":[]}"#), ("b", #"{"batch":null}"#), ("c", "[]"), ("d", "{}"), ("e", "null"),
            ("f", #"{"Batch":[{"userId":"u"}]}"#),
        ].map { .init("DP-30\($0) \($1)", 400, "empty batch payload\n", body($1)) }
        + [("a", #""x""#), ("b", "5"), ("c", "[null]"), ("d", "[[]]")].map {
            .init("DP-31\($0) batch \($1)", 400, "event is not a valid rudder event\n", body(#"{"batch":\#($1)}"#))
        } + [
            .init("DP-31e batch as one object", 200, "ok", body(#"{"batch":{"userId":"u"}}"#)),
            .init("DP-31f of two batches the first", 200, "ok", body(#"{"batch":{"userId":"u"},"batch":[]}"#)),
            .init("DP-31g a key with escapes", 200, "ok", body(#"{"b\u0061tch":[{"userId":"u"}]}"#)),
            .init("DP-31h 20 000 levels", 200, "ok") {
                $0.body = Array(#"{"batch":[{"userId":"u","p":"#.utf8)
                $0.body? += [UInt8](repeating: UInt8(ascii: "["), count: 20_000)
                $0.body? += [UInt8](repeating: UInt8(ascii: "]"), count: 20_000) + Array("}]}".utf8)
            },
            .init("DP-31i bytes that are no UTF-8", 200, "ok") {
                $0.body = Array(#"{"batch":[{"userId":"u","p":""#.utf8) + [0xFF, 0xC3] + Array(#""}]}"#.utf8)
            },
        ]
        + [
            ("j", "\u{FEFF}\(good)"), ("k", #"{"batch":[{"userId":"u"},]}"#), ("l", #"{"batch":[{"userId":NaN}]}"#),
            ("m", #"{"batch":[{"userId":01}]}"#), ("n", "{\"batch\":[{\"userId\":\"u\u{1}\"}]}"), ("o", good + good),
            ("p", #"{"batch":[{"userId":1e999}]}"#),
        ].map { .init("DP-31\($0) malformed", 400, "invalid json\n", body($1)) }

    private static let identities: [ObservedAnswer] =
        [("a", "null"), ("b", #""\t""#)].map {
            .init("DP-32\($0) userId \($1)", 400, noIdentity, body(#"{"batch":[{"userId":\#($1)}]}"#))
        }
        + [("c", "0"), ("d", "false"), ("e", "{}"), ("f", "[]"), ("g", "12.5")].map {
            .init("DP-32\($0) userId \($1)", 200, "ok", body(#"{"batch":[{"userId":\#($1)}]}"#))
        }

    private static let compressed: [ObservedAnswer] = {
        let whole = Gzip.compress(Array(good.utf8)) ?? []
        var wrongSum = whole
        wrongSum[wrongSum.count - 8] ^= 1
        let zlib: [UInt8] = [
            0x78, 0x9C, 0xAB, 0x56, 0x4A, 0x4A, 0x2C, 0x49, 0xCE, 0x50, 0xB2, 0x8A, 0xAE, 0x56, 0x2A, 0x2D, 0x4E, 0x2D,
            0xF2, 0x4C, 0x51, 0xB2, 0x52, 0x2A, 0x55, 0xAA, 0x8D, 0xAD, 0x05, 0x00, 0x77, 0x89, 0x08, 0xCC,
        ]
        let bomb = Gzip.compress([UInt8](repeating: 0x20, count: (16 << 20) + 1), level: 9) ?? []
        func gzip(_ body: [UInt8], encoding: String = "gzip") -> (inout ObservedAnswer) -> Void {
            {
                $0.body = body
                $0.fields.append("Content-Encoding: \(encoding)")
            }
        }
        return [
            .init("DP-33a truncated gzip", 500, unreadable, gzip(Array(whole.dropLast(9)))),
            .init("DP-33b wrong checksum", 500, unreadable, gzip(wrongSum)),
            .init("DP-33c bytes after the stream", 500, unreadable, gzip(whole + [0x7B])),
            .init("DP-33d zlib bytes", 500, unreadable, gzip(zlib)),
            .init("DP-33e several members", 200, "ok", gzip(whole + (Gzip.compress([0x20]) ?? []))),
            .init("DP-33f other names of encodings are ignored", 200, "ok", gzip(Array(good.utf8), encoding: "GZIP")),
            .init("DP-33g deflate is ignored", 200, "ok", gzip(Array(good.utf8), encoding: "deflate")),
            .init("DP-33h x-gzip is ignored", 400, "invalid json\n", gzip(whole, encoding: "x-gzip")),
            .init("DP-33i more than the server reads", 413, tooLarge, gzip(bomb)),
            .init("DP-34 gzip header and an empty body", 400, "invalid json\n", gzip([])),
            .init("DP-35 bad gzip and a bad key", 401, "invalid write key\n") {
                gzip([1, 2, 3])(&$0)
                $0.rules.writeKeys = []
            },
            .init("DP-36 body shorter than Content-Length", 500, unreadable) {
                $0.length = 100
                $0.endsEarly = true
            },
        ]
    }()

    private static func padded(_ text: String) -> (inout ObservedAnswer) -> Void {
        { $0.body = Array(text.utf8) + [UInt8](repeating: 0x20, count: 4_096_001 - text.utf8.count) }
    }

    private static let sizes: [ObservedAnswer] = [
        .init("DP-37 padded with blanks beyond the limit", 413, tooLarge, padded(good)),
        .init("DP-38a too large and no identity", 400, noIdentity, padded(#"{"batch":[{}]}"#)),
        .init("DP-38b too large and malformed", 400, "invalid json\n", padded("{")),
        .init("DP-38c too large and suppressed", 200, "ok") {
            padded(good)(&$0)
            $0.rules.suppressedUserIds = ["u"]
            $0.isSuppressed = true
        },
        .init("DP-45 a header of 600 000 bytes", 431, "431 Request Header Fields Too Large") {
            $0.fields.append("A: " + String(repeating: "x", count: 600_000))
        },
    ]

    private static let orders: [ObservedAnswer] = [
        .init("DP-39a rate-limited and an empty batch", 429, "max requests limit reached\n") {
            body("{}")(&$0)
            $0.rules.isRateLimited = true
        },
        .init("DP-39b rate-limited and no identity", 400, noIdentity) {
            body(#"{"batch":[{}]}"#)(&$0)
            $0.rules.isRateLimited = true
        },
        .init("DP-39c disabled source and a malformed body", 404, "source is disabled\n") {
            body("{")(&$0)
            $0.rules.disabledWriteKeys = ["wk"]
        },
        .init("DP-39d a suppressed event hides no bad one behind it", 400, noIdentity) {
            body(#"{"batch":[{"userId":"u"},{}]}"#)(&$0)
            $0.rules.suppressedUserIds = ["u"]
        },
        .init("DP-39e one suppressed of two", 200, "ok") {
            body(#"{"batch":[{"userId":" u\u200b "},{"userId":"v"}]}"#)(&$0)
            $0.rules.suppressedUserIds = ["u"]
        },
        .init("DP-39f an anonymousId is not suppressed", 200, "ok") {
            body(#"{"batch":[{"anonymousId":"u"}]}"#)(&$0)
            $0.rules.suppressedUserIds = ["u"]
        },
        .init("DP-39g a failing store and an empty batch", 400, "empty batch payload\n") {
            body("{}")(&$0)
            $0.rules.storage = .failing("down")
        },
    ]

    private static let methods: [ObservedAnswer] =
        [
            ("a", "HEAD", "/health", "GET"), ("b", "POST", "/health", "GET"), ("c", "POST", "/", "GET"),
            ("d", "PUT", "/v1/track", "POST"), ("e", "OPTIONS", "/v1/batch", "POST"), ("f", "POST", "/version", "GET"),
        ].map { id, method, path, allowed in
            .init("DP-42\(id) \(method) \(path)", 405, "") {
                $0.method = method
                $0.path = path
                $0.body = nil
                $0.headers = ["Allow": allowed]
            }
        }
        + [
            "/v1/import", "/v1/audiencelist", "/v1/webhook", "/beacon/v1/batch", "/pixel/v1/track", "/sourceConfig",
            "/v1/track/", "/v1/Track", "/v1//track", "/tiller/", "/tiller/nothing",
        ].enumerated().map { index, path in
            let id = Array("ghijklmnopq")[index]
            return .init("DP-42\(id) \(path)", 404, "404 page not found\n") { $0.path = path }
        }

    private static let origins: [ObservedAnswer] = [
        .init("DP-43a preflight with any headers", 204, "") {
            $0.method = "OPTIONS"
            $0.body = nil
            $0.fields = [
                "Origin: https://a.example", "Access-Control-Request-Method: POST",
                "Access-Control-Request-Headers: anonymousid, x-anything",
            ]
            $0.headers = [
                "Access-Control-Allow-Origin": "https://a.example", "Access-Control-Allow-Methods": "POST",
                "Access-Control-Allow-Headers": "anonymousid, x-anything", "Access-Control-Allow-Credentials": "true",
                "Access-Control-Max-Age": "900",
            ]
        },
        .init("DP-43b an answer to another origin", 200, "ok") {
            $0.fields.append("Origin: https://a.example")
            $0.headers = [
                "Vary": "Origin", "Access-Control-Allow-Origin": "https://a.example",
                "Access-Control-Allow-Credentials": "true",
            ]
        },
        .init("DP-43c an answer to none", 401, noKey) {
            $0.fields = []
            $0.headers = ["Vary": "Origin"]
        },
    ]

    private static let singleEvents: [ObservedAnswer] =
        ["identify", "track", "page", "screen", "group", "alias", "merge"].map { name in
            .init("DP-48 /v1/\(name)", 200, "ok") {
                $0.path = "/v1/\(name)"
                $0.body = Array(#"{"userId":"u"}"#.utf8)
            }
        }
        + [
            ("5", noIdentity), (#""x""#, noIdentity), ("true", noIdentity), ("null", noIdentity), ("{}", noIdentity),
            ("[]", "event is not a valid rudder event\n"),
            (#"[{"userId":"u"}]"#, "event is not a valid rudder event\n"), ("", "invalid json\n"),
            (#"{"type":"record"}"#, noIdentity), (#"{"previousId":"p"}"#, noIdentity),
        ].map { text, answer in
            .init("DP-49 \(text) on /v1/alias", 400, answer) {
                $0.path = "/v1/alias"
                $0.body = Array(text.utf8)
            }
        }
}

// MARK: - Requests

private let good = #"{"batch":[{"userId":"u"}]}"#

private func head(_ fields: [String]) -> String {
    (["POST /v1/batch HTTP/1.1", "Host: h", "Authorization: Basic d2s6"] + fields + ["", ""]).joined(separator: "\r\n")
}

private func batch(_ body: String) -> String { head(["Content-Length: \(body.utf8.count)"]) + body }

private func post(_ plane: LocalDataPlane, _ body: String) async throws -> RawClient.Answer {
    try await RawClient.run(plane.url) { client in
        try client.send(batch(body))
        return try client.answer()
    }
}

/// What `GET /tiller/events` answers.
func events(of plane: LocalDataPlane) async throws -> [JSONObject] {
    let answer = try await RawClient.run(plane.url) { client in
        try client.send("GET /tiller/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        return try client.answer()
    }
    #expect(answer.status == 200)
    #expect(answer.headers["Content-Type"] == "application/json; charset=utf-8")
    return try #require(try JSONValue(parsing: answer.body).array).compactMap(\.object)
}

/// A flag that goes up once.
private final class Flag: Sendable {
    private let state = Locked(false)
    var isSet: Bool { state.withLock { $0 } }
    func set() { state.withLock { $0 = true } }
}
