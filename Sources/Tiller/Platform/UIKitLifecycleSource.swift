#if canImport(UIKit) && !os(watchOS)
import Foundation
import UIKit

/// The lifecycle of an app on iOS, tvOS, visionOS and Mac Catalyst: the default there.
///
/// | notification of `UIApplication` | change |
/// |---|---|
/// | `willEnterForeground`, `didBecomeActive` | foreground; the second of the two changes nothing |
/// | `didEnterBackground` | background |
/// | `willTerminate` | terminate |
///
/// With several scenes these are the app's: in the background when the last
/// scene is. `willResignActive` is no change: a permission dialog, a call or
/// the app switcher over an app leaves it on screen.
///
/// The present state is not asked for: `UIApplication.shared` does not exist
/// in extensions, and at launch it does not tell who will see the app. A source
/// begins in the background, and listens from the moment it is made. So an app
/// that makes its `Configuration` while it launches needs nothing else, and a
/// launch that nobody sees, for a silent push or a background fetch, opens
/// nothing. One that makes it later says what it knows:
///
/// ```swift
/// UIKitLifecycleSource(isInForeground: UIApplication.shared.applicationState == .active)
/// ```
///
/// In an app extension none of these notifications comes: it stays in the
/// background, where no session begins by itself. One with a screen of its own
/// drives a `ManualLifecycleSource`.
///
/// Changes are told on the thread that posts the notification, which is the
/// main one, before the notification's poster goes on.
///
/// At a background notice the instance asks for a background task, and ends it
/// when the upload of what waits is over or the system wants the time back.
public final class UIKitLifecycleSource: SuspendingLifecycleSource {
    let backgroundTime: any BackgroundTime
    private let lifecycle: ManualLifecycleSource
    private let listening: CancellationToken

    /// The lifecycle of this app. From any thread.
    ///
    /// - Parameter isInForeground: The state at this moment; false by default. True only if the app is known to be active:
    ///   while it is inactive, `didBecomeActive` follows if a person sees it.
    public convenience init(isInForeground: Bool = false) {
        self.init(isInForeground: isInForeground, relay: .standard)
    }

    init(isInForeground: Bool = false, relay: NotificationRelay) {
        let lifecycle = ManualLifecycleSource(isInForeground: isInForeground)
        self.lifecycle = lifecycle
        let time = UIKitBackgroundTime()
        backgroundTime = time
        let changes: [Notification.Name: @Sendable () -> Void] = [
            UIApplication.willEnterForegroundNotification: { lifecycle.foreground() },
            UIApplication.didBecomeActiveNotification: { lifecycle.foreground() },
            UIApplication.didEnterBackgroundNotification: { lifecycle.background() },
            UIApplication.willTerminateNotification: { lifecycle.terminate() },
        ]
        listening = relay.listen(
            changes.mapValues { change -> NotificationRelay.Action in
                { sender in
                    time.note(sender)
                    change()
                }
            })
    }

    /// Begins to observe.
    public func observe(_ handler: @escaping @Sendable (LifecycleEvent) -> Void) -> LifecycleObservation {
        lifecycle.observe(for: self, handler)
    }
}
#endif
