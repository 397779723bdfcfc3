/// What became of the events of one process's instance.
///
/// `recorded = inMemory + stored + delivered + dropped`, at every moment. What becomes of stored events is the store's to
/// tell, over all processes.
package struct Account: Sendable, Hashable {
    /// Why an event went no further.
    package enum Reason: Sendable, Hashable {
        /// A plugin of the Before or Enrichment stage returned `nil`: its type's name.
        case plugin(String)
        /// Its JSON is larger than `Limits.eventBytes`.
        case tooLarge
        /// It has neither a user id nor an anonymous id.
        case invalid
        /// There was no room in memory at the call.
        case queueFull
        /// The instance was shut down before a data plane took it, and there was nowhere to keep it.
        case undelivered
        /// The instance was shut down, and the store had not taken it.
        case notStored
    }

    /// Event calls that the instance took or refused, without those after `shutdown`.
    package internal(set) var recorded = 0
    /// Written to the disk.
    package internal(set) var stored = 0
    /// Where nothing is written to a disk: taken by the data plane (or, without one, by the other destinations' queues).
    package internal(set) var delivered = 0
    /// What was dropped, by reason.
    package internal(set) var dropped: [Reason: Int] = [:]
    /// What destinations dropped for themselves, by the destination's name: their own plugins, and full queues.
    package internal(set) var droppedByDestination: [String: Int] = [:]

    /// Between the call and the disk or, where there is none, the data plane.
    package var inMemory: Int { recorded - stored - delivered - droppedInAll }
    /// The sum over all reasons.
    package var droppedInAll: Int { dropped.values.reduce(0, +) }
}

/// How much may wait between a call and the data plane.
struct MemoryUse: Sendable {
    private(set) var count = 0
    private(set) var bytes = 0
    let limits: Limits

    /// - Parameter times: 2 for what must find room.
    func hasRoom(for cost: Int, times: Int = 1) -> Bool {
        count < limits.memoryEvents.multipliedClamped(by: times)
            && bytes + cost <= limits.memoryBytes.multipliedClamped(by: times)
    }

    mutating func take(_ cost: Int) {
        count += 1
        bytes += cost
    }

    mutating func release(count: Int, bytes: Int) {
        self.count -= count
        self.bytes -= bytes
    }

    /// The true size of events is known once they are encoded.
    mutating func correct(by bytes: Int) { self.bytes += bytes }
}

extension Int {
    fileprivate func multipliedClamped(by factor: Int) -> Int {
        let (product, overflows) = multipliedReportingOverflow(by: factor)
        return overflows ? .max : product
    }
}
