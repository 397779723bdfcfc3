import Foundation
import Testing
import Tiller
import TillerTesting

/// Cases of `bug-cases.md`, section A: session tracking. A number in a name is the case's.
@Suite(.timeLimit(.minutes(5))) struct BugCasesSessionTests {
    // MARK: With real threads

    @Test func b01_eachEventIsWhollyOfOneSessionAroundAReturn() async {
        for _ in 0..<200 {
            let time = VirtualTime()
            let lifecycle = ManualLifecycleSource(isInForeground: true)
            let recorder = RecordingDestination()
            let analytics = Analytics(
                configuration: .test(lifecycle: lifecycle, time: time), plugins: [recorder])
            analytics.track(name: "first")
            let first = analytics.sessionId
            lifecycle.background()
            time.advance(by: .seconds(360))
            await onThreads(2) { thread in
                if thread == 0 { lifecycle.foreground() } else { for _ in 0..<100 { analytics.track(name: "T") } }
            }
            await analytics.settled()
            let second = analytics.sessionId
            #expect(second != first)
            let events = recorder.events.dropFirst()
            // Timed out in the background: what came before the return carries none, never the old id with a mark.
            #expect(events.allSatisfy { $0.sessionId == nil || $0.sessionId == second })
            let carrying = events.filter { $0.sessionId == second }
            #expect(carrying.dropFirst().allSatisfy { !$0.isSessionStart })
            #expect(carrying.first?.isSessionStart ?? true)
            #expect(events.allSatisfy { $0.sessionId != nil || !$0.isSessionStart })
        }
    }

    @Test func b11_anEventAtTheReturnNeverRevivesTheOldSession() async {
        for _ in 0..<500 {
            let time = VirtualTime()
            let lifecycle = ManualLifecycleSource(isInForeground: true)
            let analytics = Analytics(configuration: .test(lifecycle: lifecycle, time: time))
            analytics.track(name: "first")
            let first = analytics.sessionId
            lifecycle.background()
            time.advance(by: .seconds(360))
            await onThreads(2) { thread in
                if thread == 0 { lifecycle.foreground() } else { analytics.track(name: "x") }
            }
            #expect(analytics.sessionId != nil)
            #expect(analytics.sessionId != first)
        }
    }

    @Test func b18_firstEventsOfManyThreadsShareOneSessionAndOneMark() async {
        for _ in 0..<20 {
            let lifecycle = ManualLifecycleSource()
            let recorder = RecordingDestination()
            let analytics = Analytics(
                configuration: .test(
                    lifecycle: lifecycle, session: SessionConfiguration(backgroundEvents: .include)),
                plugins: [recorder])
            await onThreads(33) { thread in
                if thread == 32 { lifecycle.foreground() } else { analytics.track(name: "T") }
            }
            await analytics.settled()
            #expect(recorder.events.count == 32)
            #expect(Set(recorder.events.map(\.sessionId)).count == 1)
            #expect(recorder.events.map(\.isSessionStart) == [true] + Array(repeating: false, count: 31))
        }
    }

    // MARK: As scenarios

    @Test(arguments: BugScenario.all)
    func theCaseHolds(_ bug: BugScenario) async throws {
        let scenarios = try SessionScenario.read(bug.text, file: bug.id)
        for scenario in scenarios {
            #expect(await scenario.run().failure == nil)
            let folder = TestFolder()
            #expect(await scenario.run(store: .folder(folder.url)).failure == nil)
        }
    }

    struct BugScenario: Sendable, CustomTestStringConvertible {
        let id: String
        let text: String

        var testDescription: String { id }

        static let all = [
            BugScenario(
                id: "B02",
                text: """
                    scenario a reboot within the timeout continues the session
                    ---
                    +0s      launch foreground
                    +1s      track "A"   => S1 start
                    +2s      kill
                    +30s     reboot
                    +2m      launch foreground
                    +2m      track "B"   => S1

                    scenario a reboot beyond the timeout starts one
                    ---
                    +0s      launch foreground
                    +1s      track "A"   => S1 start
                    +1s      kill
                    +30s     reboot
                    +5m2s    launch foreground
                    +5m2s    track "B"   => S2 start
                    """),
            // The contract's policies decide: carry extends nothing and carries until the timeout, include extends.
            BugScenario(
                id: "B04",
                text: """
                    scenario background events do not extend the session
                    ---
                    +0s      launch foreground
                    +0s      track "A"       => S1 start
                    +1s      background
                    +4m      track "push"    => S1
                    +8m      track "push"    => none
                    +12m     track "push"    => none
                    +13m     foreground
                    +13m     track "B"       => S2 start

                    scenario unless they are included
                    background include
                    ---
                    +0s      launch foreground
                    +0s      track "A"       => S1 start
                    +1s      background
                    +4m      track "push"    => S1
                    +8m      track "push"    => S1
                    +12m     track "push"    => S1
                    +13m     foreground
                    +13m     track "B"       => S1
                    """),
            BugScenario(
                id: "B05",
                text: """
                    scenario a launch that continues a session still observes the lifecycle
                    ---
                    +0s      launch foreground
                    +0s      track "A"   => S1 start
                    +1s      kill
                    +1m      launch foreground
                    +1m      track "B"   => S1
                    +2m      background
                    +10m     foreground
                    +10m     track "C"   => S2 start
                    """),
            BugScenario(
                id: "B06",
                text: """
                    scenario reset makes no session where tracking is off
                    automatic off
                    ---
                    +0s      launch foreground
                    +1s      reset
                    +2s      track "a"   => none
                    +3s      kill
                    +4s      launch foreground
                    +5s      reset
                    +6s      track "b"   => none
                    """),
            BugScenario(
                id: "B08",
                text: """
                    scenario the session of a reset survives a kill soon after it
                    ---
                    +0s      launch foreground
                    +1s      track "A"       => S1 start
                    +4m51s   reset
                    +4m51s   session-id      => S2
                    +4m55s   kill
                    +5m11s   launch foreground
                    +5m11s   track "B"       => S2 start
                    +5m12s   track "C"       => S2
                    """),
            BugScenario(
                id: "B09",
                text: """
                    scenario a timeout of zero expires as soon as time has passed
                    timeout 0ms
                    ---
                    +0s      launch foreground
                    +0s      track "A"       => S1 start
                    +1s      background
                    +1s500ms foreground
                    +2s      track "B"       => S2 start
                    """),
            BugScenario(
                id: "B13",
                text: """
                    scenario coming back judges the session before anything is recorded
                    timeout 30m
                    lifecycle-events on
                    ---
                    +0s      launch foreground
                            emits "Application Installed"    => S1 start
                            emits "Application Opened"       => S1
                    +1s      background
                            emits "Application Backgrounded" => S1
                    +31m     foreground
                            emits "Application Opened"       => S2 start
                    +31m     foreground
                    +31m     screen "Home"                   => S2
                    """),
            BugScenario(
                id: "B14",
                text: """
                    scenario an event that is processed late keeps the session of its call
                    timeout 30m
                    ---
                    +0s      launch foreground
                    +0s      hold
                    +1s      track "e1"      => S1 start
                    +2s      background
                    +45m     foreground
                    +45m     track "e2"      => S2 start
                    +46m     release
                    """),
            BugScenario(
                id: "B15",
                text: """
                    scenario a background launch opens no session
                    ---
                    +0s      launch background
                    +1s      track "push"    => none
                    +5h      foreground
                    +5h      track "A"       => S1 start
                    """),
            BugScenario(
                id: "B17",
                text: """
                    scenario repeated notices at a cold launch start one session
                    ---
                    +0s      launch background
                    +50ms    foreground
                    +90ms    foreground
                    +1s      track "a"       => S1 start
                    +2s      track "b"       => S1
                    """),
            // There is no idle timeout on screen (contract, "Live").
            BugScenario(
                id: "B19",
                text: """
                    scenario idle time on screen ends nothing, and the getter agrees
                    timeout 30m
                    ---
                    +0s      launch foreground
                    +0s      track "a"       => S1 start
                    +40m     session-id      => S1
                    +40m     track "b"       => S1
                    +40m     session-id      => S1
                    """),
            BugScenario(
                id: "B20",
                text: """
                    scenario a manual session is not taken over
                    ---
                    +0s      launch foreground
                    +1s      start-session 1234567890
                    +2s      track "a"       => 1234567890 start
                    +3s      background
                    +1h      foreground
                    +1h      track "b"       => 1234567890
                    +1h1s    start-session 12
                    +1h1s    session-id      => 1234567890
                    +1h2s    end-session
                    +1h3s    track "c"       => none
                    +1h4s    kill
                    +1h5s    launch foreground
                    +1h6s    track "d"       => S2 start
                    """),
            BugScenario(
                id: "B21",
                text: """
                    scenario sessions begun within one second differ
                    ---
                    +100ms   launch foreground
                    +100ms   track "a"       => S1 start
                    +400ms   reset
                    +400ms   track "b"       => S2 start
                    +700ms   reset
                    +700ms   track "c"       => S3 start
                    """),
            BugScenario(
                id: "B22",
                text: """
                    scenario starting a session is activity: no second one at the first notice
                    ---
                    +0s      launch foreground
                    +0s      track "y"       => S1 start
                    +1s      kill
                    +1d      launch foreground
                    +1d300ms foreground
                    +1d400ms track "a"       => S2 start
                    """),
        ]
    }

    // MARK: Others

    @Test func b10_scopedEventNeitherCarriesNorExtendsNorStartsASession() async {
        let time = VirtualTime()
        let lifecycle = ManualLifecycleSource(isInForeground: true)
        let recorder = RecordingDestination()
        let analytics = Analytics(
            configuration: .test(
                lifecycle: lifecycle, time: time, session: SessionConfiguration(backgroundEvents: .include)),
            plugins: [recorder])
        analytics.track(name: "a")
        lifecycle.background()
        time.advance(by: .seconds(240))
        analytics.scoped(userId: "someone").track(name: "marked")
        time.advance(by: .seconds(120))
        #expect(analytics.sessionId == nil)
        analytics.scoped(userId: "someone").track(name: "marked")
        analytics.track(name: "b")
        await analytics.settled()
        #expect(recorder.events.map { $0.sessionId != nil } == [true, false, false, true])
        #expect(recorder.events[3].sessionId != recorder.events[0].sessionId)
        #expect(recorder.events[3].isSessionStart)
    }

    /// There is no opt-out switch yet; a Before plugin is one, and the SDK's own events pass it too.
    @Test func b12_consentPluginHoldsBackAutomaticEventsTooAndSpendsNoMark() async {
        let isAllowed = Locked(false)
        let time = VirtualTime()
        let lifecycle = ManualLifecycleSource(isInForeground: true)
        let recorder = RecordingDestination()
        let transport = StubTransport()
        var configuration = Configuration.test(lifecycle: lifecycle, time: time, transport: transport)
        configuration.trackApplicationLifecycleEvents = true
        let consent = ClosurePlugin { event, _ in isAllowed.withLock { $0 } ? event : nil }
        let analytics = Analytics(configuration: configuration, plugins: [consent, recorder])
        lifecycle.background()
        time.advance(by: .seconds(360))
        lifecycle.foreground()
        analytics.track(name: "a")
        #expect(await analytics.flushed() == .nothingWaiting)
        isAllowed.withLock { $0 = true }
        analytics.track(name: "b")
        analytics.track(name: "c")
        #expect(await analytics.flushed() == .delivered)
        await analytics.settled()
        #expect(recorder.events.map(\.name) == ["b", "c"])
        #expect(recorder.events.map(\.isSessionStart) == [true, false])
        #expect(transport.events.count == 2)
    }

    @Test func b09_negativeTimeoutCannotBeWrittenAndTheDefaultIsFiveMinutes() {
        #expect(SessionConfiguration().sessionTimeoutInMillis == 300_000)
        #expect(UInt64(exactly: -1) == nil)  // the type refuses it, so nothing has to be corrected at run time
    }
}
