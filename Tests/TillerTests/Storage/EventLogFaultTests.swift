import Foundation
import Testing
import TillerTesting

@testable import Tiller

/// Kills between any two steps, and steps that fail: nothing is lost, nothing counted twice, one batch sent twice at most.
@Suite(.timeLimit(.minutes(5))) struct EventLogFaultTests {
    private let folder = LogFolder()
    private static let small = 8_000

    // MARK: Kills

    @Test func b36_killBeforeTheAcknowledgementMeansOneBatchAgainWithTheSameBytes() throws {
        let log = try folder.open()
        try log.store(StoreRecord.events(1...9))
        try log.acknowledge(try #require(try log.nextBatch(.count(3))))
        let sent = try #require(try log.nextBatch(.count(3)))
        let killed = try folder.afterKill()
        let next = try killed.open()
        let again = try #require(try next.nextBatch(.count(3)))
        #expect(again.events.map(\.bytes) == sent.events.map(\.bytes))
        #expect(again.names == .events(4...6))
        try next.acknowledge(again)
        #expect(try next.deliverAll() == .events(7...9))
        #expect(next.sums == LogIndex.Sums(delivered: 9))
    }

    @Test func b36_killAfterTheAcknowledgementMeansNothingAgain() throws {
        let log = try folder.open(storageBytes: Self.small)
        try log.store(StoreRecord.events(1...30))
        var delivered: [String] = []
        while let batch = try log.nextBatch(.count(4)) {
            delivered += batch.names
            try log.acknowledge(batch)
            let killed = try folder.afterKill()
            let next = try killed.open(storageBytes: Self.small)
            let rest = try next.deliverAll()
            #expect(delivered + rest == .events(1...30))
            #expect(next.sums == LogIndex.Sums(delivered: 30))
        }
    }

    /// The base has taken the run in; of its files, in the order in which they go, any number is still there.
    @Test func anInterruptedFoldCountsNothingTwice() throws {
        try folder.live(StoreRecord.events(1...20, padding: 100), storageBytes: Self.small)
        let before = try folder.afterKill()
        let log = try folder.open(storageBytes: Self.small)
        try log.store(StoreRecord.events(21...22))
        // The whole run in one batch: its files are all there until the fold.
        let batch = try #require(try log.nextBatch(.all))
        try log.acknowledge(batch)
        #expect(try folder.names(".ack") == ["00000002.ack", "base.ack"])
        let files = try before.names(".log")
        var ack = SlotFile(new: before.path + "/00000001.ack")
        try ack.write([20, 20, 0, 0, 0, 0])
        for gone in 0...files.count {
            let interrupted = try folder.afterKill()
            for name in files[gone...] + ["00000001.ack"] {
                try interrupted.put(try before.contents(name), name)
            }
            let next = try interrupted.open(storageBytes: Self.small)
            #expect(try interrupted.names("00000001.ack").isEmpty)
            #expect(try next.deliverAll() == .events(21...22), "\(gone) files gone")
            #expect(next.sums == LogIndex.Sums(delivered: 22), "\(gone) files gone")
        }
    }

    @Test func foldWhoseFilesCannotGoIsCompletedBeforeTheNext() throws {
        try folder.live(StoreRecord.events(1...2))
        try folder.live(StoreRecord.events(3...4))
        let log = try folder.open()
        let batch = try #require(try log.nextBatch(.all))
        // Nothing can be removed here: a directory is no file.
        let file = try #require(try folder.names(".log").first)
        try folder.makeUnreadable(file)
        try log.acknowledge(batch)
        #expect(folder.logger.texts(.error).filter { $0.contains("could not be removed") }.count == 1)
        try log.acknowledge(try #require(try log.nextBatch(.all)))
        #expect(log.sums == LogIndex.Sums(delivered: 4))
        #expect(try folder.names(".log").count == 2)
        try folder.makeReadable(file)
        #expect(try log.nextBatch(.all) == nil)
        let killed = try folder.afterKill()
        let next = try killed.open()
        #expect(try next.deliverAll() == [])
        #expect(next.sums == LogIndex.Sums(delivered: 4))
        #expect(try folder.names(".log") == [])
    }

    /// A position that the disk does not have allows no removal.
    @Test func nothingGoesBeforeItsAcknowledgementIsWritten() throws {
        let log = try folder.open(storageBytes: Self.small)
        try log.store(StoreRecord.events(1...30))
        let files = try folder.names(".log")
        try folder.block("00000001.ack")
        let batch = try #require(try log.nextBatch(.all))
        #expect(throws: (any Error).self) { try log.acknowledge(batch) }
        #expect(try folder.names(".log") == files)
        #expect(log.counts.waiting == 0)  // in this process they are gone
        try folder.remove("00000001.ack")
        let killed = try folder.afterKill()
        #expect(try killed.open().deliverAll() == .events(1...30))
        // With the next one it is made good.
        try log.store(StoreRecord.events(31...31))
        #expect(try log.deliverAll() == ["e31"])
        #expect(try folder.names(".log").count == 1)
        log.close()
        #expect(try folder.open().sums == LogIndex.Sums(delivered: 31))
    }

    // MARK: What the data plane refuses

    /// Two runs: the held event is the end of the first one.
    @Test func whatIsRefusedIsWrittenDownWithWhatWasDeliveredBehindIt() throws {
        let earlier = try folder.open()
        try earlier.store(StoreRecord.events(1...3))
        earlier.close()
        let log = try folder.open()
        try log.store(StoreRecord.events(4...5))
        let start = try #require(try log.nextBatch(.count(2)))
        try log.acknowledge(start)
        let held = try #require(try log.nextBatch(.all))
        #expect(held.names == ["e3"])
        let next = try #require(try log.nextBatch(.count(1), after: held))
        #expect(next.names == ["e4"])
        // A kill while it is held loses nothing.
        let whileHeld = try folder.afterKill()
        #expect(try whileHeld.open().deliverAll() == .events(3...5))
        try log.acknowledge([
            SettledBatch(batch: held, outcome: .refused), SettledBatch(batch: next, outcome: .delivered),
        ])
        #expect(log.sums == LogIndex.Sums(delivered: 3, refused: 1))
        let killed = try folder.afterKill()
        let after = try killed.open()
        #expect(after.sums == LogIndex.Sums(delivered: 3, refused: 1))
        #expect(after.counts.refused == 0)  // not in this life
        #expect(try after.deliverAll() == ["e5"])
        #expect(after.sums == LogIndex.Sums(delivered: 4, refused: 1))
    }

    /// Damage behind what is held is found, and counted when its turn has come.
    @Test func damageBehindWhatIsHeldIsCountedOnce() throws {
        let earlier = try folder.open()
        try earlier.store(StoreRecord.events(1...3))
        earlier.close()
        let file = try #require(try folder.names(".log").first)
        for name in ["e2", "e3"] { try folder.damage(file, at: "\"\(name)\"") }
        let log = try folder.open()
        try log.store(StoreRecord.events(4...4))
        let held = try #require(try log.nextBatch(.count(1)))
        #expect(held.names == ["e1"])
        let next = try #require(try log.nextBatch(.all, after: held))
        #expect(next.names == ["e4"])
        #expect(log.sums == LogIndex.Sums())
        try log.acknowledge([
            SettledBatch(batch: held, outcome: .refused), SettledBatch(batch: next, outcome: .delivered),
        ])
        #expect(try log.nextBatch(.all) == nil)
        #expect(log.sums == LogIndex.Sums(delivered: 1, damaged: 2, refused: 1))
        #expect(log.counts.waiting == 0)
        #expect(folder.logger.texts(.error).filter { $0.contains("damaged") }.count == 1)
    }

    @Test func whatCannotBeReadIsNotPassedOverBehindWhatIsHeld() throws {
        try folder.live(StoreRecord.events(1...20, padding: 100), storageBytes: Self.small)
        let files = try folder.names(".log")
        try #require(files.count > 2)
        let log = try folder.open(storageBytes: Self.small)
        let held = try #require(try log.nextBatch(.count(1)))
        for file in files.dropFirst() { try folder.makeUnreadable(file) }
        let next = try #require(try log.nextBatch(.all, after: held))
        #expect(next.names.first == "e2" && next.names.count < 19)
        #expect(throws: (any Error).self) { try log.nextBatch(.all, after: next) }
        for file in files.dropFirst() { try folder.makeReadable(file) }
        #expect(try log.nextBatch(.all, after: next) != nil)
    }

    @Test func evictionThatCannotBeWrittenDownRemovesNothing() throws {
        let log = try folder.open(storageBytes: Self.small)
        try log.store(StoreRecord.events(1...5))
        try folder.block("00000001.ack")
        try log.store(StoreRecord.events(6...200))
        let first = try #require(try folder.names(".log").first)
        #expect(first == "00000001-000001-000000000000.log")
        try folder.remove("00000001.ack")
        try log.store(StoreRecord.events(201...240))
        let bytes = try folder.names(".log").reduce(0) { try $0 + folder.contents($1).count }
        #expect(bytes <= Self.small + Self.small / 8)
        log.close()
        let next = try folder.open(storageBytes: Self.small)
        let delivered = try next.deliverAll()
        #expect(delivered.last == "e240")
        #expect(Int(next.sums.delivered + next.sums.evicted) == 240)
        #expect(next.sums.damaged == 0)
    }

    // MARK: Writes that fail

    @Test func aSegmentThatCannotBeMadeLosesNothing() throws {
        let log = try folder.open(storageBytes: Self.small)
        let records = StoreRecord.events(1...30)
        try log.store([records[0]])
        try folder.blockSegments(2...3, upTo: 30)
        let (more, failure) = log.append(Array(records[1...]))
        let stored = more + 1
        #expect(more > 0 && stored < 30)
        #expect(failure != nil)
        #expect(log.counts.appended == stored)
        let (again, secondFailure) = log.append(Array(records[stored...]))
        #expect(again == 0 && secondFailure != nil)
        try folder.unblockSegments(2...3)
        try log.store(Array(records[stored...]))
        #expect(try log.deliverAll() == .events(1...30))
    }

    @Test func aNumberThatCannotBeNotedStoresNothing() throws {
        let log = try folder.open()
        try folder.block("base.ack")
        #expect(log.append(StoreRecord.events(1...2)).failure != nil)
        #expect(try folder.names(".log") == [])
        try folder.remove("base.ack")
        try log.store(StoreRecord.events(1...2))
        #expect(try log.deliverAll() == .events(1...2))
    }

    /// What a write left that failed and could not be cut back: the next segment says how far the old one counts. Events
    /// with its first number or a higher one do not, and state alone with a higher one.
    ///
    /// - Parameters:
    ///   - leftovers: How many records of the failed write are whole.
    ///   - again: How many of them were stored again before a kill.
    @Test(arguments: 0...3, 0...2) func leftoversBehindTheNextSegmentsFirstDoNotCount(_ leftovers: Int, _ again: Int)
        throws
    {
        let rest: [(record: StoreRecord, number: UInt64)] = [
            (.state("A", ["a": 2]), 1), (.event("e2", changes: [StateChange(key: "A", changes: ["a": 3])]), 1),
            (.state("A", ["b": 4]), 2),
        ]
        var bytes: [UInt8] = []
        bytes.append(.event("e1", changes: [StateChange(key: "A", changes: ["a": 1])]), number: 0, boot: 1)
        for (record, number) in rest.prefix(leftovers) { bytes.append(record, number: number, boot: 1) }
        bytes += [0xFF, 1, 0, 0, 9]
        try folder.put(bytes, "00000001-000001-000000000000.log")
        let alone = try folder.afterKill()
        #expect(try alone.open().deliverAll() == ["e1"] + (leftovers > 1 ? ["e2"] : []))
        bytes = []
        for (record, number) in rest.prefix(again) { bytes.append(record, number: number, boot: 1) }
        try folder.put(bytes, "00000001-000002-000000000001.log")
        let log = try folder.open()
        #expect(log.load("A").object == ["a": again > 1 ? 3 : leftovers > 0 || again > 0 ? 2 : 1])
        #expect(try log.deliverAll() == (again > 1 ? ["e1", "e2"] : ["e1"]))
        #expect(log.sums == LogIndex.Sums(delivered: again > 1 ? 2 : 1))
    }

    @Test func aCheckpointThatCannotBeWrittenKeepsTheSegmentsThatNeedIt() throws {
        let log = try folder.open(storageBytes: Self.small)
        try folder.block("checkpoint.json.new")
        try log.store(
            (1...30).map { .event("e\($0)", changes: [StateChange(key: "A", changes: ["n": .int(Int64($0))])]) })
        let files = try folder.names(".log")
        _ = try log.deliverAll()
        #expect(try folder.names(".log") == files)
        let killed = try folder.afterKill()
        #expect(try killed.open().load("A").object == ["n": 30])
        #expect(folder.logger.texts(.error).filter { $0.contains("checkpoint") }.count == 1)
        try folder.remove("checkpoint.json.new")
        try log.store([.event("e31")])
        _ = try log.deliverAll()
        #expect(try folder.names(".log").count == 1)
        #expect(try folder.afterKill().open().load("A").object == ["n": 30])
    }
}
