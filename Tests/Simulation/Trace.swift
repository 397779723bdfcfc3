import Tiller

/// What happened in a run, a line each.
final class Trace: Logger {
    private let log = Locked<[String]>([])

    var lines: [String] { log.withLock { $0 } }

    func note(_ line: String) { log.withLock { $0.append(line) } }

    // What the SDK says belongs to it.
    func error(log: String, error: (any Error)?) { note("    says: " + log + (error.map { ": \($0)" } ?? "")) }
}
