import Foundation

extension ApplicationInfo {
    /// What the main bundle says. On Linux programs have none, and to find that out takes longer than all else that an
    /// instance does at its beginning.
    static var ofMainBundle: ApplicationInfo {
        #if canImport(Darwin)
        let bundle = Bundle.main
        func text(_ key: String) -> String? { bundle.object(forInfoDictionaryKey: key) as? String }
        return ApplicationInfo(
            name: text("CFBundleDisplayName") ?? text("CFBundleName"), version: text("CFBundleShortVersionString"),
            build: text("CFBundleVersion"), namespace: bundle.bundleIdentifier)
        #else
        return ApplicationInfo()
        #endif
    }
}
