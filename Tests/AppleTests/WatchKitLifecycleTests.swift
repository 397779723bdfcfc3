import Foundation
import Testing
import TillerTesting
import WatchKit

@testable import Tiller

@Suite(.timeLimit(.minutes(5))) @MainActor
struct WatchKitLifecycleTests {
    private let bench = LifecycleBench()
    private let log = LifecycleLog()
    private let destination = RecordingDestination()

    private func launch(isInForeground: Bool = false) -> Analytics {
        bench.launch(
            WatchKitLifecycleSource(isInForeground: isInForeground, relay: bench.relay), log: log, into: destination)
    }

    @Test func theNoticesAreWatchKits() {
        typealias Notices = WatchKitLifecycleSource.Notices
        #expect(Notices.willEnterForeground == WKApplication.willEnterForegroundNotification)
        #expect(Notices.didBecomeActive == WKApplication.didBecomeActiveNotification)
        #expect(Notices.didEnterBackground == WKApplication.didEnterBackgroundNotification)
        #expect(Notices.willEnterForeground == WKExtension.applicationWillEnterForegroundNotification)
        #expect(Notices.didBecomeActive == WKExtension.applicationDidBecomeActiveNotification)
        #expect(Notices.didEnterBackground == WKExtension.applicationDidEnterBackgroundNotification)
    }

    @Test func eachNotificationIsToldOnceOrNotAtAll() async {
        let analytics = launch()
        bench.post(WKApplication.didFinishLaunchingNotification, WKApplication.didEnterBackgroundNotification)
        #expect(log.events == [])
        bench.post(WKApplication.willEnterForegroundNotification)
        #expect(log.events == [.foreground])
        bench.post(WKApplication.didBecomeActiveNotification, WKApplication.willResignActiveNotification)
        #expect(log.events == [.foreground])
        bench.post(WKApplication.didEnterBackgroundNotification)
        #expect(log.events == [.foreground, .background])
        bench.post(WKApplication.didBecomeActiveNotification)
        #expect(log.events == [.foreground, .background, .foreground])
        #expect(await destination.names(of: analytics) == ["Installed", "Opened", "Backgrounded", "Opened"])
    }

    @Test func aLateSourceBeginsWithWhatTheAppKnows() {
        let analytics = launch(isInForeground: true)
        #expect(log.events == [.foreground])
        #expect(analytics.configuration.lifecycleSource.isApp)
    }

    @Test func aWatchAppWithAnExtensionIsHeardToo() {
        let analytics = launch()
        bench.post(WKExtension.applicationDidBecomeActiveNotification)
        bench.post(WKExtension.applicationDidEnterBackgroundNotification)
        #expect(log.events == [.foreground, .background])
        analytics.shutdown()
    }
}
