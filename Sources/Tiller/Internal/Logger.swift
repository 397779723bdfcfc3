/// How much is logged: each level includes those before it.
public enum LogLevel: Int, Sendable, Hashable, CaseIterable, Comparable {
    /// Nothing.
    case none
    /// What went wrong and what was lost. The default.
    case error
    /// What was mended or refused.
    case warn
    /// What happened, seldom.
    case info
    /// What happened, often.
    case debug
    /// Everything.
    case verbose

    /// More is greater.
    public static func < (left: LogLevel, right: LogLevel) -> Bool { left.rawValue < right.rawValue }
}

/// Where the SDK's messages go.
///
/// Called on the SDK's threads and on the callers', one line a call, only at
/// or above `Configuration.logLevel`. Messages name no write key, trait, body
/// or URL query. Every method has an empty default.
public protocol Logger: Sendable {
    /// Everything.
    func verbose(log: String)
    /// What happened, often.
    func debug(log: String)
    /// What happened, seldom.
    func info(log: String)
    /// What was mended or refused.
    func warn(log: String)
    /// What went wrong.
    ///
    /// - Parameters:
    ///   - log: The message.
    ///   - error: What caused it, if that is known.
    func error(log: String, error: (any Error)?)
}

extension Logger {
    /// Does nothing.
    public func verbose(log: String) {}
    /// Does nothing.
    public func debug(log: String) {}
    /// Does nothing.
    public func info(log: String) {}
    /// Does nothing.
    public func warn(log: String) {}
    /// Does nothing.
    public func error(log: String, error: (any Error)?) {}
}

/// Keeps messages until no lock is held any more: a logger is foreign code.
final class DeferringLogger: Logger {
    private let base: any Logger
    private let messages = Locked<[@Sendable (any Logger) -> Void]>([])

    init(_ base: any Logger) { self.base = base }

    /// Hands on what has been said since the last time.
    func deliver() {
        let messages = messages.withLock { messages in
            defer { messages = [] }
            return messages
        }
        for message in messages { message(base) }
    }

    func verbose(log: String) { keep { $0.verbose(log: log) } }
    func debug(log: String) { keep { $0.debug(log: log) } }
    func info(log: String) { keep { $0.info(log: log) } }
    func warn(log: String) { keep { $0.warn(log: log) } }
    func error(log: String, error: (any Error)?) { keep { $0.error(log: log, error: error) } }

    /// Keeps something to be done then.
    func keep(_ message: @escaping @Sendable (any Logger) -> Void) { messages.withLock { $0.append(message) } }
}
