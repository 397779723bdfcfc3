import Foundation
import Testing
import Tiller
import TillerTesting

/// `tiller send` as a shell sees it.
/// Not under the thread sanitizer, which looks into this process only: the program is a process of its own, with the
/// system's clock, and ten times as slow there.
@Suite(.timeLimit(.minutes(5)), .disabled(if: isUnderThreadSanitizer)) struct SendCommandTests {
    private let folder = TestFolder()
    /// Nobody listens there, and a connection is refused at once.
    private static let nowhere = "http://127.0.0.1:1"

    // MARK: What arrives

    @Test func everyKindArrivesAsItWasWritten() async throws {
        let plane = try LocalDataPlane()
        let result = try await send(
            """
            {"type":"track","name":"A","properties":{"n":12.50,"big":9007199254740993},"context":{"ip":"127.0.0.1"}}
            {"type":"screen","name":"S","category":"C","integrations":{"X":false}}

            {"type":"group","groupId":"g","traits":{"size":3},"userId":"bob"}
            {"type":"identify","userId":"alice","traits":{"plan":"pro"}}
            {"type":"track","event":"B"}
            {"type":"track","name":"C","userId":"bob","anonymousId":"b"}
            {"type":"identify","userId":"carol","anonymousId":"c"}
            {"type":"alias","userId":"alice2"}
            {"type":"track","name":"D"}
            """, to: plane)
        #expect(result.status == 0)
        #expect(result.output.isEmpty)
        #expect(result.errors == "sent 9 events\n")
        let events = plane.events
        #expect(
            events.map { $0.type ?? "" } == [
                "track", "screen", "group", "identify", "track", "track", "identify", "alias", "track",
            ])
        try #require(events.count == 9)
        #expect(events.allSatisfy { $0.writeKey == "key" })
        #expect(events[0].properties.description(of: "n") == "12.5")
        #expect(events[0].properties["big"] == 9_007_199_254_740_993)
        #expect(events[0].context["ip"] == "127.0.0.1")
        #expect(events[0].userId == nil)
        #expect(events[1].properties == ["name": "S", "category": "C"])
        #expect(events[1].json["integrations"] == ["All": true, "X": false])
        #expect(events[2].json["groupId"] == "g")
        #expect(events[2].json["traits"] == ["size": 3])
        let own = events[0].anonymousId
        #expect(own != nil)
        #expect(
            events.map(\.userId) == [nil, nil, "bob", "alice", "alice", "bob", "carol", "alice2", "alice2"])
        #expect(events.map(\.anonymousId) == [own, own, nil, own, own, "b", "c", own, own])
        #expect(events[4].context["traits"] == ["plan": "pro"])
        #expect(events[5].context["traits"] == nil)
        #expect(events[7].json["previousId"] == "alice")
    }

    @Test func manyLinesArriveOnceAndInOrder() async throws {
        let count = isUnderThreadSanitizer ? 2_000 : 20_000
        let plane = try LocalDataPlane()
        let lines = (0..<count).map { #"{"type":"track","name":"Step","properties":{"number":\#($0)}}"# }
        let result = try await send(lines.joined(separator: "\n"), to: plane)
        #expect(result.status == 0)
        #expect(result.errors == "sent \(count) events\n")
        #expect(plane.events.map { $0.properties["number"]?.int } == (0..<count).map { Int64($0) })
    }

    @Test func largeLinesAreNotRefused() async throws {
        let plane = try LocalDataPlane()
        let text = String(repeating: "x", count: 30_000)
        let lines = (0..<300).map { #"{"type":"track","name":"\#($0)","properties":{"text":"\#(text)"}}"# }
        let result = try await send(lines.joined(separator: "\n"), to: plane)
        #expect(result.status == 0)
        #expect(result.errors == "sent 300 events\n")
        #expect(plane.events.map(\.name) == (0..<300).map { "\($0)" })
    }

    /// The user's traits are on each of them, which their lines don't tell.
    @Test func eventsThatGrowAreNotRefused() async throws {
        let plane = try LocalDataPlane()
        let text = String(repeating: "x", count: 16_000)
        let lines =
            [#"{"type":"identify","userId":"u","traits":{"text":"\#(text)"}}"#]
            + (0..<600).map { #"{"type":"track","name":"\#($0)"}"# }
        let result = try await send(lines.joined(separator: "\n"), to: plane)
        #expect(result.status == 0)
        #expect(result.errors == "sent 601 events\n")
        #expect(plane.events.dropFirst().map(\.name) == (0..<600).map { "\($0)" })
    }

    @Test(arguments: ["", "\n \r\n\n"]) func nothingToSendIsNoFault(_ input: String) async throws {
        let plane = try LocalDataPlane()
        let result = try await send(input, to: plane)
        #expect(result.status == 0)
        #expect(result.errors == "sent 0 events\n")
        #expect(plane.requests.isEmpty)
    }

    // MARK: Bad lines

    @Test func aBadLineIsToldAndCostsItselfOnly() async throws {
        let plane = try LocalDataPlane()
        let tooLong = #"{"type":"track","name":"\#(String(repeating: "x", count: 1_048_576))"}"#
        var input = Data("{\"type\":\"track\",\"name\":\"A\"}\r\n{\"type\":\"track\",\"name\":\"".utf8)
        input += [0xFF]
        input += Data(
            """
            "}
            \(tooLong)

            {"type":"track","name":7}
            {"type":"track","name":"B"}
            {"type":"track","name":"C"
            """.utf8)
        let result = try await send(input, to: plane)
        #expect(result.status == 1)
        #expect(
            result.errors == """
                line 2: it is not UTF-8
                line 3: it is longer than 1048576 bytes
                line 5: name is no string
                line 7: it is no JSON: expected ',' or '}' at byte 26
                sent 2 events, 4 bad lines

                """)
        #expect(plane.events.map(\.name) == ["A", "B"])
    }

    /// The SDK's own bound: what it drops counts as a bad line, wherever it stands.
    @Test func anEventThatTheSDKDropsIsABadLine() async throws {
        let plane = try LocalDataPlane()
        var lines = (1...1_200).map { #"{"type":"track","name":"\#($0)"}"# }
        let large =
            #"{"type":"track","name":"large","properties":{"text":"\#(String(repeating: "x", count: 33_000))"}}"#
        for number in [1, 700, 1_200] { lines[number - 1] = large }
        let result = try await send(lines.joined(separator: "\n"), to: plane)
        #expect(result.status == 1)
        let told = result.errors.split(separator: "\n").filter { $0.hasPrefix("line ") }
        #expect(
            told.map { $0.prefix { $0 != ":" } } == ["line 1", "line 700", "line 1200"])
        #expect(result.errors.contains("32768 bytes are the limit"))
        #expect(result.errors.hasSuffix("\nsent 1197 events, 3 bad lines\n"))
        #expect(plane.events.count == 1_197)
        #expect(!plane.events.contains { $0.name == "large" })
    }

    @Test func nothingButBadLinesIsOne() async throws {
        let plane = try LocalDataPlane()
        let result = try await send("x\ny", to: plane)
        #expect(result.status == 1)
        #expect(result.errors.hasSuffix("\nsent 0 events, 2 bad lines\n"))
        #expect(plane.requests.isEmpty)
    }

    // MARK: Data planes that fail

    @Test func aDataPlaneThatRefusesMeansTwo() async throws {
        let plane = try LocalDataPlane(writeKeys: ["another"])
        let result = try await send(#"{"type":"track","name":"A"}"# + "\nx", to: plane)
        #expect(result.status == 2)
        #expect(result.errors.contains("line 2: it is no JSON"))
        #expect(result.errors.contains("\nnot delivered: 1 event; there is no --store; "))
        #expect(result.errors.contains("401 invalid write key"))
        #expect(result.errors.hasSuffix("\nsent 0 events, 1 not delivered, 1 bad line\n"))
        #expect(plane.events.isEmpty)
    }

    @Test func nobodyListeningMeansTwo() async throws {
        let result = try await send(#"{"type":"track","name":"A"}"# + "\n" + #"{"type":"track","name":"B"}"#)
        #expect(result.status == 2)
        #expect(result.errors.contains("\nnot delivered: 2 events; there is no --store; "))
        #expect(result.errors.hasSuffix("\nsent 0 events, 2 not delivered\n"))
    }

    /// Without a store no more is read than memory has room for, by number or by size.
    @Test(arguments: [(0, 500), (30_000, 34)]) func aDataPlaneThatFailsStopsTheReading(
        _ size: Int, _ last: Int
    ) async throws {
        let text = String(repeating: "x", count: size)
        let lines = (0..<1_100).map { #"{"type":"track","name":"\#($0)","properties":{"text":"\#(text)"}}"# }
        let result = try await send(lines.joined(separator: "\n"))
        #expect(result.status == 2)
        #expect(result.errors.contains("\nreading stopped before line \(last + 1): no answer: "))
        #expect(result.errors.hasSuffix("\nsent 0 events, \(last) not delivered\n"))
    }

    /// All is read, and the last attempt succeeds.
    @Test func noMoreLinesThanFitAreAllRead() async throws {
        let plane = try LocalDataPlane()
        plane.answerNext(.status(503), .status(503))
        let lines = (0..<500).map { #"{"type":"track","name":"\#($0)"}"# }
        let result = try await send(lines.joined(separator: "\n") + "\n\n", to: plane)
        #expect(result.status == 0)
        #expect(result.errors.hasSuffix("\nsent 500 events\n"))
        #expect(plane.events.map(\.name) == (0..<500).map { "\($0)" })
    }

    @Test func aConnectionThatBreaksOnceIsNoReason() async throws {
        let plane = try LocalDataPlane()
        plane.answerNext(.closed)
        let lines = (0..<1_500).map { #"{"type":"track","name":"\#($0)"}"# }
        let result = try await send(lines.joined(separator: "\n"), to: plane)
        #expect(result.status == 0)
        #expect(result.errors.hasSuffix("\nsent 1500 events\n"))
        #expect(plane.events.map(\.name) == (0..<1_500).map { "\($0)" })
    }

    // MARK: The store

    @Test func whatIsStoredWaitsForTheNextRun() async throws {
        let store = folder.url.appendingPathComponent("store").path
        let lines = (0..<1_200).map { #"{"type":"track","name":"\#($0)"}"# }
        let first = try await send(lines.joined(separator: "\n"), store: store)
        #expect(first.status == 2)
        #expect(first.errors.contains("\nnot delivered: 1200 events; they wait in \(store) for the next run; "))
        #expect(first.errors.hasSuffix("\nsent 0 events, 1200 not delivered\n"))
        let plane = try LocalDataPlane()
        let second = try await send("", to: plane, store: store)
        #expect(second.status == 0)
        #expect(second.errors == "sent 0 events, nothing waits in \(store)\n")
        #expect(plane.events.map(\.name) == (0..<1_200).map { "\($0)" })
        let third = try await send(#"{"type":"track","name":"last"}"#, to: plane, store: store)
        #expect(third.status == 0)
        #expect(third.errors == "sent 1 event, nothing waits in \(store)\n")
        #expect(plane.events.count == 1_201)
        #expect(plane.events.last?.name == "last")
    }

    /// The user too.
    @Test func theUserIsRememberedInTheStore() async throws {
        let plane = try LocalDataPlane()
        let store = folder.url.appendingPathComponent("store").path
        let first = try await send(#"{"type":"identify","userId":"alice"}"#, to: plane, store: store)
        #expect(first.status == 0)
        let second = try await send(#"{"type":"track","name":"A"}"#, to: plane, store: store)
        #expect(second.status == 0)
        #expect(plane.events.map(\.userId) == ["alice", "alice"])
        #expect(plane.events.first?.anonymousId == plane.events.last?.anonymousId)
    }

    @Test func aStoreThatCannotBeUsedIsToldAndEventsAreSentAllTheSame() async throws {
        let plane = try LocalDataPlane()
        let result = try await send(#"{"type":"track","name":"A"}"#, to: plane, store: "/dev/null/store")
        #expect(result.status == 0)
        #expect(result.errors.hasPrefix("tiller: "))
        #expect(result.errors.hasSuffix("\nsent 1 event\n"))
        #expect(plane.events.map(\.name) == ["A"])
    }

    // MARK: Usage

    private static let url = ["--data-plane-url", "http://127.0.0.1:1"]
    private static let key = ["--write-key", "key"]
    private static let unusable = "--data-plane-url needs http:// or https:// and a host, not"

    private static let badUsage: [(arguments: [String], problem: String)] = [
        ([], "--data-plane-url is missing"),
        (key, "--data-plane-url is missing"),
        (url, "--write-key is missing"),
        (url + key + ["--colour", "red"], "'--colour' is not an option"),
        (url + key + ["file"], "'file' is not an option"),
        (url + ["--write-key"], "--write-key needs a value"),
        (["--write-key", "--store", "x"], "--write-key needs a value"),
        (url + ["--write-key", ""], "--write-key is empty"),
        (url + key + ["--store", ""], "--store is empty"),
        (url + key + key, "--write-key is given twice"),
        (["--data-plane-url", "ftp://host"] + key, "\(unusable) 'ftp://host'"),
        (["--data-plane-url", "host"] + key, "\(unusable) 'host'"),
        (["--data-plane-url", "http://"] + key, "\(unusable) 'http://'"),
    ]

    @Test(arguments: badUsage)
    func badUsageIsSixtyFourAndSaysWhatIsWrong(_ arguments: [String], _ problem: String) async throws {
        let result = try await runTiller(["send"] + arguments, in: folder)
        #expect(result.status == 64)
        #expect(result.output.isEmpty)
        #expect(result.errors == "\(problem) (see tiller send --help)\n")
    }

    @Test(arguments: ["--help", "-h"]) func helpIsNoFault(_ argument: String) async throws {
        let result = try await runTiller(["send", argument], in: folder)
        #expect(result.status == 0)
        #expect(result.output.hasPrefix("usage: tiller send"))
        #expect(result.errors.isEmpty)
    }

    // MARK: Steps

    private func send(
        _ input: String, to plane: LocalDataPlane? = nil, store: String? = nil
    ) async throws -> CommandResult {
        try await send(Data(input.utf8), to: plane, store: store)
    }

    private func send(
        _ input: Data, to plane: LocalDataPlane?, store: String? = nil
    ) async throws -> CommandResult {
        try await runTiller(
            ["send", "--data-plane-url", plane?.url ?? Self.nowhere, "--write-key", "key"]
                + (store.map { ["--store", $0] } ?? []),
            in: folder, input: input)
    }
}

extension JSONObject {
    fileprivate func description(of key: String) -> String? { self[key]?.description }
}
