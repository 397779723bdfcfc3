// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation

public import Foundation

// What Tiller asks WatchKit for its context, declared as WatchKit declares it. In the stub the values can be set.

@MainActor open class WKInterfaceDevice: NSObject {
    private static let device = WKInterfaceDevice()
    public class func current() -> WKInterfaceDevice { device }
    public var identifierForVendor: UUID?
    public var screenBounds = CGRect(x: 0, y: 0, width: 198, height: 242)
    public var screenScale: CGFloat = 2
}

/// Foundation's, on Apple platforms other than macOS.
extension ProcessInfo {
    public func performExpiringActivity(withReason reason: String, using block: @escaping @Sendable (Bool) -> Void) {
        Thread.detachNewThread { block(false) }
    }
}
