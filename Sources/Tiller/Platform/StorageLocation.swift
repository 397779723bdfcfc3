import Foundation

/// Where this platform keeps what programs remember.
enum StorageLocation {
    static let variables = ["STATE_DIRECTORY", "XDG_STATE_HOME", "HOME"]

    /// A folder's path as `URL.path` has it, which takes a quarter of a millisecond when it is first asked on Linux.
    static func path(of url: URL) -> String {
        // A slash within a name stays encoded.
        if url.path(percentEncoded: true).range(of: "%2F", options: .caseInsensitive) != nil { return url.path }
        var path = url.path(percentEncoded: false)
        while path.utf8.count > 1, path.hasSuffix("/") { path.removeLast() }
        return path
    }

    /// The folder for this SDK's stores, or `nil` where there is none. Never a shared temporary folder.
    ///
    /// - Parameter environment: The process's variables; without effect on Apple.
    static func automatic(in environment: [String: String] = ProcessEnvironment.values(of: variables)) -> String? {
        #if canImport(Darwin)
        #if os(tvOS)
        // On a device only Caches can be written.
        let directory = FileManager.SearchPathDirectory.cachesDirectory
        #else
        let directory = FileManager.SearchPathDirectory.applicationSupportDirectory
        #endif
        return FileManager.default.urls(for: directory, in: .userDomainMask).first.map { $0.path + "/tiller" }
        #else
        for (variable, suffix) in [("STATE_DIRECTORY", ""), ("XDG_STATE_HOME", ""), ("HOME", "/.local/state")] {
            // systemd lists several directories with colons between them; an XDG path that is not absolute is ignored.
            guard let value = environment[variable]?.split(separator: ":").first, value.hasPrefix("/") else { continue }
            return value + suffix + "/tiller"
        }
        return nil
        #endif
    }
}
