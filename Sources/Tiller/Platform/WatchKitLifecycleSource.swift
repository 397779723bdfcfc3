// The flag stands for a build against stub modules, which is how this file is compiled and tested elsewhere.
#if os(watchOS) || TILLER_APPLE_STUBS
import Foundation

/// The lifecycle of a watch app: the default on watchOS.
///
/// | notification of `WKApplication` (`WKExtension` in apps with an extension) | change |
/// |---|---|
/// | `willEnterForeground`, `didBecomeActive` | foreground; the second of the two changes nothing |
/// | `didEnterBackground` | background |
///
/// `willResignActive` is no change: a lowered wrist or a notification leaves
/// the app in front. watchOS announces no termination.
///
/// A source begins in the background, and listens from the moment it is made:
/// a launch for a background task or a complication opens nothing. An app that
/// makes its `Configuration` only after its launch says what it knows:
///
/// ```swift
/// WatchKitLifecycleSource(isInForeground: WKApplication.shared().applicationState == .active)
/// ```
///
/// Changes are told on the thread that posts the notification, which is the
/// main one, before the notification's poster goes on.
///
/// At a background notice the instance asks for time until the upload of what
/// waits is over.
public final class WatchKitLifecycleSource: SuspendingLifecycleSource {
    let backgroundTime: any BackgroundTime = ExpiringActivity()
    /// By their text, the same for both classes: WatchKit's constants may be read on the main actor only, and an instance
    /// may be made on any thread.
    enum Notices {
        static let willEnterForeground = Notification.Name("WKApplicationWillEnterForegroundNotification")
        static let didBecomeActive = Notification.Name("WKApplicationDidBecomeActiveNotification")
        static let didEnterBackground = Notification.Name("WKApplicationDidEnterBackgroundNotification")
    }

    private let lifecycle: ManualLifecycleSource
    private let listening: CancellationToken

    /// The lifecycle of this app. From any thread.
    ///
    /// - Parameter isInForeground: The state at this moment; false by default. True only if the app is known to be active.
    public convenience init(isInForeground: Bool = false) {
        self.init(isInForeground: isInForeground, relay: .standard)
    }

    init(isInForeground: Bool = false, relay: NotificationRelay) {
        let lifecycle = ManualLifecycleSource(isInForeground: isInForeground)
        self.lifecycle = lifecycle
        listening = relay.listen([
            Notices.willEnterForeground: { lifecycle.foreground() },
            Notices.didBecomeActive: { lifecycle.foreground() },
            Notices.didEnterBackground: { lifecycle.background() },
        ])
    }

    /// Begins to observe.
    public func observe(_ handler: @escaping @Sendable (LifecycleEvent) -> Void) -> LifecycleObservation {
        lifecycle.observe(for: self, handler)
    }
}
#endif
