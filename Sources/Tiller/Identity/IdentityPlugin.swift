/// Who the user is: the anonymous id of the installation, the user id once it is known, the traits.
///
/// Every event that is not scoped gets, at the call, the ids and (in
/// `context.traits`) the traits of that moment. `identify` with another user
/// than the present one resets everything first; the first user keeps the
/// anonymous traits; traits alone, and an empty id, keep the user.
///
/// Traits of up to 16 384 bytes of JSON in all, and ids of up to 4 096 bytes,
/// are remembered: every later event carries them.
///
/// What it knows survives a restart. Without it, `identify` and `alias` still
/// send their events, but nothing is remembered, and events without any id
/// are dropped as invalid.
public final class IdentityPlugin: CapturingPlugin {
    /// What is known of the user: a value.
    public struct State: Sendable {
        /// A UUID in lower case, made at the first launch and at each reset.
        public fileprivate(set) var anonymousId: String
        /// `nil` while anonymous.
        public fileprivate(set) var userId: String?
        /// Merged from all identify calls of this user.
        public fileprivate(set) var traits: JSONObject
    }

    /// The names under which the state is stored.
    private enum Key {
        static let anonymousId = "anonymousId"
        static let userId = "userId"
        static let traits = "traits"
    }

    /// Before.
    public let stage = Stage.before

    /// The type's name, as a text: to ask the runtime for it takes a millisecond at a process's start.
    public let storageKey = "IdentityPlugin"

    /// False.
    public let processesEvents = false

    /// An identity that is read from the instance's store.
    public init() {}

    /// The stored identity, or a new anonymous one. A new one is stored only where there was none: unreadable storage
    /// never replaces an identity.
    public func restore(_ stored: Stored, present: State?, in section: inout Section) -> State {
        guard case .value(let value) = stored else {
            let state = present ?? State(anonymousId: section.makeId(), userId: nil, traits: JSONObject())
            save(state, in: &section)
            return state
        }
        let anonymousId = value[Key.anonymousId]?.string ?? ""
        let state = State(
            anonymousId: anonymousId.isEmpty ? present?.anonymousId ?? section.makeId() : anonymousId,
            userId: value[Key.userId]?.string, traits: value[Key.traits]?.object ?? JSONObject())
        if anonymousId.isEmpty { save(state, in: &section) }
        return state
    }

    /// Another user than the present one: everything is reset first, for all plugins, in the same critical section (S17).
    public func commands(before event: borrowing Event, state: State) -> [any Command] {
        guard event.kind == .identify, !event.isScoped else { return [] }
        guard let present = state.userId, let new = event.userId, Self.isAcceptable(new), new != present else {
            return []
        }
        return [ResetOptions()]
    }

    /// Answers a reset.
    public func apply(_ command: any Command, to state: inout State, in section: inout Section) {
        guard let entries = (command as? ResetOptions)?.entries else { return }
        if entries.anonymousId { state.anonymousId = section.makeId() }
        if entries.userId { state.userId = nil }
        if entries.traits { state.traits = JSONObject() }
        guard entries.anonymousId || entries.userId || entries.traits else { return }
        save(state, in: &section, replacingUnread: true)
    }

    /// Takes in what identify and alias say, and puts the identity on the event.
    public func capture(_ event: inout Event, state: inout State, in section: inout Section) {
        guard !event.isScoped else { return }
        if let userId = event.userId, !Self.isAcceptable(userId) {
            section.report(.error, "A user id of more than \(Self.longestId) bytes was not taken")
            event.userId = nil
        }
        switch event.kind {
        case .identify:
            if let userId = event.userId { state.userId = userId }
            remember(&event, &state, in: &section)
            save(state, in: &section, replacingUnread: true)
        case .alias:
            event.previousId = event.previousId ?? state.userId ?? state.anonymousId
            if let userId = event.userId { state.userId = userId }
            save(state, in: &section, replacingUnread: true)
        case .track, .screen, .group: break
        }
        event.anonymousId = state.anonymousId
        event.userId = state.userId
        guard !state.traits.isEmpty, event.context["traits"] == nil else { return }
        // Identify events whose traits were too large keep their own.
        if event.kind != .identify || event.traits.isEmpty { event.context["traits"] = .object(state.traits) }
    }

    /// What is remembered goes on every later event: it must leave room for the event's own.
    private static let mostTraitBytes = 16_384
    private static let longestId = 4_096

    private static func isAcceptable(_ id: String) -> Bool { id.utf8.count <= longestId }

    /// Takes the traits in. Those that are too large travel on this event alone.
    private func remember(_ event: inout Event, _ state: inout State, in section: inout Section) {
        guard !event.traits.isEmpty else { return }
        var merged = state.traits
        let isSmall = event.traits.description.utf8.count <= Self.mostTraitBytes
        if isSmall { merged.merge(event.traits) }
        guard isSmall, merged.description.utf8.count <= Self.mostTraitBytes else {
            section.report(.error, "Traits of more than \(Self.mostTraitBytes) bytes in all are not remembered")
            return
        }
        state.traits = merged
        event.traits = JSONObject()
    }

    private func save(_ state: State, in section: inout Section, replacingUnread: Bool = false) {
        section.save(
            [
                Key.anonymousId: .string(state.anonymousId),
                Key.userId: state.userId.map { .string($0) } ?? .null,
                Key.traits: .object(state.traits),
            ],
            replacingUnread: replacingUnread)
    }
}

// MARK: - Calls and getters

extension Analytics {
    /// The anonymous id of this moment; `nil` after `shutdown()` and without `IdentityPlugin`.
    public var anonymousId: String? { read(IdentityPlugin.self) { state, _ in state.anonymousId } }

    /// The user id of this moment; `nil` while anonymous, after `shutdown()` and without `IdentityPlugin`.
    public var userId: String? { read(IdentityPlugin.self) { state, _ in state.userId } }

    /// The user's traits at this moment; empty if there are none, `nil` after `shutdown()` and without `IdentityPlugin`.
    public var traits: JSONObject? { read(IdentityPlugin.self) { state, _ in state.traits } }
}
