public import Foundation

/// The five calls of the event specification (RudderStack's and Segment's alike).
public enum EventKind: String, Sendable, Hashable, CaseIterable {
    /// Who the user is.
    case identify
    /// What the user did.
    case track
    /// What the user saw.
    case screen
    /// What the user belongs to.
    case group
    /// Another id of the user.
    case alias
}

/// One recorded call on its way to the destinations: a value.
///
/// What the call fixed can't be changed; a plugin changes the rest and returns
/// the event, or `nil` to drop it.
public struct Event: Sendable {
    /// What an event holds.
    struct Fields: Sendable {
        var fixed: Fixed
        /// What capturing plugins decided at the call. Not there while plugins shape the event.
        var captured = Captured()
        var name: String?
        var userId: String?
        var anonymousId: String?
        var groupId: String?
        var previousId: String?
        var properties: JSONObject
        var traits: JSONObject
        var context: JSONObject
        var integrations = JSONObject()
    }

    /// What the call fixes: no plugin changes it.
    struct Fixed: Sendable {
        let kind: EventKind
        var isScoped = false
        var messageId = MessageID.zero
        /// The instant of the call.
        var moment = Moment(wallMilliseconds: 0, continuousNanoseconds: 0, sequence: 0)
        /// What the event takes of the memory's bound, in bytes: an estimate made at the call.
        var cost = 0
    }

    /// One element: an event is copied at each step of its way, and a copy of an array is a reference.
    private var storage: [Fields]

    /// All in one place, for who reads or changes several of them.
    var fields: Fields {
        _read { yield storage[0] }
        _modify { yield &storage[0] }
    }

    /// Which call made it.
    public var kind: EventKind { storage[0].fixed.kind }

    /// The name of a track event or of a screen; `"identify"` on identify, else `nil`. On the wire: `event`.
    public var name: String? {
        get { storage[0].name }
        set { storage[0].name = newValue }
    }

    /// The user's id; `nil` while anonymous, never empty. On alias: the new id.
    public var userId: String? {
        get { storage[0].userId }
        set { storage[0].userId = newValue }
    }

    /// The anonymous id of the installation or, on a scoped event, of the person it names.
    public var anonymousId: String? {
        get { storage[0].anonymousId }
        set { storage[0].anonymousId = newValue }
    }

    /// The group's id, on group events.
    public var groupId: String? {
        get { storage[0].groupId }
        set { storage[0].groupId = newValue }
    }

    /// The id that was valid before, on alias events.
    public var previousId: String? {
        get { storage[0].previousId }
        set { storage[0].previousId = newValue }
    }

    // Changed in place: a copy that is written back would copy all members.

    /// The properties of track and screen events.
    public var properties: JSONObject {
        _read { yield storage[0].properties }
        _modify { yield &storage[0].properties }
    }

    /// The traits of a group. The traits of a *user* travel in `context["traits"]`, also those of identify
    /// (article "What is sent").
    public var traits: JSONObject {
        _read { yield storage[0].traits }
        _modify { yield &storage[0].traits }
    }

    /// What surrounds the event. Keys that belong to one plugin alone (`CapturingPlugin.contextKeys`) can be removed by
    /// others; what they change or add there is undone before the destinations.
    public var context: JSONObject {
        _read { yield storage[0].context }
        _modify { yield &storage[0].context }
    }

    /// Which destinations get the event, by display name; empty means `{"All": true}`.
    public var integrations: JSONObject {
        _read { yield storage[0].integrations }
        _modify { yield &storage[0].integrations }
    }

    /// Whether the call named its person itself (`EventOptions.userId`, `Analytics.scoped(userId:anonymousId:)`): such
    /// an event neither carries nor touches what the instance knows of its own user.
    public var isScoped: Bool { storage[0].fixed.isScoped }

    /// Made once, at the call; every copy that is sent has the same.
    public var messageId: MessageID { storage[0].fixed.messageId }

    /// The instant of the call by the wall clock, to the millisecond. On the wire: `originalTimestamp`.
    public var timestamp: Date { Date(timeIntervalSince1970: Double(moment.wallMilliseconds) / 1_000) }

    /// The number of the call in its instance. Strictly increasing over events; commands and refused events take numbers
    /// too, so there are gaps.
    public var sequence: UInt64 { storage[0].fixed.moment.sequence }

    var moment: Moment { storage[0].fixed.moment }
    var cost: Int { storage[0].fixed.cost }

    /// Makes an event to be given to `Analytics.record(_:)`, which sets what the moment of the call decides.
    ///
    /// - Parameters:
    ///   - kind: Which call it stands for.
    ///   - name: The event's or screen's name.
    ///   - properties: For track and screen.
    ///   - traits: For identify and group.
    ///   - options: Integrations, custom context, external ids, the person.
    public init(
        _ kind: EventKind, name: String? = nil, properties: JSONObject = JSONObject(),
        traits: JSONObject = JSONObject(),
        options: EventOptions? = nil
    ) {
        storage = [
            Fields(
                fixed: Fixed(kind: kind), name: name, properties: properties, traits: traits,
                context: options?.customContext ?? JSONObject())
        ]
        if let options { fields.apply(options) }
    }
}

extension Event.Fields {
    fileprivate mutating func apply(_ options: EventOptions) {
        if let entries = options.integrations, !entries.isEmpty {
            integrations = ["All": true]
            integrations.merge(entries)
        }
        if let ids = options.externalIds, !ids.isEmpty {
            context["externalId"] = .array(ids.map { ["id": .string($0.id), "type": .string($0.type)] })
        }
        userId = options.userId.nonBlank
        anonymousId = options.anonymousId.nonBlank
        fixed.isScoped = userId != nil || anonymousId != nil
    }
}

extension Event {
    /// What an event keeps from its call, beside what plugins can see.
    struct Captured: Sendable {
        /// The context as it left the call: what was under the keys that belong to one plugin (`CapturingPlugin.contextKeys`).
        var context = JSONObject()
        var anonymousId: String?
        /// One word per capturing plugin that keeps one, by the plugin's slot. The first inline: most events have one.
        private var first: (slot: Int, fact: UInt64)?
        private var others: [Int: UInt64] = [:]

        subscript(slot: Int) -> UInt64? {
            get { if let first, first.slot == slot { first.fact } else { others[slot] } }
            set {
                if let newValue, first == nil || first?.slot == slot {
                    first = (slot, newValue)
                } else {
                    others[slot] = newValue
                }
            }
        }
    }

    /// Gives back what a plugin can't change, if it put another event in the place of the one that it was given.
    mutating func restore(_ fixed: Fixed) {
        if messageId == fixed.messageId, sequence == fixed.moment.sequence, kind == fixed.kind { return }
        storage[0].fixed = fixed
    }
}

extension Optional where Wrapped == String {
    /// The text, unless there is none or nothing in it but blanks: the gateway takes an id like that for none.
    var nonBlank: String? {
        guard let self else { return nil }
        if let first = self.utf8.first, (0x21..<0x7F).contains(first) { return self }
        guard self.unicodeScalars.contains(where: { !$0.isInvisible }) else { return nil }
        return self
    }
}

extension Unicode.Scalar {
    /// Whether the gateway takes the character for nothing: blanks, controls, formats, what is ignorable, blank Braille.
    package var isInvisible: Bool {
        if value < 0x7F { return value <= 0x20 }
        return properties.isWhitespace || properties.isDefaultIgnorableCodePoint
            || [.control, .format].contains(properties.generalCategory) || self == "\u{2800}"
    }
}

/// The instant of a call.
public struct Moment: Sendable {
    /// The wall clock, in milliseconds since 1970.
    public let wallMilliseconds: Int64
    /// The continuous clock, as far as 64 bits go: 292 years.
    let continuousNanoseconds: Int64
    /// The number of the call in its instance.
    public let sequence: UInt64

    /// The continuous clock since the machine's start; it counts sleep and knows nothing of the wall clock being set.
    public var continuous: Duration { .nanoseconds(continuousNanoseconds) }

    /// The continuous clock in whole milliseconds.
    public var continuousMilliseconds: Int64 { continuousNanoseconds / 1_000_000 }

    /// A moment.
    ///
    /// - Parameters:
    ///   - wallMilliseconds: Since 1970.
    ///   - continuous: Since the machine's start; at the ends of what 64 bits of nanoseconds can say where it is beyond them.
    ///   - sequence: The number of the call.
    public init(wallMilliseconds: Int64, continuous: Duration, sequence: UInt64) {
        self.init(
            wallMilliseconds: wallMilliseconds, continuousNanoseconds: continuous.wholeNanoseconds, sequence: sequence)
    }

    init(wallMilliseconds: Int64, continuousNanoseconds: Int64, sequence: UInt64) {
        self.wallMilliseconds = wallMilliseconds
        self.continuousNanoseconds = continuousNanoseconds
        self.sequence = sequence
    }
}

extension Int64 {
    /// The difference, or the end of the range where it would not fit.
    func subtractingClamped(_ other: Int64) -> Int64 {
        let (difference, overflows) = subtractingReportingOverflow(other)
        return overflows ? (other > 0 ? .min : .max) : difference
    }

    /// The sum, or the end of the range where it would not fit.
    func addingClamped(_ other: Int64) -> Int64 {
        let (sum, overflows) = addingReportingOverflow(other)
        return overflows ? (other < 0 ? .min : .max) : sum
    }
}

extension Duration {
    /// Whole milliseconds, the rest cut off; the largest `Int64` where it would not fit.
    package var wholeMilliseconds: Int64 {
        let (seconds, attoseconds) = components
        let (product, overflows) = seconds.multipliedReportingOverflow(by: 1_000)
        if overflows { return seconds < 0 ? .min : .max }
        let (sum, overflowsToo) = product.addingReportingOverflow(attoseconds / 1_000_000_000_000_000)
        return overflowsToo ? (seconds < 0 ? .min : .max) : sum
    }
}
