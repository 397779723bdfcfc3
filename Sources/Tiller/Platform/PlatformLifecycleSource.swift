import Foundation

/// Chooses a lifecycle source, so that nobody has to.
public enum PlatformLifecycleSource {
    /// The source that fits this process: what `Configuration` uses by default.
    ///
    /// - On iOS, tvOS, visionOS and Mac Catalyst `UIKitLifecycleSource`, on
    ///   watchOS `WatchKitLifecycleSource`, in extensions too.
    /// - On macOS `AppKitLifecycleSource` if the main bundle is an app or an
    ///   app extension and not marked as background only (`LSBackgroundOnly`),
    ///   and the process is the bundle's own executable; a command-line tool, a
    ///   daemon, a helper tool inside an app and a program started by
    ///   `swift run` get `ProcessLifecycleSource`.
    /// - Elsewhere `ProcessLifecycleSource`.
    ///
    /// It touches no application object. From any thread. The source listens
    /// from now on, so call this while the app launches.
    public static func automatic() -> any LifecycleSource {
        #if canImport(UIKit) && !os(watchOS)
        UIKitLifecycleSource()
        #elseif os(watchOS) || TILLER_APPLE_STUBS
        WatchKitLifecycleSource()
        #elseif canImport(AppKit)
        MainBundle.present.isApp ? AppKitLifecycleSource() : ProcessLifecycleSource()
        #else
        ProcessLifecycleSource()
        #endif
    }

    /// What is known of the process's bundle.
    struct MainBundle: Sendable {
        /// The last part of its path, such as `Mail.app`.
        var folder: String
        /// The name of the executable that its information names.
        var executable: String?
        /// The name of the executable that runs.
        var process: String?
        var isBackgroundOnly: Bool

        static var present: MainBundle {
            let bundle = Bundle.main
            return MainBundle(
                folder: bundle.bundleURL.lastPathComponent,
                executable: bundle.object(forInfoDictionaryKey: "CFBundleExecutable") as? String,
                process: ProcessInfo.processInfo.arguments.first.map { URL(fileURLWithPath: $0).lastPathComponent },
                isBackgroundOnly: Self.isTrue(bundle.object(forInfoDictionaryKey: "LSBackgroundOnly")))
        }

        /// Whether a person sits in front of it, as far as the bundle tells.
        var isApp: Bool {
            guard folder.hasSuffix(".app") || folder.hasSuffix(".appex"), !isBackgroundOnly else { return false }
            guard let executable, let process else { return true }
            return executable == process
        }

        /// Property lists have it as a boolean, a number or a text.
        static func isTrue(_ value: Any?) -> Bool {
            switch value {
            case let value as Bool: value
            case let value as Int: value != 0
            case let value as String: ["1", "yes", "true"].contains(value.lowercased())
            default: false
            }
        }
    }
}
