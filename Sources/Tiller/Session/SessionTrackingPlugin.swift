/// Groups events into sessions: puts `sessionId` on them, and `sessionStart` on the first of each session.
///
/// The session of an event is decided at the call, in one step with its
/// identity and its time. The start mark goes to the first event that survives
/// the Before and Enrichment stages (S12). The rules are in the documentation's
/// article "Sessions"; `SessionState` is their code.
public final class SessionTrackingPlugin: CapturingPlugin {
    /// What the plugin knows: the rules' state, and whether its heartbeat is asked for.
    public struct State: Sendable {
        var rules: SessionState
        var isBeating = false
        /// What is stored, or about to be; `nil` where that is not known.
        fileprivate var saved: JSONObject?
    }

    private enum ContextKey {
        static let id = "sessionId"
        static let start = "sessionStart"
    }

    /// Before.
    public let stage = Stage.before

    /// The type's name, as a text: to ask the runtime for it takes a millisecond at a process's start.
    public let storageKey = "SessionTrackingPlugin"

    /// Written by this plugin alone.
    public let contextKeys = [ContextKey.id, ContextKey.start]

    /// False.
    public let processesEvents = false

    private let configuration: SessionConfiguration
    private let isAutomatic: Bool

    /// Sessions as configured.
    ///
    /// - Parameters:
    ///   - configuration: Policy, timeout, automatic or not.
    ///   - isApp: What `automaticSessionTracking: nil` means; true by default.
    public init(configuration: SessionConfiguration = SessionConfiguration(), isApp: Bool = true) {
        self.configuration = configuration
        isAutomatic = configuration.automaticSessionTracking ?? isApp
    }

    /// Loads the stored session and judges it (S1). A guest behaves as if none were stored (S21).
    public func restore(_ stored: Stored, present: State?, in section: inout Section) -> State {
        var rules = SessionState(
            isAutomatic: isAutomatic, timeout: configuration.sessionTimeoutInMillis,
            policy: configuration.backgroundEvents)
        var state = present ?? State(rules: rules)
        state.saved = nil
        // Nothing stored says the same as a state in which nothing has happened.
        if present == nil, case .absent = stored { state.saved = rules.stored }
        if section.ownsStore, case .value(let value) = stored {
            rules.load(value)
            if present == nil {
                state.saved = rules.stored
                rules.launch(at: section.instant)
                state.rules = rules
                save(&state, in: &section)
            } else {
                merge(rules, into: &state.rules, in: &section)
            }
        }
        if section.isInForeground { join(&state, isNew: present == nil, in: &section) }
        return state
    }

    /// What a store that was unreadable until now holds, and what happened meanwhile: a session that began in this process
    /// goes on, else the stored one is judged as at a launch.
    private func merge(_ stored: SessionState, into present: inout SessionState, in section: inout Section) {
        let lastGenerated = max(stored.lastGenerated, present.lastGenerated)
        let lastId = present.lastId ?? stored.lastId
        // While a mark of this process is to give, its session is on the road: the count of marks stays as it is.
        if present.session == nil, !present.isEndedByCall, !present.hasPendingMark {
            var loaded = stored.following(present)
            loaded.launch(at: section.instant)
            loaded.isArmed = present.isArmed
            present = loaded
        }
        present.lastGenerated = lastGenerated
        present.lastId = lastId
        section.save(present.stored)
        section.save(present.storedMark)
    }

    /// The plugin was added while the app is on screen: S2 for a new one, and the heartbeat.
    private func join(_ state: inout State, isNew: Bool, in section: inout Section) {
        if isNew { state.rules.comeToForeground(at: section.instant) } else { state.rules.touch(at: section.instant) }
        save(&state, in: &section)
        state.isBeating = false
        beat(&state, isInForeground: true, in: &section)
    }

    /// Answers lifecycle changes, resets, and the two calls.
    public func apply(_ command: any Command, to state: inout State, in section: inout Section) {
        let now = section.instant
        var isInForeground = section.isInForeground
        var isAskedFor = false
        switch command {
        case LifecycleEvent.foreground:
            state.rules.comeToForeground(at: now)
            isInForeground = true
        case LifecycleEvent.background:
            guard isInForeground else { return }
            state.rules.touch(at: now)
            isInForeground = false
        case LifecycleEvent.terminate, is Shutdown, is Wake:
            guard isInForeground else { return }
            state.rules.touch(at: now)
            if command is Wake { state.isBeating = false }
        case let reset as ResetOptions:
            guard reset.entries.session else { return }
            state.rules.refresh(at: now, isInForeground: isInForeground)
            isAskedFor = true
        case is Erase:
            section.save(state.rules.storedMark, replacingUnread: true)
            isAskedFor = true
        case let start as StartSession:
            if let id = start.id, !SessionState.isValidManualId(id) {
                section.report(.error, "startSession: an id needs at least ten digits and must fit Int64")
                return
            }
            state.rules.startManually(id: start.id, at: now)
            isAskedFor = true
        case is EndSession: state.rules.end()
        default: return
        }
        save(&state, in: &section, isAskedFor: isAskedFor)
        beat(&state, isInForeground: isInForeground, in: &section)
    }

    /// Decides the event's session.
    public func capture(_ event: inout Event, state: inout State, in section: inout Section) {
        removeForeignKeys(from: &event, in: &section)
        guard !event.isScoped else { return }
        let (carried, mustBeStored) = state.rules.makeEvent(
            at: section.instant, isInForeground: section.isInForeground)
        if mustBeStored { save(&state, in: &section) }
        guard let carried else { return }
        event.context[ContextKey.id] = .uint(carried.id)
        section.fact = carried.generation
    }

    /// While some session's mark is to give.
    public func seals(_ state: State) -> Bool { state.rules.hasPendingMark }

    /// Puts the start mark on the first survivor of its session (S12). An event whose `sessionId` a plugin took off gets
    /// none and spends none.
    public func seal(_ event: inout Event, state: inout State, in section: inout Section) {
        guard let generation = section.fact, event.context[ContextKey.id] != nil else { return }
        guard state.rules.giveMark(of: generation) else { return }
        event.context[ContextKey.start] = true
        section.save(state.rules.storedMark)
    }

    /// What a caller's custom context has under the plugin's keys goes (S13).
    private func removeForeignKeys(from event: inout Event, in section: inout Section) {
        guard !event.context.isEmpty else { return }
        for key in contextKeys where event.context[key] != nil {
            event.context[key] = nil
            section.report(.warn, "\(key) in a custom context was removed: it belongs to session tracking", once: true)
        }
    }

    /// What is stored already is not stored again: a service without sessions would make files at each start for it.
    ///
    /// - Parameter isAskedFor: By a call of the app's own. It is stored in any case: after an erasure nothing else is.
    private func save(_ state: inout State, in section: inout Section, isAskedFor: Bool = false) {
        let stored = state.rules.stored
        guard isAskedFor || state.saved != stored else { return }
        section.save(stored, replacingUnread: isAskedFor)
        state.saved = stored
        // What was unread may hold a mark of its own count. Elsewhere the mark is the seal's to store.
        if isAskedFor { section.save(state.rules.storedMark) }
    }

    /// The heartbeat runs in the foreground while there is an automatic session (S6), and never else.
    private func beat(_ state: inout State, isInForeground: Bool, in section: inout Section) {
        let shouldBeat = isInForeground && state.rules.session?.isManual == false
        guard shouldBeat != state.isBeating else { return }
        state.isBeating = shouldBeat
        section.wake(after: shouldBeat ? state.rules.heartbeat : nil)
    }
}

extension Section {
    /// The section's moment in the words of the rules.
    var instant: SessionState.Instant {
        SessionState.Instant(
            wall: moment.wallMilliseconds, continuous: moment.continuousMilliseconds, boot: bootIdentity)
    }
}
