/// The logger behind a level, and a memory of what is said only once.
final class Diagnostics: Sendable {
    private let logger: any Logger
    private let level: LogLevel
    private let said = Locked(Said())
    private let losses: LossLog

    /// A type of its own: to make that of a guarded set, the runtime goes through the conformances of all libraries.
    private struct Said: Sendable { var keys: Set<String> = [] }

    /// What it keeps its messages in, and what they come from, if it says nothing before it is asked to.
    private let deferred: (messages: DeferringLogger, base: Diagnostics)?

    /// - Parameter time: For the sums of losses, once a minute; `nil`: they are said by `sayRest` only.
    init(logger: any Logger, level: LogLevel, time: (any TimeSource)? = nil) {
        self.logger = logger
        self.level = level
        losses = LossLog(time: time) { if level >= .error { logger.error(log: $0, error: $1) } }
        deferred = nil
    }

    private init(deferring base: Diagnostics, in messages: DeferringLogger) {
        logger = messages
        level = base.level
        losses = base.losses
        deferred = (messages, base)
    }

    /// The same, saying nothing before it is asked to.
    func deferring() -> (Diagnostics, DeferringLogger) {
        let messages = DeferringLogger(logger)
        return (Diagnostics(deferring: self, in: messages), messages)
    }

    /// Events are lost: each reason is said at once the first time, then as a sum once a minute.
    ///
    /// - Parameters:
    ///   - reason: For people, and what counts as the same thing.
    ///   - first: What is said the first time.
    func loss(_ count: Int, _ reason: String, _ first: @escaping @Sendable () -> String, _ error: (any Error)? = nil) {
        if let (messages, base) = deferred {
            messages.keep { _ in base.loss(count, reason, first, error) }
        } else {
            losses.note(count, reason, first, error)
        }
    }

    /// Says what losses have only been counted so far.
    func sayRest() { losses.sayRest() }

    func error(_ message: @autoclosure () -> String, _ error: (any Error)? = nil) {
        if level >= .error { logger.error(log: message(), error: error) }
    }

    func warn(_ message: @autoclosure () -> String) { if level >= .warn { logger.warn(log: message()) } }

    /// Says something the first time only.
    ///
    /// - Parameter key: What counts as the same thing.
    func once(_ key: String, _ level: LogLevel, _ message: @autoclosure () -> String, _ error: (any Error)? = nil) {
        guard self.level >= level, said.withLock({ $0.keys.insert(key).inserted }) else { return }
        log(level, message(), error)
    }

    func log(_ level: LogLevel, _ message: String, _ error: (any Error)? = nil) {
        guard self.level >= level else { return }
        switch level {
        case .none: break
        case .error: logger.error(log: message, error: error)
        case .warn: logger.warn(log: message)
        case .info: logger.info(log: message)
        case .debug: logger.debug(log: message)
        case .verbose: logger.verbose(log: message)
        }
    }
}
