/// What became of the events of a store, in all processes that used it. Kept in the store: each figure changes in the same
/// write as its cause, *waiting* and *damaged* follow from the numbers of the records.
public struct StoredAccount: Sendable, Hashable {
    /// Acknowledged by the data plane.
    public internal(set) var delivered = 0
    /// Waiting to be delivered.
    public internal(set) var waiting = 0
    /// Refused by the data plane, each on its own.
    public internal(set) var refused = 0
    /// Given up because the store was full (`Limits.storageBytes`) or they were too old.
    public internal(set) var evicted = 0
    /// Damaged on the disk, or removed from it by somebody else.
    public internal(set) var damaged = 0

    /// All that were ever stored.
    public var stored: Int { delivered + waiting + refused + evicted + damaged }

    init() {}
}

extension StoredAccount {
    /// Reads it from a log that nobody has open.
    ///
    /// - Parameter folder: The log's own folder.
    /// - Throws: Why it can't be read.
    package init(folder: String) throws {
        let log = try EventLog(
            folder: folder, boot: 0, diagnostics: Diagnostics(logger: SystemLogger(), level: .error))
        defer { log.close() }
        self = log.account ?? StoredAccount()
    }
}
