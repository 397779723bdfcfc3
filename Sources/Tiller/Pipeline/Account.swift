/// What became of the events of an instance, and of those in its store.
///
/// Two equations hold at every moment. In this process `recorded = inMemory + stored + delivered + droppedInAll`; over all
/// processes that used the store, kills and restarts included, `StoredAccount.stored = delivered + waiting + refused +
/// evicted + damaged`.
public struct Account: Sendable, Hashable {
    /// Why an event went no further than memory.
    public enum Reason: Sendable, Hashable {
        /// A plugin of the Before or Enrichment stage returned `nil`: its type's name.
        case plugin(String)
        /// Its JSON is larger than `Limits.eventBytes`.
        case tooLarge
        /// It has neither a user id nor an anonymous id.
        case invalid
        /// There was no room in memory at the call.
        case queueFull
        /// The data plane refused it on its own (where nothing is written to a disk; else see `StoredAccount.refused`).
        case refused
        /// The instance was shut down before a data plane took it, and there was nowhere to keep it.
        case undelivered
        /// The instance was shut down, and the store had not taken it: a full disk, for instance.
        case notStored
    }

    /// Event calls that the instance took or refused, without those after `shutdown`.
    public internal(set) var recorded = 0
    /// Written to the disk by this instance.
    public internal(set) var stored = 0
    /// Events that were never written to a disk and are gone all the same: taken by the data plane (or, without one, by the
    /// other destinations' queues).
    public internal(set) var delivered = 0
    /// What was dropped, by reason.
    public internal(set) var dropped: [Reason: Int] = [:]
    /// What destinations beside the data plane dropped for themselves, by the destination's type: their own plugins, and
    /// full queues.
    public internal(set) var droppedByDestination: [String: Int] = [:]
    /// What became of all that was ever written to the store; `nil` where nothing is written to a disk.
    public internal(set) var store: StoredAccount?

    /// Between the call and the disk or, where there is none, the data plane.
    public var inMemory: Int { recorded - stored - delivered - droppedInAll }
    /// The sum over all reasons.
    public var droppedInAll: Int { dropped.values.reduce(0, +) }
}
