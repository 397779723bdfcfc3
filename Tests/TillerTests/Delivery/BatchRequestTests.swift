import Foundation
import Testing
import TillerTesting

@testable import Tiller

/// Where batches go, and what a request is made of.
@Suite(.timeLimit(.minutes(5))) struct BatchRequestTests {
    // MARK: The address

    private static let hosts: [(String, String)] = [
        ("https://x.example", "https://x.example/v1/batch"),
        ("https://x.example/", "https://x.example/v1/batch"),
        ("https://x.example//", "https://x.example/v1/batch"),
        ("https://x.example/base", "https://x.example/base/v1/batch"),
        ("https://x.example/base/", "https://x.example/base/v1/batch"),
        ("https://x.example/base//", "https://x.example/base/v1/batch"),
        ("https://x.example/a%2Fb/", "https://x.example/a%2Fb/v1/batch"),
        (" \t https://x.example/base \r\n", "https://x.example/base/v1/batch"),
        ("https://x.example\n", "https://x.example/v1/batch"),
        ("http://x.example:8080", "http://x.example:8080/v1/batch"),
        ("http://x.example:8080/base/", "http://x.example:8080/base/v1/batch"),
        ("https://x.example?tenant=1", "https://x.example/v1/batch?tenant=1"),
        ("https://x.example/base/?tenant=1", "https://x.example/base/v1/batch?tenant=1"),
        ("http://[::1]:8080/", "http://[::1]:8080/v1/batch"),
        ("http://127.0.0.1", "http://127.0.0.1/v1/batch"),
        ("HTTPS://x.example/", "HTTPS://x.example/v1/batch"),
    ]

    @Test(arguments: hosts) func b136_pathIsAddedWithOneSlashAndTheBaseIsKept(_ host: String, _ url: String) {
        #expect(BatchEndpoint(baseUrl: host, writeKey: "key")?.url == url)
    }

    @Test(arguments: [
        "", " ", "not a url", "x.example", "//x.example", "/v1", "https://", "https:///base", "ftp://x.example",
        "file:///etc/passwd", "https:x.example", "http://[::1", "javascript:alert(1)",
    ])
    func b136_unusableHostIsReportedOnceAndNothingIsRequested(_ host: String) async {
        let bench = DeliveryBench([CountFlushPolicy(flushAt: 1)]) { $0.dataPlaneUrl = host }
        bench.track("A", "B")
        #expect(await bench.analytics.flushed().isStopped)
        #expect(await bench.analytics.flushed().isStopped)
        #expect(bench.transport.stub.requests.isEmpty)
        #expect(bench.logger.texts(.error).count == 1)
        #expect(bench.analytics.account.inMemory == 2)
        #expect(await bench.analytics.shutdownAndWait() == 2)
        #expect(bench.transport.stub.requests.isEmpty)
    }

    // MARK: Headers

    @Test(arguments: ["key", "", String(repeating: "k", count: 200), "ключ", "a:b\n"])
    func b137_authorizationIsBase64OfKeyAndColonOnOneLine(_ key: String) throws {
        let headers = try request([event("{}")], writeKey: key).headers
        let value = try #require(headers["Authorization"])
        #expect(value.hasPrefix("Basic "))
        #expect(!value.contains { $0.isNewline })
        #expect(Data(base64Encoded: String(value.dropFirst(6))) == Data((key + ":").utf8))
    }

    @Test(arguments: ["a", "0f8fad5b-d9cb-469f-a165-70867728950e", String(repeating: "a", count: 256), "!~"])
    func b137_anonymousIdThatAHeaderCanCarryIsSent(_ id: String) throws {
        #expect(try request([event("{}")], anonymousId: id).headers["AnonymousId"] == id)
    }

    @Test(arguments: [
        nil, "", String(repeating: "a", count: 257), String(repeating: "й", count: 300), "a\nb", "a\r\nX: y", "a\u{0}",
        "a\u{7F}", "é",
    ])
    func b137_anotherAnonymousIdIsReplacedByTheInstallations(_ id: String?) throws {
        #expect(try request([event("{}")], anonymousId: id).headers["AnonymousId"] == "installation")
    }

    /// The last two in place of what the system's client would say by itself: the program's name, the user's language.
    @Test func nothingButTheseHeadersIsSent() throws {
        let request = try request([event("{}")])
        let names: Set = ["Content-Type", "Authorization", "AnonymousId", "User-Agent", "Accept-Language"]
        #expect(Set(request.headers.keys) == names)
        #expect(request.headers["User-Agent"] == "tiller-swift/\(Analytics.version)")
        #expect(request.headers["Accept-Language"] == "*")
        #expect(request.headers["Content-Type"] == "application/json")
        #expect(request.timeout == .seconds(30))
    }

    /// Until bodies are compressed, they are plain JSON without the header, whatever the setting.
    @Test(arguments: [true, false], ["", String(repeating: "x", count: 30_000)])
    func b134_bodyIsPlainJSONWithoutContentEncoding(_ isEnabled: Bool, _ text: String) async throws {
        let bench = DeliveryBench { $0.gzipEnabled = isEnabled }
        bench.analytics.track(name: "A", properties: ["text": .string(text)])
        #expect(await bench.analytics.flushed() == .delivered)
        let request = try #require(bench.transport.stub.requests.first)
        #expect(request.headers["Content-Encoding"] == nil)
        #expect(request.events.first?["properties"]?["text"]?.string == text)
    }

    // MARK: The body

    @Test func bodyIsTheStoredBytesWithSentAtInEach() throws {
        let request = try request([
            event("{\"a\":1}", wall: 0, at: .seconds(1)), event("{\"b\":[]}", wall: 500, at: .seconds(9)),
        ])
        #expect(
            String(decoding: request.body, as: UTF8.self)
                == #"{"batch":[{"a":1,"sentAt":"1970-01-01T00:00:09.000Z"},"#
                + #"{"b":[],"sentAt":"1970-01-01T00:00:01.500Z"}]}"#)
    }

    @Test func ageIsNeverNegative() throws {
        let text = String(decoding: try request([event("{\"a\":1}", wall: 7, at: .seconds(60))]).body, as: UTF8.self)
        #expect(text.contains("\"sentAt\":\"1970-01-01T00:00:00.007Z\""))
    }

    /// The size that batches are cut by is what a body really takes.
    @Test(arguments: [1, 2, 5]) func sizeOfABatchIsKnownExactly(_ count: Int) throws {
        let events = (0..<count).map { event("{\"n\":\(1 << $0)}") }
        #expect(try request(events).body.count == 11 + events.reduce(0) { $0 + $1.sizeInBatch })
    }

    // MARK: Steps

    private func event(_ text: String, wall: Int64 = 0, at instant: Duration = .zero) -> WaitingEvent {
        WaitingEvent(
            bytes: Array(text.utf8), anonymousId: nil,
            moment: Moment(wallMilliseconds: wall, continuous: instant, sequence: 1), cost: 1)
    }

    /// The request at ten seconds.
    private func request(
        _ events: [WaitingEvent], writeKey: String = "key", anonymousId: String? = nil
    ) throws -> TransportRequest {
        try #require(BatchEndpoint(baseUrl: "https://x.example", writeKey: writeKey)).request(
            for: events, anonymousId: anonymousId, fallbackId: "installation", now: .seconds(10), timeout: .seconds(30))
    }
}
