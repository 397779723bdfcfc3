// iOS has a WatchKit too, for the phone's side.
#if canImport(WatchKit) && (os(watchOS) || (!canImport(UIKit) && !canImport(AppKit)))
import Foundation
import WatchKit

extension MainActorFacts {
    /// `identifierForVendor`.
    static let haveDeviceId = true

    /// Asks the main actor and returns at once.
    static func read(_ handler: @escaping @Sendable (MainActorFacts) -> Void) {
        Task { @MainActor in
            let device = WKInterfaceDevice.current()
            handler(
                MainActorFacts(
                    deviceId: device.identifierForVendor?.uuidString.lowercased(),
                    screen: SystemContext.Screen(
                        width: Double(device.screenBounds.width), height: Double(device.screenBounds.height),
                        density: Double(device.screenScale))))
        }
    }
}
#endif
