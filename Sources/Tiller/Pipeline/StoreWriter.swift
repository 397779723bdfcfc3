/// Brings what leaves the pipeline into the store, and keeps what the store does not take, because the disk is full for
/// instance: there it counts against the bound of memory, and it is tried again with the next chunk and every few seconds.
///
/// Called on the pipeline's executor; its state is behind a lock so that it can be asked from elsewhere.
final class StoreWriter: Sendable {
    /// Records in order, and what the events among them cost in memory.
    struct Batch: Sendable {
        fileprivate var records: [StoreRecord] = []
        fileprivate var costs: [Int] = []
    }

    private struct State: Sendable {
        var unwritten = Batch()
        /// When it is tried again.
        var timer: CancellationToken?
        /// The end has come, and the store still did not take it.
        var hasGivenUp = false
    }

    static let timeBetweenTries = Duration.seconds(5)

    private let store: any EventStore
    private let diagnostics: Diagnostics
    private let state = Locked(State())

    init(_ store: any EventStore, _ diagnostics: Diagnostics) {
        self.store = store
        self.diagnostics = diagnostics
    }

    /// Whether it keeps nothing, and has given up nothing.
    var hasStoredAll: Bool { state.withLock { $0.unwritten.records.isEmpty && !$0.hasGivenUp } }

    /// Stores what waits to be stored, then the new: state in one record with the event that it belongs to.
    func write(_ batch: inout Batch, for engine: Engine) {
        let all = state.withLock { state in
            state.unwritten.append(batch)
            return state.unwritten
        }
        batch = Batch()
        guard !all.records.isEmpty else { return }
        let (stored, failure) = store.append(all.records)
        let events = all.records.prefix(stored).count { $0.event != nil }
        state.withLock { state in
            state.unwritten.records.removeFirst(stored)
            state.unwritten.costs.removeFirst(events)
        }
        let cost = all.costs.prefix(events).reduce(0, +)
        if store.isDurable {
            engine.didStore(count: events, bytes: cost)
        } else {
            // From now on they cost what they are.
            let bytes = all.records.prefix(stored).reduce(0) { $0 + ($1.event?.bytes.count ?? 0) }
            engine.correctMemory(by: bytes - cost)
        }
        guard let failure else { return }
        diagnostics.once("store", .error, "Events and state can't be stored; they wait in memory", failure)
        startTimer(engine)
    }

    /// - Returns: Whether events were stored.
    func writeAgain(for engine: Engine) -> Bool {
        state.withLock { $0.timer = nil }
        let before = store.counts.appended
        var nothingNew = Batch()
        write(&nothingNew, for: engine)
        return store.counts.appended > before
    }

    private func startTimer(_ engine: Engine) {
        guard state.withLock({ $0.timer == nil }) else { return }
        let timer = engine.configuration.time.schedule(after: Self.timeBetweenTries) { [weak engine] in
            engine?.whenPassed { [weak engine] in engine?.writeAgain() }
        }
        state.withLock { $0.timer = timer }
    }

    /// What is still not stored at the end is given up.
    func end(_ engine: Engine) {
        var nothingNew = Batch()
        write(&nothingNew, for: engine)
        let (rest, timer) = state.withLock { state in
            defer { state.unwritten = Batch() }
            state.hasGivenUp = !state.unwritten.records.isEmpty
            return (state.unwritten, state.timer.take())
        }
        timer?.cancel()
        guard !rest.records.isEmpty else { return }
        diagnostics.error("\(rest.costs.count) events could not be stored before the shutdown")
        engine.release(count: rest.costs.count, bytes: rest.costs.reduce(0, +), as: .notStored)
    }
}

extension StoreWriter.Batch {
    /// - Parameters:
    ///   - cost: What the event costs in memory until it is stored.
    ///   - changes: The state that changed with it.
    mutating func add(_ encoded: EncodedEvent, of event: Event, cost: Int, with changes: [StateChange]) {
        let content = StoreRecord.Content(
            bytes: encoded.bytes, anonymousId: encoded.anonymousId, moment: event.moment)
        records.append(StoreRecord(event: content, changes: changes))
        costs.append(cost)
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

    fileprivate mutating func append(_ batch: StoreWriter.Batch) {
        var records = batch.records[...]
        // So that what can't be stored grows by events only, which are bounded.
        if let first = records.first, first.event == nil {
            addState(first.changes)
            records = records.dropFirst()
        }
        self.records += records
        costs += batch.costs
    }
}
