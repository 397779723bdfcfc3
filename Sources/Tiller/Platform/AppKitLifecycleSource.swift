#if canImport(AppKit) && !targetEnvironment(macCatalyst)
import AppKit
import Foundation

/// The lifecycle of an app on the Mac: the default in app bundles.
///
/// An app is in the foreground while something of it is on screen. Losing the
/// focus to another app is no change.
///
/// - **Foreground**: it becomes active or is unhidden; a window becomes key,
///   comes on screen, or comes back from the Dock.
/// - **Background**: it is hidden; its last window on screen is closed or put
///   in the Dock; or it is not active and has no window on screen.
/// - **Terminate**: `willTerminate`.
///
/// A window counts if it is visible, not in the Dock, can become key or main,
/// and lies below the menu bar's level; one that others cover, or on another
/// space, counts. So an app that lives in the menu bar alone is in the
/// foreground while it is active or shows a window, and else in the
/// background.
///
/// What may end the foreground is judged when the main thread has finished
/// what it is doing, in a main-actor job: an app that closes one window and
/// opens the next does not leave the screen. Everything else is told on the
/// thread that posts the notification, before its poster goes on. Nothing
/// waits for the main thread.
///
/// A source made on the main thread begins with the state at that moment; one
/// made elsewhere begins in the background and learns the state as soon as the
/// main thread is free. The application object is never created by a source: in
/// a process without one it stays in the background.
public final class AppKitLifecycleSource: LifecycleSource {
    private let lifecycle: ManualLifecycleSource
    private let listening: CancellationToken

    /// The lifecycle of this app. From any thread.
    public convenience init() { self.init(relay: .standard, isOnMainThread: Thread.isMainThread) }

    init(relay: NotificationRelay, isOnMainThread: Bool) {
        let isInForeground = isOnMainThread && MainActor.assumeIsolated { Self.isActive || Self.showsWindow }
        let lifecycle = ManualLifecycleSource(isInForeground: isInForeground)
        let comes: @Sendable () -> Void = { lifecycle.foreground() }
        let loses: @Sendable () -> Void = { Self.look(at: lifecycle, isLeaving: true) }
        let changes: @Sendable () -> Void = { Self.look(at: lifecycle, isLeaving: false) }
        self.lifecycle = lifecycle
        listening = relay.listen([
            NSApplication.didBecomeActiveNotification: comes,
            NSApplication.didUnhideNotification: comes,
            NSWindow.didBecomeKeyNotification: comes,
            NSWindow.didDeminiaturizeNotification: comes,
            NSApplication.didHideNotification: { lifecycle.background() },
            NSApplication.willTerminateNotification: { lifecycle.terminate() },
            NSWindow.willCloseNotification: loses,
            NSWindow.didMiniaturizeNotification: loses,
            NSApplication.didResignActiveNotification: changes,
            // The only notice of a window that is ordered in without the focus, or ordered out.
            NSWindow.didChangeOcclusionStateNotification: changes,
        ])
        guard !isOnMainThread else { return }
        Task { @MainActor in
            if Self.isActive || Self.showsWindow { lifecycle.foreground() }
        }
    }

    /// Begins to observe.
    public func observe(_ handler: @escaping @Sendable (LifecycleEvent) -> Void) -> LifecycleObservation {
        lifecycle.observe(for: self, handler)
    }

    // MARK: - What is on screen

    /// Judges the windows when the main thread has finished what it is doing.
    ///
    /// - Parameter isLeaving: Whether having no window on screen is the background for an active app too: one that has
    ///   just closed its last window, but not one that was activated without any.
    private static func look(at lifecycle: ManualLifecycleSource, isLeaving: Bool) {
        Task { @MainActor in
            if showsWindow {
                lifecycle.foreground()
            } else if isLeaving || !isActive {
                lifecycle.background()
            }
        }
    }

    // `NSApp`, not `NSApplication.shared`, which makes the object where there is none.
    @MainActor private static var isActive: Bool { NSApp?.isActive ?? false }

    @MainActor private static var showsWindow: Bool {
        guard let app = NSApp, !app.isHidden else { return false }
        return app.windows.contains { window in
            window.isVisible && !window.isMiniaturized && (window.canBecomeKey || window.canBecomeMain)
                && window.level.rawValue < NSWindow.Level.statusBar.rawValue
        }
    }
}
#endif
