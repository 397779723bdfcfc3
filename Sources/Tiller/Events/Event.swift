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
    /// Which call made it.
    public let kind: EventKind

    /// The name of a track event or of a screen; `"identify"` on identify, else `nil`. On the wire: `event`.
    public var name: String?

    /// The user's id; `nil` while anonymous, never empty. On alias: the new id.
    public var userId: String?

    /// The anonymous id of the installation or, on a scoped event, of the person it names.
    public var anonymousId: String?

    /// The group's id, on group events.
    public var groupId: String?

    /// The id that was valid before, on alias events.
    public var previousId: String?

    /// The properties of track and screen events.
    public var properties: JSONObject

    /// The traits of a group. The traits of a *user* travel in `context["traits"]`, also those of identify
    /// (article "What is sent").
    public var traits: JSONObject

    /// What surrounds the event. Keys that belong to one plugin alone (`CapturingPlugin.contextKeys`) can be removed by
    /// others; what they change or add there is undone before the destinations.
    public var context: JSONObject

    /// Which destinations get the event, by display name; empty means `{"All": true}`.
    public var integrations: JSONObject

    /// Whether the call named its person itself (`EventOptions.userId`, `Analytics.scoped(userId:anonymousId:)`): such
    /// an event neither carries nor touches what the instance knows of its own user.
    public internal(set) var isScoped = false

    /// Made once, at the call; every copy that is sent has the same.
    public internal(set) var messageId = MessageID.zero

    /// The instant of the call.
    var moment = Moment(wallMilliseconds: 0, continuous: .zero, sequence: 0)

    /// The instant of the call by the wall clock, to the millisecond. On the wire: `originalTimestamp`.
    public var timestamp: Date { Date(timeIntervalSince1970: Double(moment.wallMilliseconds) / 1_000) }

    /// The number of the call in its instance. Strictly increasing over events; commands and refused events take numbers
    /// too, so there are gaps.
    public var sequence: UInt64 { moment.sequence }

    /// What capturing plugins decided at the call, out of other plugins' reach.
    var captured = Captured()

    /// What the event takes of the memory's bound, in bytes: an estimate made at the call.
    var cost = 0

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
        self.kind = kind
        self.name = name
        self.properties = properties
        self.traits = traits
        context = options?.customContext ?? JSONObject()
        integrations = JSONObject()
        if let options { apply(options) }
    }

    private mutating func apply(_ options: EventOptions) {
        if let entries = options.integrations, !entries.isEmpty {
            integrations = ["All": true]
            integrations.merge(entries)
        }
        if let ids = options.externalIds, !ids.isEmpty {
            context["externalId"] = .array(ids.map { ["id": .string($0.id), "type": .string($0.type)] })
        }
        userId = options.userId.nonBlank
        anonymousId = options.anonymousId.nonBlank
        isScoped = userId != nil || anonymousId != nil
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

    /// Gives back what a plugin can't change, if it returned another event than it was given.
    mutating func adopt(fixedPartsOf original: Event) {
        var adopted = original
        adopted.name = name
        adopted.userId = userId
        adopted.anonymousId = anonymousId
        adopted.groupId = groupId
        adopted.previousId = previousId
        adopted.properties = properties
        adopted.traits = traits
        adopted.context = context
        adopted.integrations = integrations
        self = adopted
    }
}

extension Optional where Wrapped == String {
    /// The text, unless there is none or nothing in it but blanks: the gateway takes an id like that for none.
    var nonBlank: String? {
        guard let self, self.unicodeScalars.contains(where: { !$0.isInvisible }) else { return nil }
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
    /// The continuous clock since the machine's start; it counts sleep and knows nothing of the wall clock being set.
    public let continuous: Duration
    /// The number of the call in its instance.
    public let sequence: UInt64

    /// The continuous clock in whole milliseconds.
    public var continuousMilliseconds: Int64 { continuous.wholeMilliseconds }

    /// A moment.
    ///
    /// - Parameters:
    ///   - wallMilliseconds: Since 1970.
    ///   - continuous: Since the machine's start.
    ///   - sequence: The number of the call.
    public init(wallMilliseconds: Int64, continuous: Duration, sequence: UInt64) {
        self.wallMilliseconds = wallMilliseconds
        self.continuous = continuous
        self.sequence = sequence
    }
}

extension Int64 {
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
