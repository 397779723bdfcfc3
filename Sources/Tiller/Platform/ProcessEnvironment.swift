#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Android)
import Android
#endif

/// The process's environment, a few variables at a time: Foundation makes all of it into a dictionary, which costs a good
/// part of what an instance may take to start.
enum ProcessEnvironment {
    /// The values of those variables that are set.
    static func values(of names: [String]) -> [String: String] {
        var values: [String: String] = [:]
        for name in names {
            if let value = getenv(name) { values[name] = String(cString: value) }
        }
        return values
    }
}
