import Foundation
import Testing
import TillerTesting
import UIKit

@testable import Tiller

/// Background tasks of the app that posts the notifications.
@Suite(.timeLimit(.minutes(5))) @MainActor
struct UIKitBackgroundTimeTests {
    private let bench = LifecycleBench()
    private let application = TaskCountingApplication()
    private let transport = StubTransport(.hold)

    private func launch() -> Analytics {
        Analytics(
            configuration: Configuration(
                writeKey: "key", dataPlaneUrl: "http://127.0.0.1", flushPolicies: [],
                trackApplicationLifecycleEvents: false, logger: RecordingLogger(), storage: .memory,
                lifecycleSource: UIKitLifecycleSource(relay: bench.relay), time: bench.time, identifiers: .seeded(1),
                transport: transport))
    }

    private func post(_ name: Notification.Name) { bench.center.post(name: name, object: application) }

    @Test func b91_oneTaskIsBegunAtTheNoticeAndEndedAfterTheUpload() async {
        let analytics = launch()
        post(UIApplication.didBecomeActiveNotification)
        analytics.track(name: "A")
        post(UIApplication.didEnterBackgroundNotification)
        post(UIApplication.didEnterBackgroundNotification)
        #expect(application.log.withLock { $0 } == ["begin 1"])
        await transport.requests(count: 1)
        transport.release()
        await analytics.shutdownAndWait()
        #expect(application.log.withLock { $0 } == ["begin 1", "end 1"])
    }

    @Test func b91_theSystemsExpiryEndsTheTaskOnce() async {
        let analytics = launch()
        post(UIApplication.didBecomeActiveNotification)
        analytics.track(name: "A")
        post(UIApplication.didEnterBackgroundNotification)
        await transport.requests(count: 1)
        application.expire()
        #expect(application.log.withLock { $0 } == ["begin 1", "end 1"])
        transport.release()
        await analytics.shutdownAndWait()
        #expect(application.log.withLock { $0 } == ["begin 1", "end 1"])
    }

    /// Where notifications have no sender there is no time to ask for; the upload is tried all the same.
    @Test func withoutAnApplicationThereIsNoTask() async {
        let analytics = launch()
        bench.post(UIApplication.didBecomeActiveNotification)
        analytics.track(name: "A")
        bench.post(UIApplication.didEnterBackgroundNotification)
        await transport.requests(count: 1)
        transport.release()
        await analytics.shutdownAndWait()
        #expect(application.log.withLock { $0 } == [])
    }

    @Test func aWatchsActivityLastsUntilItIsGivenBack() async {
        await onAnotherThread { ExpiringActivity().begin {}?.cancel() }
    }
}

/// An application that gives time.
private final class TaskCountingApplication: UIApplication {
    nonisolated let log = Locked<[String]>([])
    private nonisolated let handlers = Locked<[@MainActor @Sendable () -> Void]>([])

    nonisolated override func beginBackgroundTask(
        withName taskName: String?, expirationHandler handler: (@MainActor @Sendable () -> Void)? = nil
    ) -> UIBackgroundTaskIdentifier {
        let number = handlers.withLock { handlers in
            handlers.append(handler ?? {})
            return handlers.count
        }
        log.withLock { $0.append("begin \(number)") }
        return UIBackgroundTaskIdentifier(rawValue: number)
    }

    nonisolated override func endBackgroundTask(_ identifier: UIBackgroundTaskIdentifier) {
        log.withLock { $0.append("end \(identifier.rawValue)") }
    }

    func expire() { for handler in handlers.withLock({ $0 }) { handler() } }
}
