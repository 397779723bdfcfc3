/// What can happen to a process with the SDK in it, in the exhaustive check.
enum SessionInput: CaseIterable, Sendable {
    /// A track call that survives every stage.
    case event
    /// A track call that an Enrichment plugin drops: decided at the call like any other, but it never bears a mark.
    case droppedEvent
    /// The platform's notice; it may come while already in the foreground (S3).
    case foreground
    /// The platform's notice; it may come while already in the background (S3).
    case background
    case reset
    /// `startSession()`, so with a generated id.
    case startSession
    /// `startSession(1_234_567_890)`.
    case startGivenSession
    case endSession
    /// `identify` with a user id never used before; the event survives.
    case identifyAnother
    /// A kill without notice, then at once a launch with the app on screen: same boot, same configuration.
    case relaunchForeground
    /// A kill without notice, then at once a launch in the background: same boot, same configuration.
    case relaunchBackground
    /// 400 ms pass: now and then within one second, so that generated ids could collide (S18).
    case waitAMoment
    /// Exactly the timeout passes.
    case waitTimeout
    /// The timeout and one millisecond more pass.
    case waitBeyond
}

/// What can be seen from outside after one input.
struct SessionObservation: Equatable, Sendable {
    /// `analytics.sessionId` right after the input (S19).
    var getter: UInt64?
    /// For `.event` and `.identifyAnother`, the id that the event arrived with.
    var eventSession: UInt64?
    /// Whether that event bore `sessionStart`.
    var eventStarts: Bool
}

/// The policy for background events (S9).
enum NaivePolicy: CaseIterable, Sendable { case carry, exclude, include }

/// The session rules, said a second time so that the SDK can be compared with something that isn't the SDK.
///
/// It follows the contract rule by rule and is meant to be read beside it; nothing is merged or made clever. One number
/// is both clocks, because here they run together and nothing reboots. What is stored isn't modelled apart from what is
/// in memory, because here the store is current at a kill: a launch simply keeps the fields under "stored".
struct NaiveSessionModel: Sendable {
    private enum Kind { case automatic, manual }

    /// Terms, "Session", with the start mark of S12.
    private struct Session {
        let id: UInt64
        let kind: Kind
        var lastActivity: UInt64
        var startIsPending = true
    }

    /// In milliseconds, as all times here.
    private static let timeout: UInt64 = 300_000

    // The configuration.
    private let policy: NaivePolicy
    private let automatic: Bool

    // The world: milliseconds since 1970.
    private var now: UInt64 = 1_740_463_597_000

    // Of this process, made anew by each launch.
    private var inForeground = false
    private var armed = false

    // Stored, so kept over a kill (S20).
    private var session: Session?
    private var lastGeneratedID: UInt64 = 0
    private var lastSessionID: UInt64?
    private var userIsKnown = false

    /// The state right after a first launch in the foreground that found an empty store.
    init(policy: NaivePolicy, automatic: Bool) {
        self.policy = policy
        self.automatic = automatic
        launch(inForeground: true)
    }

    mutating func step(_ input: SessionInput) -> SessionObservation {
        var seen = SessionObservation(getter: nil, eventSession: nil, eventStarts: false)
        switch input {
        case .event:
            (seen.eventSession, seen.eventStarts) = survivingEvent()
        case .droppedEvent:
            // S12: it does to the session what any event does, and leaves the mark to a later one.
            _ = decideSessionOfEvent()
        case .foreground:
            // S3: only a change counts.
            if !inForeground { comeToForeground() }
        case .background:
            // S3 again.
            if inForeground { goToBackground() }
        case .reset:
            reset()
        case .startSession:
            startManualSession(id: generateID())
        case .startGivenSession:
            startManualSession(id: 1_234_567_890)
        case .endSession:
            endSession()
        case .identifyAnother:
            (seen.eventSession, seen.eventStarts) = identifyAnother()
        case .relaunchForeground:
            kill()
            launch(inForeground: true)
        case .relaunchBackground:
            kill()
            launch(inForeground: false)
        case .waitAMoment:
            now += 400
        case .waitTimeout:
            now += Self.timeout
        case .waitBeyond:
            now += Self.timeout + 1
        }
        seen.getter = getter
        return seen
    }

    // MARK: Terms

    /// "Live" at a launch and at a change to the foreground, where elapsed time alone decides.
    private func isLiveByElapsedTime(_ session: Session) -> Bool {
        session.kind == .manual || now - session.lastActivity <= Self.timeout
    }

    /// "Live" at any other moment: there is no timeout on screen.
    private func isLive(_ session: Session) -> Bool {
        inForeground || isLiveByElapsedTime(session)
    }

    // MARK: Launch, foreground, background, end

    private mutating func launch(inForeground startsInForeground: Bool) {
        // Terms, "Armed": a new instance is armed again, if tracking is configured on.
        armed = automatic
        inForeground = false

        // S1: which stored session continues.
        if let stored = session {
            switch stored.kind {
            case .manual:
                if automatic { session = nil }
            case .automatic:
                if !automatic || !isLiveByElapsedTime(stored) { session = nil }
            }
        }

        // S2 comes during the launch if it is in the foreground. S4: in the background nothing starts yet.
        if startsInForeground { comeToForeground() }
    }

    /// S2, in its order: judged, then started, then recorded.
    private mutating func comeToForeground() {
        if let present = session, !isLiveByElapsedTime(present) { session = nil }
        if armed, session == nil { begin(.automatic, id: generateID()) }
        recordActivity()
        inForeground = true
    }

    /// S5.
    private mutating func goToBackground() {
        recordActivity()
        inForeground = false
    }

    /// S6: in the foreground the time of death is known; in the background a kill is no activity.
    private mutating func kill() {
        if inForeground { recordActivity() }
    }

    /// Last activity = now. S11: a manual session is not extended.
    private mutating func recordActivity() {
        if session?.kind == .automatic { session?.lastActivity = now }
    }

    /// S7: starting or refreshing records activity. S12: the start mark is pending.
    private mutating func begin(_ kind: Kind, id: UInt64) {
        session = Session(id: id, kind: kind, lastActivity: now)
        lastSessionID = id
    }

    // MARK: Events

    /// An event that arrives: the id it carries, and whether it bears the start mark.
    private mutating func survivingEvent() -> (session: UInt64?, starts: Bool) {
        guard let carried = decideSessionOfEvent() else {
            // S13: without a session neither key is present.
            return (nil, false)
        }
        // S12: the first that survives takes the mark, and none after it.
        let starts = session?.startIsPending == true
        session?.startIsPending = false
        return (carried, starts)
    }

    /// What the call of an event does to the session; answers the id that the event carries.
    private mutating func decideSessionOfEvent() -> UInt64? {
        discardSessionIfNotLive()

        // S11: everywhere, and under every policy.
        if session?.kind == .manual { return session?.id }

        // S8.
        if inForeground {
            recordActivity()
            return session?.id
        }

        // S9. From here on the session, if there is one, is automatic and live.
        switch policy {
        case .carry:
            return session?.id
        case .exclude:
            return nil
        case .include:
            if armed, session == nil { begin(.automatic, id: generateID()) }
            recordActivity()
            return session?.id
        }
    }

    /// S9, last sentence: an event, `reset` or `identify` that finds a session over discards it, under every policy.
    private mutating func discardSessionIfNotLive() {
        if let present = session, !isLive(present) { session = nil }
    }

    // MARK: Calls

    /// S14. An equal id is no exception: the mark is pending again. Terms, "Armed": tracking rests from now on.
    private mutating func startManualSession(id: UInt64) {
        begin(.manual, id: id)
        armed = false
    }

    /// S15: tracking rests also when there was no session.
    private mutating func endSession() {
        session = nil
        armed = false
    }

    /// S16: a live session is replaced by one of the same kind; without one, none is made. The user is forgotten.
    private mutating func reset() {
        discardSessionIfNotLive()
        if let live = session { begin(live.kind, id: generateID()) }
        userIsKnown = false
    }

    /// S17: a first user leaves the session alone, another one resets first; then the event, like any other.
    private mutating func identifyAnother() -> (session: UInt64?, starts: Bool) {
        if userIsKnown { reset() }
        userIsKnown = true
        return survivingEvent()
    }

    /// S18. The memories of both ids outlive their sessions; a given manual id is in the second one only.
    private mutating func generateID() -> UInt64 {
        var id = max(now / 1000, lastGeneratedID + 1, 1_000_000_000)
        if id == lastSessionID { id += 1 }
        lastGeneratedID = id
        return id
    }

    /// S19, to the letter: an event is made on a copy, so that reading changes nothing here.
    private var getter: UInt64? {
        var copy = self
        let carried = copy.decideSessionOfEvent()
        // An id other than the present one is that of a session which the event would start.
        return carried == session?.id ? carried : nil
    }
}
