import Foundation
import Testing
import TillerTesting
import UIKit

@testable import Tiller

/// What UIKit's notifications become: in the log of an instance's observers, and in its events.
@Suite(.timeLimit(.minutes(5)))
struct UIKitLifecycleTests {
    private let bench = LifecycleBench()
    private let log = LifecycleLog()
    private let destination = RecordingDestination()

    private func launch(isInForeground: Bool = false) -> Analytics {
        bench.launch(
            UIKitLifecycleSource(isInForeground: isInForeground, relay: bench.relay), log: log, into: destination)
    }

    @Test(
        arguments: [
            (UIApplication.didFinishLaunchingNotification, [], []),
            (UIApplication.willEnterForegroundNotification, [.foreground], []),
            (UIApplication.didBecomeActiveNotification, [.foreground], []),
            (UIApplication.willResignActiveNotification, [], []),
            (UIApplication.didEnterBackgroundNotification, [], [.background]),
            (UIApplication.willTerminateNotification, [.terminate], [.terminate]),
        ] as [(Notification.Name, [LifecycleEvent], [LifecycleEvent])])
    func eachNotificationIsToldOnceOrNotAtAll(
        name: Notification.Name, inBackground: [LifecycleEvent], inForeground: [LifecycleEvent]
    ) {
        let background = LifecycleLog()
        let foreground = LifecycleLog()
        let instances = [
            bench.launch(UIKitLifecycleSource(relay: bench.relay), log: background),
            bench.launch(UIKitLifecycleSource(isInForeground: true, relay: bench.relay), log: foreground),
        ]
        bench.post(name)
        #expect(background.events == inBackground)
        #expect(foreground.events == [.foreground] + inForeground)
        for instance in instances { instance.shutdown() }
    }

    @Test func b102_aColdStartOpensOnce() async {
        let analytics = launch()
        bench.post(
            UIApplication.didFinishLaunchingNotification, UIApplication.willEnterForegroundNotification,
            UIApplication.didBecomeActiveNotification)
        bench.post(UIApplication.willResignActiveNotification, UIApplication.didEnterBackgroundNotification)
        bench.post(UIApplication.willEnterForegroundNotification, UIApplication.didBecomeActiveNotification)
        #expect(log.events == [.foreground, .background, .foreground])
        #expect(await destination.names(of: analytics) == ["Installed", "Opened", "Backgrounded", "Opened"])
        #expect(destination.events[1].properties == ["from_background": false, "version": "1.10"])
        #expect(destination.events[3].properties == ["from_background": true])
        #expect(Set(destination.events.map(\.sessionId)).count == 1)
    }

    @Test func b103_dialogsAndRepeatedNoticesChangeNothing() async {
        let analytics = launch()
        bench.post(UIApplication.didBecomeActiveNotification)
        for _ in 0..<3 {
            bench.post(UIApplication.willResignActiveNotification, UIApplication.didBecomeActiveNotification)
        }
        for _ in 0..<2 { bench.post(UIApplication.didEnterBackgroundNotification) }
        #expect(log.events == [.foreground, .background])
        #expect(await destination.names(of: analytics) == ["Installed", "Opened", "Backgrounded"])
    }

    @Test func b105_madeWhileInactiveItTellsAtTheFirstActivation() async {
        let analytics = launch()
        #expect(await destination.names(of: analytics) == [])
        bench.post(UIApplication.didBecomeActiveNotification)
        #expect(await destination.names(of: analytics) == ["Installed", "Opened"])
    }

    @Test func b15_b109_aLaunchForASilentPushOpensNothingUntilAPersonDoes() async {
        let analytics = launch()
        bench.post(UIApplication.didFinishLaunchingNotification, UIApplication.didEnterBackgroundNotification)
        analytics.track(name: "pushed")
        #expect(analytics.sessionId == nil)
        bench.time.advance(by: .seconds(5 * 3_600))
        bench.post(UIApplication.willEnterForegroundNotification, UIApplication.didBecomeActiveNotification)
        analytics.track(name: "seen")
        #expect(await destination.names(of: analytics) == ["pushed", "Installed", "Opened", "seen"])
        #expect(destination.events.map { $0.sessionId != nil } == [false, true, true, true])
        #expect(destination.events.map(\.isSessionStart) == [false, true, false, false])
        #expect(destination.events[2].properties["from_background"] == false)
    }

    @Test func b05_aReturnAfterTheTimeoutIsAnotherSession() async {
        let analytics = launch()
        bench.post(UIApplication.didBecomeActiveNotification)
        let first = analytics.sessionId
        bench.post(UIApplication.didEnterBackgroundNotification)
        bench.time.advance(by: .seconds(480))
        bench.post(UIApplication.willEnterForegroundNotification)
        #expect(first != nil)
        #expect(analytics.sessionId != first)
        bench.post(UIApplication.didBecomeActiveNotification)
        analytics.track(name: "last")
        #expect(await destination.names(of: analytics).suffix(2) == ["Opened", "last"])
        #expect(destination.events.suffix(2).map(\.sessionId) == [analytics.sessionId, analytics.sessionId])
    }

    @Test func b13_anEventInTheMiddleOfTheReturnIsInTheNewSession() async {
        let analytics = launch()
        bench.post(UIApplication.didBecomeActiveNotification, UIApplication.didEnterBackgroundNotification)
        let first = analytics.sessionId
        bench.time.advance(by: .seconds(1_860))
        bench.post(UIApplication.didBecomeActiveNotification)
        analytics.screen(screenName: "Home")
        bench.post(UIApplication.willEnterForegroundNotification)
        #expect(await destination.names(of: analytics).suffix(2) == ["Opened", "Home"])
        #expect(destination.events.last?.sessionId != first)
        #expect(destination.events.filter(\.isSessionStart).count == 2)
    }

    @Test func anInstanceMadeAfterItsSourceKnowsWhatHappenedMeanwhile() async {
        let source = UIKitLifecycleSource(relay: bench.relay)
        bench.post(UIApplication.didBecomeActiveNotification)
        let analytics = bench.launch(source, log: log, into: destination)
        #expect(log.events == [.foreground])
        bench.post(UIApplication.didBecomeActiveNotification)
        #expect(log.events == [.foreground])
        #expect(await destination.names(of: analytics) == ["Installed", "Opened"])
    }

    @Test func aLateSourceBeginsWithWhatTheAppKnows() {
        let analytics = launch(isInForeground: true)
        #expect(log.events == [.foreground])
        #expect(analytics.sessionId != nil)
        bench.post(UIApplication.didEnterBackgroundNotification)
        #expect(log.events == [.foreground, .background])
    }

    @Test func aNotificationOfAnotherThreadIsToldOnThatThread() async {
        let analytics = launch()
        let bench = bench
        let log = log
        let seen = Locked<[Int]>([])
        await onAnotherThread {
            bench.post(UIApplication.didBecomeActiveNotification)
            seen.withLock { $0.append(log.events.count) }
            bench.post(UIApplication.didEnterBackgroundNotification)
            seen.withLock { $0.append(log.events.count) }
        }
        #expect(seen.withLock { $0 } == [1, 2])
        #expect(log.events == [.foreground, .background])
        #expect(await destination.names(of: analytics) == ["Installed", "Opened", "Backgrounded"])
    }

    @Test func instancesOnOneSourceAndOnSourcesOfTheirOwnAllHear() {
        let shared = UIKitLifecycleSource(relay: bench.relay)
        let logs = [LifecycleLog(), LifecycleLog(), LifecycleLog()]
        let instances = [
            bench.launch(shared, log: logs[0]), bench.launch(shared, log: logs[1]),
            bench.launch(UIKitLifecycleSource(relay: bench.relay), log: logs[2]),
        ]
        bench.post(UIApplication.didBecomeActiveNotification)
        instances[0].shutdown()
        bench.post(UIApplication.didEnterBackgroundNotification)
        #expect(logs.map(\.events) == [[.foreground], [.foreground, .background], [.foreground, .background]])
    }

    @Test func theTokenEndsTheObservationAndKeepsTheSourceUntilThen() {
        let told = Locked<[LifecycleEvent]>([])
        weak var source: UIKitLifecycleSource?
        var observation: LifecycleObservation?
        do {
            let made = UIKitLifecycleSource(relay: bench.relay)
            source = made
            observation = made.observe { event in told.withLock { $0.append(event) } }
        }
        #expect(observation?.isInForeground == false)
        #expect(source != nil)
        bench.post(UIApplication.didBecomeActiveNotification)
        observation?.token.cancel()
        #expect(source == nil)
        bench.post(UIApplication.didEnterBackgroundNotification)
        #expect(told.withLock { $0 } == [.foreground])
    }

    @Test func itIsAnAppAndTheDefault() {
        let configuration = Configuration(writeKey: "key", dataPlaneUrl: "https://data.example.com")
        #expect(configuration.lifecycleSource is UIKitLifecycleSource)
        #expect(configuration.lifecycleSource.isApp)
    }

    @Test func theDefaultListensToTheProcessesOwnCenter() async {
        let source = UIKitLifecycleSource()
        // The name is this test's alone: what the others make listens to centers of their own.
        NotificationCenter.default.post(name: UIApplication.willEnterForegroundNotification, object: nil)
        let observation = source.observe { _ in }
        #expect(observation.isInForeground)
    }
}
