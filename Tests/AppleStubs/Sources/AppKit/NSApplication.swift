public import Foundation

@MainActor open class NSResponder: NSObject {}

/// The process's application object, `nil` until one is made.
@MainActor public var NSApp: NSApplication!

@MainActor open class NSApplication: NSResponder {
    public nonisolated static let didFinishLaunchingNotification = name("DidFinishLaunching")
    public nonisolated static let didBecomeActiveNotification = name("DidBecomeActive")
    public nonisolated static let didResignActiveNotification = name("DidResignActive")
    public nonisolated static let didHideNotification = name("DidHide")
    public nonisolated static let didUnhideNotification = name("DidUnhide")
    public nonisolated static let willTerminateNotification = name("WillTerminate")

    /// Makes the object where there is none, as the real one does.
    public class var shared: NSApplication {
        if NSApp == nil { NSApp = NSApplication() }
        return NSApp
    }

    public private(set) var isActive = false
    public private(set) var isHidden = false
    public private(set) var windows: [NSWindow] = []

    private nonisolated static func name(_ part: String) -> Notification.Name {
        Notification.Name("NSApplication\(part)Notification")
    }

    // MARK: The stub's own

    /// Sets what the system decides.
    public func simulate(isActive: Bool? = nil, isHidden: Bool? = nil, windows: [NSWindow]? = nil) {
        self.isActive = isActive ?? self.isActive
        self.isHidden = isHidden ?? self.isHidden
        self.windows = windows ?? self.windows
    }
}
