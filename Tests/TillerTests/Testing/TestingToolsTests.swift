import Testing
import TillerTesting

@testable import Tiller

/// The transport without a network, the destination that remembers, and the logger that does.
@Suite(.timeLimit(.minutes(5))) struct TestingToolsTests {
    // MARK: StubTransport

    private func post(_ transport: StubTransport, _ body: String = "") async -> Int? {
        let request = TransportRequest(
            url: "https://x.example", headers: [:], body: Array(body.utf8), timeout: .seconds(30))
        return try? await transport.post(request).status
    }

    @Test func answersComeAsToldThenTheStandingOne() async {
        let transport = StubTransport()
        #expect(await post(transport) == 200)
        transport.answerNext(.status(500), .failure(StubTransport.NoAnswer()), .status(429))
        transport.answerAlways(.status(503))
        var statuses: [Int?] = []
        for _ in 0..<5 { statuses.append(await post(transport)) }
        #expect(statuses == [500, nil, 429, 503, 503])
        #expect(transport.requests.count == 6)
    }

    @Test func failureThrowsTheErrorThatWasGiven() async {
        struct Cause: Error, Equatable {}
        let transport = StubTransport(.failure(Cause()))
        await #expect(throws: Cause.self) {
            try await transport.post(TransportRequest(url: "", headers: [:], body: [], timeout: .zero))
        }
    }

    @Test func successSaysOkAsTheGatewayDoes() async throws {
        let transport = StubTransport()
        let request = TransportRequest(url: "", headers: [:], body: [], timeout: .zero)
        #expect(try await transport.post(request).body == Array("ok".utf8))
    }

    @Test func heldRequestsAreAnsweredAtTheReleaseAndNoneIsHeldLater() async {
        let transport = StubTransport(.hold)
        async let first = post(transport)
        async let second = post(transport)
        await transport.requests(count: 2)
        transport.release()
        #expect(await [first, second] == [200, 200])
        #expect(await post(transport) == 200)
    }

    @Test func eventsAreReadFromAllBodiesAndOtherBodiesHaveNone() async {
        let transport = StubTransport()
        _ = await post(transport, #"{"batch":[{"event":"A"},{"event":"B"}]}"#)
        for body in ["no JSON", "[]", "{}"] { _ = await post(transport, body) }
        _ = await post(transport, #"{"batch":[1,{"event":"C"}]}"#)
        #expect(transport.events.names == ["A", "B", "C"])
    }

    @Test func waitingForRequestsThatHaveBeenMadeReturnsAtOnce() async {
        let transport = StubTransport()
        await transport.requests(count: 0)
        _ = await post(transport)
        await transport.requests(count: 1)
        await transport.requests(count: 0)
        #expect(transport.requests.count == 1)
    }

    @Test func aCancelledTaskWaitsForNoRequest() async {
        let transport = StubTransport()
        let waiting = Task { await transport.requests(count: 1) }
        waiting.cancel()
        await waiting.value
        #expect(transport.requests.isEmpty)
        #expect(await post(transport) == 200)
    }

    // MARK: RecordingDestination

    @Test func destinationRemembersEverythingInOrder() async throws {
        let recorder = RecordingDestination()
        let analytics = Analytics(configuration: .test(), plugins: [recorder])
        analytics.track(name: "A")
        analytics.reset(options: ResetOptions(entries: ResetEntries(traits: false)))
        analytics.flush()
        analytics.screen(screenName: "B")
        await analytics.settled()
        let entries = recorder.entries.map { entry in
            switch entry {
            case .event(let event): event.name ?? ""
            case .reset(let options): options.entries.traits ? "reset all" : "reset some"
            case .flush: "flush"
            case .teardown: "teardown"
            }
        }
        #expect(entries == ["A", "reset some", "flush", "B"])
        #expect(recorder.events.map(\.name) == ["A", "B"])
        recorder.removeAll()
        #expect(recorder.entries.isEmpty)
        await analytics.shutdownAndWait()
        await analytics.settled()
    }

    @Test func eventTellsItsSession() async throws {
        let recorder = RecordingDestination()
        let analytics = Analytics(configuration: .test(), plugins: [recorder])
        analytics.track(name: "A")
        analytics.track(name: "B")
        analytics.endSession()
        analytics.track(name: "C")
        await analytics.settled()
        #expect(recorder.events.map(\.sessionId) == [1_740_463_597, 1_740_463_597, nil])
        #expect(recorder.events.map(\.isSessionStart) == [true, false, false])
    }

    // MARK: RecordingLogger

    @Test(arguments: LogLevel.allCases) func loggerRemembersWhatTheLevelLetsThrough(_ level: LogLevel) {
        let logger = RecordingLogger()
        let diagnostics = Diagnostics(logger: logger, level: level)
        for other in LogLevel.allCases { diagnostics.log(other, "\(other)") }
        #expect(logger.messages.map(\.level) == LogLevel.allCases.filter { $0 != .none && $0 <= level })
        #expect(logger.messages.allSatisfy { $0.text == "\($0.level)" })
    }

    @Test func loggerKeepsAnErrorsCause() {
        let logger = RecordingLogger()
        logger.error(log: "It failed", error: StubTransport.NoAnswer())
        logger.error(log: "It failed", error: nil)
        #expect(logger.texts(.error) == ["It failed: NoAnswer()", "It failed"])
        #expect(logger.texts(.warn).isEmpty)
    }

    @Test func whatIsSaidOnceIsSaidOnce() {
        let logger = RecordingLogger()
        let diagnostics = Diagnostics(logger: logger, level: .warn)
        for _ in 0..<3 {
            diagnostics.once("a", .error, "A")
            diagnostics.once("b", .warn, "B")
            diagnostics.once("c", .debug, "C")
        }
        #expect(logger.messages.map(\.text) == ["A", "B"])
    }
}
