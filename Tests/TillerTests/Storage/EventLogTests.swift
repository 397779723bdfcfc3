import Foundation
import Testing
import TillerTesting

@testable import Tiller

/// Events through the log: order, bounds, files, sums, over lives that end by a kill.
@Suite(.timeLimit(.minutes(5))) struct EventLogTests {
    private let folder = LogFolder()
    /// Segments of 1 000 bytes: ten events of this suite or fewer.
    private static let small = 8_000

    // MARK: Order and bounds

    @Test func eventsComeInOrderOverSegmentsAndRuns() throws {
        try folder.live(StoreRecord.events(1...25), storageBytes: Self.small)
        #expect(try folder.names(".log").count > 2)
        try folder.live(StoreRecord.events(26...30), storageBytes: Self.small)
        let log = try folder.open(storageBytes: Self.small)
        #expect(log.counts.waiting == 30)
        try log.store(StoreRecord.events(31...33))
        #expect(try log.deliver() == [.events(1...25), .events(26...30), .events(31...33)])
        #expect(log.counts == EventCounts(appended: 33, settled: 33))
        #expect(try log.nextBatch(.all) == nil)
    }

    @Test func countBoundsABatch() throws {
        try folder.live(StoreRecord.events(1...25), storageBytes: Self.small)
        let log = try folder.open()
        let batches = try log.deliver(.count(7))
        #expect(batches.map(\.count) == [7, 7, 7, 4])
        #expect(batches.flatMap { $0 } == .events(1...25))
    }

    @Test func bytesBoundABatchAndOneEventIsTakenWhateverItsSize() throws {
        let records: [StoreRecord] = [10, 2_000, 10, 10, 10].enumerated().map {
            .event("e\($0.offset + 1)", padding: $0.element)
        }
        let log = try folder.open()
        try log.store(records)
        let small = try #require(records[0].event).bytes.count + 37
        // The body's frame is 11 bytes: three small ones fit just so.
        let batches = try log.deliver(BatchBounds(bytes: 11 + 3 * small, count: .max, isPerIdentity: false))
        #expect(batches == [["e1"], ["e2"], ["e3", "e4", "e5"]])
        try log.store(records)
        let less = try log.deliver(BatchBounds(bytes: 10 + 3 * small, count: .max, isPerIdentity: false))
        #expect(less == [["e1"], ["e2"], ["e3", "e4"], ["e5"]])
    }

    @Test func perIdentityABatchEndsWhereTheIdChanges() throws {
        let ids = ["a", "a", "b", "b", "a", "ab", "a"]
        let records = ids.enumerated().map { StoreRecord.event("e\($0.offset + 1)", of: $0.element) }
        let log = try folder.open()
        try log.store(records)
        var batches: [[String]] = []
        var identities: [String?] = []
        while let batch = try log.nextBatch(BatchBounds(bytes: .max, count: .max, isPerIdentity: true)) {
            batches.append(batch.names)
            identities.append(batch.anonymousId)
            try log.acknowledge(batch)
        }
        #expect(batches == [["e1", "e2"], ["e3", "e4"], ["e5"], ["e6"], ["e7"]])
        #expect(identities == ["a", "b", "a", "ab", "a"])
    }

    @Test func aBatchHoldsWhatWasStored() throws {
        try folder.live([.event("a", at: -5), .event("b", at: 7)])
        let log = try folder.open(boot: 2)
        try log.store([.event("c", at: 9)])
        let earlier = try #require(try log.nextBatch(.all))
        #expect(!earlier.isOwnRun)
        #expect(earlier.events.map(\.wallMilliseconds) == [-5, 7])
        #expect(earlier.events.map(\.continuousNanoseconds) == [-5_000_000, 7_000_000])
        #expect(earlier.events.map(\.boot) == [1, 1])
        #expect(
            earlier.events.map(\.bytes) == [
                StoreRecord.event("a").event?.bytes, StoreRecord.event("b").event?.bytes,
            ])
        try log.acknowledge(earlier)
        let own = try #require(try log.nextBatch(.all))
        #expect(own.isOwnRun)
        #expect(own.events.map(\.boot) == [2])
        #expect(own.events.map(\.number) == [0])
    }

    /// Between appending and delivering in turn lies every state of the place where reading goes on.
    @Test func appendingAndDeliveringInTurnKeepsTheOrder() throws {
        let log = try folder.open(storageBytes: Self.small)
        var delivered: [String] = []
        var appended = 0
        for round in 0..<60 {
            let count = round % 7 + 1
            try log.store(StoreRecord.events(appended + 1...appended + count))
            appended += count
            guard let batch = try log.nextBatch(.count(round % 5 + 2)) else { continue }
            if round % 4 == 0 {
                // Not acknowledged: it comes again, the same bytes.
                let again = try #require(try log.nextBatch(.count(batch.events.count)))
                #expect(again.events.map(\.bytes) == batch.events.map(\.bytes))
                #expect(again.events.map(\.number) == batch.events.map(\.number))
            }
            delivered += batch.names
            try log.acknowledge(batch)
        }
        delivered += try log.deliverAll()
        #expect(delivered == .events(1...appended))
        #expect(try folder.names(".log").count <= 2)
    }

    @Test func nothingIsAppendedOrAcknowledgedAfterTheClose() throws {
        let log = try folder.open()
        try log.store(StoreRecord.events(1...3))
        let batch = try #require(try log.nextBatch(.all))
        log.close()
        #expect(throws: EventLog.Closed.self) { try log.acknowledge(batch) }
        #expect(log.append(StoreRecord.events(4...5)).stored == 0)
        #expect(try log.nextBatch(.all) == nil)
        #expect(try folder.open().deliverAll() == .events(1...3))
    }

    @Test func deliveryGoesOnAfterTheEndOfWriting() throws {
        let log = try folder.open()
        try log.store(StoreRecord.events(1...3) + [.state("A", ["a": 1])])
        log.endWriting()
        log.endWriting()
        #expect(log.append(StoreRecord.events(4...5)).stored == 0)
        #expect(try log.deliverAll() == .events(1...3))
        log.close()
        let next = try folder.open()
        #expect(next.counts.waiting == 0)
        #expect(next.load("A").object == ["a": 1])
    }

    // MARK: Files

    @Test func acknowledgedSegmentsGo() throws {
        let log = try folder.open(storageBytes: Self.small)
        try log.store(StoreRecord.events(1...45))
        let files = try folder.names(".log")
        #expect(files.count > 4)
        var left = files.count
        while let batch = try log.nextBatch(.count(10)) {
            try log.acknowledge(batch)
            let now = try folder.names(".log")
            #expect(now == files.suffix(now.count))
            left = now.count
        }
        #expect(left == 1)  // the one that is written
    }

    @Test func filesDoNotPileUpOverManyLives() throws {
        var expected: UInt64 = 0
        for life in 1...25 {
            let log = try folder.open(storageBytes: Self.small)
            try log.store(StoreRecord.events(1...12) + [.state("A", ["life": .int(Int64(life))])])
            expected += 12
            if life % 3 == 0 { #expect(try log.deliverAll().count == 36) }
            if life % 2 == 0 { log.endWriting() }
            log.close()
            #expect(try folder.names().count < 16)
        }
        let log = try folder.open()
        #expect(try log.deliverAll().count == 12)
        #expect(log.sums == LogIndex.Sums(delivered: expected))
        // The base, the checkpoint, the lock: nothing of 25 runs.
        #expect(try folder.names() == ["base.ack", "checkpoint.json", "owner.lock"])
        #expect(log.load("A").object == ["life": 25])
    }

    @Test func livesThatStoreNothingLeaveNothing() throws {
        for _ in 0..<5 {
            let log = try folder.open()
            #expect(try log.nextBatch(.all) == nil)
            log.endWriting()
            log.close()
        }
        #expect(try folder.names() == ["owner.lock"])
    }

    @Test func segmentsThatHoldOnlyStateGoToo() throws {
        let log = try folder.open(storageBytes: Self.small)
        for number in 1...60 { try log.store([.state("A", ["a": .int(Int64(number))])]) }
        #expect(try folder.names(".log").count <= 2)
        #expect(folder.logger.texts(.error) == [])
        log.close()
        #expect(try folder.open().load("A").object == ["a": 60])
    }

    @Test func numberOfARunIsNeverUsedAgain() throws {
        var seen: Set<String> = []
        for life in 0..<12 {
            let log = try folder.open()
            try log.store(StoreRecord.events(1...2))
            let file = try #require(try folder.names(".log").last)
            #expect(seen.insert(file).inserted, "life \(life)")
            if life % 2 == 0 { _ = try log.deliverAll() }
            log.close()
            // The base is all that knows of it.
            if life % 3 == 0 {
                let next = try folder.open()
                _ = try next.deliverAll()
                next.close()
                #expect(try folder.names("0.lock").isEmpty)
            }
        }
        #expect(seen.count == 12)
    }

    @Test func numberIsNotUsedAgainWhereOnlyTheCheckpointKnowsIt() throws {
        let first = try folder.open()
        try first.store([.state("A", ["a": 1])])
        first.endWriting()
        first.close()
        for name in try folder.names() where name != "checkpoint.json" { try folder.remove(name) }
        let second = try folder.open()
        // If it were, this would count as covered by the checkpoint.
        try second.store([.state("A", ["a": 2])])
        #expect(try folder.names(".log") == ["00000002-000001-000000000000.log"])
        second.close()
        #expect(try folder.open().load("A").object == ["a": 2])
    }

    /// Names come from counters: no clock is asked.
    @Test func b38_rollOversHaveDifferentNamesWhateverTheClockSays() throws {
        let log = try folder.open(storageBytes: 8)  // one event each
        try log.store((1...6).map { .event("e\($0)", at: 1_000) } + [.event("e7", at: 5)])
        // The bound is far exceeded: what is closed is evicted, and one file remains with its own name.
        #expect(log.sums.evicted == 6)
        #expect(try folder.names(".log").map { String($0.dropFirst(9)) } == ["000007-000000000006.log"])
        log.close()
        let other = LogFolder()
        let roomy = try other.open(storageBytes: Self.small)
        try roomy.store((1...30).map { .event("e\($0)", padding: 60, at: $0 % 2 == 0 ? 1_000 : 5) })
        let names = try other.names(".log")
        #expect(Set(names.map { $0.split(separator: "-")[1] }).count == names.count && names.count > 3)
        #expect(try roomy.deliverAll() == .events(1...30))
    }

    @Test func b38_creatingAFileNeverReplacesOne() throws {
        let first = "00000001-000001-000000000000.log"
        let taken = "00000001-000002-000000000001.log"
        let log = try folder.open(storageBytes: 800)  // one event each
        try log.store(StoreRecord.events(1...1))
        try folder.put("someone's", taken)
        try log.store(StoreRecord.events(2...2))
        #expect(try folder.names(".log") == [first, taken, "00000001-000003-000000000001.log"])
        #expect(try folder.contents(taken) == Array("someone's".utf8))
        #expect(try log.deliverAll() == .events(1...2))
        #expect(try folder.contents(taken) == Array("someone's".utf8))
    }

    @Test func filesOfAnotherKindAndOfNewerFormatsStay() throws {
        try folder.live(StoreRecord.events(1...3))
        let others = ["notes.txt", "1-1-0.log", "7.ack", "00000001-000001-000000000000.log.bak", "x.log"]
        let newer = ["00000007-000001-000000000000.log2"]
        for name in others + newer { try folder.put(name, name) }
        var ack = SlotFile(new: folder.path + "/00000007.ack")
        try ack.write([3, 3, 0, 0, 0, 0])
        let log = try folder.open()
        try log.store(StoreRecord.events(4...4))
        #expect(try folder.names(".log").contains("00000008-000001-000000000000.log"))
        #expect(try log.deliverAll() == .events(1...4))
        log.endWriting()
        log.close()
        _ = try folder.open().nextBatch(.all)
        for name in others + newer { #expect(try folder.contents(name) == Array(name.utf8)) }
        #expect(try SlotFile(reading: ack.path).values[0] == 3)
        #expect(folder.logger.texts(.error).filter { $0.contains("newer version") }.count == 2)
    }

    // MARK: Sums

    @Test func sumsBalanceOverAllLives() throws {
        var stored: UInt64 = 0
        var generator = IdentifierGenerator.seeded(11)
        for life in 0..<40 {
            let log = try folder.open(storageBytes: Self.small)
            let count = Int(generator.nextWord() % 30) + 1
            try log.store(StoreRecord.events(1...count, "l\(life)_", padding: Int(generator.nextWord() % 80)))
            stored += UInt64(count)
            for _ in 0..<generator.nextWord() % 3 {
                guard let batch = try log.nextBatch(.count(Int(generator.nextWord() % 12) + 1)) else { break }
                try log.acknowledge(batch)
            }
            Self.expectBalance(log, stored, "life \(life)")
            log.close()
            // Damage, of an event that is not the last of its run.
            if life % 4 == 1, let name = try folder.names(".log").first, let found = try? folder.contents(name) {
                var bytes = found
                if bytes.count > 400 { bytes[70] ^= 1 }
                try folder.put(bytes, name)
            }
        }
        let log = try folder.open(storageBytes: Self.small)
        Self.expectBalance(log, stored, "at last")
        let delivered = try log.deliverAll()
        Self.expectBalance(log, stored, "delivered")
        #expect(Set(delivered).count == delivered.count)
        let sums = log.sums
        #expect(log.counts.waiting == 0)
        #expect(sums.delivered > 0 && sums.evicted > 0 && sums.damaged > 0)
        log.close()
        #expect(try folder.open().sums == sums)
    }

    private static func expectBalance(_ log: EventLog, _ stored: UInt64, _ comment: String) {
        let sums = log.sums
        let sum = sums.delivered + sums.evicted + sums.damaged + sums.refused + UInt64(log.counts.waiting)
        #expect(sum == stored, "\(comment)")
    }

    @Test func oldestAreEvictedAndCounted() throws {
        let log = try folder.open(storageBytes: Self.small)
        try log.store(StoreRecord.events(1...200, padding: 50))
        let bytes = try folder.names(".log").reduce(0) { try $0 + folder.contents($1).count }
        #expect(bytes <= Self.small + Self.small / 8)
        let sums = log.sums
        #expect(sums.evicted > 100)
        #expect(log.counts.settled == Int(sums.evicted))
        #expect(try log.deliverAll() == .events(Int(sums.evicted) + 1...200))
        #expect(folder.logger.texts(.error).filter { $0.contains("were given up") }.count == 1)
        log.close()
        let next = try folder.open(storageBytes: Self.small)
        #expect(next.sums == LogIndex.Sums(delivered: 200 - sums.evicted, evicted: sums.evicted))
    }

    @Test func eventsOfEarlierRunsAreEvictedFirst() throws {
        try folder.live(StoreRecord.events(1...20, "a", padding: 100), storageBytes: Self.small)
        try folder.live(StoreRecord.events(1...15, "b", padding: 100), storageBytes: Self.small)
        let log = try folder.open(storageBytes: Self.small)
        try log.store(StoreRecord.events(1...12, "c", padding: 100))
        let evicted = Int(log.sums.evicted)
        #expect((1...20).contains(evicted))
        let all = [String].events(1...20, "a") + .events(1...15, "b") + .events(1...12, "c")
        #expect(try log.deliverAll() == Array(all[evicted...]))
    }

    @Test func whatIsEvictedDuringAnUploadIsCountedOnce() throws {
        let log = try folder.open(storageBytes: Self.small)
        try log.store(StoreRecord.events(1...20, padding: 50))
        let batch = try #require(try log.nextBatch(.all))
        try log.store(StoreRecord.events(21...120, padding: 50))
        let evicted = log.sums.evicted
        #expect(evicted > 0)
        try log.acknowledge(batch)
        Self.expectBalance(log, 120, "after the acknowledgement")
        #expect(log.sums.evicted == evicted)
        #expect(try log.deliverAll() == .events(max(Int(evicted), 20) + 1...120))
        Self.expectBalance(log, 120, "at last")
    }

    /// A segment with state is never given up before a checkpoint has it.
    @Test func evictionRevertsNoState() throws {
        try folder.live([.event("e0", changes: [StateChange(key: "A", changes: ["a": 1])])])
        let log = try folder.open(storageBytes: 80)
        try log.store([.event("e1", padding: 300)])
        #expect(log.sums.evicted == 1)
        let killed = try folder.afterKill()
        #expect(try killed.open().load("A").object == ["a": 1])
    }
}

extension EventCounts {
    init(appended: Int, settled: Int) {
        self.init()
        self.appended = appended
        self.settled = settled
    }
}
