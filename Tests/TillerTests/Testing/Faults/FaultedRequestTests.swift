import Testing
import Tiller
import TillerTesting

/// What a client on a socket sees of each fault, and what is stored.
@Suite(.timeLimit(.minutes(5)))
struct FaultedRequestTests {
    private let time = VirtualTime()

    private func plane(_ rules: FaultScript.Rule...) throws -> LocalDataPlane {
        var dataPlaneRules = LocalDataPlane.Rules()
        dataPlaneRules.faults = FaultScript(rules)
        return try LocalDataPlane(rules: dataPlaneRules, timeSource: time)
    }

    private static let body = #"{"batch":[{"userId":"u","event":"E"}]}"#

    private static func request(_ body: String = body, path: String = "/v1/batch", headers: String = "") -> String {
        "POST \(path) HTTP/1.1\r\nHost: h\r\nAuthorization: Basic d2s6\r\n\(headers)"
            + "Content-Length: \(body.utf8.count)\r\n\r\n\(body)"
    }

    /// What comes after one request, up to the end of its connection.
    private func rest(of plane: LocalDataPlane) async throws -> (text: String, isReset: Bool) {
        try await RawClient.run(plane.url) { client in
            // A reset may meet the sending too.
            try? client.send(Self.request())
            let text = try client.rest()
            return (text, client.wasReset)
        }
    }

    private func answer(of plane: LocalDataPlane) async throws -> RawClient.Answer {
        try await RawClient.run(plane.url) { client in
            try client.send(Self.request())
            return try client.answer()
        }
    }

    // MARK: No answer

    @Test func aRefusedConnectionIsResetAndTheNextIsNot() async throws {
        let plane = try plane(.init(.at(1), .refused))
        let first = try await rest(of: plane)
        #expect(first.text == "")
        #expect(first.isReset)
        #expect(plane.requests.isEmpty)
        #expect(plane.appliedFaults.map(\.fault) == [.refused])
        #expect(try await answer(of: plane).body == "ok")
        #expect(plane.events.count == 1)
    }

    /// Who has a connection needs another for a refusal to be one.
    @Test func theAnswerBeforeARefusalClosesTheConnection() async throws {
        let plane = try plane(.init(.at(2), .refused))
        let first = try await RawClient.run(plane.url) { client in
            try client.send(Self.request())
            let answer = try client.answer()
            return (answer, try client.rest())
        }
        #expect(first.0.headers["Connection"] == "close")
        #expect(first.1 == "")
        #expect(try await rest(of: plane).isReset)
        #expect(try await answer(of: plane).headers["Connection"] == nil)
        #expect(plane.appliedFaults.map(\.number) == [2])
    }

    @Test func aRefusalOnAnOpenConnectionResetsIt() async throws {
        let plane = try plane()
        let (text, isReset) = try await RawClient.run(plane.url) { client in
            try client.send("GET /health HTTP/1.1\r\nHost: h\r\n\r\n")
            _ = try client.answer()
            plane.rules.faults = FaultScript([.init(.at(1), .refused)])
            try? client.send(Self.request())
            return (try client.rest(), client.wasReset)
        }
        #expect(text == "")
        #expect(isReset)
        #expect(plane.events.isEmpty)
    }

    @Test(arguments: FaultScript.Point.allCases, [true, false])
    func aCutConnectionGivesNoAnswer(_ point: FaultScript.Point, isReset: Bool) async throws {
        let plane = try plane(.init(.at(1), .cut(point, isReset: isReset)))
        let cut = try await rest(of: plane)
        #expect(cut.text == "")
        // What was sent and never read makes a reset of any end.
        if point == .beforeStoring || point == .afterStoring { #expect(cut.isReset == isReset) }
        #expect(plane.requests.count == (point == .beforeReading || point == .inBody ? 0 : 1))
        #expect(plane.events.count == (point == .afterStoring ? 1 : 0))
        #expect(plane.events.allSatisfy { $0.fault?.hidesStoring == true })
        #expect(plane.appliedFaults.map(\.fault) == [.cut(point, isReset: isReset)])
        #expect(try await answer(of: plane).body == "ok")
    }

    /// The client is let in for half of it: a large body is not swallowed.
    @Test func aCutInTheBodyComesInTheMiddleOfIt() async throws {
        let plane = try plane(.init(.always, .cut(.inBody)), .init(.always, .cut(.beforeReading)))
        let large = String(repeating: " ", count: 8 << 20)
        let isCut = try await RawClient.run(plane.url) { client in
            try client.send("POST /v1/batch HTTP/1.1\r\nHost: h\r\nContent-Length: \(large.utf8.count)\r\n\r\n")
            return client.isCutOffWhileSending(atMost: 64 << 20)
        }
        #expect(isCut)
        let (asked, rest) = try await RawClient.run(plane.url) { client in
            try client.send("POST /v1/batch HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n")
            let asked = try client.answer()
            try client.send("12345")
            return (asked.status, try client.rest())
        }
        #expect(asked == 100)
        #expect(rest == "")
        let chunked = try await RawClient.run(plane.url) { client in
            try client.send("POST /v1/batch HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n")
            return try client.rest()
        }
        #expect(chunked == "")
        #expect(plane.requests.isEmpty)
    }

    // MARK: Another answer

    @Test func anAnswerIsGivenAsItIsWritten() async throws {
        let plane = try plane(
            .init(
                .at(1),
                .status(
                    .init(
                        429, "slower\n", headers: [.init("X-A", "1"), .init("X-A", "2")], retryAfter: .seconds(2)))),
            .init(.at(2), .status(503, retryAfter: .date(after: .milliseconds(1_500)))),
            .init(.at(3), .status(.init(504, "gateway timeout\n", isStored: true))),
            .init(.at(4), .status(.init(201, isStored: true))), .init(.at(5), .status(200, "ok")))
        let answers = try await RawClient.run(plane.url) { client in
            try (1...6).map { _ in
                try client.send(Self.request())
                return try client.answer()
            }
        }
        #expect(answers.map(\.status) == [429, 503, 504, 201, 200, 200])
        #expect(answers.map(\.body) == ["slower\n", "", "gateway timeout\n", "", "ok", "ok"])
        #expect(answers[0].headers["Retry-After"] == "2")
        #expect(answers[0].headers["X-A"] == "1, 2")
        // A second and a half later, rounded up.
        #expect(answers[1].headers["Retry-After"] == "Tue, 25 Feb 2025 06:06:39 GMT")
        #expect(plane.events.map { $0.fault?.number } == [3, 4, nil])
        #expect(plane.events.map { $0.fault?.hidesStoring } == [true, false, nil])
        #expect(plane.requests.map { $0.fault?.number } == [1, 2, 3, 4, 5, nil])
    }

    @Test func aBadBatchIsNotStoredWhateverIsAnswered() async throws {
        let plane = try plane(
            .init(.at(1), .status(.init(200, "ok", isStored: true))), .init(.at(2), .cut(.afterStoring)),
            .init(.at(3), .chunked))
        let first = try await RawClient.run(plane.url) { client in
            try client.send(Self.request("{}"))
            let first = try client.answer()
            try client.send(Self.request("{}"))
            return (first.status, try client.rest())
        }
        #expect(first == (200, ""))
        // Only the form of the true answer is changed.
        let third = try await RawClient.run(plane.url) { client in
            try client.send(Self.request("{}", headers: "Connection: close\r\n"))
            return try client.rest()
        }
        #expect(third.hasPrefix("HTTP/1.1 400 "))
        #expect(plane.events.isEmpty)
    }

    @Test func aPageIsHTML() async throws {
        let plane = try plane(.init(.at(1), .page()), .init(.at(2), .page("<p>Hotel</p>")))
        let first = try await answer(of: plane)
        #expect(first.status == 200)
        #expect(first.headers["Content-Type"] == "text/html; charset=utf-8")
        #expect(first.body == FaultScript.Fault.logInPage)
        #expect(try await answer(of: plane).body == "<p>Hotel</p>")
        #expect(plane.events.isEmpty)
    }

    @Test(arguments: [301, 302, 303, 307, 308]) func aRedirectNamesItsPlace(_ status: Int) async throws {
        let plane = try plane(.init(.always, .redirect(status, location: "http://127.0.0.1:9/x")))
        let answer = try await answer(of: plane)
        #expect(answer.status == status)
        #expect(answer.headers["Location"] == "http://127.0.0.1:9/x")
        #expect(plane.events.isEmpty)
    }

    @Test func garbageIsSentAsItIs() async throws {
        let plane = try plane(.init(.at(1), .garbage()), .init(.at(2), .garbage("\u{0}é")))
        #expect(try await rest(of: plane).text == "220 mail.example ESMTP\r\n")
        #expect(try await rest(of: plane).text == "\u{0}é")
        #expect(plane.events.isEmpty)
    }

    // MARK: The true answer, spoilt

    private static let head =
        "HTTP/1.1 200 OK\r\nVary: Origin\r\nContent-Type: text/plain; charset=utf-8\r\n"

    @Test func aTruncatedAnswerEndsInItsBody() async throws {
        let plane = try plane(.init(.at(1), .truncated))
        #expect(try await rest(of: plane).text == Self.head + "Content-Length: 2\r\n\r\no")
        #expect(plane.events.count == 1)
    }

    @Test func aLengthIsAnnouncedAndNotKept() async throws {
        let plane = try plane(.init(.at(1), .length(100)), .init(.at(2), .length(1)))
        #expect(try await rest(of: plane).text == Self.head + "Content-Length: 100\r\n\r\nok")
        #expect(try await rest(of: plane).text == Self.head + "Content-Length: 1\r\n\r\nok")
        #expect(plane.events.map { $0.fault?.hidesStoring } == [true, false])
    }

    @Test func aChunkedAnswerIsWhole() async throws {
        let plane = try plane(.init(.at(1), .chunked))
        let text = try await RawClient.run(plane.url) { client in
            try client.send(Self.request(headers: "Connection: close\r\n"))
            return try client.rest()
        }
        #expect(
            text == Self.head + "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
                + "1\r\no\r\n1\r\nk\r\n0\r\n\r\n")
        #expect(plane.events.count == 1)
    }

    @Test func aConnectionThatClosesDoesNotSaySo() async throws {
        let plane = try plane(.init(.at(1), .closing))
        let closed = try await rest(of: plane)
        #expect(closed.text == Self.head + "Content-Length: 2\r\n\r\nok")
        #expect(!closed.isReset)
    }

    @Test func aTrickledAnswerIsTheTrueOneAndTheConnectionGoesOn() async throws {
        let hasty = HastyTime()
        var rules = LocalDataPlane.Rules()
        rules.faults = FaultScript([
            .init(.at(1), .trickled()), .init(.at(2), .trickled(pause: .seconds(3))),
        ])
        let plane = try LocalDataPlane(rules: rules, timeSource: hasty)
        let answers = try await RawClient.run(plane.url) { client in
            try (1...3).map { _ in
                try client.send(Self.request())
                return try client.answer().body
            }
        }
        #expect(answers == ["ok", "ok", "ok"])
        #expect(
            hasty.delays == Array(repeating: .seconds(3), count: (Self.head + "Content-Length: 2\r\n\r\nok").utf8.count)
        )
    }

    // MARK: Delays

    @Test func aDelayIsTheTimeSources() async throws {
        let plane = try plane(.init(.at(1), delay: .seconds(5)), .init(.at(2), .status(503), delay: .seconds(60)))
        let isAnswered = Locked(false)
        async let answers = RawClient.run(plane.url) { client in
            try client.send(Self.request())
            let first = try client.answer()
            isAnswered.withLock { $0 = true }
            try client.send(Self.request())
            return [first.status, try client.answer().status]
        }
        _ = try await plane.events(count: 1)  // stored before the wait
        time.advance(by: .milliseconds(4_999))
        #expect(!isAnswered.withLock { $0 })
        time.advance(by: .milliseconds(1))
        _ = try await plane.requests(count: 2)
        time.advance(by: .seconds(60))
        #expect(try await answers == [200, 503])
    }

    @Test func aStopEndsADelay() async throws {
        let plane = try plane(.init(.always, .cut(.afterStoring), delay: .seconds(5)))
        async let rest = rest(of: plane)
        _ = try await plane.events(count: 1)
        plane.stop()
        #expect(try await rest.text == "")
    }

    // MARK: Counting

    @Test func onlyBatchesCountAndScriptedAnswersDoNot() async throws {
        let plane = try plane(.init(.at(2), .status(503)))
        plane.answerNext(.status(500))
        let statuses = try await RawClient.run(plane.url) { client in
            let requests = [
                Self.request(), Self.request(#"{"userId":"u"}"#, path: "/v1/track"), Self.request(),
                "GET /v1/batch HTTP/1.1\r\nHost: h\r\n\r\n", Self.request(), Self.request(),
            ]
            return try requests.map { request in
                try client.send(request)
                return try client.answer().status
            }
        }
        #expect(statuses == [500, 200, 200, 405, 503, 200])
        #expect(plane.appliedFaults.map(\.number) == [2])
    }

    @Test func anotherScriptCountsFromOne() async throws {
        let plane = try plane(.init(.at(1), .status(503)))
        let statuses = try await RawClient.run(plane.url) { client in
            var statuses: [Int] = []
            func send() throws {
                try client.send(Self.request())
                statuses.append(try client.answer().status)
            }
            try send()
            plane.rules.isStrict = true  // the same script counts on
            try send()
            plane.rules.faults?.seed = 1
            try send()
            plane.rules.faults = nil
            try send()
            return statuses
        }
        #expect(statuses == [503, 200, 503, 200])
    }

    @Test(arguments: [LocalDataPlane.Retention.storedEvents, .nothing])
    func whatIsKeptTellsTheFaultToo(_ retention: LocalDataPlane.Retention) async throws {
        let plane = try plane(.init(.always, .chunked))
        plane.rules.retention = retention
        _ = try await RawClient.run(plane.url) { client in
            try client.send(Self.request(headers: "Connection: close\r\n"))
            return try client.rest()
        }
        #expect(plane.events.map { $0.fault?.fault } == (retention == .nothing ? [] : [.chunked]))
        #expect(plane.appliedFaults.count == (retention == .nothing ? 0 : 1))
    }
}

/// Time whose timers are over at once, and noted.
private final class HastyTime: TimeSource {
    private let noted = Locked<[Duration]>([])
    var delays: [Duration] { noted.withLock { $0 } }
    var wallMilliseconds: Int64 { 0 }
    var continuous: Duration { .zero }
    var bootIdentity: String? { nil }

    func schedule(after delay: Duration, _ action: @escaping @Sendable () -> Void) -> CancellationToken {
        noted.withLock { $0.append(delay) }
        action()
        return CancellationToken {}
    }
}
