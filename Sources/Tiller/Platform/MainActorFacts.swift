/// What only the main actor may ask its user-interface framework. Each framework has a file.
struct MainActorFacts: Sendable, Equatable {
    /// The vendor's id of the device, in lower case.
    var deviceId: String?
    /// The main screen.
    var screen: SystemContext.Screen?
}

#if !canImport(UIKit) && !canImport(AppKit) && !canImport(WatchKit)
extension MainActorFacts {
    /// Where there is no such framework.
    static let haveDeviceId = false

    /// Nothing is known, now or later.
    static func read(_ handler: @escaping @Sendable (MainActorFacts) -> Void) {}
}
#endif
