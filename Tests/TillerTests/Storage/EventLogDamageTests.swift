import Foundation
import Testing
import TillerTesting

@testable import Tiller

/// What damage, missing files, and files that can't be read now cost: those events, and nothing else.
@Suite(.timeLimit(.minutes(5))) struct EventLogDamageTests {
    private let folder = LogFolder()
    private static let small = 8_000

    /// Four segments of one earlier run, five events each, and their names.
    private func fourSegments() throws -> [String] {
        try folder.live(StoreRecord.events(1...20, padding: 100), storageBytes: Self.small)
        let names = try folder.names(".log")
        #expect(names.count == 4)
        return names
    }

    private func firsts(_ names: [String]) -> [Int] {
        names.compactMap { Int($0.split(separator: "-")[2].split(separator: ".")[0]) }
    }

    private func errors(_ text: String) -> Int { folder.logger.texts(.error).filter { $0.contains(text) }.count }

    /// State alone has the next event's number, so that an event before it that is not to be seen any more is missed.
    @Test func eventWithoutAHeadIsMissedWhereStateFollows() throws {
        try folder.live([.event("a"), .event("b"), .state("S", ["k": 1])])
        let name = try folder.names(".log")[0]
        var bytes = try folder.contents(name)
        let size = LogRecordHeader.size + (StoreRecord.event("a").event?.bytes.count ?? 0)
        bytes[size] = 0
        try folder.put(bytes, name)
        let log = try folder.open()
        #expect(log.counts.waiting == 2)
        #expect(try log.deliverAll() == ["a"])
        #expect(log.sums == LogIndex.Sums(delivered: 1, damaged: 1))
    }

    // MARK: B32

    @Test(arguments: ["missing", "corrupt", "empty"])
    func b32_aLostFileCostsItsEventsAndShiftsNothing(_ damage: String) throws {
        let files = try fourSegments()
        let first = firsts(files)
        switch damage {
        case "missing": try folder.remove(files[1])
        case "corrupt": try folder.put([UInt8](repeating: 0x5A, count: 900), files[1])
        default: try folder.put([], files[1])
        }
        let log = try folder.open(storageBytes: Self.small)
        let lost = first[2] - first[1]
        let delivered = try #require(try log.nextBatch(.all))
        #expect(delivered.names == .events(1...first[1]) + .events(first[2] + 1...20))
        try log.acknowledge(delivered)
        #expect(log.sums == LogIndex.Sums(delivered: UInt64(20 - lost), damaged: UInt64(lost)))
        #expect(errors("\(lost) stored events were damaged") == 1)
        #expect(try folder.names(".log") == [])
        try log.store(StoreRecord.events(21...22))
        #expect(try log.deliver() == [.events(21...22)])
        log.close()
        #expect(try folder.open().sums == LogIndex.Sums(delivered: UInt64(22 - lost), damaged: UInt64(lost)))
    }

    @Test(arguments: 0..<4, [false, true]) func b32_anUnreadableFileHoldsDeliveryUpAndIsKept(
        _ index: Int, _ byLink: Bool
    ) throws {
        let files = try fourSegments()
        try folder.makeUnreadable(files[index], byLink: byLink)
        let log = try folder.open(storageBytes: Self.small)
        try log.store(StoreRecord.events(21...22))
        // What lies before it is delivered, and nothing after it.
        var delivered: [String] = []
        #expect(throws: (any Error).self) { delivered += try log.deliverAll() }
        delivered = try sentBefore(log, files, index)
        for _ in 0..<3 { #expect(throws: (any Error).self) { try log.nextBatch(.all) } }
        #expect(try folder.names(".log").contains(files[index]))
        #expect(log.sums.damaged == 0)
        try folder.makeReadable(files[index])
        let rest = try log.deliverAll()
        #expect(delivered + rest == .events(1...22))
        #expect(log.sums == LogIndex.Sums(delivered: 22))
        #expect(log.counts == EventCounts(appended: 22, settled: 22))
    }

    /// What was delivered, by the account, for the sending was in the one that threw.
    private func sentBefore(_ log: EventLog, _ files: [String], _ index: Int) throws -> [String] {
        let count = firsts(files)[index]
        #expect(log.sums.delivered == UInt64(count))
        return count == 0 ? [] : .events(1...count)
    }

    @Test func b32_anUnreadableFileIsKeptOverLivesAndByTheNextOne() throws {
        try folder.live([.event("e1", changes: [StateChange(key: "A", changes: ["a": 1, "b": 1])])])
        let file = try #require(try folder.names(".log").first)
        try folder.makeUnreadable(file)
        for life in 0..<3 {
            let log = try folder.open()
            try log.store([.event("l\(life)"), .state("A", ["b": .int(Int64(life + 2))])])
            #expect(throws: (any Error).self) { try log.nextBatch(.all) }
            log.endWriting()
            log.close()
        }
        try folder.makeReadable(file)
        let log = try folder.open()
        // Its state too, in its place: it reverts nothing newer.
        #expect(log.load("A").object == ["a": 1, "b": 4])
        #expect(try log.deliverAll() == ["e1", "l0", "l1", "l2"])
        log.endWriting()
        log.close()
        #expect(try folder.open().load("A").object == ["a": 1, "b": 4])
    }

    @Test func stateOfAFileThatCanBeReadAgainIsInItsPlaceInTheSameLife() throws {
        try folder.live([.event("e1", changes: [StateChange(key: "A", changes: ["a": 1, "b": 1])])])
        let file = try #require(try folder.names(".log").first)
        try folder.makeUnreadable(file)
        let log = try folder.open()
        try log.store([.state("A", ["b": 2])])
        try folder.makeReadable(file)
        #expect(try log.deliverAll() == ["e1"])
        #expect(log.load("A").object == ["a": 1, "b": 2])
        log.endWriting()
        log.close()
        #expect(try folder.open().load("A").object == ["a": 1, "b": 2])
    }

    @Test func anUnreadableFileThatGoesHoldsNothingUp() throws {
        try folder.live(StoreRecord.events(1...2))
        let file = try #require(try folder.names(".log").first)
        try folder.makeUnreadable(file)
        let log = try folder.open()
        try log.store(StoreRecord.events(3...3))
        #expect(throws: (any Error).self) { try log.nextBatch(.all) }
        try folder.remove(file)
        #expect(try log.deliverAll() == ["e3"])
    }

    @Test func aLinkInASegmentsPlaceIsNotFollowed() throws {
        try folder.live(StoreRecord.events(1...2))
        let file = try #require(try folder.names(".log").first)
        let outside = TestFolder()
        try FileManager.default.createDirectory(at: outside.url, withIntermediateDirectories: true)
        try FileManager.default.moveItem(atPath: folder.path + "/" + file, toPath: outside.path + "/secret")
        try FileManager.default.createSymbolicLink(
            atPath: folder.path + "/" + file, withDestinationPath: outside.path + "/secret")
        let log = try folder.open()
        #expect(throws: (any Error).self) { try log.nextBatch(.all) }
        #expect(try folder.names(".log") == [file])
        #expect(FileManager.default.fileExists(atPath: outside.path + "/secret"))
    }

    // MARK: Damage of segments

    @Test(arguments: ["e1\"", "e3\"", "e10\"", "e19\""])
    func eventsBeforeAndAfterTheDamageAreDelivered(_ name: String) throws {
        let files = try fourSegments()
        let file = try #require(files.first { (try? folder.contents($0).contains(name)) ?? false })
        try folder.damage(file, at: name)
        let log = try folder.open(storageBytes: Self.small)
        #expect(log.counts.waiting == 20)
        let delivered = try log.deliverAll(.count(3))
        #expect(delivered == [String].events(1...20).filter { $0 + "\"" != name })
        #expect(log.sums == LogIndex.Sums(delivered: 19, damaged: 1))
        #expect(errors("1 stored events were damaged") == 1)
        log.close()
        #expect(try folder.open().sums == LogIndex.Sums(delivered: 19, damaged: 1))
    }

    /// The last one's head tells its number.
    @Test func damagedPayloadOfTheLastEventIsCounted() throws {
        let files = try fourSegments()
        try folder.damage(try #require(files.last), at: "e20\"")
        let log = try folder.open()
        #expect(try log.deliverAll() == .events(1...19))
        #expect(log.sums == LogIndex.Sums(delivered: 19, damaged: 1))
    }

    @Test func aRunOfNothingButDamageIsSettledWithoutARequest() throws {
        try folder.live(StoreRecord.events(1...1))
        let file = try #require(try folder.names(".log").first)
        try folder.damage(file, at: "e1\"")
        let log = try folder.open()
        try log.store(StoreRecord.events(2...2))
        #expect(try log.deliver() == [["e2"]])
        #expect(log.sums == LogIndex.Sums(delivered: 1, damaged: 1))
    }

    /// As a kill leaves it: nothing of it was stored, so nothing of it is damaged.
    @Test func aWriteThatWasCutOffAnywhereCostsNothing() throws {
        try folder.live(StoreRecord.events(1...2))
        let file = try #require(try folder.names(".log").first)
        let two = try folder.contents(file).count
        var bytes = try folder.contents(file)
        bytes.append(.event("e3", changes: [StateChange(key: "A", changes: ["a": 1])]), number: 2, boot: 1)
        let ack = folder.path + "/00000001.ack"
        for length in two..<bytes.count {
            for name in try folder.names() where name != "owner.lock" { try folder.remove(name) }
            #expect(!FileManager.default.fileExists(atPath: ack))
            try folder.put(Array(bytes[..<length]), file)
            let log = try folder.open()
            #expect(try log.deliverAll() == .events(1...2), "cut at \(length)")
            #expect(log.sums == LogIndex.Sums(delivered: 2), "cut at \(length)")
            #expect(log.load("A").isAbsent)
            log.close()
        }
        #expect(folder.logger.texts(.error) == [])
    }

    @Test func garbageAndHostileFilesOfOurNamesEndNothing() throws {
        var hostile: [UInt8] = []
        for number in [3, LogRecordHeader.numberLimit - 1] { hostile.append(.event("h"), number: number, boot: 0) }
        for (index, bytes) in [
            [], [0xFF], [UInt8](repeating: 0xFF, count: 10_000), [UInt8](repeating: 0, count: 10_000), hostile,
        ].enumerated() {
            let other = LogFolder()
            try other.put(bytes, "00000001-000001-000000000000.log")
            try other.put(bytes, "00000002-000003-\(String(repeating: "0", count: 11))7.log")
            try other.put(bytes, "00000002-000004-000000000002.log")
            let log = try other.open()
            try log.store(StoreRecord.events(1...2))
            let delivered = try log.deliverAll()
            #expect(delivered.suffix(2) == ["e1", "e2"], "\(index)")
            #expect(log.counts.waiting == 0, "\(index)")
            log.close()
            _ = try other.open().deliverAll()
        }
    }

    // MARK: Damage of what was acknowledged

    @Test func aLostAcknowledgementMeansTheRestOfTheRunAgain() throws {
        let files = try fourSegments()
        let log = try folder.open(storageBytes: Self.small)
        try log.acknowledge(try #require(try log.nextBatch(.count(7))))
        log.close()
        let gone = firsts(files)[1]
        #expect(try folder.names(".log").count == 3)
        try folder.remove("00000001.ack")
        let next = try folder.open(storageBytes: Self.small)
        // What is not there any more is counted as damaged, for nobody knows what became of it.
        #expect(try next.deliverAll() == .events(gone + 1...20))
        #expect(next.sums == LogIndex.Sums(delivered: UInt64(20 - gone), damaged: UInt64(gone)))
    }

    @Test(arguments: ["damaged", "zeros", "truncated"]) func damagedAcknowledgementIsReportedAndItsRunSentAgain(
        _ damage: String
    ) throws {
        let files = try fourSegments()
        let log = try folder.open(storageBytes: Self.small)
        try log.acknowledge(try #require(try log.nextBatch(.count(7))))
        log.close()
        let gone = firsts(files)[1]
        switch damage {
        case "damaged": try folder.put([UInt8](repeating: 0x55, count: 4_168), "00000001.ack")
        case "zeros": try folder.put([UInt8](repeating: 0, count: 4_168), "00000001.ack")
        default: try folder.put(Array(try folder.contents("00000001.ack").prefix(40)), "00000001.ack")
        }
        let next = try folder.open(storageBytes: Self.small)
        #expect(try next.deliverAll() == .events(gone + 1...20))
        if damage != "truncated" { #expect(errors("may be sent again") == 1) }
    }

    /// The newer slot is damaged: the older one counts, and one batch is sent again.
    @Test func oneDamagedSlotMeansOneBatchAgain() throws {
        try folder.live(StoreRecord.events(1...9))
        let log = try folder.open()
        for _ in 0..<2 { try log.acknowledge(try #require(try log.nextBatch(.count(3)))) }
        log.close()
        var bytes = try folder.contents("00000001.ack")
        bytes[4_096 + 20] ^= 1  // the second write
        try folder.put(bytes, "00000001.ack")
        #expect(try folder.open().deliverAll() == .events(4...9))
        #expect(folder.logger.texts(.error) == [])
    }

    /// After a power cut: the acknowledgement is there, and what it speaks of is not.
    @Test func aPositionBehindTheEndMeansNothingWaits() throws {
        try folder.live(StoreRecord.events(1...5))
        let log = try folder.open()
        try log.acknowledge(try #require(try log.nextBatch(.count(4))))
        log.close()
        let file = try #require(try folder.names(".log").first)
        try folder.put(Array(try folder.contents(file).prefix(150)), file)
        let next = try folder.open()
        #expect(next.counts.waiting == 0)
        try next.store(StoreRecord.events(6...6))
        #expect(try next.deliverAll() == ["e6"])
        #expect(next.sums == LogIndex.Sums(delivered: 5))
    }

    @Test(arguments: ["missing", "damaged"]) func aLostBaseCostsItsSumsAndReusesNoNumber(_ damage: String) throws {
        for life in 1...3 {
            let log = try folder.open()
            try log.store(StoreRecord.events(1...2))
            if life < 3 { _ = try log.deliverAll() }
            log.close()
        }
        if damage == "missing" {
            try folder.remove("base.ack")
        } else {
            try folder.put([UInt8](repeating: 0x55, count: 5_000), "base.ack")
        }
        let log = try folder.open()
        try log.store(StoreRecord.events(3...3))
        #expect(try folder.names(".log").last == "00000004-000001-000000000000.log")
        #expect(try log.deliverAll() == .events(1...3))
        #expect(errors("What became of earlier events") == (damage == "missing" ? 0 : 1))
        let sums = log.sums
        log.close()
        // And a new one is begun.
        #expect(try folder.open().sums == sums)
    }

    /// Nothing is stored where it can't be known which numbers are used; the caller falls back to memory.
    @Test(arguments: ["base.ack", "00000001.ack"]) func whatWasAcknowledgedCannotBeRead(_ name: String) throws {
        try folder.live(StoreRecord.events(1...2))
        if FileManager.default.fileExists(atPath: folder.path + "/" + name) {
            try folder.makeUnreadable(name)
        } else {
            try folder.block(name)
        }
        #expect(throws: (any Error).self) { try folder.open() }
        #expect(throws: (any Error).self) { try folder.open() }  // the lock is not kept
        try folder.remove(name)
        #expect(try folder.open().deliverAll() == .events(1...2))
    }

    @Test(arguments: ["base.ack", "00000001.ack"]) func newerFormatOfWhatWasAcknowledgedIsLeftAlone(_ name: String)
        throws
    {
        try folder.live(StoreRecord.events(1...2))
        let words: [UInt64] = [2, 1, 0, 0, 0, 0, 0, 0]
        var bytes = words.flatMap { word in (0..<8).map { UInt8(truncatingIfNeeded: word >> ($0 * 8)) } }
        let checksum = UInt64(CRC32C.checksum(of: bytes))
        bytes += (0..<8).map { UInt8(truncatingIfNeeded: checksum >> ($0 * 8)) }
        try folder.put(bytes, name)
        #expect(throws: SlotFile.NewerFormat.self) { try folder.open() }
        #expect(try folder.contents(name) == bytes)
    }
}

extension [UInt8] {
    fileprivate func contains(_ text: String) -> Bool { String(decoding: self, as: UTF8.self).contains(text) }
}
