import Testing
import Tiller
import TillerTesting

/// A session whose plugin comes late, goes, and comes back, and whom nobody else may speak for.
@Suite(.timeLimit(.minutes(5))) struct SessionPluginLifeTests {
    private func plugin(of analytics: Analytics) throws -> SessionTrackingPlugin {
        try #require(analytics.plugin(ofType: SessionTrackingPlugin.self))
    }

    @Test func markOfWhatWasCapturedIsGivenAlthoughThePluginGoes() async throws {
        let stuck = StuckPlugin()
        let recorder = RecordingDestination()
        let analytics = Analytics(configuration: .test(), plugins: [stuck, recorder])
        analytics.track(name: "A")
        stuck.waitForArrival()
        analytics.remove(plugin: try plugin(of: analytics))
        stuck.open()
        let event = try #require(await analytics.settled(recorder).first)
        #expect(event.sessionId != nil)
        #expect(event.isSessionStart)
    }

    @Test func heartbeatGoesOnWhenThePluginIsAddedAgain() async throws {
        let time = VirtualTime()
        let store = ScriptedStore()
        let analytics = Analytics(configuration: .test(time: time, storage: .custom(store)))
        let id = analytics.sessionId
        let plugin = try plugin(of: analytics)
        analytics.remove(plugin: plugin)
        analytics.add(plugin: plugin)
        for _ in 0..<40 {
            time.advance(by: .seconds(30))
            await analytics.stored()
        }
        // Killed here, in the foreground; a new process at once.
        let next = Analytics(configuration: .test(time: time, storage: .custom(store.afterKill())))
        #expect(next.sessionId == id)
        withExtendedLifetime(analytics) {}
    }

    @Test func timerOfARemovedPluginIsCancelled() throws {
        let time = VirtualTime()
        let analytics = Analytics(configuration: .test(time: time))
        #expect(time.timerCount == 1)
        analytics.remove(plugin: try plugin(of: analytics))
        #expect(time.timerCount == 0)
    }

    @Test func endedSessionRestsWhenThePluginIsAddedAgain() throws {
        let lifecycle = ManualLifecycleSource(isInForeground: true)
        let analytics = Analytics(configuration: .test(lifecycle: lifecycle))
        analytics.endSession()
        let plugin = try plugin(of: analytics)
        analytics.remove(plugin: plugin)
        analytics.add(plugin: plugin)
        lifecycle.background()
        lifecycle.foreground()
        #expect(analytics.sessionId == nil)
    }

    @Test func sessionOfAGuestGoesOnWhenThePluginIsAddedAgain() throws {
        let analytics = Analytics(configuration: .test(storage: .custom(ScriptedStore(isOwned: false))))
        let session = try #require(analytics.sessionId)
        let plugin = try plugin(of: analytics)
        analytics.remove(plugin: plugin)
        analytics.add(plugin: plugin)
        #expect(analytics.sessionId == session)
    }

    @Test func pluginThatComesLateStartsASessionInTheForeground() {
        let analytics = Analytics(configuration: .test(), builtIn: [IdentityPlugin()])
        analytics.add(plugin: SessionTrackingPlugin())
        #expect(analytics.sessionId != nil)
    }

    @Test func idsStayUniqueWhereTheStoreIsReadAgain() async throws {
        let time = VirtualTime()
        let lifecycle = ManualLifecycleSource(isInForeground: true)
        let store = ScriptedStore(
            ["SessionTrackingPlugin": ["lastGenerated": 1_600_000_000, "generation": 3, "spent": 3]],
            isReadable: false)
        let recorder = RecordingDestination()
        let stuck = StuckPlugin()
        let analytics = Analytics(
            configuration: .test(lifecycle: lifecycle, time: time, storage: .custom(store)),
            plugins: [stuck, recorder])
        let first = try #require(analytics.sessionId)
        analytics.track(name: "A")  // waits on the road
        lifecycle.background()
        time.advance(by: .seconds(600))
        analytics.track(name: "B")  // discards the session
        #expect(analytics.sessionId == nil)
        store.setReadable(true)
        time.setWallClock(by: .seconds(-600))
        lifecycle.foreground()
        #expect(try #require(analytics.sessionId) > first)
        stuck.open()
        let event = try #require(await analytics.settled(recorder).first)
        #expect(event.sessionId == first)
        #expect(event.isSessionStart)
    }

    @Test func lifecycleEventIsNoCommandForAnyone() {
        let analytics = Analytics(configuration: .test(lifecycle: ManualLifecycleSource(isInForeground: false)))
        analytics.perform(LifecycleEvent.foreground)
        #expect(analytics.sessionId == nil)
    }

    @Test func ownPluginOfTheDataPlaneForgesNoMark() async throws {
        let transport = StubTransport()
        let analytics = Analytics(configuration: .test(transport: transport))
        let plane = try #require(analytics.plugin(ofType: RudderStackDestination.self))
        plane.add(
            plugin: ClosurePlugin(.enrichment) { event, _ in
                var event = event
                event.context["sessionStart"] = true
                event.context["sessionId"] = 5
                return event
            })
        analytics.track(name: "A")
        analytics.track(name: "B")
        let events = await analytics.delivered(to: transport)
        #expect(events.map { $0["context"]?.object?["sessionStart"] } == [true, nil])
    }
}
