import Foundation
import Testing
import Tiller
import TillerTesting

/// What the session does with a store that can't be read, and as a guest (S1, S20, S21).
@Suite(.timeLimit(.minutes(5))) struct SessionStoreTests {
    /// A first process leaves a session behind; what it stored is handed on.
    private func storeWithSession(_ time: VirtualTime) async -> (store: ScriptedStore, session: UInt64?) {
        let store = ScriptedStore()
        let lifecycle = ManualLifecycleSource(isInForeground: true)
        let analytics = Analytics(configuration: .test(lifecycle: lifecycle, time: time, storage: .custom(store)))
        analytics.track(name: "A")
        let session = analytics.sessionId
        lifecycle.background()
        await analytics.shutdownAndWait()
        return (store, session)
    }

    /// A service without sessions is started, and ended, more often than anything happens in it.
    @Test func aProcessInWhichNothingHappensWritesNothing() async throws {
        let folder = TestFolder()
        let time = VirtualTime()
        let configuration = Configuration.test(
            time: time, storage: .folder(folder.url),
            session: SessionConfiguration(automaticSessionTracking: false))
        let first = Analytics(configuration: configuration)
        first.track(name: "A")
        #expect(await first.shutdownAndWait() == 0)
        for _ in 0..<2 {
            time.advance(by: .seconds(60))
            let next = Analytics(configuration: configuration)
            #expect(await next.stored() == .stored)
            time.advance(by: .seconds(60))
            #expect(await next.shutdownAndWait() == 0)
            // The first of these has taken away what had been delivered.
            #expect(try folder.names == ["base.ack", "checkpoint.json", "owner.fifo", "owner.lock"])
        }
    }

    /// What it saved as a guest went nowhere.
    @Test func theSessionOfAGuestIsStoredWhenItBecomesTheOwner() async throws {
        let folder = TestFolder()
        let time = VirtualTime()
        let configuration = Configuration.test(time: time, storage: .folder(folder.url))
        let without = Analytics.builtInPlugins(for: configuration).filter { !($0 is SessionTrackingPlugin) }
        let owner = Analytics(configuration: configuration, builtIn: without)
        await owner.stored()
        let guest = Analytics(configuration: configuration)
        guest.track(name: "A")
        let session = try #require(guest.sessionId)
        #expect(await guest.stored() == .stored)
        #expect(await owner.shutdownAndWait() == 0)
        #expect(await guest.flushed() == .delivered)
        await guest.stored()
        // What is on the disk now is what a kill would leave.
        let killed = try folder.copy()
        await guest.shutdownAndWait()
        time.advance(by: .seconds(10))  // a new one would have another id
        let next = Analytics(configuration: .test(time: time, storage: .folder(killed.url)))
        #expect(next.sessionId == session)
        await next.shutdownAndWait()
    }

    @Test func unreadableStoreIsReadAgainBeforeTheFirstForeground() async {
        let time = VirtualTime()
        let (store, session) = await storeWithSession(time)
        store.setReadable(false)
        time.advance(by: .seconds(60))
        let lifecycle = ManualLifecycleSource()
        let recorder = RecordingDestination()
        let analytics = Analytics(
            configuration: .test(lifecycle: lifecycle, time: time, storage: .custom(store)), plugins: [recorder])
        analytics.track(name: "Push")
        #expect(analytics.sessionId == nil)
        store.setReadable(true)
        lifecycle.foreground()
        #expect(analytics.sessionId == session)
        analytics.track(name: "B")
        await analytics.settled()
        #expect(recorder.events.map(\.sessionId) == [nil, session])
        #expect(recorder.events.allSatisfy { !$0.isSessionStart })
    }

    @Test func unreadableStoreIsNotOverwrittenByAnAutomaticSession() async {
        let time = VirtualTime()
        let (store, session) = await storeWithSession(time)
        let before = store.objects
        store.setReadable(false)
        let lifecycle = ManualLifecycleSource(isInForeground: true)
        let analytics = Analytics(configuration: .test(lifecycle: lifecycle, time: time, storage: .custom(store)))
        analytics.track(name: "B")
        time.advance(by: .seconds(100))
        lifecycle.background()
        await analytics.shutdownAndWait()
        #expect(store.objects["SessionTrackingPlugin"] == before["SessionTrackingPlugin"])
        #expect(store.objects["SessionTrackingPlugin"]?["session"]?["id"]?.uint == session)
        #expect(store.objects["IdentityPlugin"] == before["IdentityPlugin"])
    }

    @Test(arguments: ["start", "reset"])
    func explicitCallReplacesWhatCouldNotBeRead(_ call: String) async {
        let time = VirtualTime()
        let (store, session) = await storeWithSession(time)
        store.setReadable(false)
        let lifecycle = ManualLifecycleSource(isInForeground: true)
        let analytics = Analytics(configuration: .test(lifecycle: lifecycle, time: time, storage: .custom(store)))
        if call == "start" { analytics.startSession(1_234_567_890) } else { analytics.reset() }
        let now = analytics.sessionId
        await analytics.stored()
        #expect(now != session)
        #expect(store.objects["SessionTrackingPlugin"]?["session"]?["id"]?.uint == now)
        store.setReadable(true)
        lifecycle.background()
        lifecycle.foreground()
        #expect(analytics.sessionId == now)
    }

    @Test func sessionThatBeganWhileTheStoreWasUnreadableGoesOnAndItsIdsStayUnique() async {
        let time = VirtualTime()
        let (store, session) = await storeWithSession(time)
        store.setReadable(false)
        time.setWallClock(by: .seconds(-3_600))
        let lifecycle = ManualLifecycleSource(isInForeground: true)
        let analytics = Analytics(configuration: .test(lifecycle: lifecycle, time: time, storage: .custom(store)))
        let began = analytics.sessionId
        #expect(began != nil)
        store.setReadable(true)
        lifecycle.background()
        lifecycle.foreground()
        #expect(analytics.sessionId == began)
        analytics.reset()
        #expect((analytics.sessionId ?? 0) > (session ?? 0))  // S18 over both
    }

    @Test func endSessionWhileTheStoreWasUnreadableEndsWhatItHolds() async {
        let time = VirtualTime()
        let (store, _) = await storeWithSession(time)
        store.setReadable(false)
        let lifecycle = ManualLifecycleSource()
        let analytics = Analytics(configuration: .test(lifecycle: lifecycle, time: time, storage: .custom(store)))
        analytics.endSession()
        store.setReadable(true)
        lifecycle.foreground()
        #expect(analytics.sessionId == nil)
        await analytics.stored()
        #expect(store.objects["SessionTrackingPlugin"]?["session"] == nil)
    }

    @Test func guestBehavesAsIfNoSessionWereStoredAndLeavesItUntouched() async {
        let time = VirtualTime()
        let (owned, session) = await storeWithSession(time)
        let store = owned.afterKill(isOwned: false)
        time.advance(by: .seconds(60))
        let before = store.objects
        let lifecycle = ManualLifecycleSource(isInForeground: true)
        let analytics = Analytics(configuration: .test(lifecycle: lifecycle, time: time, storage: .custom(store)))
        #expect(analytics.sessionId != session)
        analytics.startSession(1_234_567_890)
        #expect(analytics.sessionId == 1_234_567_890)
        await analytics.shutdownAndWait()
        #expect(store.objects == before)
    }

    // MARK: The heartbeat (S6)

    @Test func heartbeatRunsInTheForegroundOnly() {
        let time = VirtualTime()
        let lifecycle = ManualLifecycleSource()
        let analytics = Analytics(configuration: .test(lifecycle: lifecycle, time: time))
        #expect(time.timerCount == 0)
        lifecycle.foreground()
        #expect(time.nextTimer == .seconds(30))
        time.advance(by: .seconds(30))
        #expect(time.nextTimer == .seconds(60))
        lifecycle.background()
        #expect(time.timerCount == 0)
        lifecycle.foreground()
        #expect(time.timerCount == 1)
        analytics.startSession()
        #expect(time.timerCount == 0)
    }

    @Test(
        arguments: [(0, 1_000), (1_500, 1_000), (20_000, 10_000), (300_000, 30_000), (UInt64.max, 30_000)]
            as [(UInt64, Int64)])
    func heartbeatIsHalfTheTimeoutWithinBounds(_ timeout: UInt64, _ interval: Int64) {
        let time = VirtualTime()
        let analytics = Analytics(
            configuration: .test(
                time: time,
                session: SessionConfiguration(sessionTimeoutInMillis: timeout, backgroundEvents: .carry)))
        #expect(time.nextTimer == .milliseconds(interval))
        analytics.shutdown()
        #expect(time.timerCount == 0)
    }

    @Test func noHeartbeatWithoutAnAutomaticSession() {
        let time = VirtualTime()
        let analytics = Analytics(
            configuration: .test(time: time, session: SessionConfiguration(automaticSessionTracking: false)))
        analytics.startSession()
        #expect(time.timerCount == 0)
    }

    @Test func eventInTheForegroundIsNotStoredOneByOne() async {
        let store = ScriptedStore()
        let analytics = Analytics(configuration: .test(storage: .custom(store)))
        analytics.track(name: "first")
        await analytics.stored()
        let saves = store.saveCount
        for _ in 0..<100 { analytics.track(name: "T") }
        await analytics.stored()
        #expect(store.saveCount == saves)
    }

    // MARK: Damaged values

    @Test(
        arguments: [
            ["session": 5], ["session": ["id": 12]], ["session": ["id": "x"]], ["lastGenerated": .uint(.max)],
            ["generation": -1, "spent": "x"], ["session": ["id": 1_740_463_597, "wall": "x", "continuous": nil]],
        ] as [JSONObject])
    func damagedStateCountsAsAbsentAndNeverTraps(_ stored: JSONObject) async {
        let store = MemoryStateStore()
        store.save([StateChange(key: "SessionTrackingPlugin", changes: stored)])
        let recorder = RecordingDestination()
        let analytics = Analytics(configuration: .test(storage: .custom(store)), plugins: [recorder])
        analytics.track(name: "A")
        analytics.reset()
        analytics.track(name: "B")
        await analytics.settled()
        #expect(recorder.events.allSatisfy { ($0.sessionId ?? 0) >= 1_000_000_000 })
        #expect(recorder.events.map(\.isSessionStart) == [true, true])
    }
}

extension TestFolder {
    /// Of the files in its one folder.
    fileprivate var names: [String] {
        get throws {
            let paths = try FileManager.default.subpathsOfDirectory(atPath: path).filter { $0.contains("/") }
            return paths.map { ($0 as NSString).lastPathComponent }.sorted()
        }
    }

    fileprivate func copy() throws -> TestFolder {
        let copy = TestFolder()
        try FileManager.default.copyItem(at: url, to: copy.url)
        return copy
    }
}
