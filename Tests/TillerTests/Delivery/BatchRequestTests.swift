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
        let headers = try request([Content("{}")], writeKey: key).headers
        let value = try #require(headers["Authorization"])
        #expect(value.hasPrefix("Basic "))
        #expect(!value.contains { $0.isNewline })
        #expect(Data(base64Encoded: String(value.dropFirst(6))) == Data((key + ":").utf8))
    }

    @Test(arguments: ["a", "0f8fad5b-d9cb-469f-a165-70867728950e", String(repeating: "a", count: 256), "!~"])
    func b137_anonymousIdThatAHeaderCanCarryIsSent(_ id: String) throws {
        #expect(try request([Content("{}")], anonymousId: id).headers["AnonymousId"] == id)
    }

    @Test(arguments: [
        nil, "", String(repeating: "a", count: 257), String(repeating: "й", count: 300), "a\nb", "a\r\nX: y", "a\u{0}",
        "a\u{7F}", "é",
    ])
    func b137_anotherAnonymousIdIsReplacedByTheInstallations(_ id: String?) throws {
        #expect(try request([Content("{}")], anonymousId: id).headers["AnonymousId"] == "installation")
    }

    /// The last two in place of what the system's client would say by itself: the program's name, the user's language.
    @Test func nothingButTheseHeadersIsSent() throws {
        let request = try request([Content("{}")])
        let names: Set = ["Content-Type", "Authorization", "AnonymousId", "User-Agent", "Accept-Language"]
        #expect(Set(request.headers.keys) == names)
        #expect(request.headers["User-Agent"] == "tiller-swift/\(Analytics.version)")
        #expect(request.headers["Accept-Language"] == "*")
        #expect(request.headers["Content-Type"] == "application/json")
        #expect(request.timeout == .seconds(30))
    }

    @Test(arguments: [true, false], ["", String(repeating: "x", count: 30_000)])
    func b134_encodingIsNamedExactlyWhereTheBodyIsCompressed(_ isEnabled: Bool, _ text: String) async throws {
        let bench = DeliveryBench { $0.gzipEnabled = isEnabled }
        bench.analytics.track(name: "A", properties: ["text": .string(text)])
        #expect(await bench.analytics.flushed() == .delivered)
        let request = try #require(bench.transport.stub.requests.first)
        #expect(request.headers["Content-Encoding"] == (isEnabled ? "gzip" : nil))
        #expect(request.body.starts(with: [0x1F, 0x8B]) == isEnabled)
        #expect(request.events.first?["properties"]?["text"]?.string == text)
    }

    @Test func compressionIsOnByDefault() {
        #expect(Configuration(writeKey: "key", dataPlaneUrl: "http://x").gzipEnabled)
    }

    /// The body is the same whether it is compressed or not.
    @Test(arguments: [0, 1, 20, 500_000]) func b134_whatIsInflatedIsThePlainBody(_ length: Int) throws {
        let text = String(decoding: (0..<length).map { UInt8(97 + $0 % 26) }, as: UTF8.self)
        let events = [Content("{\"text\":\"\(text)\"}")]
        let plain = try request(events)
        let compressed = try request(events, compresses: true)
        #expect(compressed.headers["Content-Encoding"] == "gzip")
        #expect(compressed.plainBody == plain.body)
        #expect(plain.headers["Content-Encoding"] == nil)
    }

    /// Without a zlib, or where it fails, the plain body goes without the header.
    @Test func b135_whatCannotBeCompressedIsSentPlain() throws {
        let endpoint = try #require(BatchEndpoint(baseUrl: "https://x.example", writeKey: "key"))
        let plain = try request([Content("{}")])
        var failing = endpoint
        failing.compress = { _ in nil }
        #expect(try request([Content("{}")], by: failing, compresses: true) == plain)
    }

    // MARK: The body

    @Test func bodyIsTheStoredBytesWithSentAtInEach() throws {
        let request = try request([
            Content("{\"a\":1}", wall: 0, at: .seconds(1)), Content("{\"b\":[]}", wall: 500, at: .seconds(9)),
        ])
        #expect(
            String(decoding: request.body, as: UTF8.self)
                == #"{"batch":[{"a":1,"sentAt":"1970-01-01T00:00:09.000Z"},"#
                + #"{"b":[],"sentAt":"1970-01-01T00:00:01.500Z"}]}"#)
    }

    /// Events of an earlier run: by the continuous clock in the same boot, by the wall clock in another or an unknown one.
    @Test(arguments: [(7, "00:00:14.000"), (8, "00:00:20.000"), (0, "00:00:20.000")] as [(UInt64, String)])
    func ageOverARebootIsThatOfTheWallClock(_ boot: UInt64, _ sentAt: String) throws {
        let events = [Content("{\"a\":1}", wall: 5_000, at: .seconds(1))]
        let text = String(decoding: try request(events, isOwnRun: false, boot: boot).body, as: UTF8.self)
        #expect(text.contains("\"sentAt\":\"1970-01-01T\(sentAt)Z\""))
    }

    @Test func ageOverARebootIsNeverNegative() throws {
        let events = [Content("{\"a\":1}", wall: 90_000, at: .seconds(1))]
        let text = String(decoding: try request(events, isOwnRun: false, boot: 8).body, as: UTF8.self)
        #expect(text.contains("\"sentAt\":\"1970-01-01T00:01:30.000Z\""))
    }

    @Test func ageIsNeverNegative() throws {
        let text = String(decoding: try request([Content("{\"a\":1}", wall: 7, at: .seconds(60))]).body, as: UTF8.self)
        #expect(text.contains("\"sentAt\":\"1970-01-01T00:00:00.007Z\""))
    }

    /// The size that batches are cut by is what a body really takes.
    @Test(arguments: [1, 2, 5]) func sizeOfABatchIsKnownExactly(_ count: Int) throws {
        let events = (0..<count).map { Content("{\"n\":\(1 << $0)}") }
        #expect(try request(events).body.count == 11 + events.reduce(0) { $0 + $1.bytes.count + 37 })
    }

    // MARK: Steps

    private typealias Content = EncodedEvent

    /// The request at ten seconds after the start of the run, 20 seconds after 1970.
    private func request(
        _ events: [Content], writeKey: String = "key", anonymousId: String? = nil, isOwnRun: Bool = true,
        boot: UInt64 = 0, by endpoint: BatchEndpoint? = nil, compresses: Bool = false
    ) throws -> TransportRequest {
        var batch = StoredBatch(run: 1, isOwnRun: isOwnRun, start: 0)
        for (number, event) in events.enumerated() {
            var writer = JSONWriter()
            var range = 0..<0
            var bytes = event.bytes
            if let anonymousId {
                writer.write(anonymousId)
                bytes = (Array("{\"anonymousId\":".utf8) + writer.bytes + Array("}".utf8))[...]
                range = 16..<bytes.count - 2
            }
            let isTaken = batch.take(
                bytes, anonymousId: range, number: UInt64(number), wallMilliseconds: event.moment.wallMilliseconds,
                continuousNanoseconds: event.moment.continuousNanoseconds, boot: 7,
                within: BatchBounds(bytes: .max, count: .max, isPerIdentity: false))
            #expect(isTaken)
        }
        return try #require(endpoint ?? BatchEndpoint(baseUrl: "https://x.example", writeKey: writeKey)).request(
            for: batch,
            BatchEndpoint.Circumstances(
                installationId: "installation", isPerIdentity: true, boot: boot, wallMilliseconds: 20_000,
                continuousNanoseconds: 10_000_000_000, timeout: .seconds(30)),
            compresses: compresses)
    }
}
