/// The session rules: a value without clock and without I/O.
///
/// The numbers (S1 to S21) are those of the session contract, the article
/// "Sessions" of the documentation.
public struct SessionState: Sendable {
    /// What is known of an instant: both clocks in milliseconds, and the boot that the continuous one belongs to.
    struct Instant: Sendable {
        let wall: Int64
        let continuous: Int64
        let boot: String?
    }

    struct Session: Sendable {
        let id: UInt64
        let isManual: Bool
        /// Counts the sessions; its start mark is pending while `spent` is less.
        var generation: UInt64
        var activity: Instant
        /// The activity is of an earlier process, whose boot may be another.
        var isFromStore = false
    }

    var session: Session?
    /// The generation of the newest session, ended or not.
    var generation: UInt64 = 0
    /// The generation whose mark was given last (S12).
    var spent: UInt64 = 0
    var lastGenerated: UInt64 = 0
    var lastId: UInt64?
    /// Automatic tracking is on, and neither `startSession` nor `endSession` was called on this instance.
    var isArmed: Bool
    /// `endSession` was called: what a store that was unreadable until then holds is over too.
    var isEndedByCall = false

    let isAutomatic: Bool
    let timeout: UInt64
    let policy: BackgroundEventPolicy

    init(isAutomatic: Bool, timeout: UInt64, policy: BackgroundEventPolicy) {
        self.isAutomatic = isAutomatic
        self.timeout = timeout
        self.policy = policy
        isArmed = isAutomatic
    }
}

// MARK: - What holds at a moment

extension SessionState {
    /// Live, judged by elapsed time alone, as at a launch and at a change to the foreground. Exactly at the timeout it is.
    func isLiveByTime(at now: Instant) -> Bool {
        guard let session else { return false }
        guard !session.isManual else { return true }
        guard let elapsed = elapsed(since: session, at: now) else { return false }
        return elapsed <= timeout
    }

    /// Live: also whatever the time while the app is in the foreground.
    func isLive(at now: Instant, isInForeground: Bool) -> Bool {
        session != nil && isInForeground || isLiveByTime(at: now)
    }

    /// The session that an event made now would carry (S8, S9, S11, S19); `nil` if none, or if it would start one.
    func carried(at now: Instant, isInForeground: Bool) -> Session? {
        guard let session, isLive(at: now, isInForeground: isInForeground) else { return nil }
        return session.isManual || isInForeground || policy != .exclude ? session : nil
    }

    /// How often activity is recorded in the foreground (S6): every 30 s, or every half timeout if that is shorter, never
    /// more often than once a second.
    var heartbeat: Duration { .milliseconds(Int64(min(30_000, max(1_000, timeout / 2)))) }

    /// Milliseconds since the last activity: by the continuous clock inside one boot, else by the wall clock. `nil` if
    /// that is negative, which counts as timed out.
    private func elapsed(since session: Session, at now: Instant) -> UInt64? {
        let then = session.activity
        let isSameBoot = !session.isFromStore || then.boot != nil && then.boot == now.boot
        let (from, to) = isSameBoot ? (then.continuous, now.continuous) : (then.wall, now.wall)
        // The difference of any two such numbers fits 64 bits without sign.
        return to >= from ? UInt64(bitPattern: to &- from) : nil
    }
}

// MARK: - What happens

extension SessionState {
    /// A launch with what was stored (S1). The state is that of a new process; `session` is the stored one.
    mutating func launch(at now: Instant) {
        guard let stored = session else { return }
        let isWanted = stored.isManual != isAutomatic && isLiveByTime(at: now)
        if !isWanted { session = nil }
    }

    /// The app came on screen (S2).
    mutating func comeToForeground(at now: Instant) {
        if !isLiveByTime(at: now) {
            session = nil
            if isArmed { start(isManual: false, at: now) }
        }
        touch(at: now)
    }

    /// The app leaves the foreground, or the process ends in it (S5), or a heartbeat in it (S6).
    mutating func touch(at now: Instant) {
        guard session?.isManual == false else { return }
        session?.activity = now
        session?.isFromStore = false
    }

    /// An event is made (S8, S9, S11).
    ///
    /// - Returns: The session it carries, and whether more changed than the activity of a session in the foreground,
    ///   which may be stored late (S20).
    mutating func makeEvent(at now: Instant, isInForeground: Bool) -> (carried: Session?, mustBeStored: Bool) {
        var mustBeStored = false
        if !isInForeground, !isLiveByTime(at: now) {
            mustBeStored = session != nil
            session = nil
            if policy == .include, isArmed {
                start(isManual: false, at: now)
                mustBeStored = true
            }
        }
        guard let session = carried(at: now, isInForeground: isInForeground) else { return (nil, mustBeStored) }
        if !session.isManual, isInForeground || policy == .include {
            touch(at: now)
            mustBeStored = mustBeStored || !isInForeground
        }
        return (session, mustBeStored)
    }

    /// `startSession` (S14). The id was checked by `isValidManualId(_:)`, or is `nil` for a generated one.
    mutating func startManually(id: UInt64?, at now: Instant) {
        isArmed = false
        start(id: id, isManual: true, at: now)
    }

    /// `endSession` (S15).
    mutating func end() {
        session = nil
        isArmed = false
        isEndedByCall = true
    }

    /// `reset` of the session (S16): one of the same kind for a live one, none for none.
    mutating func refresh(at now: Instant, isInForeground: Bool) {
        guard let old = session else { return }
        if isLive(at: now, isInForeground: isInForeground) {
            start(isManual: old.isManual, at: now)
        } else {
            session = nil
        }
    }

    /// Whether an app may give this id to a session (S14): at least ten digits, at most `Int64.max`.
    static func isValidManualId(_ id: UInt64) -> Bool { (1_000_000_000...UInt64(Int64.max)).contains(id) }

    /// Gives the start mark of a session to an event that was made under it, unless it was given before (S12).
    mutating func giveMark(of generation: UInt64) -> Bool {
        guard generation > spent else { return false }
        spent = generation
        return true
    }

    /// The same with all its counts after another's, so that marks of the other's sessions are not taken for its own.
    func following(_ other: SessionState) -> SessionState {
        var state = self
        state.generation += other.generation
        state.spent += other.generation
        state.session?.generation += other.generation
        return state
    }

    /// Whether some session's mark may still be to give.
    var hasPendingMark: Bool { generation > spent }

    private mutating func start(id given: UInt64? = nil, isManual: Bool, at now: Instant) {
        let id = given ?? generateId(at: now)
        generation += 1
        lastId = id
        session = Session(id: id, isManual: isManual, generation: generation, activity: now)  // S7
    }

    /// S18.
    private mutating func generateId(at now: Instant) -> UInt64 {
        let second = UInt64(max(0, now.wall / 1_000))
        var id = max(second, lastGenerated &+ 1, 1_000_000_000)
        if id == lastId { id += 1 }
        lastGenerated = id
        return id
    }
}
