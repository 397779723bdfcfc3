/// Brings what leaves the pipeline into the store. What the store's disk does not take, because it is full for instance,
/// waits in the store's memory and counts against the bound of memory; it is tried again with the next chunk and every few
/// seconds.
///
/// Called on the pipeline's executor.
final class StoreWriter: Sendable {
    /// Records in order, and what the events among them cost in memory so far.
    struct Batch: Sendable {
        fileprivate var records: [StoreRecord] = []
        fileprivate var cost = 0
        /// What they cost from now on: what they are.
        fileprivate var bytes = 0
    }

    private static let timeBetweenTries = Duration.seconds(5)

    private let store: OverflowingStore
    private let diagnostics: Diagnostics
    /// When it is tried again.
    private let timer = Locked<CancellationToken?>(nil)

    init(_ store: OverflowingStore, _ diagnostics: Diagnostics) {
        self.store = store
        self.diagnostics = diagnostics
    }

    /// Stores what waits to be stored, then the new: state in one record with the event that it belongs to.
    func write(_ batch: inout Batch, for engine: Engine) {
        var new = Batch()
        swap(&new, &batch)
        if new.records.isEmpty, store.hasStoredAll || !store.isDurable { return }
        let taken = store.take(new.records)
        engine.didStore(count: taken.storedCount, bytes: taken.storedBytes, correction: new.bytes - new.cost)
        guard let failure = taken.failure else { return }
        diagnostics.once("store", .error, "Events and state can't be stored; they wait in memory", failure)
        startTimer(engine)
    }

    func writeAgain(for engine: Engine) {
        _ = timer.withLock { $0.take() }
        var nothingNew = Batch()
        write(&nothingNew, for: engine)
    }

    /// Everything that was recorded before goes, and all state but this.
    func erase(leaving changes: [StateChange], keys: [String], for engine: Engine) {
        do {
            let erased = try store.erase(leaving: changes, keys: keys)
            engine.release(count: erased.count, bytes: erased.bytes, as: nil)
        } catch {
            diagnostics.error("What is stored could not be erased, or not all of it", error)
            var state = Batch()
            state.addState(changes)
            write(&state, for: engine)
        }
    }

    private func startTimer(_ engine: Engine) {
        guard timer.withLock({ $0 == nil }) else { return }
        let token = engine.configuration.time.schedule(after: Self.timeBetweenTries) { [weak engine] in
            engine?.whenPassed { [weak engine] in engine?.writeAgain() }
        }
        timer.withLock { $0 = token }
    }

    /// The last try at the disk; the data plane gets what still waits.
    func end(_ engine: Engine) {
        writeAgain(for: engine)
        timer.withLock { $0.take() }?.cancel()
    }
}

extension StoreWriter.Batch {
    /// Makes room for so many records more.
    mutating func reserve(_ count: Int) { records.reserveCapacity(records.count + count) }

    /// - Parameters:
    ///   - cost: What the event costs in memory until it is stored.
    ///   - changes: The state that changed with it.
    mutating func add(_ event: consuming EncodedEvent, cost: Int, with changes: consuming [StateChange]) {
        bytes += event.bytes.count
        records.append(StoreRecord(event: event, changes: changes))
        self.cost += cost
    }

    /// State without an event; neighbouring state is one record.
    mutating func addState(_ changes: [StateChange]) {
        if changes.isEmpty { return }
        if let last = records.last, last.event == nil {
            records[records.count - 1].changes.merge(changes)
        } else {
            records.append(StoreRecord(event: nil, changes: changes))
        }
    }
}
