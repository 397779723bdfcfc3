// On watchOS there is a UIKit without devices and screens.
#if canImport(UIKit) && !os(watchOS)
import Foundation
import UIKit

extension MainActorFacts {
    /// `identifierForVendor`.
    static let haveDeviceId = true

    /// Asks the main actor and returns at once. Nothing here needs an application object, which extensions don't have.
    static func read(_ handler: @escaping @Sendable (MainActorFacts) -> Void) {
        Task { @MainActor in
            var facts = MainActorFacts()
            facts.deviceId = UIDevice.current.identifierForVendor?.uuidString.lowercased()
            #if !os(visionOS)
            let screen = UIScreen.main
            facts.screen = SystemContext.Screen(
                width: Double(screen.bounds.width), height: Double(screen.bounds.height),
                density: Double(screen.scale))
            #endif
            handler(facts)
        }
    }
}
#endif
