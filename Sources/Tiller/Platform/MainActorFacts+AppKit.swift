#if !canImport(UIKit) && canImport(AppKit)
import AppKit
import Foundation

extension MainActorFacts {
    /// A Mac has no id but those of its hardware.
    static let haveDeviceId = false

    /// Asks the main actor and returns at once.
    static func read(_ handler: @escaping @Sendable (MainActorFacts) -> Void) {
        Task { @MainActor in
            guard let screen = NSScreen.main else { return }
            handler(
                MainActorFacts(
                    screen: SystemContext.Screen(
                        width: Double(screen.frame.width), height: Double(screen.frame.height),
                        density: Double(screen.backingScaleFactor))))
        }
    }
}
#endif
