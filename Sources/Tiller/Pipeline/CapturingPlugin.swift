/// What a store has under a plugin's key: "absent" and "unreadable" are different things.
public enum Stored: Sendable {
    /// Nothing was ever stored.
    case absent
    /// The stored object, as `Section.save` changes have made it.
    case value(JSONObject)
    /// Something may be stored, but it can't be read: a device before its first unlock, a damaged file.
    case unreadable
}

/// A plugin whose facts belong to the moment of the call.
///
/// It is a reducer: the core keeps its state under its one lock and hands it
/// back, `inout`, for each call. Bodies are short and pure: no blocking, no
/// I/O, no call into `Analytics`, of which they are given none; their effects
/// leave through the `Section`.
///
/// One plugin of a type captures at a time; a second one is refused with an
/// error in the log.
///
/// It captures from the call of `Analytics.add(plugin:)` to the call of
/// `remove(plugin:)`; its `process` takes part in the order of the road.
public protocol CapturingPlugin: Plugin {
    /// What the plugin knows. A value: the core holds it.
    associatedtype State: Sendable

    /// The key under which its state is stored. The default is the type's name.
    var storageKey: String { get }

    /// The context keys that this plugin alone writes. What another plugin changes or adds there is undone before the
    /// seal, a removal stays.
    var contextKeys: [String] { get }

    /// Whether `commands(before:state:)` and `capture` have anything to do; where not, they cost nothing per event. Always the
    /// same.
    var capturesEvents: Bool { get }

    /// Whether `process` does anything; where not, it is not called. Always the same.
    var processesEvents: Bool { get }

    /// Makes the state, once when the plugin is added, and again when stored state that was unreadable can be read.
    ///
    /// - Parameters:
    ///   - stored: What is stored; it was read before the lock was taken.
    ///   - present: `nil` at first; then the state that stood in while the
    ///     stored one could not be read.
    ///   - section: The section.
    /// - Returns: The state from now on.
    func restore(_ stored: Stored, present: State?, in section: inout Section) -> State

    /// What must happen in the same section before an event is made: another user's identify demands a reset.
    ///
    /// - Parameters:
    ///   - event: As the call made it.
    ///   - state: The plugin's state.
    /// - Returns: Commands for all capturing plugins, in order.
    func commands(before event: borrowing Event, state: State) -> [any Command]

    /// Answers a command.
    ///
    /// - Parameters:
    ///   - command: Any command of any subject.
    ///   - state: The plugin's state.
    ///   - section: The section.
    func apply(_ command: any Command, to state: inout State, in section: inout Section)

    /// Puts the plugin's facts on an event, at the call. Leaves scoped events alone (`Event.isScoped`).
    ///
    /// - Parameters:
    ///   - event: The event; later capturing plugins see the changes.
    ///   - state: The plugin's state.
    ///   - section: The section; its `fact` is kept for the seal.
    func capture(_ event: inout Event, state: inout State, in section: inout Section)

    /// Whether `seal` has anything to do.
    ///
    /// - Parameter state: The plugin's state.
    /// - Returns: False costs nothing per event.
    func seals(_ state: State) -> Bool

    /// The last touch of an event that survived the Before and Enrichment stages and the data plane's own limits, once
    /// per event, in the order of the calls, before the destinations see it.
    ///
    /// - Parameters:
    ///   - event: What it adds under `contextKeys` reaches every destination; other changes don't.
    ///   - state: The plugin's state as it is *now*, later than the event's call: what belongs to the event is in `section.fact`.
    ///   - section: Its `moment` is the event's. What it saves is stored with the event as one record.
    func seal(_ event: inout Event, state: inout State, in section: inout Section)
}

extension CapturingPlugin {
    /// The type's name.
    public var storageKey: String { String(describing: Self.self) }
    /// None.
    public var contextKeys: [String] { [] }
    /// True.
    public var capturesEvents: Bool { true }
    /// True.
    public var processesEvents: Bool { true }
    /// None.
    public func commands(before event: borrowing Event, state: State) -> [any Command] { [] }
    /// Ignores it.
    public func apply(_ command: any Command, to state: inout State, in section: inout Section) {}
    /// Leaves it as it is.
    public func capture(_ event: inout Event, state: inout State, in section: inout Section) {}
    /// False.
    public func seals(_ state: State) -> Bool { false }
    /// Leaves it as it is.
    public func seal(_ event: inout Event, state: inout State, in section: inout Section) {}
}

/// The core's side of a capturing plugin: typed inside, erased outside.
///
/// It outlives the plugin's removal: events that were captured before are sealed after it, and a plugin that comes back
/// finds its state, and the facts on those events still mean the same.
protocol CaptureSlot: Sendable {
    /// Never given twice in an instance: facts on events on the road name it.
    var id: Int { get }
    var key: String { get }
    var contextKeys: [String] { get }
    var capturesEvents: Bool { get }
    /// False from a removal to the next adding.
    var isCapturing: Bool { get }
    /// The stored state was unreadable so far.
    var isUnread: Bool { get }
    var plugin: (any Plugin)? { get }
    var seals: Bool { get }
    mutating func restore(_ stored: Stored, in section: inout Section)
    /// Changes nothing: a value in an existential is copied for a method that can't change it.
    mutating func commands(before event: borrowing Event) -> [any Command]
    mutating func apply(_ command: any Command, in section: inout Section)
    mutating func capture(_ event: inout Event, in section: inout Section)
    mutating func seal(_ event: inout Event, in section: inout Section)
    func state<S>(as type: S.Type) -> S?
    /// The plugin was removed: it still seals.
    mutating func pause()
    /// Its removal has passed the road. Returns the plugin, for it must not be released under the lock.
    mutating func letGo() -> (any Plugin)?
}

struct Slot<P: CapturingPlugin>: CaptureSlot {
    let id: Int
    let key: String
    let contextKeys: [String]
    let capturesEvents: Bool
    private(set) var isCapturing = true
    private(set) var isUnread: Bool
    private var typed: P?
    private var state: P.State

    init(_ plugin: P, id: Int, stored: Stored, in section: inout Section) {
        self.id = id
        key = plugin.storageKey
        contextKeys = plugin.contextKeys
        capturesEvents = plugin.capturesEvents
        typed = plugin
        isUnread = stored.isUnreadable
        section.begin(slot: id, isUnread: isUnread)
        state = plugin.restore(stored, present: nil, in: &section)
        isUnread = section.isUnread
    }

    /// The plugin, or another of its type, is added again.
    mutating func resume(_ plugin: P, stored: Stored, in section: inout Section) {
        typed = plugin
        isCapturing = true
        isUnread = stored.isUnreadable
        section.begin(slot: id, isUnread: isUnread)
        state = plugin.restore(stored, present: state, in: &section)
        isUnread = section.isUnread
    }

    var plugin: (any Plugin)? { typed }
    var seals: Bool { typed?.seals(state) ?? false }

    mutating func restore(_ stored: Stored, in section: inout Section) {
        isUnread = stored.isUnreadable
        guard let typed, !isUnread else { return }
        isUnread = false
        section.begin(slot: id, isUnread: false)
        state = typed.restore(stored, present: state, in: &section)
    }

    mutating func commands(before event: borrowing Event) -> [any Command] {
        guard isCapturing, let typed else { return [] }
        return typed.commands(before: event, state: state)
    }

    mutating func apply(_ command: any Command, in section: inout Section) {
        guard isCapturing, let typed else { return }
        section.begin(slot: id, isUnread: isUnread)
        typed.apply(command, to: &state, in: &section)
        isUnread = section.isUnread
    }

    mutating func capture(_ event: inout Event, in section: inout Section) {
        guard isCapturing, let typed else { return }
        section.begin(slot: id, isUnread: isUnread)
        typed.capture(&event, state: &state, in: &section)
        isUnread = section.isUnread
        if let fact = section.fact { event.fields.captured[id] = fact }
    }

    mutating func seal(_ event: inout Event, in section: inout Section) {
        guard let typed else { return }
        section.begin(slot: id, isUnread: isUnread)
        section.fact = event.fields.captured[id]
        typed.seal(&event, state: &state, in: &section)
    }

    func state<S>(as type: S.Type) -> S? { state as? S }

    mutating func pause() { isCapturing = false }

    mutating func letGo() -> (any Plugin)? { isCapturing ? nil : typed.take() }
}

extension Stored {
    fileprivate var isUnreadable: Bool { if case .unreadable = self { true } else { false } }
}
