public import Foundation

@MainActor open class NSWindow: NSResponder {
    public struct Level: RawRepresentable, Hashable, Sendable {
        public static let normal = Level(rawValue: 0)
        public static let floating = Level(rawValue: 3)
        public static let statusBar = Level(rawValue: 25)

        public let rawValue: Int
        public init(rawValue: Int) { self.rawValue = rawValue }
    }

    public nonisolated static let didBecomeKeyNotification = name("DidBecomeKey")
    public nonisolated static let didResignKeyNotification = name("DidResignKey")
    public nonisolated static let willCloseNotification = name("WillClose")
    public nonisolated static let didMiniaturizeNotification = name("DidMiniaturize")
    public nonisolated static let didDeminiaturizeNotification = name("DidDeminiaturize")
    public nonisolated static let didChangeOcclusionStateNotification = name("DidChangeOcclusionState")

    public var level = Level.normal
    public private(set) var isVisible = false
    public private(set) var isMiniaturized = false
    open var canBecomeKey: Bool { isTitled }
    open var canBecomeMain: Bool { isTitled && isVisible }

    private let isTitled: Bool

    private nonisolated static func name(_ part: String) -> Notification.Name {
        Notification.Name("NSWindow\(part)Notification")
    }

    // MARK: The stub's own

    /// A window on screen.
    public init(isTitled: Bool) {
        self.isTitled = isTitled
        isVisible = true
    }

    /// Sets what the system decides. A window in the Dock is not visible.
    public func simulate(isVisible: Bool, isMiniaturized: Bool = false) {
        self.isVisible = isVisible
        self.isMiniaturized = isMiniaturized
    }
}
