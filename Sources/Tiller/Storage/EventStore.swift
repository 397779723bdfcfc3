/// Where an instance keeps its events and its plugins' state: a log in a folder, or memory.
///
/// `append` and `sync` come from the pipeline's executor, `nextBatch` and `acknowledge` from one uploader at a time; the
/// rest from any thread.
package protocol EventStore: StateStore {
    /// Whether what was appended outlives the process.
    var isDurable: Bool { get }

    /// How many events have come in and gone again.
    var counts: EventCounts { get }

    /// What became of all that was ever written; `nil` where nothing is written to a disk.
    var account: StoredAccount? { get }

    /// What waits: bytes at most, and when the oldest was recorded, in milliseconds since 1970, if that is known.
    var backlog: (bytes: Int, oldest: Int64?) { get }

    /// The same, and how many events this instance has appended, at one moment.
    var countsAndOwn: (counts: EventCounts, own: Int) { get }

    /// The run of the last records that were appended, and the number of the first event among them, or after them.
    var lastAppend: (run: Int, number: UInt64) { get }

    /// Stores records, in order.
    ///
    /// - Returns: How many were stored, the first ones; all of them, if there is no failure.
    func append(_ records: [StoreRecord]) -> (stored: Int, failure: (any Error)?)

    /// The events that are to be delivered next, oldest first; `nil` if none waits.
    ///
    /// - Parameter held: What lies before it stays where it is and is passed over, this batch included; `nil`: nothing is.
    /// - Throws: Why they can't be read now. They stay.
    func nextBatch(_ bounds: BatchBounds, after held: StoredBatch?) throws -> StoredBatch?

    /// Events go, all or none of them at a kill as far as they are of one run.
    ///
    /// - Parameter settled: Oldest first, from the first event that waits, nothing between them left out: each one as
    ///   `nextBatch` gave it after the one before.
    /// - Throws: Why that could not be written down. In this process they are gone all the same.
    func acknowledge(_ settled: [SettledBatch]) throws

    /// Told of events that left memory without ever being on a disk: how many, how large they were, and how.
    ///
    /// - Parameter action: May be called with a lock of the store's held: it does nothing but count.
    func whenGone(_ action: @escaping @Sendable (_ count: Int, _ bytes: Int, SettledBatch.Outcome) -> Void)

    /// Everything goes but this state.
    ///
    /// - Parameter keys: Under which something may be stored.
    /// - Returns: Events that were in memory only, and how large they were.
    /// - Throws: Why not, or not all yet: what was begun is completed before anything else is written. What was in memory is
    ///   gone in any case.
    func erase(leaving changes: [StateChange], keys: [String]) throws -> (count: Int, bytes: Int)

    /// Brings what was appended to the disk itself.
    func sync()

    /// Nothing is appended any more. What waits can still be delivered until `close`.
    func endWriting()

    /// Runs an action, once at most, when another instance of this process waits for the store to be closed.
    func whenWanted(_ action: @escaping @Sendable () -> Void)

    /// Whether this instance may upload what waits. A guest becomes the owner here, if nobody is; else the owner is told
    /// that an upload is wanted, and the counts are brought up to date.
    func mayUpload() -> Bool

    /// Finds out what other processes have stored: it counts as appended.
    func look()

    /// Runs an action when this instance has become the owner of what is stored, or is not any more.
    func whenOwnershipChanges(_ action: @escaping @Sendable (_ isOwned: Bool) -> Void)

    /// Runs an action after events were given up for the bound at a moment of the store's own.
    func whenEvicted(_ action: @escaping @Sendable () -> Void)

    /// Runs an action when another process wants an upload, and when this one has become the owner.
    func whenOthersStore(_ action: @escaping @Sendable () -> Void)

    /// Gives the ownership up, for another process: nothing is uploaded and no state is stored from then on.
    func releaseOwnership()

    /// Becomes the owner again, if nobody is.
    ///
    /// - Returns: Whether this instance is the owner.
    @discardableResult func reclaim() -> Bool
}

/// What a store does that no other process can see.
extension EventStore {
    package func whenGone(
        _ action: @escaping @Sendable (_ count: Int, _ bytes: Int, SettledBatch.Outcome) -> Void
    ) {}
    package func mayUpload() -> Bool { true }
    package func look() {}
    package func whenOwnershipChanges(_ action: @escaping @Sendable (_ isOwned: Bool) -> Void) {}
    package func whenEvicted(_ action: @escaping @Sendable () -> Void) {}
    package func whenOthersStore(_ action: @escaping @Sendable () -> Void) {}
    package func releaseOwnership() {}
    package func reclaim() -> Bool { isOwned }
}

/// How many events a store has had since it was opened.
package struct EventCounts: Sendable, Hashable {
    /// Those that waited at the opening, and those that were appended.
    package var appended = 0
    /// Those that are gone again: delivered, refused, evicted, damaged, erased.
    package var settled = 0
    /// Those of them that were not delivered.
    package var lost = 0
    /// Those of them that the data plane refused.
    package var refused = 0
    /// Those of them that were erased because somebody asked for it.
    package var erased = 0

    /// Those that wait.
    package var waiting: Int { appended - settled }

    package init() {}
}

/// One thing to be stored: an event, the state that changed with it, or both.
package struct StoreRecord: Sendable {
    package let event: EncodedEvent?
    package internal(set) var changes: [StateChange]

    /// The same with its event in memory of its own.
    var apart: StoreRecord { StoreRecord(event: event?.apart, changes: changes) }
}

extension ArraySlice<StoreRecord> {
    /// How many events there are, and how large they are together. In place: to copy a record takes longer than to look.
    var events: (count: Int, bytes: Int) {
        withUnsafeBufferPointer { records in
            var sum = (count: 0, bytes: 0)
            for index in records.indices {
                guard let bytes = records[index].event?.bytes.count else { continue }
                sum.count += 1
                sum.bytes += bytes
            }
            return sum
        }
    }
}

/// What a batch may hold.
package struct BatchBounds: Sendable {
    /// Of the body, uncompressed. One event is taken whatever its size.
    package let bytes: Int
    package let count: Int
    /// Whether all must have the same anonymous id.
    package let isPerIdentity: Bool
}

/// Events that wait, of one run, as they are stored.
package struct StoredBatch: Sendable {
    /// One of them.
    package struct Event: Sendable {
        /// In the run.
        let number: UInt64
        /// As it is stored: a part of what was read, not a copy.
        let bytes: ArraySlice<UInt8>
        /// Where in `bytes` the anonymous id's text lies, from their start.
        let anonymousId: Range<Int>
        let wallMilliseconds: Int64
        let continuousNanoseconds: Int64
        /// The hash of the boot's identity; 0: unknown.
        let boot: UInt64

        /// Escaped; empty if there is none.
        var anonymousIdText: ArraySlice<UInt8> {
            bytes.dropFirst(anonymousId.lowerBound).prefix(anonymousId.count)
        }

        /// What the event takes of a body: with `"sentAt"` and a comma.
        var sizeInBatch: Int { bytes.count + 37 }
    }

    let run: Int
    /// Whether the run is this instance's own.
    let isOwnRun: Bool
    /// From this number of the run up to the one before `end`; what is not among the events is damaged.
    let start: UInt64
    private(set) var end: UInt64
    private(set) var events: [Event] = []
    /// Of the body, uncompressed.
    private(set) var size = 11  // {"batch":[]}, less the last event's comma

    init(run: Int, isOwnRun: Bool, start: UInt64) {
        self.run = run
        self.isOwnRun = isOwnRun
        self.start = start
        end = start
    }

    /// Takes an event in, unless the batch is full.
    mutating func take(
        _ bytes: ArraySlice<UInt8>, anonymousId: Range<Int>, number: UInt64, wallMilliseconds: Int64,
        continuousNanoseconds: Int64, boot: UInt64, within bounds: BatchBounds
    ) -> Bool {
        let event = Event(
            number: number, bytes: bytes, anonymousId: anonymousId, wallMilliseconds: wallMilliseconds,
            continuousNanoseconds: continuousNanoseconds, boot: boot)
        if let first = events.first {
            guard events.count < bounds.count, size + event.sizeInBatch <= bounds.bytes else { return false }
            if bounds.isPerIdentity, event.anonymousIdText != first.anonymousIdText { return false }
        }
        events.append(event)
        size += event.sizeInBatch
        end = number + 1
        return true
    }

    /// The part of it that lies in a range of numbers, under the numbers of another run. Without the bytes: to be settled.
    ///
    /// - Parameter shift: What is added to each number, modulo 2^64.
    func part(_ numbers: Range<UInt64>, asOf run: Int, shiftedBy shift: UInt64) -> StoredBatch {
        let numbers = numbers.clamped(to: start..<end)
        var part = StoredBatch(run: run, isOwnRun: isOwnRun, start: numbers.lowerBound &+ shift)
        part.end = numbers.upperBound &+ shift
        part.events = events.filter { numbers.contains($0.number) }.map { event in
            Event(
                number: event.number &+ shift, bytes: [], anonymousId: 0..<0,
                wallMilliseconds: event.wallMilliseconds,
                continuousNanoseconds: event.continuousNanoseconds, boot: event.boot)
        }
        return part
    }

    /// How many events lie between its ends, damaged ones too.
    var count: Int { Int(clamping: end - start) }

    /// Whether it begins where another one ends.
    func follows(_ earlier: StoredBatch) -> Bool { run == earlier.run && start == earlier.end }

    /// Nothing more is to be found before this number.
    mutating func extend(to number: UInt64) { end = max(end, number) }

    /// The anonymous id of the first event.
    var anonymousId: String? {
        guard let text = events.first?.anonymousIdText, !text.isEmpty else { return nil }
        return (try? JSONValue(parsing: [UInt8(ascii: "\"")] + text + [UInt8(ascii: "\"")]))?.string
    }
}

/// A batch that waits no longer.
package struct SettledBatch: Sendable {
    /// What became of its events.
    package enum Outcome: Sendable, Hashable {
        case delivered
        /// The data plane does not take them: they are given up.
        case refused
    }

    package let batch: StoredBatch
    package let outcome: Outcome
}

extension TimeSource {
    /// The boot as a number, for records; 0: unknown.
    var bootHash: UInt64 {
        guard let bootIdentity else { return 0 }
        return UInt64(SHA256.hex(of: bootIdentity).prefix(16), radix: 16) ?? 0
    }
}
