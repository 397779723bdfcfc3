// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation
public import Foundation

// What Tiller asks AppKit for its context, declared as AppKit declares it. In the stub the values can be set.

@MainActor open class NSScreen: NSObject {
    /// Settable in the stub; `nil` without a screen.
    private static var screen: NSScreen? = NSScreen()
    public class var main: NSScreen? { screen }
    public class func setMain(_ new: NSScreen?) { screen = new }
    public var frame = CGRect(x: 0, y: 0, width: 1512, height: 982)
    public var backingScaleFactor: CGFloat = 2
}
