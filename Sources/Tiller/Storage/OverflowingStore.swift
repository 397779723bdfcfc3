/// A durable store, and before it the room in memory for what its disk does not take now, because it is full for instance.
///
/// What is stored is delivered first, then what waits in memory. What is delivered from memory is not written any more; its
/// state is. Everything else is written in order as soon as there is room, also while an upload of it is under way.
///
/// A store that is not durable keeps its events in memory itself: it is handed everything as it comes.
final class OverflowingStore: EventStore {
    /// What became of records that were handed over.
    struct Taken: Sendable {
        /// Events that the disk took, of these records and of earlier ones.
        fileprivate(set) var storedCount = 0
        fileprivate(set) var storedBytes = 0
        /// Why it did not take all.
        fileprivate(set) var failure: (any Error)?
    }

    /// Figures that can be asked for while the disk is waited for.
    private struct Tally: Sendable {
        /// Events that were handed over.
        var taken = 0
        /// Those of them that are on the disk.
        var stored = 0
        /// Those of them that went from memory.
        var gone = EventCounts()
        /// Something is not on the disk, be it state.
        var isBehind = false
        /// What waits in memory.
        var unwritten: (bytes: Int, oldest: Int64?) = (0, nil)

        mutating func note(_ queue: borrowing UnwrittenRecords) {
            isBehind = !queue.isEmpty
            unwritten = (queue.bytes, queue.oldest)
        }
    }

    private let base: any EventStore
    private let messages: DeferringLogger?
    /// Held while records are written, and taken before any lock of the store's.
    private let queue = Locked(UnwrittenRecords())
    private let tally = Locked(Tally())
    private let whenGone = Locked<(@Sendable (_ count: Int, _ bytes: Int, SettledBatch.Outcome) -> Void)?>(nil)

    /// - Parameter messages: What the store says while it is used; handed on when no lock is held.
    init(_ base: any EventStore, messages: DeferringLogger? = nil) {
        self.base = base
        self.messages = messages
    }

    /// - Parameter action: Told how many events went from this memory, not from the store, how large they were, and how.
    func whenGone(_ action: @escaping @Sendable (_ count: Int, _ bytes: Int, SettledBatch.Outcome) -> Void) {
        whenGone.withLock { $0 = action }
        base.whenGone(action)
    }

    var isDurable: Bool { base.isDurable }
    var isOwned: Bool { base.isOwned }
    var lastAppend: (run: Int, number: UInt64) { base.lastAppend }
    var counts: EventCounts { countsAndOwn.counts }

    var countsAndOwn: (counts: EventCounts, own: Int) {
        guard base.isDurable else { return base.countsAndOwn }
        return tally.withLock { tally in
            let (stored, own) = base.countsAndOwn
            var counts = stored
            // An event counts from the moment at which it is handed over, wherever it is then.
            counts.appended += tally.taken - own
            counts.settled += tally.gone.settled
            counts.lost += tally.gone.lost
            counts.refused += tally.gone.refused
            counts.erased += tally.gone.erased
            return (counts, tally.taken)
        }
    }

    var account: StoredAccount? { base.account }

    /// What waits in memory counts too; the oldest of it only where nothing waits on the disk.
    var backlog: (bytes: Int, oldest: Int64?) {
        let (bytes, oldest) = base.backlog
        let unwritten = tally.withLock { $0.unwritten }
        return (bytes + unwritten.bytes, oldest ?? unwritten.oldest)
    }

    /// How many events wait in memory for a disk to take them.
    var unwrittenCount: Int { tally.withLock { $0.taken - $0.stored - $0.gone.settled } }

    /// Whether all that was handed over is on the disk, or was delivered without it.
    var hasStoredAll: Bool { base.isDurable && tally.withLock { !$0.isBehind } }
}

// MARK: - Writing

extension OverflowingStore {
    /// Takes records in, in order, and writes what it can.
    func take(_ records: [StoreRecord]) -> Taken {
        defer { messages?.deliver() }
        guard base.isDurable else { return Taken(failure: base.append(records).failure) }
        let (count, _) = records[...].events
        if count > 0 { tally.withLock { $0.taken += count } }
        return queue.withLock { queue in
            var taken = Taken()
            if queue.isEmpty, !records.isEmpty {
                let (stored, failure) = base.append(records)
                taken.note(records[..<stored])
                taken.failure = failure
                queue.didPass(taken.storedCount)
                queue.add(records.dropFirst(stored))
            } else {
                queue.add(records[...])
                writeUnwritten(&queue, &taken)
            }
            let (stored, rest) = (taken.storedCount, queue)
            tally.withLock { tally in
                tally.stored += stored
                tally.note(rest)
            }
            return taken
        }
    }

    private func writeUnwritten(_ queue: inout UnwrittenRecords, _ taken: inout Taken) {
        // One alone at first: a disk that is still full is not handed all of it each time.
        for limit in [1, Int.max] where !queue.isEmpty {
            let records = queue.first(limit)
            let (stored, failure) = base.append(records)
            taken.note(records[..<stored])
            taken.failure = failure
            if stored > 0 { queue.didWrite(stored, as: base.lastAppend) }
            if failure != nil { return }
        }
    }

    /// Takes all in.
    func append(_ records: [StoreRecord]) -> (stored: Int, failure: (any Error)?) {
        _ = take(records)
        return (records.count, nil)
    }

    func save(_ changes: [StateChange]) throws {
        defer { messages?.deliver() }
        guard base.isDurable else { return try base.save(changes) }
        if let failure = take([StoreRecord(event: nil, changes: changes)]).failure { throw failure }
    }

    /// What is in memory yet is given up.
    ///
    /// - Returns: How many events, and how large they were.
    func giveUp() -> (count: Int, bytes: Int) {
        queue.withLock { queue in
            let (count, bytes) = queue.remove(before: .max)
            let rest = queue
            tally.withLock { tally in
                tally.gone.settled += count
                tally.unwritten = (rest.bytes, rest.oldest)
            }
            return (count, bytes)
        }
    }
}

extension OverflowingStore.Taken {
    fileprivate mutating func note(_ records: ArraySlice<StoreRecord>) {
        let (count, bytes) = records.events
        storedCount += count
        storedBytes += bytes
    }
}

// MARK: - Delivering

extension OverflowingStore {
    func nextBatch(_ bounds: BatchBounds, after held: StoredBatch?) throws -> StoredBatch? {
        defer { messages?.deliver() }
        let isInMemory = held?.run == UnwrittenRecords.run
        if !isInMemory, let batch = try base.nextBatch(bounds, after: held) { return batch }
        guard base.isDurable else { return nil }
        // With the lock, no record is on its way from memory to the disk.
        return try queue.withLock { queue in
            if let place = queue.place(behind: held), let batch = try base.nextBatch(bounds, after: place) {
                return batch
            }
            return queue.batch(bounds, from: isInMemory ? held?.end ?? 0 : 0)
        }
    }

    func acknowledge(_ settled: [SettledBatch]) throws {
        defer { messages?.deliver() }
        guard settled.contains(where: { $0.batch.run == UnwrittenRecords.run }) else {
            return try base.acknowledge(settled)
        }
        var gone: [(count: Int, bytes: Int, outcome: SettledBatch.Outcome)] = []
        defer {
            let action = whenGone.withLock { $0 }
            for (count, bytes, outcome) in gone where count > 0 { action?(count, bytes, outcome) }
        }
        try queue.withLock { queue in
            var written: [SettledBatch] = []
            for settled in settled {
                guard settled.batch.run == UnwrittenRecords.run else {
                    written.append(settled)
                    continue
                }
                if let part = queue.written(settled.batch) {
                    written.append(SettledBatch(batch: part, outcome: settled.outcome))
                }
                let (count, bytes) = queue.remove(before: settled.batch.end)
                note(count, settled.outcome, queue)
                gone.append((count, bytes, settled.outcome))
            }
            if !written.isEmpty { try base.acknowledge(written) }
        }
    }

    private func note(_ count: Int, _ outcome: SettledBatch.Outcome, _ queue: UnwrittenRecords) {
        tally.withLock { tally in
            tally.note(queue)
            tally.gone.settled += count
            guard outcome == .refused else { return }
            tally.gone.refused += count
            tally.gone.lost += count
        }
    }
}

// MARK: - Erasing

extension OverflowingStore {
    func erase(leaving changes: [StateChange], keys: [String]) throws -> (count: Int, bytes: Int) {
        defer { messages?.deliver() }
        guard base.isDurable else { return try base.erase(leaving: changes, keys: keys) }
        // With the lock, no record is on its way from memory to the disk.
        return try queue.withLock { queue in
            var erased = queue.remove(before: .max)
            queue.forgetState()
            let (count, rest) = (erased.count, queue)
            tally.withLock { tally in
                tally.gone.settled += count
                tally.gone.lost += count
                tally.gone.erased += count
                tally.note(rest)
            }
            let inStore: (count: Int, bytes: Int)
            do {
                inStore = try base.erase(leaving: changes, keys: keys)
            } catch {
                // They are gone from memory all the same.
                whenGone.withLock { $0 }?(erased.count, erased.bytes, .delivered)
                throw error
            }
            erased.count += inStore.count
            erased.bytes += inStore.bytes
            return erased
        }
    }
}

// MARK: - The store's own

extension OverflowingStore {
    func load(_ key: String) -> Stored {
        defer { messages?.deliver() }
        return base.load(key)
    }

    func sync() {
        base.sync()
        messages?.deliver()
    }

    func endWriting() {
        base.endWriting()
        messages?.deliver()
    }

    func whenWanted(_ action: @escaping @Sendable () -> Void) { base.whenWanted(action) }

    func mayUpload() -> Bool {
        defer { messages?.deliver() }
        return base.mayUpload()
    }

    func look() {
        base.look()
        messages?.deliver()
    }

    func whenOwnershipChanges(_ action: @escaping @Sendable (_ isOwned: Bool) -> Void) {
        base.whenOwnershipChanges(action)
    }

    func whenEvicted(_ action: @escaping @Sendable () -> Void) { base.whenEvicted(action) }

    func whenOthersStore(_ action: @escaping @Sendable () -> Void) { base.whenOthersStore(action) }

    func releaseOwnership() {
        base.releaseOwnership()
        messages?.deliver()
    }

    @discardableResult func reclaim() -> Bool {
        defer { messages?.deliver() }
        return base.reclaim()
    }

    func prepareToClose() { base.prepareToClose() }

    func close() {
        base.close()
        messages?.deliver()
    }
}
