import Testing
import TillerTesting

@testable import Tiller

/// A log before which a full disk makes events wait: they are delivered all the same, once, behind what is stored, and
/// written as soon as there is room.
@Suite(.timeLimit(.minutes(5))) struct OverflowingStoreTests {
    private static let folder = "/memory/log"
    private let files = MemoryFiles()
    private let disk: FaultyFiles
    private let log: EventLog
    private let store: OverflowingStore
    private let gone = Locked<[String]>([])

    init() throws {
        disk = FaultyFiles(files)
        log = try Self.open(disk)
        store = OverflowingStore(log)
        store.whenGone { [gone] count, bytes, outcome in gone.withLock { $0.append("\(count) \(outcome)") } }
    }

    private static func open(_ disk: any FileSystem) throws -> EventLog {
        try EventLog(
            folder: folder, on: disk, boot: 1, diagnostics: Diagnostics(logger: RecordingLogger(), level: .none))
    }

    private func next(_ count: Int, after held: StoredBatch? = nil) throws -> StoredBatch {
        try #require(try store.nextBatch(.count(count), after: held))
    }

    private func settle(_ batches: StoredBatch..., as outcome: SettledBatch.Outcome = .delivered) throws {
        try store.acknowledge(batches.map { SettledBatch(batch: $0, outcome: outcome) })
    }

    private func change(_ number: Int64) -> [StateChange] { [StateChange(key: "A", changes: ["n": .int(number)])] }

    /// What the next life finds.
    private func afterKill() throws -> EventLog { try Self.open(files.afterKill()) }

    @Test func whatIsStoredIsDeliveredFirstAndThenWhatIsNot() throws {
        _ = store.take(StoreRecord.events(1...3))
        disk.fill()
        let taken = store.take((4...6).map { .event("e\($0)", changes: change(Int64($0))) })
        #expect(taken.storedCount == 0 && taken.failure != nil)
        #expect((store.unwrittenCount, store.hasStoredAll) == (3, false))
        #expect(store.counts == EventCounts(appended: 6, settled: 0))
        #expect(try store.deliver(.count(2)) == [["e1", "e2"], ["e3"], ["e4", "e5"], ["e6"]])
        #expect(store.counts == EventCounts(appended: 6, settled: 6))
        #expect(gone.withLock { $0 } == ["2 delivered", "1 delivered"])
        // Their state is not stored yet.
        #expect((store.unwrittenCount, store.hasStoredAll) == (0, false))
        #expect(try afterKill().load("A").isAbsent)
        disk.fail(nil)
        _ = store.take([])
        #expect(store.hasStoredAll)
        let next = try afterKill()
        #expect(next.load("A").object == ["n": 6])
        #expect(try next.deliverAll() == [])
        #expect(next.sums == LogIndex.Sums(delivered: 3))
    }

    @Test func whatIsWrittenDuringItsUploadIsSettledInTheLog() throws {
        disk.fill()
        _ = store.take(StoreRecord.events(1...4))
        let batch = try next(2)
        disk.fail(nil)
        #expect(store.take(StoreRecord.events(5...5)).storedCount == 5)
        _ = store.take(StoreRecord.events(6...7))
        try settle(batch)
        #expect(log.sums == LogIndex.Sums(delivered: 2))
        #expect(gone.withLock { $0 } == [])
        #expect(try afterKill().deliverAll() == .events(3...7))
        #expect(try store.deliverAll() == .events(3...7))
        #expect(store.counts == EventCounts(appended: 7, settled: 7))
    }

    @Test func whatIsWrittenInPartIsSettledInBothPlaces() throws {
        disk.fill()
        _ = store.take(StoreRecord.events(1...4))
        let batch = try next(3)
        // One record alone is tried first, and the rest then.
        let appends = Locked(0)
        disk.fail { operation, _, _ in
            guard operation == .append else { return nil }
            return appends.withLock { appends in
                appends += 1
                return appends > 1 ? .half : nil
            }
        }
        #expect(store.take([]).storedCount == 1)
        try settle(batch)
        #expect(log.sums == LogIndex.Sums(delivered: 1))
        #expect(gone.withLock { $0 } == ["2 delivered"])
        #expect(try next(9).names == ["e4"])
        disk.fail(nil)
        _ = store.take(StoreRecord.events(5...5))
        #expect(try afterKill().deliverAll() == .events(4...5))
        #expect(try store.deliverAll() == .events(4...5))
    }

    /// Held in memory, written meanwhile, and more behind it.
    @Test func whatIsHeldKeepsItsPlaceOnItsWayToTheDisk() throws {
        disk.fill()
        _ = store.take(StoreRecord.events(1...8))
        let first = try next(2)
        let second = try next(2, after: first)
        #expect(second.names == .events(3...4))
        disk.fail(nil)
        _ = store.take([])
        let third = try next(2, after: second)
        #expect(third.names == .events(5...6))
        try store.acknowledge([
            SettledBatch(batch: first, outcome: .refused), SettledBatch(batch: second, outcome: .delivered),
            SettledBatch(batch: third, outcome: .refused),
        ])
        #expect(log.sums == LogIndex.Sums(delivered: 2, refused: 4))
        #expect(store.counts.refused == 4)
        #expect(try store.deliverAll() == .events(7...8))
    }

    @Test func whatIsRefusedFromMemoryIsCounted() throws {
        disk.fill()
        _ = store.take(StoreRecord.events(1...3))
        let first = try next(1)
        let second = try next(1, after: first)
        try store.acknowledge([
            SettledBatch(batch: first, outcome: .refused), SettledBatch(batch: second, outcome: .delivered),
        ])
        #expect(gone.withLock { $0 } == ["1 refused", "1 delivered"])
        #expect((store.counts.refused, store.counts.lost, store.counts.settled) == (1, 1, 2))
        #expect(try store.deliverAll() == ["e3"])
    }

    /// After some have gone from memory, others are written under the numbers that the log has for them.
    @Test func batchesFromMemoryNameTheRightEventsAcrossGapsOfTheLog() throws {
        _ = store.take(StoreRecord.events(1...2))
        for round in 0..<4 {
            let first = 3 + round * 6
            disk.fill()
            _ = store.take(StoreRecord.events(first...first + 3))
            #expect(try store.deliverAll(.count(2)).suffix(4) == .events(first...first + 3))
            _ = store.take(StoreRecord.events(first + 4...first + 5))
            let batch = try next(1)
            disk.fail(nil)
            _ = store.take([])
            try settle(batch)
            #expect(try next(9).names == ["e\(first + 5)"])
            #expect(try store.deliverAll() == ["e\(first + 5)"])
        }
        #expect(log.sums == LogIndex.Sums(delivered: 10))
        #expect(try afterKill().sums == LogIndex.Sums(delivered: 10))
    }

    @Test func aBatchThatIsGoneHoldsNothing() throws {
        disk.fill()
        _ = store.take(StoreRecord.events(1...3))
        let batch = try next(3)
        try settle(batch)
        disk.fail(nil)
        _ = store.take(StoreRecord.events(4...5))
        try settle(batch)
        #expect(log.sums == LogIndex.Sums())
        #expect(try next(9, after: batch).names == .events(4...5))
        #expect(try store.deliverAll() == .events(4...5))
    }

    /// What is written at once counts too: otherwise the numbers would be off by as many.
    @Test func numbersHoldOverWhatIsWrittenAtOnce() throws {
        disk.fill()
        _ = store.take(StoreRecord.events(1...2))
        let batch = try next(2)
        disk.fail(nil)
        _ = store.take([])
        _ = store.take(StoreRecord.events(3...4))
        disk.fill()
        _ = store.take(StoreRecord.events(5...5))
        disk.fail(nil)
        _ = store.take([])
        try settle(batch)
        #expect(try afterKill().deliverAll() == .events(3...5))
        #expect(try store.deliverAll() == .events(3...5))
    }

    /// What went from memory names nothing in the log, where other events have got such numbers.
    @Test func aBatchThatWentFromMemorySettlesNothingInTheLog() throws {
        disk.fill()
        _ = store.take(StoreRecord.events(1...3))
        disk.fail(nil)
        _ = store.take([])
        #expect(try store.deliverAll() == .events(1...3))
        disk.fill()
        _ = store.take(StoreRecord.events(4...6))
        let batch = try next(3)
        try settle(batch)
        disk.fail(nil)
        _ = store.take(StoreRecord.events(7...8))
        try settle(batch)
        #expect(log.sums == LogIndex.Sums(delivered: 3))
        #expect(try next(9, after: batch).names == .events(7...8))
        #expect(try store.deliverAll() == .events(7...8))
    }

    @Test func whatIsGivenUpIsTold() throws {
        disk.fill()
        _ = store.take(StoreRecord.events(1...3))
        let (count, bytes) = store.giveUp()
        #expect(count == 3)
        #expect(bytes == StoreRecord.events(1...3).reduce(0) { $0 + ($1.event?.bytes.count ?? 0) })
        #expect(store.counts.waiting == 0)
        #expect(!store.hasStoredAll)
        #expect(store.giveUp().count == 0)
    }

    /// The disk is not handed all that waits each time that something comes.
    @Test func aDiskThatIsStillFullIsHandedOneRecord() {
        disk.fill()
        _ = store.take(StoreRecord.events(1...500))
        disk.fail { operation, _, _ in operation == .append ? .noSpace : nil }
        disk.forgetTrace()
        for number in 501...520 { _ = store.take(StoreRecord.events(number...number)) }
        let appends = disk.trace.filter { $0.operation == .append }
        #expect(appends.count == 20)
        disk.fail(nil)
        #expect(store.take([]).storedCount == 520)
    }

    // MARK: Room

    /// A full disk need not keep what is delivered.
    @Test func theLogsOwnDeliveredSegmentMakesRoom() throws {
        _ = store.take((1...20).map { .event("e\($0)", changes: change(Int64($0))) })
        _ = try store.deliverAll()
        let names = files.names(in: Self.folder, ".log")
        #expect(names.count == 1)
        // No room for one more record as long as the segment is there.
        disk.fail { [files] operation, _, _ in
            operation == .append && files.names(in: Self.folder, ".log").contains(names[0]) ? .noSpace : nil
        }
        #expect(store.take(StoreRecord.events(21...22)).failure == nil)
        #expect(files.names(in: Self.folder, ".log") == ["00000001-000002-000000000020.log"])
        let next = try afterKill()
        #expect(next.load("A").object == ["n": 20])
        #expect(try next.deliverAll() == .events(21...22))
        #expect(next.sums == LogIndex.Sums(delivered: 22))
    }

    @Test func aSegmentInWhichSomethingWaitsIsNotGivenUpForRoom() throws {
        _ = store.take(StoreRecord.events(1...4))
        try settle(try next(3))
        disk.fill()
        #expect(store.take(StoreRecord.events(5...5)).failure != nil)
        #expect(try afterKill().deliverAll() == ["e4"])
        // Nor one whose state no checkpoint can be written for.
        _ = store.take((6...7).map { .event("e\($0)", changes: change(Int64($0))) })
        #expect(try store.deliverAll() == .events(4...7))
        #expect(store.take([]).failure != nil)
        disk.fail(nil)
        _ = store.take([])
        #expect(try afterKill().load("A").object == ["n": 7])
    }

    /// It is written on when there is room again.
    @Test func aSegmentInWhichSomethingWaitsIsNotLeft() throws {
        _ = store.take(StoreRecord.events(1...4))
        disk.fill()
        _ = store.take(StoreRecord.events(5...5))
        disk.fail(nil)
        _ = store.take(StoreRecord.events(6...6))
        #expect(files.names(in: Self.folder, ".log") == ["00000001-000001-000000000000.log"])
        #expect(try store.deliverAll() == .events(1...6))
    }

    // MARK: Threads

    @Test func appendingAndDeliveringWhileTheDiskComesAndGoes() async throws {
        disk.fail { operation, _, index in
            guard FaultyFiles.Operation.takesRoom.contains(operation), index / 11 % 2 == 0 else { return nil }
            return .half
        }
        let count = isUnderThreadSanitizer ? 300 : 2_000
        let delivered = Locked<[String]>([])
        await onThreads(3) { [store] thread in
            switch thread {
            case 0:
                for number in 1...count { _ = store.take([.event("e\(number)")]) }
            case 1:
                var held: StoredBatch?
                for round in 0..<100_000 where store.counts.settled < count {
                    guard let batch = try? store.nextBatch(.count(7), after: held) else {
                        if let alone = held {
                            try? store.acknowledge([SettledBatch(batch: alone, outcome: .delivered)])
                        }
                        held = nil
                        continue
                    }
                    delivered.withLock { $0 += batch.names }
                    if held == nil, round % 3 == 0 {
                        held = batch
                        continue
                    }
                    let settled = ([held].compactMap { $0 } + [batch]).map {
                        SettledBatch(batch: $0, outcome: .delivered)
                    }
                    held = nil
                    try? store.acknowledge(settled)
                }
            default:
                for _ in 0..<20_000 {
                    let counts = store.counts
                    if counts.waiting < 0 || store.unwrittenCount < 0 { Issue.record("\(counts)") }
                }
            }
        }
        disk.fail(nil)
        _ = store.take([])
        let rest = try store.deliverAll()
        // An acknowledgement that could not be written is none in the next life only: nothing comes twice in this one.
        #expect(delivered.withLock { $0 } + rest == .events(1...count))
        #expect(store.counts == EventCounts(appended: count, settled: count))
    }
}
