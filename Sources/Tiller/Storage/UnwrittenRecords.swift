/// Records that wait in memory for a disk to take them, in order; events among them may be delivered before that.
struct UnwrittenRecords: Sendable {
    /// The run that batches from memory name: no run of a log has this number.
    static let run = 0

    /// The state of what went from memory: older than the records, and not on the disk.
    private var changes: [StateChange] = []
    private var records: [StoreRecord] = []
    /// How many of the first have gone; they are let go of in large steps.
    private var gone = 0
    /// The number of the first event among the records. Numbers count all events that ever came, also those that were
    /// written at once.
    private var first: UInt64 = 0
    /// Events before this number are gone from memory, or from the store.
    private var firstNamed: UInt64 = 0
    /// What makes of the number of an event that was written its number in the store, modulo 2^64. It changes when events
    /// go from memory, and then no earlier one can be named by a batch any more.
    private var shift: UInt64 = 0
    private var storeRun = 0

    /// Of the events that wait.
    private(set) var bytes = 0

    var isEmpty: Bool { changes.isEmpty && gone == records.count }

    /// When the first event that waits was recorded.
    var oldest: Int64? { records[gone...].lazy.compactMap(\.event).first?.moment.wallMilliseconds }

    /// State without an event, next to such, is one record: what can't be stored grows by events only, which are bounded.
    mutating func add(_ new: ArraySlice<StoreRecord>) {
        for record in new {
            if record.event == nil, gone < records.count, records[records.count - 1].event == nil {
                records[records.count - 1].changes.merge(record.changes)
            } else if record.event == nil, gone == records.count {
                changes.merge(record.changes)
            } else {
                records.append(record.apart)
                bytes += record.event?.bytes.count ?? 0
            }
        }
    }

    /// What is to be written first.
    func first(_ limit: Int) -> [StoreRecord] {
        let state = changes.isEmpty ? [] : [StoreRecord(event: nil, changes: changes)]
        return state + records[gone...].prefix(limit - state.count)
    }

    /// Events came and were written at once.
    mutating func didPass(_ count: Int) { first += UInt64(count) }

    /// So many records of those that `first(_:)` gives are on the disk.
    ///
    /// - Parameter place: What the store says of them.
    mutating func didWrite(_ count: Int, as place: (run: Int, number: UInt64)) {
        var count = count
        // What was written to another run can't be named any more: it is sent again.
        if place.run != storeRun { firstNamed = first }
        (storeRun, shift) = (place.run, place.number &- first)
        if count > 0, !changes.isEmpty {
            changes = []
            count -= 1
        }
        first += UInt64(records[gone...].prefix(count).count { $0.event != nil })
        drop(count)
    }

    /// What is left is state, and it is not to be written any more.
    mutating func forgetState() {
        firstNamed = first
        changes = []
        drop(records.count - gone)
    }

    private mutating func drop(_ count: Int) {
        bytes -= records[gone..<gone + count].reduce(0) { $0 + ($1.event?.bytes.count ?? 0) }
        gone += count
        guard gone > 1_000 || gone == records.count else { return }
        records.removeFirst(gone)
        gone = 0
    }
}

// MARK: - Delivering

extension UnwrittenRecords {
    /// Events that wait here; `nil` if there are none.
    ///
    /// - Parameter number: Events before it are passed over.
    func batch(_ bounds: BatchBounds, from number: UInt64) -> StoredBatch? {
        var batch: StoredBatch?
        var next = first
        for case let event? in records[gone...].lazy.map(\.event) {
            defer { next += 1 }
            guard next >= number else { continue }
            var grown = batch.take() ?? StoredBatch(run: Self.run, isOwnRun: true, start: next)
            let isTaken = grown.take(
                event.bytes, anonymousId: event.anonymousId, number: next,
                wallMilliseconds: event.moment.wallMilliseconds,
                continuousNanoseconds: event.moment.continuousNanoseconds, boot: 0,
                within: bounds)
            batch = grown
            if !isTaken { break }
        }
        return batch
    }

    /// What of a batch from here has been written since, as the store knows it; `nil` if nothing has.
    func written(_ batch: StoredBatch) -> StoredBatch? {
        let numbers = (firstNamed..<first).clamped(to: batch.start..<batch.end)
        return numbers.isEmpty ? nil : batch.part(numbers, asOf: storeRun, shiftedBy: shift)
    }

    /// Where the store has to be read on behind a batch; `nil` if what follows is here.
    ///
    /// - Parameter held: From here or from the store; `nil`: there is none.
    /// - Returns: Another `nil` for: from the beginning.
    func place(behind held: StoredBatch?) -> StoredBatch?? {
        guard let held, held.run == Self.run else { return .some(held) }
        if held.end <= firstNamed { return .some(nil) }
        return held.end <= first ? .some(written(held)) : nil
    }

    /// Events before a number go. Their state stays, to be written.
    ///
    /// - Returns: How many, and how large they were.
    mutating func remove(before number: UInt64) -> (count: Int, bytes: Int) {
        var (count, bytes, dropped) = (0, 0, 0)
        for record in records[gone...] {
            if let event = record.event {
                guard first < number else { break }
                first += 1
                count += 1
                bytes += event.bytes.count
            }
            changes.merge(record.changes)
            dropped += 1
        }
        drop(dropped)
        if count > 0 { firstNamed = first }
        return (count, bytes)
    }
}
