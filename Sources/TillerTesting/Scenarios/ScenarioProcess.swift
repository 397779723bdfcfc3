import Dispatch
import Tiller

/// Holds events before the Before stage.
final class Gate: Plugin {
    private struct State: Sendable {
        var isHolding = false
        var isDropping = false
    }

    let stage = Stage.before
    private let state = Locked(State())
    private let closed = DispatchGroup()

    var isHolding: Bool { state.withLock { $0.isHolding } }

    func hold() {
        let closes = state.withLock { state in
            defer { state.isHolding = true }
            return !state.isHolding
        }
        if closes { closed.enter() }
    }

    func open(dropping: Bool) {
        let opens = state.withLock { state in
            state.isDropping = dropping
            defer { state.isHolding = false }
            return state.isHolding
        }
        if opens { closed.leave() }
    }

    func process(_ event: Event) -> Event? {
        closed.wait()
        return state.withLock { $0.isDropping } ? nil : event
    }
}

final class Filter: Plugin {
    let stage = Stage.enrichment
    private let name: String

    init(_ name: String) { self.name = name }

    func process(_ event: Event) -> Event? { event.name == name ? nil : event }
}

/// A store whose process can die: what comes after that is not stored.
final class MortalStore: EventStore {
    private let base: any EventStore
    private let isDead = Locked(false)

    init(_ base: any EventStore) { self.base = base }

    func die() { isDead.withLock { $0 = true } }
    private var isAlive: Bool { isDead.withLock { !$0 } }

    var isOwned: Bool { base.isOwned }
    var isDurable: Bool { base.isDurable }
    var counts: EventCounts { base.counts }
    var account: StoredAccount? { base.account }
    var backlog: (bytes: Int, oldest: Int64?) { base.backlog }
    var countsAndOwn: (counts: EventCounts, own: Int) { base.countsAndOwn }
    var lastAppend: (run: Int, number: UInt64) { base.lastAppend }
    func load(_ key: String) -> Stored { base.load(key) }
    func save(_ changes: [StateChange]) throws { if isAlive { try base.save(changes) } }
    func append(_ records: [StoreRecord]) -> (stored: Int, failure: (any Error)?) {
        isAlive ? base.append(records) : (records.count, nil)
    }
    func nextBatch(_ bounds: BatchBounds, after held: StoredBatch?) throws -> StoredBatch? {
        isAlive ? try base.nextBatch(bounds, after: held) : nil
    }
    func acknowledge(_ settled: [SettledBatch]) throws { if isAlive { try base.acknowledge(settled) } }
    func whenGone(_ action: @escaping @Sendable (_ count: Int, _ bytes: Int, SettledBatch.Outcome) -> Void) {
        base.whenGone(action)
    }
    func erase(leaving changes: [StateChange], keys: [String]) throws -> (count: Int, bytes: Int) {
        isAlive ? try base.erase(leaving: changes, keys: keys) : (0, 0)
    }
    func sync() { if isAlive { base.sync() } }
    func endWriting() { if isAlive { base.endWriting() } }
    func whenWanted(_ action: @escaping @Sendable () -> Void) { base.whenWanted(action) }
    func prepareToClose() { base.prepareToClose() }
    func close() { base.close() }
}

struct Silence: Logger {}
