import Foundation
import Testing
import Tiller
import TillerTesting

/// Public reports about identity, as tests (`bug-cases.md` B, D, G, H, I).
@Suite(.timeLimit(.minutes(5)))
struct BugCasesIdentityTests {
    private let transport = StubTransport()

    private func launch(on store: any StateStore, seed: UInt64 = 1, limits: Limits = Limits()) -> Analytics {
        var configuration = Configuration.test(storage: .custom(store), transport: transport, limits: limits)
        configuration.identifiers = .seeded(seed)
        return Analytics(configuration: configuration)
    }

    private func launch(in folder: TestFolder, seed: UInt64 = 1) -> Analytics {
        var configuration = Configuration.test(storage: .folder(folder.url), transport: transport)
        configuration.identifiers = .seeded(seed)
        return Analytics(configuration: configuration)
    }

    // MARK: Order and restart

    @Test func b28_traitsAreChangedInTheOrderOfCalls() async {
        for round in 0..<100 {
            let transport = StubTransport()
            var configuration = Configuration.test(transport: transport)
            configuration.identifiers = .seeded(UInt64(round))
            let analytics = Analytics(configuration: configuration)
            analytics.identify(userId: "u1", traits: ["plan": "free"])
            analytics.identify(userId: "u1", traits: ["plan": "pro"])
            analytics.track(name: "a")
            let events = await analytics.delivered(to: transport)
            #expect(events.map { $0["context"]["traits"]["plan"] } == ["free", "pro", "pro"])
            #expect(analytics.traits == ["plan": "pro"])
        }
    }

    @Test func b54_storedTraitsAreThereAfterARestart() async {
        let folder = TestFolder()
        let first = launch(in: folder)
        first.identify(userId: "u1", traits: ["a": 1])
        await first.shutdownAndWait()
        let second = launch(in: folder)
        second.track(name: "x")
        second.identify(userId: "u1", traits: ["b": 2])
        second.track(name: "y")
        let events = await second.delivered(to: transport).suffix(3)
        #expect(events.map { $0["context"]["traits"] } == [["a": 1], ["a": 1, "b": 2], ["a": 1, "b": 2]])
        await second.shutdownAndWait()
    }

    // MARK: Concurrency

    @Test func b83_noneOfManyConcurrentIdentifiesIsLost() async throws {
        let store = ScriptedStore()
        let analytics = launch(on: store)
        await onThreads(10) { thread in
            for index in 0..<50 {
                analytics.identify(userId: "u1", traits: JSONObject(["k\(thread * 50 + index)": index]))
            }
        }
        analytics.track(name: "a", options: EventOptions(customContext: [:]))
        let event = try #require(await analytics.delivered(to: transport).last)
        #expect(event["context"]["traits"]?.object?.count == 500)
        #expect(analytics.traits?.count == 500)
        #expect(store.objects["IdentityPlugin"]?["traits"]?.object == analytics.traits)
        #expect(analytics.userId == "u1")
    }

    /// Ids that begin with `a` are identified, with themselves as only trait; those with `b` are aliases, which keep
    /// whatever traits there are.
    private static func belongTogether(_ userId: String?, _ traits: JSONObject?) -> Bool {
        guard let userId else { return traits?.isEmpty ?? true }
        return userId.hasPrefix("b") || traits == ["owner": .string(userId)]
    }

    @Test func b87_userAndTraitsBelongTogetherWhateverTheThreadsDo() async throws {
        let store = ScriptedStore()
        let destination = RecordingDestination()
        let analytics = launch(on: store, limits: Limits(destinationEvents: 100_000, destinationBytes: .max))
        analytics.add(plugin: destination)
        let faults = Locked(0)
        await onThreads(16) { thread in
            for round in 0..<625 {
                let id = "\(thread).\(round)"
                switch (round &* 7 &+ thread &* 3) % 5 {
                case 0: analytics.identify(userId: "a" + id, traits: ["owner": .string("a" + id)])
                case 1: analytics.alias(newId: "b" + id)
                case 2: analytics.group(groupId: id)
                case 3: analytics.track(name: id)
                default: analytics.reset()
                }
                let isSound = analytics.read(IdentityPlugin.self) { state, _ in
                    Self.belongTogether(state.userId, state.traits)
                }
                if isSound != true { faults.withLock { $0 += 1 } }
            }
        }
        #expect(faults.withLock { $0 } == 0)
        let events = await analytics.settled(destination)
        #expect(events.allSatisfy { Self.belongTogether($0.userId, $0.context["traits"]?.object) })
        #expect(events.allSatisfy { $0.anonymousId != nil })
        // Replayed in the order of the road, the calls give the state that there is.
        #expect(zip(events, events.dropFirst()).allSatisfy { $0.sequence < $1.sequence })
        var replayed: String?
        for entry in destination.entries {
            switch entry {
            case .reset: replayed = nil
            case .event(let event) where event.kind == .identify || event.kind == .alias: replayed = event.userId
            default: break
            }
        }
        #expect(analytics.userId == replayed)
        let stored = try #require(store.objects["IdentityPlugin"])
        #expect(stored["userId"]?.string == analytics.userId)
        #expect(stored["anonymousId"]?.string == analytics.anonymousId)
        #expect(stored["traits"]?.object == analytics.traits)
    }

    /// Every save waits until it is opened.
    private final class SlowStore: StateStore {
        let inner = ScriptedStore()
        private let gate = DispatchSemaphore(value: 0)

        var isOwned: Bool { true }

        func load(_ key: String) -> Stored { inner.load(key) }

        func save(_ changes: [StateChange]) {
            gate.wait()
            gate.signal()
            inner.save(changes)
        }

        func open() { gate.signal() }
        func prepareToClose() {}
        func close() {}
    }

    @Test func b90_noCallWaitsForTheStore() async {
        let store = SlowStore()
        let destination = RecordingDestination()
        let analytics = launch(on: store)
        analytics.add(plugin: destination)
        analytics.identify(userId: "u1", traits: ["a": 1])
        for index in 0..<100 { analytics.track(name: "\(index)") }
        analytics.reset()
        analytics.identify(userId: "u2")
        // All calls have returned, and nothing is stored yet.
        #expect(store.inner.saveCount == 0)
        #expect(analytics.userId == "u2")
        store.open()
        let names = await analytics.settled(destination).compactMap(\.name)
        #expect(names == ["identify"] + (0..<100).map(String.init) + ["identify"])
        #expect(store.inner.objects["IdentityPlugin"]?["userId"] == "u2")
    }

    // MARK: Alias

    @Test func b92_aliasOfAnUnknownUserNamesTheAnonymousId() async {
        let analytics = launch(on: ScriptedStore())
        let anonymousId = analytics.anonymousId
        analytics.alias(newId: "u1")
        let event = await analytics.delivered(to: transport).last
        #expect(event?["previousId"]?.string == anonymousId)
        #expect(event?["userId"] == "u1")
        #expect(analytics.userId == "u1")
    }

    @Test func b93_aliasNamesTheIdBeforeAndTheLastOneStays() async {
        let folder = TestFolder()
        let first = launch(in: folder)
        first.identify(userId: "u1")
        first.alias(newId: "u2")
        first.alias(newId: "u3", previousId: "")
        first.alias(newId: "u4", previousId: "legacy")
        let events = await first.delivered(to: transport)
        #expect(events.map { $0["previousId"] } == [nil, "u1", "u2", "legacy"])
        await first.shutdownAndWait()
        let second = launch(in: folder)
        #expect(second.userId == "u4")
        await second.shutdownAndWait()
    }

    // MARK: Identify and reset

    @Test func b94_theSameUsersTraitsAreMergedAndAnothersAreNot() async {
        let analytics = launch(on: ScriptedStore())
        let before = (analytics.anonymousId, analytics.sessionId)
        analytics.identify(userId: "u1", traits: ["a": 1])
        analytics.identify(userId: "u1", traits: ["b": 2])
        analytics.track(name: "x")
        analytics.identify(userId: "u2", traits: ["c": 3])
        analytics.track(name: "y")
        let tracks = await analytics.delivered(to: transport).filter { $0["type"] == "track" }
        #expect(tracks.map { $0["context"]["traits"] } == [["a": 1, "b": 2], ["c": 3]])
        #expect(tracks.map { $0["anonymousId"]?.string } == [before.0, analytics.anonymousId])
        #expect(tracks.map { $0["context"]["sessionId"]?.uint } == [before.1, analytics.sessionId])
        #expect(before.0 != analytics.anonymousId)
        #expect(before.1 != analytics.sessionId)
    }

    @Test func b95_everyEventOfEveryUserHasAnAnonymousId() async {
        let analytics = launch(on: ScriptedStore())
        analytics.identify(userId: "u1")
        analytics.identify(userId: "u2")
        analytics.track(name: "x")
        let ids = await analytics.delivered(to: transport).compactMap { $0["anonymousId"]?.string }
        #expect(ids.count == 3)
        #expect(ids.allSatisfy { UUID(uuidString: $0) != nil })
        #expect(ids[1] == ids[2])
    }

    @Test func b96_aResetSurvivesAKill() async {
        let store = ScriptedStore()
        let first = launch(on: store)
        first.identify(userId: "u1", traits: ["a": 1])
        first.reset()
        let anonymousId = first.anonymousId
        await first.stored()
        let second = launch(on: store.afterKill(), seed: 2)
        #expect(second.userId == nil)
        #expect(second.traits == [:])
        #expect(second.anonymousId == anonymousId)
        second.track(name: "x")
        let event = await second.delivered(to: transport).last
        #expect(event?["userId"] == nil)
        #expect(event?["context"]["traits"] == nil)
        #expect(event?["anonymousId"]?.string == anonymousId)
    }

    @Test func b97_aResetLosesNoEventAndBeginsANewSession() async {
        let analytics = launch(on: ScriptedStore())
        let old = (anonymousId: analytics.anonymousId, sessionId: analytics.sessionId)
        transport.answerAlways(.failure(StubTransport.NoAnswer()))
        analytics.identify(userId: "u1")
        analytics.track(name: "a")
        await analytics.flushed()
        analytics.reset()
        analytics.track(name: "b")
        let offline = transport.requests.count
        transport.answerAlways(.status(200))
        await analytics.flushed()
        let events = transport.requests.dropFirst(offline).flatMap { request in
            (try? JSONValue(parsing: request.body))?["batch"]?.array ?? []
        }
        #expect(events.map { $0["event"] } == ["identify", "a", "b"])
        #expect(events[1]["userId"] == "u1")
        #expect(events[1]["anonymousId"]?.string == old.anonymousId)
        #expect(events[1]["context"]["sessionId"]?.uint == old.sessionId)
        #expect(events[2]["userId"] == nil)
        #expect(events[2]["anonymousId"]?.string == analytics.anonymousId)
        #expect(analytics.anonymousId != old.anonymousId)
        #expect(events[2]["context"]["sessionId"]?.uint == analytics.sessionId)
        #expect(analytics.sessionId != old.sessionId)
        #expect(events[2]["context"]["sessionStart"] == true)
        #expect(events[1]["context"]["sessionStart"] == nil)
    }

    @Test func b99_traitsAloneKeepTheUser() async {
        let analytics = launch(on: ScriptedStore())
        analytics.identify(userId: "u1", traits: ["a": 1])
        analytics.identify(traits: ["b": 2])
        analytics.track(name: "x")
        analytics.identify(userId: "", traits: ["c": 3])
        analytics.track(name: "y")
        let events = await analytics.delivered(to: transport)
        #expect(events.allSatisfy { $0["userId"] == "u1" })
        #expect(events.last?["context"]["traits"] == ["a": 1, "b": 2, "c": 3])
        #expect(analytics.userId == "u1")
    }

    @Test func b100_theAnonymousIdIsTheSameInEveryLaunch() async {
        let folder = TestFolder()
        var ids: [String?] = []
        for round in 0..<5 {
            let analytics = launch(in: folder, seed: UInt64(round))
            ids.append(analytics.anonymousId)
            await analytics.stored()
            if round == 2 {
                let second = launch(in: folder, seed: 77)
                ids.append(second.anonymousId)
                await second.shutdownAndWait()
            }
            analytics.track(name: "a")
            await analytics.flushed()
            await analytics.shutdownAndWait()
        }
        ids += transport.events.map { $0["anonymousId"]?.string }
        #expect(Set(ids).count == 1)
        #expect(ids.first??.isEmpty == false)
        #expect(ids.count == 11)
    }
}
