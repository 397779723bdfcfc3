/// Events in memory, and state wherever a `StateStore` keeps it: for `Storage.memory`, for a store of the caller's, for a
/// guest on another's folder, and where nothing can be stored.
final class MemoryEventStore: EventStore {
    private struct Waiting: Sendable {
        let content: EncodedEvent
        let number: UInt64
    }

    private struct Kept: Sendable {
        var events: [Waiting] = []
        /// How many of the first have gone; they are let go of in large steps.
        var gone = 0
        var next: UInt64 = 0
        /// What it was before the last records.
        var lastAppend: UInt64 = 0
        var counts = EventCounts()
        /// State that the store would not take yet.
        var unsaved: [StateChange] = []
    }

    private let state: any StateStore
    private let diagnostics: Diagnostics
    private let kept = Locked(Kept())
    private let whenGone = Locked<(@Sendable (_ count: Int, _ bytes: Int, SettledBatch.Outcome) -> Void)?>(nil)

    init(state: any StateStore, diagnostics: Diagnostics) {
        self.state = state
        self.diagnostics = diagnostics
    }

    var isDurable: Bool { false }
    var isOwned: Bool { state.isOwned }
    var counts: EventCounts { kept.withLock { $0.counts } }
    var countsAndOwn: (counts: EventCounts, own: Int) { kept.withLock { ($0.counts, $0.counts.appended) } }
    var lastAppend: (run: Int, number: UInt64) { (1, kept.withLock { $0.lastAppend }) }

    var account: StoredAccount? { nil }

    var backlog: (bytes: Int, oldest: Int64?) {
        kept.withLock { kept in
            let waiting = kept.events[kept.gone...]
            let bytes = waiting.reduce(0) { $0 + $1.content.bytes.count }
            return (bytes, waiting.first?.content.moment.wallMilliseconds)
        }
    }

    func load(_ key: String) -> Stored { state.load(key) }

    func save(_ changes: [StateChange]) throws {
        guard state.isOwned else { return }
        let all = kept.withLock { kept in
            kept.unsaved.merge(changes)
            return kept.unsaved
        }
        guard !all.isEmpty else { return }
        try state.save(all)
        kept.withLock { $0.unsaved = [] }
    }

    /// What a store refuses is kept, and tried again with the next change.
    func append(_ records: [StoreRecord]) -> (stored: Int, failure: (any Error)?) {
        var changes: [StateChange] = []
        for record in records { changes.merge(record.changes) }
        do {
            try save(changes)
        } catch {
            diagnostics.once("save", .error, "The state could not be stored; it is kept in memory", error)
        }
        kept.withLock { kept in
            kept.lastAppend = kept.next
            for case let content? in records.map(\.event) {
                kept.events.append(Waiting(content: content.apart, number: kept.next))
                kept.next += 1
                kept.counts.appended += 1
            }
        }
        return (records.count, nil)
    }

    func nextBatch(_ bounds: BatchBounds, after held: StoredBatch?) -> StoredBatch? {
        kept.withLock { kept in
            let waiting = kept.events[kept.gone...].drop { $0.number < held?.end ?? 0 }
            guard let first = waiting.first else { return nil }
            var batch = StoredBatch(run: 1, isOwnRun: true, start: first.number)
            for event in waiting {
                let content = event.content
                let isTaken = batch.take(
                    content.bytes, anonymousId: content.anonymousId, number: event.number,
                    wallMilliseconds: content.moment.wallMilliseconds,
                    continuousNanoseconds: content.moment.continuousNanoseconds, boot: 0,
                    within: bounds)
                if !isTaken { break }
            }
            return batch
        }
    }

    func whenGone(_ action: @escaping @Sendable (_ count: Int, _ bytes: Int, SettledBatch.Outcome) -> Void) {
        whenGone.withLock { $0 = action }
    }

    func erase(leaving changes: [StateChange], keys: [String]) throws -> (count: Int, bytes: Int) {
        let erased = kept.withLock { kept in
            let waiting = kept.events[kept.gone...]
            kept.counts.settled += waiting.count
            kept.counts.lost += waiting.count
            kept.counts.erased += waiting.count
            let bytes = waiting.reduce(0) { $0 + $1.content.bytes.count }
            (kept.events, kept.gone, kept.unsaved) = ([], 0, [])
            return (waiting.count, bytes)
        }
        do {
            if state.isOwned { try eraseState(leaving: changes, keys) }
        } catch {
            // They are gone from memory all the same.
            whenGone.withLock { $0 }?(erased.0, erased.1, .delivered)
            throw error
        }
        return erased
    }

    private func eraseState(leaving changes: [StateChange], _ keys: [String]) throws {
        var all: [StateChange] = []
        for key in keys {
            guard case .value(let object) = state.load(key) else { continue }
            var removal = JSONObject()
            for (name, _) in object { removal[name] = .some(.null) }
            all.append(StateChange(key: key, changes: removal))
        }
        all.merge(changes)
        try state.save(all)
    }

    func acknowledge(_ settled: [SettledBatch]) {
        let whenGone = whenGone.withLock { $0 }
        kept.withLock { kept in
            for settled in settled {
                let gone = kept.events[kept.gone...].prefix { $0.number < settled.batch.end }
                let count = gone.count
                // Before the counts change: who waits for that finds it done.
                whenGone?(count, gone.reduce(0) { $0 + $1.content.bytes.count }, settled.outcome)
                kept.gone += count
                kept.counts.settled += count
                if settled.outcome == .refused {
                    kept.counts.refused += count
                    kept.counts.lost += count
                }
            }
            guard kept.gone > 1_000 || kept.gone == kept.events.count else { return }
            kept.events.removeFirst(kept.gone)
            kept.gone = 0
        }
    }

    func sync() {}
    func endWriting() {}
    func whenWanted(_ action: @escaping @Sendable () -> Void) {}
    func prepareToClose() { state.prepareToClose() }
    func close() { state.close() }
}

/// Events in memory beside a store of the caller's, for TillerTesting.
package func eventsInMemory(state: any StateStore, logger: any Logger) -> any EventStore {
    MemoryEventStore(state: state, diagnostics: Diagnostics(logger: logger, level: .error))
}
