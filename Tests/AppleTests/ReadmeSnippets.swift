import Tiller
import UIKit

// The README's Swift for Apple platforms, compiled: `ReadmeSnippetsTests` compares.

final class AppDelegate: UIResponder, UIApplicationDelegate {
    private var analytics: Analytics?

    func application(
        _ application: UIApplication,
        didFinishLaunchingWithOptions launchOptions: [UIApplication.LaunchOptionsKey: Any]?
    ) -> Bool {
        analytics = Analytics(
            configuration: Configuration(
                writeKey: "<WRITE_KEY>", dataPlaneUrl: "<DATA_PLANE_URL>"))
        return true
    }
}

@MainActor private func late() {
    let configuration = Configuration(
        writeKey: "<WRITE_KEY>", dataPlaneUrl: "<DATA_PLANE_URL>",
        lifecycleSource: UIKitLifecycleSource(isInForeground: UIApplication.shared.applicationState == .active))
    _ = configuration
}

/// An app's to use, not the SDK's, which may be part of an extension: so not in the stub module.
extension UIApplication {
    fileprivate static let shared = UIApplication()
    fileprivate var applicationState: State { .active }
}
