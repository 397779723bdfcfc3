import Foundation
import Testing
import TillerTesting

@testable import Tiller

/// The default transport, over real connections to a data plane in this process.
@Suite(.timeLimit(.minutes(5))) struct URLSessionTransportTests {
    private let plane: LocalDataPlane
    private let time = VirtualTime()

    init() throws { plane = try LocalDataPlane(writeKeys: ["key"]) }

    private func instance(_ change: (inout Configuration) -> Void = { _ in }) -> Analytics {
        var configuration = Configuration.test(time: time)
        configuration.dataPlaneUrl = plane.url
        configuration.transport = URLSessionTransport()
        change(&configuration)
        return Analytics(configuration: configuration)
    }

    @Test func eventsArriveAsTheyWereRecorded() async throws {
        let analytics = instance()
        analytics.identify(userId: "alice", traits: ["plan": "pro"])
        analytics.track(name: "Order — \u{1F600}", properties: ["total": 12.5, "text": "\u{0}\u{1F}\"\\/é"])
        #expect(await analytics.flushed() == .delivered)
        let events = plane.events
        #expect(events.map(\.name) == ["identify", "Order — \u{1F600}"])
        #expect(events.map(\.userId) == ["alice", "alice"])
        #expect(events[1].properties == ["total": 12.5, "text": "\u{0}\u{1F}\"\\/é"])
        #expect(events[1].context["traits"]?["plan"] == "pro")
        #expect(Set(events.map(\.anonymousIdHeader)) == [analytics.anonymousId])
        #expect(Set(events.map(\.writeKey)) == ["key"])
        let request = try #require(plane.requests.first)
        #expect(request.method == "POST")
        #expect(request.path == "/v1/batch")
        #expect(request.headers["Content-Type"] == "application/json")
        #expect(request.headers["Content-Encoding"] == nil)
    }

    @Test func batchesOfManyEventsArriveInOrder() async {
        let analytics = instance { $0.limits.batchBytes = 100_000 }
        for number in 0..<1_000 { analytics.track(name: "\(number)") }
        #expect(await analytics.flushed() == .delivered)
        #expect(plane.events.map(\.name) == (0..<1_000).map { "\($0)" })
        #expect(plane.requests.count > 2)
        #expect(plane.requests.allSatisfy { $0.body.count <= 100_000 })
    }

    @Test(arguments: [
        (401, "invalid write key\n"), (404, "source is disabled\n"), (404, "404 page not found\n"),
        (429, "max requests limit reached\n"), (500, "pq: the database is on fire\n"), (503, "Service Unavailable\n"),
    ])
    func aRefusedBatchIsKeptAndSentAgain(_ status: Int, _ text: String) async throws {
        let analytics = instance()
        plane.answerNext(.status(status, text))
        analytics.track(name: "A")
        let result = await analytics.flushed()
        #expect(result.isStopped == (status < 405))
        // What the gateway itself says is repeated; anything else may be what it was sent.
        let isKnown = status != 500
        let reason = try #require(result.reason)
        #expect(reason.hasPrefix("the data plane answered \(status)" + (isKnown ? " \(text.dropLast())" : "")))
        #expect(isKnown || !reason.contains("fire"))
        #expect(plane.events.isEmpty)
        time.advance(by: result.isStopped ? .seconds(3_600) : .seconds(1))
        let events = try await plane.events(count: 1)
        #expect(events.map(\.name) == ["A"])
        #expect(plane.requests.count == 2)
        #expect(await analytics.shutdownAndWait() == 0)
    }

    @Test func anUnknownKeyIsRefusedByThePlaneItself() async throws {
        let analytics = instance { $0.writeKey = "another" }
        analytics.track(name: "A")
        let result = await analytics.flushed()
        #expect(result.isStopped && result.reason?.contains("401 invalid write key") == true)
        #expect(await analytics.shutdownAndWait() == 1)
    }

    @Test func aConnectionThatClosesWithoutAnAnswerKeepsTheEvents() async throws {
        let analytics = instance()
        plane.answerNext(.closed)
        analytics.track(name: "A")
        #expect(try #require(await analytics.flushed().wait).reason.hasPrefix("no answer: "))
        time.advance(by: .seconds(1))
        #expect(try await plane.events(count: 1).map(\.name) == ["A"])
    }

    /// Stored there, but nobody heard of it: the second copy has the same id.
    @Test func b35_aLostAnswerMeansASecondCopyWithTheSameIds() async throws {
        let analytics = instance()
        plane.answerNext(.ok.lost())
        analytics.track(name: "A")
        analytics.track(name: "B")
        #expect(await analytics.flushed().wait != nil)
        time.advance(by: .seconds(1))
        let events = try await plane.events(count: 4)
        #expect(events.map(\.name) == ["A", "B", "A", "B"])
        #expect(Set(events.compactMap(\.messageId)).count == 2)
        #expect(events.prefix(2).map(\.json.withoutSentAt) == events.suffix(2).map(\.json.withoutSentAt))
    }

    @Test func aRefusedConnectionKeepsTheEvents() async throws {
        // Port 1 is nobody's; the one of a stopped data plane may be another test's by now.
        let analytics = instance { $0.dataPlaneUrl = "http://127.0.0.1:1" }
        analytics.track(name: "A")
        #expect(try #require(await analytics.flushed().wait).reason.hasPrefix("no answer: "))
        #expect(await analytics.shutdownAndWait() == 1)
    }

    /// A redirected POST becomes a GET whose answer says nothing of the events.
    @Test(arguments: [301, 302, 303, 307, 308]) func redirectsAreNotFollowed(_ status: Int) async throws {
        let analytics = instance()
        plane.answerNext(.status(status, "moved\n", headers: ["Location": plane.url + "/health"]))
        analytics.track(name: "A")
        let result = await analytics.flushed()
        #expect(result.isStopped && result.reason?.contains("\(status)") == true)
        #expect(plane.requests.map(\.path) == ["/v1/batch"])
        time.advance(by: .seconds(3_600))
        #expect(try await plane.events(count: 1).map(\.name) == ["A"])
    }

    @Test func aSlowAnswerHoldsUpNobody() async throws {
        let analytics = instance()
        plane.answerNext(.ok.held())
        analytics.track(name: "A")
        analytics.flush()
        _ = try await plane.requests(count: 1)
        for number in 0..<1_000 { analytics.track(name: "\(number)") }
        #expect(await analytics.stored() == .inMemory)
        #expect(plane.requests.count == 1)
        plane.releaseHeld()
        #expect(await analytics.shutdownAndWait(timeout: .seconds(60)) == 0)
        #expect(plane.events.count == 1_001)
    }

    /// A transport of one's own may give them as it likes; the default one gives what the server wrote.
    @Test func b123_retryAfterIsReadFromARealAnswer() async throws {
        let analytics = instance()
        plane.answerNext(.status(429, "max requests limit reached\n", headers: ["retry-after": "40"]))
        analytics.track(name: "A")
        let wait = try #require(await analytics.flushed().wait)
        #expect(wait.until == time.wallMilliseconds + 40_000)
        time.advance(by: .seconds(40))
        #expect(try await plane.events(count: 1).map(\.name) == ["A"])
    }

    @Test(arguments: ["no url at all", "", "http://"]) func anUnusableAddressIsAnError(_ url: String) async {
        let request = TransportRequest(url: url, headers: [:], body: [], timeout: .seconds(30))
        await #expect(throws: (any Error).self) { try await URLSessionTransport().post(request) }
    }
}
