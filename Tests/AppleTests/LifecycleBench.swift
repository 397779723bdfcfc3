import Foundation
import TillerTesting

@testable import Tiller

/// A notification center of one test's own, and an instance that observes it.
struct LifecycleBench {
    let center = NotificationCenter()
    let relay: NotificationRelay
    let time = VirtualTime()

    init() {
        let center = center
        relay = NotificationRelay { center }
    }

    func post(_ names: Notification.Name...) { for name in names { center.post(name: name, object: nil) } }

    func launch(
        _ source: any LifecycleSource, log: LifecycleLog = LifecycleLog(), into destination: RecordingDestination? = nil
    ) -> Analytics {
        let configuration = Configuration(
            writeKey: "key", dataPlaneUrl: "http://127.0.0.1", flushPolicies: [], logger: RecordingLogger(),
            storage: .memory, lifecycleSource: source, time: time, identifiers: .seeded(1), transport: StubTransport(),
            application: ApplicationInfo(version: "1.10"))
        return Analytics(
            configuration: configuration, plugins: [log] + (destination.map { [$0] as [any Plugin] } ?? []))
    }
}

/// Notes the changes that an instance's observers hear of.
final class LifecycleLog: Plugin, LifecycleObserver {
    let stage = Stage.before
    private let log = Locked<[LifecycleEvent]>([])

    var events: [LifecycleEvent] { log.withLock { $0 } }

    func handle(_ event: LifecycleEvent, in analytics: Analytics) { log.withLock { $0.append(event) } }
}

extension RecordingDestination {
    /// What the instance recorded so far, without the word that its lifecycle events share.
    func names(of analytics: Analytics) async -> [String] {
        await analytics.settled()
        return events.compactMap { $0.name?.replacing("Application ", with: "") }
    }
}

/// Runs a body on a thread of its own, and waits for its end.
func onAnotherThread(_ body: @escaping @Sendable () -> Void) async {
    await withCheckedContinuation { done in
        Thread.detachNewThread {
            body()
            done.resume()
        }
    }
}
