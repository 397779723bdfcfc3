public import Foundation

/// Its names are read on the main actor only.
@MainActor open class WKApplication: NSObject {
    public static let didFinishLaunchingNotification = name("DidFinishLaunching")
    public static let didBecomeActiveNotification = name("DidBecomeActive")
    public static let willResignActiveNotification = name("WillResignActive")
    public static let didEnterBackgroundNotification = name("DidEnterBackground")
    public static let willEnterForegroundNotification = name("WillEnterForeground")
}

/// The same notifications under other names, for apps with an extension.
@MainActor open class WKExtension: NSObject {
    public static let applicationDidFinishLaunchingNotification = name("DidFinishLaunching")
    public static let applicationDidBecomeActiveNotification = name("DidBecomeActive")
    public static let applicationWillResignActiveNotification = name("WillResignActive")
    public static let applicationDidEnterBackgroundNotification = name("DidEnterBackground")
    public static let applicationWillEnterForegroundNotification = name("WillEnterForeground")
}

private func name(_ part: String) -> Notification.Name { Notification.Name("WKApplication\(part)Notification") }
