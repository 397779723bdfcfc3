/// Starts a manual session (S14). Without an id, one is generated.
public struct StartSession: Command {
    /// The session's id, or `nil`.
    public let id: UInt64?

    /// A start.
    ///
    /// - Parameter id: At least ten digits, at most `Int64.max`; `nil` generates one.
    public init(id: UInt64? = nil) { self.id = id }
}

/// Ends the session, automatic or manual (S15).
public struct EndSession: Command {
    /// An end.
    public init() {}
}

extension Analytics {
    /// Starts a manual session in place of the present one; automatic tracking rests until the next instance.
    ///
    /// The session has changed when this returns. A manual session has no
    /// timeout; it lasts until `endSession()`, `startSession` or, with
    /// automatic tracking on, the next launch.
    ///
    /// - Parameter sessionId: At least ten digits, at most `Int64.max`; an
    ///   other one is refused with an error in the log and changes nothing.
    ///   `nil` (default) generates one from the clock.
    public func startSession(sessionId: UInt64? = nil) { perform(StartSession(id: sessionId)) }

    /// Starts a manual session with an id; see `startSession(sessionId:)`.
    ///
    /// - Parameter sessionId: At least ten digits, at most `Int64.max`.
    public func startSession(_ sessionId: UInt64) { perform(StartSession(id: sessionId)) }

    /// Ends the session. Automatic tracking rests until the next instance, also if there was no session.
    public func endSession() { perform(EndSession()) }

    /// The id of the session that an event made at this moment would carry; `nil` if it would carry none or would start
    /// one, after `shutdown()`, and without `SessionTrackingPlugin`. Reading it starts and ends nothing (S19).
    public var sessionId: UInt64? {
        read(SessionTrackingPlugin.self) { state, section in
            state.rules.carried(at: section.instant, isInForeground: section.isInForeground)?.id
        }
    }
}
