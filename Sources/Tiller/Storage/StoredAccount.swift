/// What became of all events that were ever stored in a folder, over all processes.
package struct StoredAccount: Sendable, Hashable {
    package let delivered: Int
    package let waiting: Int
    package let refused: Int
    package let evicted: Int
    package let damaged: Int

    /// Reads it from a log that nobody has open.
    ///
    /// - Parameter folder: The log's own folder.
    /// - Throws: Why it can't be read.
    package init(folder: String) throws {
        let log = try EventLog(
            folder: folder, boot: 0, diagnostics: Diagnostics(logger: SystemLogger(), level: .error))
        defer { log.close() }
        let sums = log.sums
        delivered = Int(sums.delivered)
        refused = Int(sums.refused)
        evicted = Int(sums.evicted)
        damaged = Int(sums.damaged)
        waiting = log.counts.waiting
    }
}
