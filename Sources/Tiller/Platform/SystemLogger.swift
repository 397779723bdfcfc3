import Foundation

#if canImport(os)
import os
#endif

/// The default logger: standard error, one line a message; on Apple the unified log, under the subsystem `tiller`.
struct SystemLogger: Logger {
    #if canImport(os)
    private let log = os.Logger(subsystem: "tiller", category: "sdk")

    func verbose(log message: String) { log.trace("\(message, privacy: .public)") }
    func debug(log message: String) { log.debug("\(message, privacy: .public)") }
    func info(log message: String) { log.info("\(message, privacy: .public)") }
    func warn(log message: String) { log.warning("\(message, privacy: .public)") }
    func error(log message: String, error: (any Error)?) {
        log.error("\(message, privacy: .public)\(error.map { ": \($0)" } ?? "", privacy: .public)")
    }
    #else
    func verbose(log message: String) { write("verbose", message) }
    func debug(log message: String) { write("debug", message) }
    func info(log message: String) { write("info", message) }
    func warn(log message: String) { write("warning", message) }
    func error(log message: String, error: (any Error)?) {
        write("error", message + (error.map { ": \($0)" } ?? ""))
    }

    private func write(_ level: String, _ message: String) {
        // Where it fails there is no one to tell; the other way of writing traps then.
        try? FileHandle.standardError.write(contentsOf: Data("tiller \(level): \(message)\n".utf8))
    }
    #endif
}
