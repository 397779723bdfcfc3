import Foundation
import Testing
import Tiller
import TillerTesting

@Suite(.timeLimit(.minutes(5))) struct PipelineTests {
    @Test func stagesRunInOrderAndPluginsInOrderOfRegistration() async {
        let log = Locked<[String]>([])
        func noting(_ name: String, _ stage: Stage) -> ClosurePlugin {
            ClosurePlugin(stage) { event, _ in
                log.withLock { $0.append(name) }
                return event
            }
        }
        let analytics = Analytics(
            configuration: .test(),
            plugins: [
                noting("destination", .destination), noting("enrichment 1", .enrichment), noting("before 1", .before),
                noting("before 2", .before), noting("enrichment 2", .enrichment),
            ])
        analytics.track(name: "A")
        await analytics.settled()
        #expect(log.withLock { $0 } == ["before 1", "before 2", "enrichment 1", "enrichment 2", "destination"])
    }

    @Test func droppedEventIsCountedUnderThePluginsNameAndReachesNothingLater() async {
        let later = WitnessPlugin(.enrichment)
        let recorder = RecordingDestination()
        let transport = StubTransport()
        let analytics = Analytics(
            configuration: .test(transport: transport),
            plugins: [ClosurePlugin { event, _ in event.name == "Noise" ? nil : event }, later, recorder])
        for name in ["Noise", "A", "Noise"] { analytics.track(name: name) }
        await analytics.flushed()
        await analytics.settled()
        #expect(later.entries.filter { $0 != "setup" && $0 != "flush" } == ["A"])
        #expect(recorder.events.map(\.name) == ["A"])
        #expect(transport.events.count == 1)
        #expect(analytics.account.dropped == [.plugin("ClosurePlugin"): 2])
        #expect(analytics.account.recorded == 3)
        #expect(analytics.account.inMemory == 0)
    }

    @Test func pluginThatTracksWhileItProcessesDoesNotDeadlockAndItsEventFollows() async {
        let recorder = RecordingDestination()
        let echo = ClosurePlugin { event, analytics in
            if event.name == "Call" {
                analytics.track(name: "Echo")
                analytics.identify(userId: "alice")
            }
            return event
        }
        let analytics = Analytics(configuration: .test(), plugins: [echo, recorder])
        analytics.track(name: "Call")
        await analytics.settled()
        await analytics.settled()  // the echo may have come after the first barrier
        #expect(recorder.events.map(\.name) == ["Call", "Echo", "identify"])
    }

    @Test func resetAndFlushTakeTheirPlaceInTheOrderOfCalls() async {
        let recorder = RecordingDestination()
        let before = WitnessPlugin(.before)
        let analytics = Analytics(configuration: .test(), plugins: [before, recorder])
        analytics.track(name: "A")
        analytics.reset(
            options: ResetOptions(
                entries: ResetEntries(anonymousId: false, userId: false, traits: false, session: false)))
        analytics.track(name: "B")
        analytics.flush()
        analytics.track(name: "C")
        await analytics.settled()
        #expect(before.entries == ["setup", "A", "reset", "B", "flush", "C"])
        #expect(recorder.entries.map(\.short) == ["A", "reset", "B", "flush", "C"])
    }

    @Test func anotherUsersIdentifyResetsDestinationsBetweenTheUsers() async {
        let recorder = RecordingDestination()
        let analytics = Analytics(configuration: .test(), plugins: [recorder])
        analytics.identify(userId: "alice")
        analytics.track(name: "A")
        analytics.identify(userId: "bob")
        await analytics.settled()
        #expect(recorder.entries.map(\.short) == ["identify", "A", "reset", "identify"])
    }

    @Test func whatTheCallFixedCannotBeChanged() async {
        let recorder = RecordingDestination()
        let forger = ClosurePlugin { event, _ in
            var forged = Event(.group, name: "Forged", properties: ["x": 1])
            forged.userId = event.userId
            forged.anonymousId = event.anonymousId
            return forged
        }
        let analytics = Analytics(configuration: .test(), plugins: [forger, recorder])
        analytics.track(name: "A")
        analytics.track(name: "B")
        await analytics.settled()
        #expect(recorder.events.map(\.kind) == [.track, .track])
        #expect(recorder.events.map(\.name) == ["Forged", "Forged"])
        #expect(Set(recorder.events.map(\.messageId)).count == 2)
        #expect(recorder.events[0].sequence < recorder.events[1].sequence)
        #expect(recorder.events[0].timestamp.timeIntervalSince1970 == 1_740_463_597)
    }

    /// What belongs to the call is not in the event that the plugin made.
    @Test(arguments: [true, false])
    func anotherEventInThePlaceOfOneHasItsMarkAndItsIdentity(inTheStages: Bool) async throws {
        let transport = StubTransport()
        let replacing = ClosurePlugin { event, _ in
            var another = Event(.group, name: "Another")
            another.context = event.context
            return another
        }
        let analytics = Analytics(
            configuration: .test(transport: transport), plugins: inTheStages ? [replacing] : [])
        if !inTheStages { analytics.plugin(ofType: RudderStackDestination.self)?.add(plugin: replacing) }
        analytics.track(name: "A")
        let anonymousId = try #require(analytics.anonymousId)
        #expect(await analytics.flushed() == .delivered)
        try #require(transport.events.count == 1)
        #expect(transport.events[0]["type"] == "track")
        #expect(transport.events[0]["event"] == "Another")
        #expect(transport.events[0]["anonymousId"] == .string(anonymousId))
        #expect(transport.events[0]["context"]?["sessionStart"] == true)
        #expect(analytics.account.dropped.isEmpty)
    }

    // MARK: Coming and going

    @Test func pluginSeesWhatIsRecordedAfterItWasAddedAndNothingAfterItWasRemoved() async {
        let plugin = WitnessPlugin()
        let analytics = Analytics(configuration: .test())
        analytics.track(name: "before")
        analytics.add(plugin: plugin)
        analytics.add(plugin: plugin)
        analytics.track(name: "A")
        analytics.remove(plugin: plugin)
        analytics.remove(plugin: plugin)
        analytics.track(name: "between")
        await analytics.settled()
        analytics.add(plugin: plugin)
        analytics.track(name: "B")
        analytics.remove(plugin: WitnessPlugin())
        await analytics.shutdownAndWait()
        #expect(plugin.entries == ["setup", "A", "teardown", "setup", "B", "teardown"])
    }

    @Test func destinationGetsTeardownOnceAfterItsLastEvent() async {
        let recorder = RecordingDestination()
        let analytics = Analytics(configuration: .test())
        analytics.add(plugin: recorder)
        analytics.track(name: "A")
        analytics.remove(plugin: recorder)
        analytics.track(name: "B")
        await analytics.settled()
        analytics.add(plugin: recorder)
        analytics.track(name: "C")
        await analytics.settled()
        #expect(recorder.entries.map(\.short) == ["A", "teardown", "C"])
    }

    @Test func pluginThatIsRemovedWhileItIsSetUpIsTornDownOnce() async {
        final class Reluctant: Plugin {
            let stage = Stage.before
            let teardowns = Locked(0)
            let seen = Locked(0)
            func setup(analytics: Analytics) { analytics.remove(plugin: self) }
            func process(_ event: Event) -> Event? {
                seen.withLock { $0 += 1 }
                return event
            }
            func teardown() { teardowns.withLock { $0 += 1 } }
        }
        let plugin = Reluctant()
        let analytics = Analytics(configuration: .test(), plugins: [plugin])
        analytics.track(name: "A")
        await analytics.shutdownAndWait()
        #expect(plugin.seen.withLock { $0 } == 0)
        #expect(plugin.teardowns.withLock { $0 } == 1)
    }

    @Test func pluginCanRecordWhileItIsSetUp() async {
        final class Greeter: Plugin {
            let stage = Stage.before
            func setup(analytics: Analytics) { analytics.track(name: "Hello") }
        }
        let recorder = RecordingDestination()
        let analytics = Analytics(configuration: .test(), plugins: [recorder, Greeter()])
        await analytics.settled()
        #expect(recorder.events.map(\.name) == ["Hello"])
    }

    @Test func secondCapturingPluginOfAKindIsRefusedWithAnError() async {
        let logger = RecordingLogger()
        let analytics = Analytics(configuration: .test(logger: logger), plugins: [SessionTrackingPlugin()])
        #expect(logger.texts(.error).contains { $0.contains("SessionTrackingPlugin") })
        analytics.track(name: "A")
        await analytics.settled()
    }

    @Test func pluginsOfInitSeeTheSDKsOwnFirstEvents() async {
        let recorder = RecordingDestination()
        var configuration = Configuration.test()
        configuration.trackApplicationLifecycleEvents = true
        let analytics = Analytics(configuration: configuration, plugins: [recorder])
        await analytics.settled()
        #expect(recorder.events.map(\.name) == ["Application Installed", "Application Opened"])
    }

    // MARK: Leaving plugins out

    @Test(arguments: [
        "IdentityPlugin", "SessionTrackingPlugin", "LifecyclePlugin", "ContextPlugin", "RudderStackDestination",
    ])
    func everythingElseWorksWithoutOneOfTheBuiltInPlugins(_ missing: String) async {
        let recorder = RecordingDestination()
        let transport = StubTransport()
        var configuration = Configuration.test(transport: transport)
        configuration.trackApplicationLifecycleEvents = true
        let builtIn = Analytics.builtInPlugins(for: configuration)
        #expect(builtIn.contains { String(describing: type(of: $0)) == missing })
        let analytics = Analytics(
            configuration: configuration, builtIn: builtIn.filter { String(describing: type(of: $0)) != missing },
            plugins: [recorder])
        analytics.identify(userId: "alice", traits: ["plan": "pro"])
        analytics.scoped(userId: "bob").track(name: "A")
        analytics.track(name: "B")
        let result = await analytics.flushed()
        await analytics.settled()

        let hasIdentity = missing != "IdentityPlugin"
        let identify = recorder.events.first { $0.kind == .identify }
        #expect(identify?.userId == "alice")
        #expect(identify?.context["traits"]["plan"] == "pro")
        #expect(recorder.events.contains { $0.name == "A" && $0.userId == "bob" })
        #expect(recorder.events.contains { $0.name == "B" } == hasIdentity)
        #expect((identify?.sessionId != nil) == (missing != "SessionTrackingPlugin"))
        #expect((identify?.context["library"] != nil) == (missing != "ContextPlugin"))
        let opened = recorder.events.contains { $0.name == "Application Opened" }
        #expect(opened == (hasIdentity && missing != "LifecyclePlugin"))
        #expect(result == (missing == "RudderStackDestination" ? .nothingWaiting : .delivered))
        #expect((transport.events.count == recorder.events.count) == (missing != "RudderStackDestination"))
        #expect((analytics.userId == "alice") == hasIdentity)
        #expect((analytics.sessionId != nil) == (missing != "SessionTrackingPlugin"))
        #expect(analytics.account.inMemory == 0)
    }

    // MARK: Destinations

    @Test func stuckDestinationDelaysNobodyAndDropsItsOwnOldestEvents() async {
        let stuck = StuckPlugin(.destination)
        let recorder = RecordingDestination()
        let analytics = Analytics(
            configuration: .test(limits: Limits(destinationEvents: 10)), plugins: [stuck, recorder])
        analytics.track(name: "first")
        await analytics.stored()
        stuck.waitForArrival()
        for call in 0..<50 {
            analytics.track(name: "T\(call)")
            await analytics.stored()
        }
        // The recorder has a queue of its own that nothing holds up: all of them come there.
        while recorder.events.count < 51 { await Task.yield() }
        #expect(recorder.events.last?.name == "T49")
        // Ten are kept, the one in hand among them.
        #expect(analytics.account.droppedByDestination == ["StuckPlugin": 41])
        stuck.open()
        await analytics.settled()
    }

    @Test func destinationsOwnPluginsConcernThatDestinationAlone() async {
        let filtered = RecordingDestination()
        let plain = RecordingDestination()
        filtered.add(plugin: ClosurePlugin(.before) { event, _ in event.name == "Secret" ? nil : event })
        filtered.add(
            plugin: ClosurePlugin(.enrichment) { event, _ in
                var event = event
                event.properties["seen"] = true
                return event
            })
        let analytics = Analytics(configuration: .test(), plugins: [filtered, plain])
        analytics.track(name: "Secret")
        analytics.track(name: "A")
        await analytics.settled()
        #expect(filtered.events.map(\.name) == ["A"])
        #expect(filtered.events[0].properties["seen"] == true)
        #expect(plain.events.map(\.name) == ["Secret", "A"])
        #expect(plain.events[1].properties.isEmpty)
        // The mark was given before the destination dropped the event.
        #expect(plain.events[0].isSessionStart)
        #expect(!filtered.events[0].isSessionStart)
        #expect(analytics.account.droppedByDestination == ["RecordingDestination": 1])
    }

    @Test func dataPlanesOwnPluginsConcernTheDataPlaneAlone() async {
        let transport = StubTransport()
        let recorder = RecordingDestination()
        let analytics = Analytics(configuration: .test(transport: transport), plugins: [recorder])
        let dataPlane = analytics.plugin(ofType: RudderStackDestination.self)
        dataPlane?.add(
            plugin: ClosurePlugin(.enrichment) { event, _ in
                if event.name == "Local" { return nil }
                var event = event
                event.properties["card"] = nil
                return event
            })
        analytics.track(name: "Local")
        analytics.track(name: "A", properties: ["card": "4111", "total": 1])
        #expect(await analytics.flushed() == .delivered)
        await analytics.settled()
        #expect(transport.events.map { $0["event"]?.string } == ["A"])
        #expect(transport.events[0]["properties"] == ["total": 1])
        #expect(recorder.events.map(\.name) == ["Local", "A"])
        #expect(recorder.events[1].properties["card"] == "4111")
        #expect(analytics.account.inMemory == 0)
    }

    // MARK: The end

    @Test func releasingTheLastHandleLosesNothing() async {
        let recorder = RecordingDestination()
        let transport = StubTransport(.hold)
        let gate = StuckPlugin()
        do {
            let analytics = Analytics(configuration: .test(transport: transport), plugins: [gate, recorder])
            for call in 0..<1_000 { analytics.track(name: "T\(call)") }
        }
        gate.open()
        await transport.requests(count: 1)
        transport.release()
        while recorder.entries.last?.short != "teardown" { await Task.yield() }
        #expect(recorder.events.count == 1_000)
        while transport.events.count < 1_000 { await Task.yield() }
        #expect(transport.events.count == 1_000)
    }

    @Test func afterShutdownEverythingIsIgnoredAndSaidOnce() async {
        let recorder = RecordingDestination()
        let logger = RecordingLogger()
        let analytics = Analytics(configuration: .test(logger: logger), plugins: [recorder])
        analytics.track(name: "A")
        analytics.shutdown()
        analytics.shutdown()
        analytics.track(name: "B")
        analytics.identify(userId: "alice")
        analytics.reset()
        analytics.startSession()
        analytics.flush()
        analytics.add(plugin: WitnessPlugin())
        #expect(analytics.sessionId == nil)
        #expect(analytics.anonymousId == nil)
        #expect(analytics.userId == nil)
        #expect(analytics.traits == nil)
        #expect(await analytics.shutdownAndWait() == 0)
        #expect(recorder.entries.map(\.short) == ["A", "teardown"])
        #expect(logger.texts(.error).count == 1)
        #expect(analytics.account.recorded == 1)
    }

    @Test func instancesShareNothing() async {
        let first = RecordingDestination()
        let second = RecordingDestination()
        let one = Analytics(configuration: .test(), plugins: [first])
        var configuration = Configuration.test()
        configuration.identifiers = .seeded(2)
        let other = Analytics(configuration: configuration, plugins: [second])
        one.identify(userId: "alice", traits: ["a": 1])
        one.startSession(1_234_567_890)
        one.track(name: "A")
        other.track(name: "B")
        await one.settled()
        await other.settled()
        #expect(first.events.map(\.name) == ["identify", "A"])
        #expect(second.events.map(\.name) == ["B"])
        #expect(second.events[0].userId == nil)
        #expect(second.events[0].sessionId != 1_234_567_890)
        #expect(second.events[0].context["traits"] == nil)
        #expect(second.events[0].anonymousId != first.events[0].anonymousId)
    }
}

extension RecordingDestination.Entry {
    var short: String {
        switch self {
        case .event(let event): event.name ?? event.kind.rawValue
        case .reset: "reset"
        case .flush: "flush"
        case .teardown: "teardown"
        }
    }
}
