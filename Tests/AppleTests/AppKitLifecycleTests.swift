import AppKit
import Foundation
import Testing
import TillerTesting

@testable import Tiller

/// What AppKit's notifications become. One at a time: there is one application object.
@Suite(.serialized, .timeLimit(.minutes(5))) @MainActor
struct AppKitLifecycleTests {
    private let bench = LifecycleBench()
    private let log = LifecycleLog()
    private let destination = RecordingDestination()
    private let document = NSWindow(isTitled: true)

    init() { NSApp = NSApplication() }

    /// An instance made while the app launches: no window is there yet.
    private func launch() -> Analytics {
        bench.launch(
            AppKitLifecycleSource(relay: bench.relay, isOnMainThread: true), log: log, into: destination)
    }

    /// One that has shown a window and has the focus.
    private func launchAndOpen() -> Analytics {
        let analytics = launch()
        NSApp.simulate(isActive: true, windows: [document])
        bench.post(NSWindow.didBecomeKeyNotification, NSApplication.didBecomeActiveNotification)
        return analytics
    }

    /// Lets the main actor's jobs that were made so far run.
    private func finishTurn() async { await Task { @MainActor in }.value }

    private func post(_ names: Notification.Name...) async {
        for name in names { bench.post(name) }
        await finishTurn()
    }

    private func close(_ window: NSWindow) {
        bench.post(NSWindow.willCloseNotification)
        window.simulate(isVisible: false)
        NSApp.simulate(windows: NSApp.windows.filter { $0 !== window })
    }

    // MARK: - Coming

    @Test func b102_aColdStartOpensOnce() async {
        let analytics = launch()
        bench.post(NSApplication.didFinishLaunchingNotification)
        #expect(log.events == [])
        NSApp.simulate(isActive: true, windows: [document])
        await post(
            NSWindow.didChangeOcclusionStateNotification, NSWindow.didBecomeKeyNotification,
            NSApplication.didBecomeActiveNotification)
        #expect(log.events == [.foreground])
        #expect(await destination.names(of: analytics) == ["Installed", "Opened"])
    }

    @Test(
        arguments: [
            NSApplication.didBecomeActiveNotification, NSApplication.didUnhideNotification,
            NSWindow.didBecomeKeyNotification, NSWindow.didDeminiaturizeNotification,
        ])
    func whatComesIsToldAtOnce(name: Notification.Name) {
        let analytics = launch()
        bench.post(name)
        #expect(log.events == [.foreground])
        analytics.shutdown()
    }

    @Test func aWindowWithoutTheFocusIsTheForeground() async {
        let analytics = launch()
        NSApp.simulate(windows: [document])
        await post(NSWindow.didChangeOcclusionStateNotification)
        #expect(log.events == [.foreground])
        analytics.shutdown()
    }

    // MARK: - Staying

    @Test func losingTheFocusIsNoChangeAndKeepsTheSession() async {
        let analytics = launchAndOpen()
        let session = analytics.sessionId
        for _ in 0..<3 {
            NSApp.simulate(isActive: false)
            await post(NSWindow.didResignKeyNotification, NSApplication.didResignActiveNotification)
            bench.time.advance(by: .seconds(3_600))
            analytics.track(name: "beside")
            NSApp.simulate(isActive: true)
            await post(NSApplication.didBecomeActiveNotification, NSWindow.didBecomeKeyNotification)
        }
        #expect(log.events == [.foreground])
        #expect(analytics.sessionId == session)
        #expect(await destination.names(of: analytics) == ["Installed", "Opened", "beside", "beside", "beside"])
        #expect(destination.events.allSatisfy { $0.sessionId == session })
    }

    @Test func aCoveredWindowIsNoChange() async {
        let analytics = launchAndOpen()
        NSApp.simulate(isActive: false)
        await post(NSApplication.didResignActiveNotification, NSWindow.didChangeOcclusionStateNotification)
        #expect(log.events == [.foreground])
        analytics.shutdown()
    }

    @Test func oneOfTwoWindowsClosedIsNoChange() async {
        let analytics = launchAndOpen()
        let other = NSWindow(isTitled: true)
        NSApp.simulate(windows: [document, other])
        close(other)
        await finishTurn()
        #expect(log.events == [.foreground])
        close(document)
        await finishTurn()
        #expect(log.events == [.foreground, .background])
        analytics.shutdown()
    }

    @Test func oneWindowThatMakesRoomForAnotherIsNoChange() async {
        let analytics = launchAndOpen()
        close(document)
        NSApp.simulate(windows: [NSWindow(isTitled: true)])
        bench.post(NSWindow.didBecomeKeyNotification)
        await finishTurn()
        #expect(log.events == [.foreground])
        #expect(await destination.names(of: analytics) == ["Installed", "Opened"])
    }

    // MARK: - Going

    @Test func hidingEndsTheForegroundAtOnce() async {
        let analytics = launchAndOpen()
        NSApp.simulate(isActive: false, isHidden: true)
        bench.post(NSApplication.didHideNotification)
        #expect(log.events == [.foreground, .background])
        await post(NSApplication.didResignActiveNotification, NSWindow.didChangeOcclusionStateNotification)
        #expect(log.events == [.foreground, .background])
        NSApp.simulate(isActive: true, isHidden: false)
        await post(NSApplication.didUnhideNotification, NSApplication.didBecomeActiveNotification)
        #expect(log.events == [.foreground, .background, .foreground])
        #expect(await destination.names(of: analytics) == ["Installed", "Opened", "Backgrounded", "Opened"])
    }

    @Test func theLastWindowClosedEndsTheForegroundOfAnActiveAppToo() async {
        let analytics = launchAndOpen()
        close(document)
        bench.post(NSWindow.didChangeOcclusionStateNotification)
        await finishTurn()
        #expect(log.events == [.foreground, .background])
        NSApp.simulate(isActive: false)
        await post(NSApplication.didResignActiveNotification)
        NSApp.simulate(isActive: true)
        await post(NSApplication.didBecomeActiveNotification)
        #expect(log.events == [.foreground, .background, .foreground])
        analytics.shutdown()
    }

    @Test(arguments: [false, true])
    func theLastWindowInTheDockIsTheBackground(isVisibleToo: Bool) async {
        let analytics = launchAndOpen()
        document.simulate(isVisible: isVisibleToo, isMiniaturized: true)
        await post(NSWindow.didMiniaturizeNotification)
        #expect(log.events == [.foreground, .background])
        document.simulate(isVisible: true)
        await post(NSWindow.didDeminiaturizeNotification)
        #expect(log.events == [.foreground, .background, .foreground])
        analytics.shutdown()
    }

    @Test func aWindowThatIsOrderedOutCountsOnceTheFocusIsGone() async {
        let analytics = launchAndOpen()
        document.simulate(isVisible: false)
        await post(NSWindow.didChangeOcclusionStateNotification)
        #expect(log.events == [.foreground])
        NSApp.simulate(isActive: false)
        await post(NSApplication.didResignActiveNotification)
        #expect(log.events == [.foreground, .background])
        analytics.shutdown()
    }

    @Test func statusItemsAndTooltipsAreNoWindows() async {
        let statusItem = NSWindow(isTitled: true)
        statusItem.level = .statusBar
        let analytics = launchAndOpen()
        NSApp.simulate(windows: [document, statusItem, NSWindow(isTitled: false)])
        close(document)
        await finishTurn()
        #expect(log.events == [.foreground, .background])
        analytics.shutdown()
    }

    @Test func terminateIsToldAtOnceAndChangesNothingElse() async {
        let analytics = launchAndOpen()
        bench.post(NSApplication.willTerminateNotification)
        #expect(log.events == [.foreground, .terminate])
        #expect(await destination.names(of: analytics) == ["Installed", "Opened"])
    }

    // MARK: - Apps without a window

    @Test func anAppOfTheMenuBarIsInFrontWhileItIsActive() async {
        let analytics = launch()
        NSApp.simulate(isActive: true)
        await post(NSApplication.didBecomeActiveNotification, NSWindow.didChangeOcclusionStateNotification)
        #expect(log.events == [.foreground])
        NSApp.simulate(isActive: false)
        await post(NSApplication.didResignActiveNotification)
        #expect(log.events == [.foreground, .background])
        analytics.shutdown()
    }

    @Test func aLostAndRegainedFocusInOneTurnIsNoChange() async {
        let analytics = launch()
        NSApp.simulate(isActive: true)
        await post(
            NSApplication.didBecomeActiveNotification, NSApplication.didResignActiveNotification,
            NSApplication.didBecomeActiveNotification)
        #expect(log.events == [.foreground])
        analytics.shutdown()
    }

    // MARK: - The state at the beginning

    @Test(arguments: [(false, false), (true, false), (false, true)])
    func aSourceMadeOnTheMainThreadBeginsWithTheStateOfTheMoment(isActive: Bool, hasWindow: Bool) {
        NSApp.simulate(isActive: isActive, windows: hasWindow ? [document] : [])
        let analytics = launch()
        #expect(log.events == (isActive || hasWindow ? [.foreground] : []))
        analytics.shutdown()
    }

    @Test func aHiddenAppBeginsInTheBackground() {
        NSApp.simulate(isHidden: true, windows: [document])
        let analytics = launch()
        #expect(log.events == [])
        analytics.shutdown()
    }

    @Test(arguments: [(false, false), (true, false), (false, true)])
    func aSourceMadeElsewhereLearnsTheStateWithoutWaiting(isActive: Bool, hasWindow: Bool) async {
        NSApp.simulate(isActive: isActive, windows: hasWindow ? [document] : [])
        let analytics = bench.launch(AppKitLifecycleSource(relay: bench.relay, isOnMainThread: false), log: log)
        #expect(log.events == [])
        await finishTurn()
        #expect(log.events == (isActive || hasWindow ? [.foreground] : []))
        analytics.shutdown()
    }

    @Test func aSourceMakesNoApplicationObject() async {
        NSApp = nil
        let analytics = launch()
        await post(NSWindow.willCloseNotification, NSApplication.didResignActiveNotification)
        #expect(NSApp == nil)
        #expect(log.events == [])
        analytics.shutdown()
    }

    // MARK: - Observing

    @Test func notificationsOfAnotherThreadAreJudgedOnTheMainActor() async {
        let analytics = launchAndOpen()
        document.simulate(isVisible: false)
        let bench = bench
        await onAnotherThread { bench.post(NSWindow.willCloseNotification) }
        await finishTurn()
        #expect(log.events == [.foreground, .background])
        await onAnotherThread { bench.post(NSApplication.didBecomeActiveNotification) }
        #expect(log.events == [.foreground, .background, .foreground])
        analytics.shutdown()
    }

    @Test func afterTheEndNothingIsTold() async {
        let analytics = launchAndOpen()
        close(document)
        analytics.shutdown()
        await post(NSApplication.didHideNotification, NSApplication.willTerminateNotification)
        #expect(log.events == [.foreground])
    }

    @Test func twoInstancesBothHear() async {
        let other = LifecycleLog()
        let first = launchAndOpen()
        let second = bench.launch(AppKitLifecycleSource(relay: bench.relay, isOnMainThread: true), log: other)
        close(document)
        await finishTurn()
        #expect(log.events == [.foreground, .background])
        #expect(other.events == [.foreground, .background])
        first.shutdown()
        second.shutdown()
    }

    @Test func itIsAnApp() { #expect(AppKitLifecycleSource().isApp) }
}
