import Tiller
import TillerTesting

extension World {
    /// Between two lives a byte of a segment changes.
    func damageSomething() {
        let segments = disk.files(synced: false).filter { $0.path.hasSuffix(".log") && !$0.bytes.isEmpty }
        guard !segments.isEmpty else { return }
        let (path, bytes) = segments[random.below(segments.count)]
        let offset = random.below(bytes.count)
        let events = StoredRecords.events(in: bytes)
        // Its record begins with a head of 60 bytes, and ends where the next one's begins.
        let index = events.lastIndex { $0.lowerBound - 60 <= offset }
        let number = index.flatMap { PostedEvents.number(in: bytes, events[$0]) }
        trace.note("\(time.now): byte \(offset) of \(path) changes, in \(number.map { "event \($0)" } ?? "no event")")
        disk.damage(path, at: offset)
        ledger.withLock { $0.damage(number) }
        mayBeLess = true
    }
}

extension SimulatedDisk {
    func damage(_ path: String, at offset: Int) {
        state.withLock { state in
            guard let id = state.names[path], let bytes = state.nodes[id]?.bytes, offset < bytes.count else { return }
            state.nodes[id]?.bytes[offset] ^= 0x40
            if let synced = state.nodes[id]?.synced, offset < synced.count { state.nodes[id]?.synced[offset] ^= 0x40 }
        }
    }
}
