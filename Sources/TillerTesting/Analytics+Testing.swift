public import Tiller

extension Analytics {
    /// Waits until every destination has processed everything that was recorded before the call. Uploads are not waited
    /// for: see `flushed()`.
    public func settled() async {
        await withCheckedContinuation { done in whenSettled { done.resume() } }
    }
}

/// A logger that remembers what it was told.
public final class RecordingLogger: Logger {
    /// One message.
    public struct Message: Sendable, Hashable {
        /// How bad.
        public let level: LogLevel
        /// What was said.
        public let text: String
    }

    private let log = Locked<[Message]>([])

    /// An empty logger.
    public init() {}

    /// What was said so far.
    public var messages: [Message] { log.withLock { $0 } }

    /// What was said so far at one level.
    public func texts(_ level: LogLevel) -> [String] { messages.filter { $0.level == level }.map(\.text) }

    /// Remembers a message.
    public func verbose(log: String) { append(.verbose, log) }
    /// Remembers a message.
    public func debug(log: String) { append(.debug, log) }
    /// Remembers a message.
    public func info(log: String) { append(.info, log) }
    /// Remembers a message.
    public func warn(log: String) { append(.warn, log) }
    /// Remembers a message and its cause.
    public func error(log: String, error: (any Error)?) { append(.error, log + (error.map { ": \($0)" } ?? "")) }

    private func append(_ level: LogLevel, _ text: String) {
        log.withLock { $0.append(Message(level: level, text: text)) }
    }
}
