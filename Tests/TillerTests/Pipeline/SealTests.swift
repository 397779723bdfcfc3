import Testing
import Tiller
import TillerTesting

/// What the seal gives, undoes and stores.
@Suite(.timeLimit(.minutes(5))) struct SealTests {
    @Test func tooLargeFirstEventLeavesTheMarkToTheSecond() async {
        let transport = StubTransport()
        let recorder = RecordingDestination()
        let logger = RecordingLogger()
        let analytics = Analytics(configuration: .test(transport: transport, logger: logger), plugins: [recorder])
        analytics.track(name: "Large", properties: ["text": .string(String(repeating: "x", count: 40 * 1_024))])
        analytics.track(name: "Small")
        #expect(await analytics.flushed() == .delivered)
        await analytics.settled()
        #expect(recorder.events.map(\.name) == ["Small"])
        #expect(recorder.events[0].isSessionStart)
        #expect(transport.events.map { $0["context"]?["sessionStart"] } == [.bool(true)])
        #expect(analytics.account.dropped == [.tooLarge: 1])
        #expect(logger.texts(.error).contains { $0.contains("32768") })
    }

    @Test func refusedFirstEventLeavesTheMarkToTheNextThatFindsRoom() async throws {
        let gate = StuckPlugin()
        let recorder = RecordingDestination()
        let analytics = Analytics(configuration: .test(limits: Limits(memoryEvents: 1)), plugins: [gate, recorder])
        analytics.track(name: "of the first session")
        analytics.reset()
        analytics.track(name: "Refused")
        gate.open()
        #expect(await analytics.flushed() == .delivered)  // only that makes room again
        analytics.track(name: "Second")
        await analytics.settled()
        try #require(recorder.events.count == 2)
        #expect(recorder.events.map(\.name) == ["of the first session", "Second"])
        #expect(recorder.events.map(\.isSessionStart) == [true, true])
        #expect(recorder.events[0].sessionId != recorder.events[1].sessionId)
    }

    @Test func largestEventThatFitsIsSentAndOneByteMoreIsNot() async throws {
        let transport = StubTransport()
        let configuration = Configuration.test(transport: transport)
        let analytics = Analytics(
            configuration: configuration,
            builtIn: [IdentityPlugin(), RudderStackDestination(configuration: configuration)])
        analytics.track(name: "T", properties: ["t": ""])
        _ = await analytics.flushed()
        let sentAt = #","sentAt":"2025-02-25T06:06:37.000Z""#.utf8.count
        let size = transport.requests[0].body.count - #"{"batch":[]}"#.utf8.count - sentAt
        analytics.track(name: "T", properties: ["t": .string(String(repeating: "x", count: 32_768 - size))])
        analytics.track(name: "T", properties: ["t": .string(String(repeating: "x", count: 32_768 - size + 1))])
        _ = await analytics.flushed()
        #expect(transport.events.count == 2)
        #expect(analytics.account.dropped == [.tooLarge: 1])
    }

    @Test func bytesThatAreSentHaveWhatTheSealAdded() async {
        let transport = StubTransport()
        let analytics = Analytics(configuration: .test(transport: transport))
        analytics.track(name: "A")
        analytics.track(name: "B")
        _ = await analytics.flushed()
        let contexts = transport.events.compactMap { $0["context"]?.object }
        #expect(contexts.count == 2)
        #expect(contexts[0]["sessionId"] == .int(1_740_463_597))
        #expect(contexts[0]["sessionStart"] == .bool(true))
        #expect(contexts[1]["sessionId"] == .int(1_740_463_597))
        #expect(contexts[1].keys.contains("sessionStart") == false)
    }

    @Test func sealWorksOnAnEventWhoseContextIsOtherwiseEmpty() async {
        let transport = StubTransport()
        let configuration = Configuration.test(transport: transport)
        let analytics = Analytics(
            configuration: configuration,
            builtIn: [SealOnly(), RudderStackDestination(configuration: configuration)])
        analytics.scoped(userId: "u").track(name: "A")
        _ = await analytics.flushed()
        #expect(transport.events[0]["context"] == ["sealed": 1])
    }

    @Test func whatAPluginDoesToTheSessionKeysIsUndoneButARemovalStays() async {
        let recorder = RecordingDestination()
        let meddler = ClosurePlugin(.enrichment) { event, _ in
            var event = event
            switch event.name {
            case "Remove": event.context["sessionId"] = nil
            case "Change": event.context["sessionId"] = 1
            case "Mark":
                event.context["sessionStart"] = true
                event.context["mine"] = 1
            default: break
            }
            return event
        }
        let analytics = Analytics(configuration: .test(), plugins: [meddler, recorder])
        for name in ["Remove", "Change", "Mark", "Plain"] { analytics.track(name: name) }
        analytics.endSession()
        analytics.track(name: "Change")
        await analytics.settled()
        let session: UInt64 = 1_740_463_597
        #expect(recorder.events.map(\.sessionId) == [nil, session, session, session, nil])
        // The event that lost its id spends no mark.
        #expect(recorder.events.map(\.isSessionStart) == [false, true, false, false, false])
        #expect(recorder.events[2].context["mine"] == 1)
        #expect(recorder.events[2].context["sessionStart"] == nil)
    }

    @Test func customContextLosesItsSessionKeysWithOneWarning() async {
        let recorder = RecordingDestination()
        let logger = RecordingLogger()
        let analytics = Analytics(
            configuration: .test(logger: logger, session: SessionConfiguration(automaticSessionTracking: false)),
            plugins: [recorder])
        for _ in 0..<2 {
            analytics.track(
                name: "A", properties: ["sessionId": 5],
                options: EventOptions(customContext: ["sessionId": 7, "sessionStart": true, "a": ["sessionId": 1]]))
        }
        await analytics.settled()
        #expect(recorder.events[0].context["sessionId"] == nil)
        #expect(recorder.events[0].context["sessionStart"] == nil)
        #expect(recorder.events[0].context["a"]["sessionId"] == 1)
        #expect(recorder.events[0].properties["sessionId"] == 5)
        #expect(logger.texts(.warn).filter { $0.contains("sessionId") }.count == 1)
    }

    @Test func stateOfADroppedEventIsStoredAllTheSame() async {
        let store = MemoryStateStore()
        let analytics = Analytics(
            configuration: .test(storage: .custom(store)), plugins: [ClosurePlugin { _, _ in nil }])
        analytics.identify(userId: "alice")
        await analytics.stored()
        guard case .value(let identity) = store.load("IdentityPlugin") else {
            Issue.record("no identity was stored")
            return
        }
        #expect(identity["userId"] == "alice")
    }

    /// A kill between any two saves: the user, the session and the mark of what is stored belong together (S12, S20).
    @Test func whatIsStoredAtAnyMomentBelongsTogether() async {
        let store = JournalStore()
        let analytics = Analytics(configuration: .test(storage: .custom(store)))
        analytics.identify(userId: "alice")
        analytics.track(name: "A")
        analytics.identify(userId: "bob")
        analytics.track(name: "B")
        analytics.reset()
        await analytics.stored()
        let users = ["alice": 1_740_463_597, "bob": 1_740_463_598] as [String: UInt64]
        for moment in store.moments {
            let session = moment["SessionTrackingPlugin"]?["session"]?["id"]?.uint
            if let user = moment["IdentityPlugin"]?["userId"]?.string { #expect(session == users[user]) }
            if session == 1_740_463_599 { #expect(moment["IdentityPlugin"]?["userId"] == nil) }
        }
        #expect(store.moments.count >= 1)
    }

    @Test func stateThatAStoreRefusesIsKeptAndStoredLater() async {
        let store = JournalStore()
        let logger = RecordingLogger()
        let analytics = Analytics(configuration: .test(storage: .custom(store), logger: logger))
        await analytics.stored()
        store.isFull.withLock { $0 = true }
        analytics.identify(userId: "alice")
        await analytics.stored()
        analytics.track(name: "A")
        await analytics.stored()
        #expect(store.moments.last?["IdentityPlugin"]?["userId"] == nil)
        #expect(logger.texts(.error).filter { $0.contains("could not be stored") }.count == 1)
        store.isFull.withLock { $0 = false }
        analytics.startSession(1_234_567_890)
        await analytics.stored()
        #expect(store.moments.last?["IdentityPlugin"]?["userId"] == "alice")
        #expect(store.moments.last?["SessionTrackingPlugin"]?["session"]?["id"] == 1_234_567_890)
    }
}

/// Adds a key at the seal, and nothing else.
private final class SealOnly: CapturingPlugin {
    let stage = Stage.before
    let contextKeys = ["sealed"]
    func restore(_ stored: Stored, present: Bool?, in section: inout Section) -> Bool { true }
    func seals(_ state: Bool) -> Bool { state }
    func seal(_ event: inout Event, state: inout Bool, in section: inout Section) { event.context["sealed"] = 1 }
}

/// A store that remembers what it held after each save.
private final class JournalStore: StateStore {
    struct Full: Error {}

    let isFull = Locked(false)
    private let history = Locked<[[String: JSONObject]]>([])

    var moments: [[String: JSONObject]] { history.withLock { $0 } }
    var isOwned: Bool { true }
    func load(_ key: String) -> Stored { .absent }

    func save(_ changes: [StateChange]) throws {
        if isFull.withLock({ $0 }) { throw Full() }
        history.withLock { history in
            var objects = history.last ?? [:]
            for change in changes {
                objects[change.key] = change.applied(to: objects[change.key] ?? [:])
            }
            history.append(objects)
        }
    }

    func prepareToClose() {}
    func close() {}
}
