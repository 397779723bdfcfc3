import Testing
import TillerTesting

@testable import Tiller

/// What every `EventStore` keeps to.
@Suite(.timeLimit(.minutes(5))) struct EventStoreContractTests {
    enum Conformer: String, CaseIterable, CustomTestStringConvertible {
        case memory
        case log
        /// Events in memory, state in a store of another kind.
        case memoryBesideALog
        /// A log on a disk that takes everything, nothing after the opening, now and then something.
        case overflowing, overflown, overflowingNowAndThen

        var testDescription: String { rawValue }

        func make(in folder: LogFolder) throws -> any EventStore {
            let diagnostics = Diagnostics(logger: folder.logger, level: .error)
            switch self {
            case .memory: return MemoryEventStore(state: MemoryStateStore(), diagnostics: diagnostics)
            case .log: return try folder.open(storageBytes: 400_000)
            case .memoryBesideALog: return MemoryEventStore(state: try folder.open(), diagnostics: diagnostics)
            case .overflowing: return OverflowingStore(try folder.open(storageBytes: 400_000))
            case .overflown: return try onAFullDisk(folder) { _ in true }
            case .overflowingNowAndThen: return try onAFullDisk(folder) { $0 / 5 % 3 > 0 }
            }
        }

        private func onAFullDisk(_ folder: LogFolder, _ isFull: @escaping @Sendable (_ index: Int) -> Bool) throws
            -> OverflowingStore
        {
            let disk = FaultyFiles(MemoryFiles())
            let log = try folder.open(storageBytes: 400_000, on: disk)
            disk.fail { operation, _, index in
                // An acknowledgement that needs room is another matter.
                let takesRoom = FaultyFiles.Operation.takesRoom.contains(operation) && operation != .lengthen
                guard takesRoom, isFull(index) else { return nil }
                return index % 2 == 0 ? .noSpace : .half
            }
            return OverflowingStore(log)
        }
    }

    private let folder = LogFolder()

    @Test(arguments: Conformer.allCases) func anEmptyStoreGivesNothing(_ conformer: Conformer) throws {
        let store = try conformer.make(in: folder)
        #expect(try store.nextBatch(.all) == nil)
        #expect(store.counts == EventCounts())
        #expect(store.append([]).stored == 0)
        #expect(store.append([]).failure == nil)
        #expect(try store.nextBatch(.all) == nil)
    }

    @Test(arguments: Conformer.allCases) func eventsComeInTheOrderOfTheirComing(_ conformer: Conformer) throws {
        let store = try conformer.make(in: folder)
        for first in stride(from: 1, to: 100, by: 10) { try store.store(StoreRecord.events(first...first + 9)) }
        #expect(try store.deliverAll(.count(13)) == .events(1...100))
        #expect(try store.nextBatch(.all) == nil)
    }

    @Test(arguments: Conformer.allCases) func boundsAreKept(_ conformer: Conformer) throws {
        let store = try conformer.make(in: folder)
        let records = StoreRecord.events(1...9) + [.event("big", padding: 3_000)] + StoreRecord.events(11...12)
        try store.store(records)
        #expect(try store.nextBatch(.count(4))?.names == .events(1...4))
        #expect(try store.nextBatch(.count(1))?.names == ["e1"])
        #expect(try store.nextBatch(.count(0))?.names == ["e1"])  // one is always taken
        let size = (records[0].event?.bytes.count ?? 0) + 37
        let bounds = BatchBounds(bytes: 11 + 4 * size, count: .max, isPerIdentity: false)
        #expect(try store.nextBatch(bounds)?.size == 11 + 4 * size)
        let batches = try store.deliver(bounds)
        #expect(batches == [.events(1...4), .events(5...8), ["e9"], ["big"], .events(11...12)])
    }

    @Test(arguments: Conformer.allCases) func perIdentityABatchHasOneAnonymousId(_ conformer: Conformer) throws {
        let store = try conformer.make(in: folder)
        try store.store(["a", "a", "b", "a"].enumerated().map { .event("e\($0.offset + 1)", of: $0.element) })
        let bounds = BatchBounds(bytes: .max, count: .max, isPerIdentity: true)
        #expect(try store.nextBatch(bounds)?.anonymousId == "a")
        #expect(try store.deliver(bounds) == [["e1", "e2"], ["e3"], ["e4"]])
    }

    @Test(arguments: Conformer.allCases) func whatIsNotAcknowledgedComesAgainWithTheSameBytes(
        _ conformer: Conformer
    ) throws {
        let store = try conformer.make(in: folder)
        try store.store(StoreRecord.events(1...5))
        let first = try #require(try store.nextBatch(.count(3)))
        try store.store(StoreRecord.events(6...7))
        let again = try #require(try store.nextBatch(.count(3)))
        #expect(again.events.map(\.bytes) == first.events.map(\.bytes))
        #expect((again.run, again.start, again.end) == (first.run, first.start, first.end))
        #expect(try store.deliverAll() == .events(1...7))
    }

    @Test(arguments: Conformer.allCases) func aPartCanBeAcknowledged(_ conformer: Conformer) throws {
        let store = try conformer.make(in: folder)
        try store.store(StoreRecord.events(1...9))
        let large = try #require(try store.nextBatch(.count(6)))
        let part = try #require(try store.nextBatch(.count(2)))
        try store.acknowledge(part)
        #expect(store.counts == EventCounts(appended: 9, settled: 2))
        #expect(try store.nextBatch(.count(2))?.names == .events(3...4))
        // And the rest of what was taken before, of which a part is gone already.
        try store.acknowledge(large)
        #expect(store.counts == EventCounts(appended: 9, settled: 6))
        try store.acknowledge(large)
        try store.acknowledge(part)
        #expect(store.counts == EventCounts(appended: 9, settled: 6))
        #expect(try store.deliverAll() == .events(7...9))
        #expect(store.counts.waiting == 0)
    }

    @Test(arguments: Conformer.allCases) func whatIsHeldIsPassedOverAndStays(_ conformer: Conformer) throws {
        let store = try conformer.make(in: folder)
        try store.store(StoreRecord.events(1...6))
        let first = try #require(try store.nextBatch(.count(1)))
        let second = try #require(try store.nextBatch(.count(1), after: first))
        #expect(second.names == ["e2"])
        let rest = try #require(try store.nextBatch(.all, after: second))
        #expect(rest.names == .events(3...6))
        #expect(try store.nextBatch(.all, after: rest) == nil)
        try store.store(StoreRecord.events(7...7))
        #expect(try store.nextBatch(.all, after: rest)?.names == ["e7"])
        // Nothing has gone.
        #expect(store.counts == EventCounts(appended: 7, settled: 0))
        #expect(try store.deliverAll() == .events(1...7))
    }

    @Test(arguments: Conformer.allCases) func whatIsRefusedGoesAndIsCounted(_ conformer: Conformer) throws {
        let store = try conformer.make(in: folder)
        try store.store(StoreRecord.events(1...6))
        let first = try #require(try store.nextBatch(.count(1)))
        let second = try #require(try store.nextBatch(.count(2), after: first))
        let third = try #require(try store.nextBatch(.count(1), after: second))
        let settled = [
            SettledBatch(batch: first, outcome: .refused), SettledBatch(batch: second, outcome: .delivered),
            SettledBatch(batch: third, outcome: .refused),
        ]
        for _ in 1...2 {
            try store.acknowledge(settled)  // the second time there is nothing left to do
            var counts = EventCounts(appended: 6, settled: 4)
            counts.refused = 2
            counts.lost = 2
            #expect(store.counts == counts)
        }
        #expect(try store.nextBatch(.all, after: third)?.names == .events(5...6))
        // Held, but gone meanwhile.
        #expect(try store.nextBatch(.all, after: first)?.names == .events(5...6))
        try store.acknowledge([])
        #expect(try store.deliverAll() == .events(5...6))
    }

    @Test(arguments: Conformer.allCases) func countsAreOfEventsAndNotOfState(_ conformer: Conformer) throws {
        let store = try conformer.make(in: folder)
        try store.store([
            .event("e1"), .state("A", ["a": 1]), .event("e2", changes: [StateChange(key: "A", changes: ["b": 1])]),
        ])
        #expect(store.counts == EventCounts(appended: 2, settled: 0))
        #expect(try store.deliver() == [["e1", "e2"]])
        #expect(store.counts == EventCounts(appended: 2, settled: 2))
        // Without room for it, it is not stored.
        if ![.overflown, .overflowingNowAndThen].contains(conformer) {
            #expect(store.load("A").object == ["a": 1, "b": 1])
        }
    }

    @Test(arguments: Conformer.allCases) func manyEventsInTurnWithTheirDelivery(_ conformer: Conformer) throws {
        let store = try conformer.make(in: folder)
        var delivered: [String] = []
        for round in 0..<150 {
            try store.store(StoreRecord.events(round * 20 + 1...round * 20 + 20))
            if let batch = try store.nextBatch(.count(19)) {
                delivered += batch.names
                try store.acknowledge(batch)
            }
        }
        delivered += try store.deliverAll()
        #expect(delivered == .events(1...3_000))
    }

    @Test(arguments: Conformer.allCases) func momentsComeBack(_ conformer: Conformer) throws {
        let store = try conformer.make(in: folder)
        try store.store([.event("e1", at: -3), .event("e2", at: 1_740_463_597_123)])
        let batch = try #require(try store.nextBatch(.all))
        #expect(batch.isOwnRun)
        #expect(batch.events.map(\.wallMilliseconds) == [-3, 1_740_463_597_123])
        #expect(batch.events.map(\.continuousNanoseconds) == [-3_000_000, 1_740_463_597_123_000_000])
    }

    @Test(arguments: Conformer.allCases) func closeCanComeTwiceAndInAnyOrder(_ conformer: Conformer) throws {
        let store = try conformer.make(in: folder)
        try store.store(StoreRecord.events(1...2))
        store.sync()
        store.prepareToClose()
        store.endWriting()
        #expect(try store.nextBatch(.all)?.names == .events(1...2))
        store.close()
        store.close()
        store.endWriting()
        store.sync()
        #expect(store.counts.waiting == 2)
    }

    @Test(arguments: Conformer.allCases) func appendingAndDeliveringOnTwoThreads(_ conformer: Conformer) async throws {
        let store = try conformer.make(in: folder)
        let count = isUnderThreadSanitizer ? 200 : 1_000
        let delivered = Locked<[String]>([])
        await onThreads(2) { thread in
            if thread == 0 {
                for number in 1...count { _ = store.append([.event("e\(number)")]) }
            } else {
                for _ in 0..<100_000 where store.counts.settled < count {
                    guard let batch = try? store.nextBatch(.count(50)) else { continue }
                    delivered.withLock { $0 += batch.names }
                    try? store.acknowledge(batch)
                }
            }
        }
        let rest = try store.deliverAll()
        let all = delivered.withLock { $0 } + rest
        #expect(all == .events(1...count))
        #expect(store.counts == EventCounts(appended: count, settled: count))
    }
}
