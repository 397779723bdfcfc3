import Foundation
import Testing
import TillerTesting

@testable import Tiller

/// Files that a checkpoint covers are not looked at before somebody has to know how large they are.
@Suite struct LateSizesTests {
    private let folder = LogFolder()
    private let files = FaultyFiles()
    private let queue = HeldQueue()

    /// An event that fills a segment, with a change of state, so that a checkpoint follows.
    private func full(_ number: Int) -> StoreRecord {
        .event("e\(number)", padding: 1_000, changes: [StateChange(key: "A", changes: ["n": .int(Int64(number))])])
    }

    /// Six segments of which a checkpoint covers all.
    private func fill() throws { try folder.live((1...6).map(full), storageBytes: 8_000) }

    private func open(storageBytes: Int = 8_000) throws -> EventLog {
        try EventLog(
            folder: folder.path, on: files, limits: Limits(storageBytes: storageBytes), boot: 1, housekeeper: queue,
            diagnostics: Diagnostics(logger: folder.logger, level: .debug))
    }

    /// By a process that can remove nothing.
    private func deliverFive() throws {
        files.fail { operation, _, _ in operation == .remove ? .inputOutput : nil }
        let log = try open()
        try log.acknowledge(
            try #require(try log.nextBatch(BatchBounds(bytes: .max, count: 5, isPerIdentity: false))))
        log.close()
        files.fail(nil)
    }

    /// A segment's name is that of something else now.
    private func replaceByFolder(_ name: String) throws {
        try FileManager.default.removeItem(atPath: folder.path + "/" + name)
        try folder.block(name + "/inside")
    }

    private var looked: [String] { files.trace.filter { $0.operation == .look }.map(\.name) }

    private func sizes() throws -> Int {
        try folder.names(".log").reduce(0) { try $0 + folder.contents($1).count }
    }

    @Test func anOpeningLooksAtTheLastSegmentOnly() throws {
        try fill()
        let names = try folder.names(".log")
        #expect(names.count == 6)
        let log = try open()
        #expect(looked == [names[5]])
        #expect(log.counts.waiting == 6)
        #expect(log.load("A").object == ["n": 6])
        // Each is looked at when it is read.
        #expect(try log.deliverAll() == .events(1...6))
        #expect(looked.count == 6)
        #expect(Set(looked) == Set(names))
        #expect(log.sums == LogIndex.Sums(delivered: 6))
        #expect(try folder.names(".log").isEmpty)
    }

    @Test func whatNoCheckpointCoversIsLookedAtAndRead() throws {
        try folder.live(StoreRecord.events(1...6, padding: 1_000), storageBytes: 8_000)
        try FileManager.default.removeItem(atPath: folder.path + "/checkpoint.json")
        let log = try open()
        #expect(looked.count == 6)
        #expect(try log.deliverAll() == .events(1...6))
    }

    /// Until they have been looked at, files count as segments that are just full.
    @Test func theBacklogIsAnEstimateUntilThen() throws {
        try fill()
        let log = try open()
        let last = try folder.contents(folder.names(".log")[5]).count
        #expect(log.backlog.bytes == 5 * 1_000 + last)
        #expect(looked.count == 1)
        log.measure()
        #expect(try log.backlog.bytes == sizes())
        #expect(looked.count == 6)
    }

    @Test func whatCouldNotBeLookedAtIsLookedAtAgain() throws {
        try fill()
        let log = try open()
        files.fail { operation, _, _ in operation == .look ? .inputOutput : nil }
        log.measure()
        log.endOfCall()
        #expect(folder.logger.messages.contains { $0.level == .error && $0.text.contains("can't be looked at") })
        #expect(throws: FileFailure.self) { try log.nextBatch(.all) }
        files.fail(nil)
        log.measure()
        #expect(try log.backlog.bytes == sizes())
        #expect(try log.deliverAll() == .events(1...6))
    }

    // MARK: The bound

    @Test func theFirstRecordDoesNotWaitForTheBound() throws {
        try fill()
        let log = try open(storageBytes: 4_000)
        try log.store([.event("e7")])
        #expect(looked.count == 1)
        #expect(try folder.names(".log").count == 7)
        #expect(queue.count == 1)
        queue.run()
        #expect(try sizes() <= 4_000)
        #expect(log.counts.waiting + Int(log.sums.evicted) == 7)
        #expect(try log.deliverAll().last == "e7")
    }

    /// Nor does the first request, before which an owner looks for what others have stored, wait where there is room.
    @Test(arguments: [4_000, 12_000_000]) func aLookMeasuresNearTheBoundOnly(_ storageBytes: Int) throws {
        try fill()
        let log = try open(storageBytes: storageBytes)
        log.look()
        #expect(queue.count == 0)
        if storageBytes == 4_000 {
            #expect(looked.count == 6)
            #expect(try sizes() <= 4_000)
            #expect(log.counts.waiting + Int(log.sums.evicted) == 6)
        } else {
            #expect(looked.count == 1)
            #expect(try log.deliverAll() == .events(1...6))
        }
    }

    /// Processes that store less than a segment each, and end before anybody has come to it, stay within the bound.
    @Test func anOrderlyEndSeesToTheBound() throws {
        try fill()
        let log = try open(storageBytes: 4_000)
        try log.store([.event("e7")])
        log.endWriting()
        #expect(try sizes() <= 4_000)
        #expect(log.counts.waiting + Int(log.sums.evicted) == 7)
        // Nobody has to do anything any more.
        let before = try folder.names()
        queue.run()
        #expect(try folder.names() == before)
    }

    /// Who follows the account is told.
    @Test func whatIsGivenUpLateIsSaid() throws {
        try fill()
        let log = try open(storageBytes: 4_000)
        let told = Locked<[UInt64]>([])
        log.whenEvicted { [weak log] in
            guard let log else { return }
            let evicted = log.sums.evicted
            told.withLock { $0.append(evicted) }
        }
        try log.store([.event("e7")])
        #expect(told.withLock { $0 }.isEmpty)
        queue.run()
        #expect(told.withLock { $0 } == [log.sums.evicted])
        #expect(log.sums.evicted > 0)
    }

    /// A full disk finds the room that the end of the segment made, whatever else has not been looked at.
    @Test func roomIsFoundBesideWhatWasNotLookedAt() throws {
        try fill()
        let log = try open()
        try log.store([.state("B", ["b": 1])])
        let full = Locked(true)
        files.fail { operation, name, _ in
            switch operation {
            case .append where name.hasSuffix(".log"): full.withLock { $0 } ? .noSpace : nil
            case .remove where name.hasSuffix(".log"):
                full.withLock { full in
                    full = false
                    return nil
                }
            default: nil
            }
        }
        try log.store([.event("e7")])
        #expect(!full.withLock { $0 })
        files.fail(nil)
        #expect(try log.deliverAll() == .events(1...7))
    }

    // MARK: What goes meanwhile

    @Test func aSegmentThatHasGoneSinceItsNameWasRead() throws {
        try fill()
        let names = try folder.names(".log")
        let last = folder.path + "/" + names[5]
        files.before { operation in
            if operation == .look { try? FileManager.default.removeItem(atPath: last) }
        }
        let log = try open()
        files.before(nil)
        #expect(looked == [names[5], names[4]])
        #expect(try log.deliverAll() == .events(1...5))
    }

    @Test func aSegmentThatHasGoneBeforeItWasLookedAt() throws {
        try fill()
        let log = try open()
        try FileManager.default.removeItem(atPath: folder.path + "/" + folder.names(".log")[2])
        log.measure()
        #expect(try log.backlog.bytes == sizes())
        #expect(try log.deliverAll() == ["e1", "e2", "e4", "e5", "e6"])
        #expect(log.sums.damaged == 1)
    }

    /// Something else under a segment's name is not removed, though all before and behind it goes.
    @Test func whatIsNoFileStays() throws {
        try fill()
        let name = try folder.names(".log")[2]
        try replaceByFolder(name)
        let log = try open(storageBytes: 2_000)
        try log.store([.event("e7")])
        queue.run()
        #expect(try folder.names().contains(name))
        #expect(log.counts.waiting > 0)
    }

    /// Also where an earlier process delivered it and could not remove it: nobody tries to.
    @Test func whatIsNoFileIsNotRemoved() throws {
        try fill()
        try deliverFive()
        let name = try folder.names(".log")[2]
        try replaceByFolder(name)
        files.forgetTrace()
        let next = try open()
        #expect(try next.deliverAll() == ["e6"])
        #expect(try folder.names().contains(name))
        #expect(!files.trace.contains { $0.operation == .remove && $0.name == name })
    }

    /// What stays in one run holds up no other.
    @Test func theRunsBehindWhatIsNoFileAreRemoved() throws {
        try fill()
        let name = try folder.names(".log")[2]
        try folder.live([full(7)], storageBytes: 8_000)
        try deliverFive()
        try replaceByFolder(name)
        #expect(try folder.names().contains { $0.hasPrefix("00000002-") })
        let next = try open()
        #expect(try next.deliverAll() == ["e6", "e7"])
        #expect(try folder.names().contains(name))
        #expect(try !folder.names().contains { $0.hasPrefix("00000002") })
    }
}
