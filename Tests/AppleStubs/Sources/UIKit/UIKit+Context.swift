// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation
public import Foundation

// What Tiller asks UIKit for its context, declared as UIKit declares it. In the stub the values can be set.

@MainActor open class UIDevice: NSObject {
    private static let device = UIDevice()
    public class var current: UIDevice { device }
    public var identifierForVendor: UUID?
}

@MainActor open class UIScreen: NSObject {
    private static let screen = UIScreen()
    public class var main: UIScreen { screen }
    public var bounds = CGRect(x: 0, y: 0, width: 390, height: 844)
    public var scale: CGFloat = 3
}
