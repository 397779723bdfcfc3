/// One critical section: its moment, and the effects that leave it in order with the events.
///
/// A section is what `CapturingPlugin` methods get instead of `Analytics`:
/// they run under the instance's one lock and can't call back.
public struct Section: ~Copyable {
    /// The instant; the same for everything in this section.
    public let moment: Moment

    /// The app's state as the section found it: a foreground or background notice changes it after its own section.
    public let isInForeground: Bool

    /// The machine's boot (`TimeSource.bootIdentity`).
    public let bootIdentity: String?

    /// Whether this instance owns what is stored. A guest, another instance on an owned folder, reads what is there but
    /// writes nothing.
    public let ownsStore: Bool

    /// A word that the plugin keeps with the event from `capture` to `seal`, out of other plugins' reach. `nil` in other
    /// sections, and for an event that was captured before the plugin was added.
    public var fact: UInt64?

    var identifiers: IdentifierGenerator
    var effects = Effects()
    /// The plugin whose turn it is.
    var slot = 0
    /// The turn's plugin could not read its stored state yet.
    var isUnread = false

    init(
        moment: Moment, isInForeground: Bool, bootIdentity: String?, ownsStore: Bool, identifiers: IdentifierGenerator
    ) {
        self.moment = moment
        self.isInForeground = isInForeground
        self.bootIdentity = bootIdentity
        self.ownsStore = ownsStore
        self.identifiers = identifiers
    }

    /// A plugin's turn begins.
    mutating func begin(slot: Int, isUnread: Bool) {
        self.slot = slot
        self.isUnread = isUnread
        fact = nil
    }

    /// Changes what is stored for this plugin: each key replaces what was stored under it, `null` removes it.
    ///
    /// It travels with the section's event as one record, together with what
    /// the other plugins of the section save, and is written later, off the
    /// lock. Keys that are not given stay as they are stored. What a guest
    /// saves lasts as long as its instance.
    ///
    /// - Parameters:
    ///   - changes: The keys that change.
    ///   - replacingUnread: Whether this may replace stored state that could
    ///     not be read: only for what the app asked for by a call of its own.
    ///     Otherwise the change is left out while the stored state is unread.
    public mutating func save(_ changes: JSONObject, replacingUnread: Bool = false) {
        guard !isUnread || replacingUnread else { return }
        isUnread = false
        effects.saves.append((slot, changes))
    }

    /// Asks for a `Wake` to this plugin; a newer request replaces the older.
    ///
    /// - Parameter delay: By the continuous clock; `nil` takes the request back.
    public mutating func wake(after delay: Duration?) { effects.wakes.append((slot, delay)) }

    /// A new random id: a UUID in lower case.
    public mutating func makeId() -> String { identifiers.next().description }

    /// Logs a message, off the lock.
    ///
    /// - Parameters:
    ///   - level: How bad.
    ///   - message: One line, without personal data.
    ///   - once: Whether the same message is left out from now on.
    public mutating func report(_ level: LogLevel, _ message: String, once: Bool = false) {
        effects.reports.append((level, message, once))
    }

    /// What leaves the section.
    struct Effects: Sendable {
        var saves: [(slot: Int, changes: JSONObject)] = []
        var wakes: [(slot: Int, delay: Duration?)] = []
        var reports: [(level: LogLevel, message: String, once: Bool)] = []

        var isEmpty: Bool { saves.isEmpty && wakes.isEmpty && reports.isEmpty }
    }
}
