import Testing
import TillerTesting

@testable import Tiller

/// Checkpoints at the ends of segments, which are written while the log goes on.
@Suite struct PendingCheckpointTests {
    private static let checkpoint = "checkpoint.json"
    private let folder = LogFolder()
    private let queue = HeldQueue()

    /// Segments of a thousand bytes.
    private func open(_ folder: LogFolder? = nil, on disk: any FileSystem = SystemFiles()) throws -> EventLog {
        let folder = folder ?? self.folder
        return try EventLog(
            folder: folder.path, on: disk, limits: Limits(storageBytes: 8_000), boot: 1, housekeeper: queue,
            diagnostics: Diagnostics(logger: folder.logger, level: .debug))
    }

    /// An event that fills a segment, with a change of state.
    private func full(_ number: Int) -> StoreRecord {
        .event("e\(number)", padding: 1_000, changes: [StateChange(key: "A", changes: ["n": .int(Int64(number))])])
    }

    private func covered(_ folder: LogFolder? = nil) throws -> LogPlace {
        try Checkpoint(reading: (folder ?? self.folder).contents(Self.checkpoint)).place
    }

    private var errors: [String] { folder.logger.messages.filter { $0.level == .error }.map(\.text) }

    @Test func theLogDoesNotWaitForIt() throws {
        let log = try open()
        try log.store([full(1), full(2), full(3)])
        #expect(try folder.names(".log").count == 3)
        #expect(try !folder.names().contains(Self.checkpoint))
        // Of three that were due one is written, and that is the last.
        #expect(queue.count == 1)
        queue.run()
        #expect(try covered().segment == 3)
        #expect(log.load("A").object == ["n": 3])
        try log.store([full(4)])
        #expect(queue.count == 1)
        queue.run()
        #expect(try covered().segment == 4)
    }

    @Test func aKillBeforeItLosesNothing() throws {
        let log = try open()
        try log.store([full(1), full(2)])
        let killed = try folder.afterKill()
        let next = try killed.open(storageBytes: 8_000)
        #expect(next.load("A").object == ["n": 2])
        #expect(try next.deliverAll() == .events(1...2))
    }

    @Test func itSaysWhatWasTrueAtTheSegmentsEnd() throws {
        let log = try open()
        try log.store([full(1), .event("e2", changes: [StateChange(key: "A", changes: ["n": 2])])])
        queue.run()
        let place = try covered()
        #expect(place.segment == 1)
        #expect(try Checkpoint(reading: folder.contents(Self.checkpoint)).objects == ["A": ["n": 1]])
        // What came after it is in the log, and counts.
        let killed = try folder.afterKill()
        let next = try killed.open(storageBytes: 8_000)
        #expect(next.load("A").object == ["n": 2])
    }

    @Test func whatIsDeliveredGoesOnceItIsCovered() throws {
        let log = try open()
        try log.store([full(1), full(2), .event("e3")])
        #expect(try log.deliverAll() == .events(1...3))
        #expect(try folder.names(".log").count == 3)
        queue.run()
        #expect(try folder.names(".log").count == 1)
        #expect(log.sums == LogIndex.Sums(delivered: 3))
    }

    /// A service may go on for years without a notice at which everything is synced.
    @Test func whatItCoversIsNotRememberedAsUnsynced() throws {
        let log = try open()
        for number in 1...20 {
            try log.store([full(number)])
            queue.run()
            _ = try log.deliverAll()
            #expect(log.writer.withLock { $0.unsynced.count } <= 1)
        }
        // What no checkpoint covers yet is.
        try log.store([full(21), full(22), full(23)])
        #expect(log.writer.withLock { $0.unsynced } == [21, 22, 23])
    }

    @Test func anOrderlyEndWritesIt() throws {
        let log = try open()
        try log.store([full(1)])
        log.endWriting()
        #expect(try covered().segment == 1)
        log.close()
        let before = try folder.contents(Self.checkpoint)
        queue.run()
        #expect(try folder.contents(Self.checkpoint) == before)
    }

    @Test func nothingIsWrittenIntoAFolderThatIsAnothers() throws {
        let log = try open()
        try log.store([full(1)])
        log.close()
        queue.run()
        #expect(try !folder.names().contains(Self.checkpoint))
        let former = try open()
        try former.store([full(2)])
        former.releaseOwnership()  // with a checkpoint of its own
        let owner = try folder.open(storageBytes: 8_000)
        try owner.store([full(3)])
        let place = try covered()
        queue.run()
        #expect(try covered() == place)
        #expect(owner.load("A").object == ["n": 3])
    }

    @Test func anErasureIsNotUndoneByIt() throws {
        let log = try open()
        try log.store([full(1)])
        _ = try log.erase(leaving: [StateChange(key: "B", changes: ["b": 1])], keys: ["A", "B"])
        queue.run()
        #expect(log.load("A").isAbsent)
        let killed = try folder.afterKill()
        #expect(try killed.open(storageBytes: 8_000).load("B").object == ["b": 1])
    }

    @Test func aFailureIsSaidAndTheNextOneServes() throws {
        let log = try open()
        try folder.block(Self.checkpoint + ".new/inside")
        try log.store([full(1)])
        queue.run()
        #expect(errors.count == 1)
        try folder.remove(Self.checkpoint + ".new")
        try log.store([full(2)])
        queue.run()
        #expect(try covered().segment == 2)
    }

    /// Over fifty segments.
    @Test func aSecondThreadAndTheWriterDoNotGetInEachOthersWay() throws {
        let executors = SystemExecutors()
        let log = try EventLog(
            folder: folder.path, limits: Limits(storageBytes: 2_000_000), boot: 1,
            housekeeper: executors.makeQueue("housekeeping"),
            diagnostics: Diagnostics(logger: folder.logger, level: .error))
        for number in 1...300 {
            let changes = [StateChange(key: "A", changes: ["n": .int(Int64(number))])]
            try log.store([.event("e\(number)", padding: 40_000, changes: changes)])
            if number.isMultiple(of: 7) { log.sync() }
            if number.isMultiple(of: 10) { #expect(try log.deliverAll().count == 10) }
        }
        log.endWriting()
        log.close()
        #expect(errors == [])
        let next = try folder.open(storageBytes: 2_000_000)
        #expect(next.load("A").object == ["n": 300])
        #expect(next.sums == LogIndex.Sums(delivered: 300))
    }
}
