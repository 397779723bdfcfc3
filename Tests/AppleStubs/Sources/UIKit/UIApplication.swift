public import Foundation

@MainActor open class UIResponder: NSObject {}

/// Without `shared`, which app extensions do not have: what compiles here is safe for them.
@MainActor open class UIApplication: UIResponder {
    public nonisolated static let didFinishLaunchingNotification = name("DidFinishLaunching")
    public nonisolated static let didBecomeActiveNotification = name("DidBecomeActive")
    public nonisolated static let willResignActiveNotification = name("WillResignActive")
    public nonisolated static let didEnterBackgroundNotification = name("DidEnterBackground")
    public nonisolated static let willEnterForegroundNotification = name("WillEnterForeground")
    public nonisolated static let willTerminateNotification = name("WillTerminate")

    private nonisolated static func name(_ part: String) -> Notification.Name {
        Notification.Name("UIApplication\(part)Notification")
    }

    /// No time, unless a subclass gives some.
    open nonisolated func beginBackgroundTask(
        withName taskName: String?, expirationHandler handler: (@MainActor @Sendable () -> Void)? = nil
    ) -> UIBackgroundTaskIdentifier { .invalid }

    open nonisolated func endBackgroundTask(_ identifier: UIBackgroundTaskIdentifier) {}
}

public struct UIBackgroundTaskIdentifier: RawRepresentable, Hashable, Sendable {
    public static let invalid = UIBackgroundTaskIdentifier(rawValue: 0)
    public let rawValue: Int
    public init(rawValue: Int) { self.rawValue = rawValue }
}
