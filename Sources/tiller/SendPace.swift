import Tiller

/// When `tiller send` waits for what it has recorded, so that the SDK never has to refuse or to evict an event.
struct SendPace: Equatable {
    /// Between two waits. No event has more than 32 KiB, so that what is recorded between them fits into `limits`, also
    /// where each event carries the user's traits.
    private static let mostEvents = 500
    private static let mostBytes = 1_000_000
    /// A third of what the store on disk holds before it gives up its oldest events.
    private static let mostBytesOnDisk = 30_000_000
    /// What an event has on disk beside its line: ids, times, the context.
    private static let bytesBesideLine = 1_500

    static let limits = Limits(memoryBytes: 32_000_000)

    private var events = 0
    private var bytes = 0
    private var undelivered = 0

    mutating func record(bytes size: Int) {
        events += 1
        bytes += size
        undelivered += size + Self.bytesBesideLine
    }

    /// Whether to wait until everything has passed the pipeline.
    var isDue: Bool { events >= Self.mostEvents || bytes >= Self.mostBytes }

    mutating func didStore() {
        events = 0
        bytes = 0
    }

    /// Whether to wait until everything is delivered, too. What is only in memory takes room there until then.
    func needsDelivery(isOnDisk: Bool) -> Bool { !isOnDisk || undelivered >= Self.mostBytesOnDisk }

    mutating func didDeliver() { undelivered = 0 }
}
