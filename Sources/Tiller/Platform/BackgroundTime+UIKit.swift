#if canImport(UIKit) && !os(watchOS)
import UIKit

/// The background tasks of an app.
///
/// The app's object comes with its notifications: `UIApplication.shared` does not exist in extensions, where no such
/// notification comes either.
final class UIKitBackgroundTime: BackgroundTime {
    private struct State: Sendable { weak var application: UIApplication? }

    private let state = Locked(State())

    /// - Parameter sender: What a notification of the app came from.
    func note(_ sender: AnyObject?) {
        if let application = sender as? UIApplication { state.withLock { $0.application = application } }
    }

    func begin(_ isUp: @escaping @Sendable () -> Void) -> CancellationToken? {
        guard let application = state.withLock({ $0.application }) else { return nil }
        let task = application.beginBackgroundTask(withName: "Tiller", expirationHandler: isUp)
        guard task != .invalid else { return nil }
        return CancellationToken { application.endBackgroundTask(task) }
    }
}
#endif
