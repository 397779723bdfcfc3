import Testing
import Tiller
import TillerTesting

/// Plugins that come, go, and come back at awkward moments.
@Suite(.timeLimit(.minutes(5))) struct PluginLifeTests {
    @Test func capturingPluginThatIsAddedAgainKnowsWhatItKnew() async throws {
        let stuck = StuckPlugin()
        let analytics = Analytics(configuration: .test(), plugins: [stuck])
        let plugin = try #require(analytics.plugin(ofType: IdentityPlugin.self))
        let anonymousId = analytics.anonymousId
        analytics.track(name: "A")
        analytics.identify(userId: "u1", traits: ["a": 1])
        analytics.remove(plugin: plugin)
        #expect(analytics.userId == nil)
        analytics.add(plugin: plugin)
        #expect(analytics.userId == "u1")
        #expect(analytics.anonymousId == anonymousId)
        #expect(analytics.traits == ["a": 1])
        stuck.open()
        await analytics.settled()
    }

    /// A destination that was removed still has what was recorded before.
    @Test func removedDestinationsAreWaitedForToo() async {
        let stuck = StuckPlugin(.destination)
        let analytics = Analytics(configuration: .test(), plugins: [stuck])
        analytics.track(name: "A")
        analytics.remove(plugin: stuck)
        let isSettled = Locked(false)
        analytics.whenSettled { isSettled.withLock { $0 = true } }
        await analytics.stored()  // comes after it
        #expect(!isSettled.withLock { $0 })
        stuck.open()
        await analytics.settled()
        #expect(isSettled.withLock { $0 })
        await analytics.shutdownAndWait()
    }

    @Test func sessionGoesOnWhenItsPluginIsAddedAgain() async throws {
        let recorder = RecordingDestination()
        let analytics = Analytics(configuration: .test(), plugins: [recorder])
        let plugin = try #require(analytics.plugin(ofType: SessionTrackingPlugin.self))
        let session = analytics.sessionId
        analytics.track(name: "A")
        analytics.remove(plugin: plugin)
        analytics.track(name: "B")
        analytics.add(plugin: plugin)
        analytics.track(name: "C")
        await analytics.settled()
        #expect(recorder.events.map(\.sessionId) == [session, nil, session])
    }

    @Test func dataPlanesOwnPluginCannotMakeAnEventThatNoGatewayTakes() async throws {
        let transport = StubTransport()
        let analytics = Analytics(configuration: .test(transport: transport))
        let dataPlane = try #require(analytics.plugin(ofType: RudderStackDestination.self))
        dataPlane.add(
            plugin: ClosurePlugin { event, _ in
                var event = event
                event.anonymousId = nil
                if event.name == "Large" { event.properties["x"] = .string(String(repeating: "x", count: 40_000)) }
                return event
            })
        analytics.track(name: "A")
        analytics.track(name: "Large")
        await analytics.flushed()
        #expect(transport.events.count == 1)
        #expect(transport.events.allSatisfy { $0["anonymousId"] != nil })
        #expect(analytics.account.dropped == [.tooLarge: 1])
        #expect(analytics.account.inMemory == 0)
    }

    @Test func lifecycleChangesAreTheSourcesToTellAndNoCallers() {
        let logger = RecordingLogger()
        let analytics = Analytics(configuration: .test(lifecycle: ManualLifecycleSource(), logger: logger))
        analytics.perform(LifecycleEvent.foreground)
        analytics.record(Event(.track, name: "A"), after: [LifecycleEvent.foreground])
        #expect(analytics.sessionId == nil)
        #expect(logger.texts(.error).filter { $0.contains("lifecycle source") }.count == 2)
    }

    @Test func releasingAfterShutdownLogsNothing() async {
        let logger = RecordingLogger()
        do {
            let analytics = Analytics(configuration: .test(logger: logger))
            await analytics.shutdownAndWait()
        }
        #expect(logger.texts(.error) == [])
    }

    @Test func instanceMadeAfterTheLastHandleWasReleasedOwnsTheFolder() async {
        let folder = TestFolder()
        for round in 1...20 {
            do {
                let analytics = Analytics(configuration: .test(storage: .folder(folder.url)))
                analytics.identify(userId: "user \(round)")
            }
            let next = Analytics(configuration: .test(storage: .folder(folder.url)))
            #expect(next.userId == "user \(round)")
            await next.shutdownAndWait()
        }
    }

    @Test func observerThatIsRemovedWhileItIsAddedIsToldNothing() {
        let logger = RemovingLogger()
        let plugin = Told()
        let source = ManualLifecycleSource()
        let analytics = Analytics(configuration: .test(lifecycle: source, logger: logger))
        logger.action.withLock { $0 = { [weak analytics] in analytics?.remove(plugin: plugin) } }
        analytics.add(plugin: plugin)
        source.foreground()
        #expect(plugin.events.withLock { $0 } == [])
    }

    @Test func changeThatComesWhileTheSourceIsAskedIsToldAfterTheStateAtTheBeginning() {
        var configuration = Configuration.test()
        configuration.lifecycleSource = HastySource()
        let witness = Witness()
        let second = Analytics(configuration: configuration, plugins: [witness])
        #expect(witness.events.withLock { $0 } == [.foreground, .background])
        second.shutdown()
    }
}

/// Reports at `restore`, which is said between the adding and the end of `add`.
private final class Told: CapturingPlugin, LifecycleObserver {
    let stage = Stage.before
    let events = Locked<[LifecycleEvent]>([])

    func restore(_ stored: Stored, present: Bool?, in section: inout Section) -> Bool {
        section.report(.warn, "now")
        return true
    }

    func handle(_ event: LifecycleEvent, in analytics: Analytics) { events.withLock { $0.append(event) } }
}

private final class Witness: Plugin, LifecycleObserver {
    let stage = Stage.before
    let events = Locked<[LifecycleEvent]>([])
    func handle(_ event: LifecycleEvent, in analytics: Analytics) { events.withLock { $0.append(event) } }
}

private final class RemovingLogger: Logger {
    let action = Locked<(@Sendable () -> Void)?>(nil)
    func warn(log: String) { action.withLock { $0 }?() }
}

/// Goes to the background while it is still being asked for its state.
private final class HastySource: LifecycleSource {
    func observe(_ handler: @escaping @Sendable (LifecycleEvent) -> Void) -> LifecycleObservation {
        handler(.background)
        return LifecycleObservation(isInForeground: true, token: CancellationToken {})
    }
}
