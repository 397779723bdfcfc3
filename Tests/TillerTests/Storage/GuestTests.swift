import Foundation
import Testing
import TillerTesting

@testable import Tiller

/// Several logs on one folder, as several processes have it: one owns it, the others are guests.
@Suite(.timeLimit(.minutes(5))) struct GuestTests {
    private let folder = LogFolder()
    private static let small = 8_000  // segments of 1 000 bytes

    // MARK: Runs

    @Test func ownerDeliversWhatGuestsStore() throws {
        let owner = try folder.open()
        let guests = [try folder.open(), try folder.open()]
        try owner.store(StoreRecord.events(1...2, "o"))
        for (index, guest) in guests.enumerated() { try guest.store(StoreRecord.events(1...3, "g\(index)_")) }
        #expect(try owner.deliverAll() == .events(1...2, "o"))
        owner.look()
        #expect(owner.counts == EventCounts(appended: 8, settled: 2))
        #expect(try owner.deliverAll() == .events(1...3, "g0_") + .events(1...3, "g1_"))
        try guests[0].store(StoreRecord.events(4...5, "g0_"))
        try owner.store(StoreRecord.events(3...3, "o"))
        owner.look()
        #expect(try owner.deliverAll() == ["o3"] + .events(4...5, "g0_"))
        #expect(owner.sums == LogIndex.Sums(delivered: 11))
        #expect(folder.logger.texts(.error) == [])
    }

    @Test func aGuestUploadsAndAcknowledgesNothing() throws {
        let owner = try folder.open()
        try owner.store(StoreRecord.events(1...2))
        let batch = try #require(try owner.nextBatch(.all))
        let guest = try folder.open()
        try guest.store(StoreRecord.events(3...4))
        #expect(try guest.nextBatch(.all) == nil)
        #expect(throws: EventLog.Closed.self) { try guest.acknowledge(batch) }
        #expect(!guest.mayUpload())
        #expect(guest.counts == EventCounts(appended: 2, settled: 0))
        // Room that the owner has taken.
        #expect(try folder.names(".ack") == ["00000001.ack", "base.ack"])
    }

    @Test func aGuestLearnsWhatHasBecomeOfItsEvents() throws {
        let owner = try folder.open()
        let guest = try folder.open()
        try guest.store(StoreRecord.events(1...3))
        owner.look()
        let batches = try (1...3).map { _ in
            let batch = try #require(try owner.nextBatch(.count(1)))
            if batch.names != ["e2"] { try owner.acknowledge(batch) }
            if batch.names == ["e2"] { try owner.acknowledge([SettledBatch(batch: batch, outcome: .refused)]) }
            return batch
        }
        #expect(batches.flatMap(\.names) == .events(1...3))
        #expect(guest.counts.waiting == 3)
        #expect(!guest.mayUpload())
        var counts = EventCounts(appended: 3, settled: 3)
        counts.lost = 1
        counts.refused = 1
        #expect(guest.counts == counts)
        #expect(!guest.mayUpload())
        #expect(guest.counts == counts)
    }

    /// A guest that was an owner has another run; of one that is over, and taken into the base, nothing is left to tell.
    @Test func aGuestLearnsOfARunThatWasTakenIn() throws {
        let first = try folder.open()
        try first.store(StoreRecord.events(1...3))
        first.releaseOwnership()
        let second = try folder.open()
        try first.store(StoreRecord.events(4...4))
        first.writer.withLock { first.endRun(&$0) }
        second.look()
        let batch = try #require(try second.nextBatch(.count(2)))
        try second.acknowledge(batch)
        #expect(!first.mayUpload())
        #expect(first.counts == EventCounts(appended: 4, settled: 2))
        #expect(try second.deliverAll() == .events(3...4))
        second.look()
        _ = try second.nextBatch(.all)
        try #require(try folder.names("1.ack").isEmpty)
        #expect(!first.mayUpload())
        #expect(first.counts == EventCounts(appended: 4, settled: 4))
        try first.store(StoreRecord.events(5...5))
        #expect(!first.mayUpload())
        #expect(first.counts.waiting == 1)
    }

    /// An owner that tidies up looks whether a lock without a name is somebody's: that somebody waits for it.
    @Test func aLockThatIsLookedAtIsHadAMomentLater() throws {
        try folder.put("", "nothing")
        let files = LogFiles(folder: folder.path)
        let isOver = Locked(false)
        let lookers = (1...2).map { _ in
            Thread {
                while !isOver.withLock({ $0 }) {
                    for name in (try? SystemFiles().list(folder.path).map(\.name)) ?? [] {
                        _ = try? SystemFiles().isLocked(folder.path + "/" + name)
                    }
                }
            }
        }
        for looker in lookers { looker.start() }
        defer { isOver.withLock { $0 = true } }
        for number in 1...500 {
            let lock = try SystemFiles().makeLock(
                files.runLock(of: number), by: files.newLock(UInt32(number)), mayBeSeenUnlocked: false)
            lock.unlock()
            try SystemFiles().remove(files.runLock(of: number))
        }
    }

    /// The number is taken by the lock, the files come later.
    @Test func eachLifeHasANumberOfItsOwn() throws {
        let logs = try (1...3).map { _ in try folder.open() }
        #expect(try folder.names() == ["owner.lock"])
        for (index, log) in logs.reversed().enumerated() { try log.store(StoreRecord.events(1...1, "l\(index)_")) }
        #expect(try folder.names(".lock") == ["00000001.lock", "00000002.lock", "00000003.lock", "owner.lock"])
        #expect(try folder.names(".log").count == 3)
        #expect(try folder.names(".newlock") == [])
    }

    @Test func aNumberThatTheBaseKnowsIsNotTakenThoughItsNameIsFree() throws {
        let files = LogFiles(folder: folder.path)
        try folder.put("", "nothing")
        let disk = RaceDisk { [folder] in
            // Between the list and the link: another life of that number has come and gone.
            try? folder.writeBase([2, 2, 0, 0, 0, 0])
        }
        let run = try RunLock(files, on: disk, isOwner: false, after: LogPlace())
        #expect(run.number == 3)
        #expect(try folder.names(".lock") == ["00000003.lock"])
    }

    @Test func aNameThatIsTakenIsPassedOver() throws {
        try folder.put("", "nothing")
        let disk = RaceDisk { [folder] in
            try? folder.put("", "00000001.lock")
            try? folder.put("", "00000002.lock")
        }
        let run = try RunLock(LogFiles(folder: folder.path), on: disk, isOwner: false, after: LogPlace())
        #expect(run.number == 3)
    }

    @Test func locksWithoutANameAreTidiedUnlessSomebodyHasThem() throws {
        let earlier = try folder.open()
        earlier.close()
        try folder.put("", "77.newlock")
        let held = try #require(try SystemFiles().lock(folder.path + "/78.newlock"))
        let log = try folder.open()
        #expect(try folder.names(".newlock") == ["78.newlock"])
        held.unlock()
        log.close()
    }

    // MARK: What goes

    @Test func aRunIsTakenInWhenItsProcessIsGone() throws {
        let owner = try folder.open()
        let guest = try folder.open()
        try guest.store(StoreRecord.events(1...2))
        owner.look()
        #expect(try owner.deliverAll() == .events(1...2))
        owner.look()
        _ = try owner.nextBatch(.all)
        // It lives: more may come.
        #expect(try folder.names("1.lock") == ["00000001.lock"])
        try guest.store(StoreRecord.events(3...3))
        guest.close()
        owner.look()
        #expect(try owner.deliverAll() == ["e3"])
        #expect(try folder.names() == ["base.ack", "owner.lock"])
        #expect(owner.sums == LogIndex.Sums(delivered: 3))
    }

    @Test func closedSegmentsOfALiveRunGo() throws {
        let owner = try folder.open(storageBytes: Self.small)
        let guest = try folder.open(storageBytes: Self.small)
        try guest.store(StoreRecord.events(1...30, padding: 100))
        let files = try folder.names(".log")
        try #require(files.count > 3)
        owner.look()
        #expect(try owner.deliverAll(.count(7)) == .events(1...30))
        #expect(try folder.names(".log") == [try #require(files.last)])
        try guest.store(StoreRecord.events(31...60, padding: 100))
        owner.look()
        #expect(try owner.deliverAll(.count(7)) == .events(31...60))
        guest.close()
        owner.look()
        _ = try owner.nextBatch(.all)
        #expect(try folder.names(".log") == [])
        #expect(owner.sums == LogIndex.Sums(delivered: 60))
    }

    @Test func theOldestSegmentsGoWhoseverTheyAre() throws {
        let owner = try folder.open(storageBytes: Self.small)
        let guest = try folder.open(storageBytes: Self.small)
        try guest.store(StoreRecord.events(1...30, "g", padding: 100))
        owner.look()
        let batch = try #require(try owner.nextBatch(.count(5)))
        #expect(batch.names == .events(1...5, "g"))
        try owner.store(StoreRecord.events(1...20, "o", padding: 100))
        let evicted = owner.sums.evicted
        try #require((6..<30).contains(evicted))
        // Those of the batch in flight were counted as evicted.
        try owner.acknowledge(batch)
        #expect(owner.sums == LogIndex.Sums(evicted: evicted))
        let delivered = try owner.deliverAll()
        #expect(delivered == .events(Int(evicted) + 1...30, "g") + .events(1...20, "o"))
        #expect(!guest.mayUpload())
        #expect(guest.counts.waiting == 0 && guest.counts.lost == Int(evicted))
    }

    @Test func whatIsTooOldGoesByWholeSegments() throws {
        let first = try folder.open(storageBytes: Self.small)
        try first.store((1...8).map { .event("e\($0)", padding: 100, at: Int64($0) * 1_000) })
        first.close()
        // Two segments: e1 to e5, e6 to e8.
        try #require(try folder.names(".log").count == 2)
        for (wall, age, evicted) in [
            (1_000_000, nil, 0), (65_000, Duration.seconds(60), 0), (65_001, .seconds(60), 5),
            (68_001, .seconds(60), 8),
        ] as [(Int64, Duration?, UInt64)] {
            let copy = try folder.afterKill()
            let log = try EventLog(
                folder: copy.path, limits: Limits(storageBytes: 8_000, storageAge: age), boot: 1,
                wallMilliseconds: { wall }, diagnostics: Diagnostics(logger: folder.logger, level: .error))
            try log.store([.event("new", at: wall)])
            #expect(log.sums.evicted == evicted, "\(wall)")
            #expect(try log.deliverAll().count == 9 - Int(evicted))
        }
    }

    // MARK: The end of what is written

    @Test func aTornTailOfALiveRunIsNotDamage() throws {
        let owner = try folder.open()
        let guest = try folder.open()
        try guest.store(StoreRecord.events(1...1))
        let name = try #require(try folder.names(".log").first)
        var record: [UInt8] = []
        record.append(.event("e2"), number: 1, boot: 1)
        let handle = try #require(FileHandle(forWritingAtPath: folder.path + "/" + name))
        handle.seekToEndOfFile()
        for part in [record[..<10], record[10..<70], record[70..<(record.count - 1)]] {
            handle.write(Data(part))
            owner.look()
            #expect(owner.counts.appended == 1)
            #expect(owner.sums.damaged == 0)
            _ = try owner.deliverAll()
        }
        handle.write(Data(record.suffix(1)))
        owner.look()
        #expect(try owner.deliverAll() == ["e2"])
        // Now it is torn for good.
        handle.write(Data(record.dropLast(4)))
        guest.close()
        owner.look()
        #expect(try owner.deliverAll() == [])
        #expect(owner.sums == LogIndex.Sums(delivered: 2))
        #expect(try folder.names(".log") == [])
    }

    // MARK: Taking over

    @Test func aSurvivorTakesOver() throws {
        let owner = try folder.open()
        try owner.save([StateChange(key: "A", changes: ["a": 1])])
        let guest = try folder.open()
        try owner.store([.event("o1"), .state("A", ["a": 2])])
        try guest.store(StoreRecord.events(1...2, "g"))
        #expect(!guest.mayUpload())
        #expect(guest.load("A").object == ["a": 1])
        owner.close()
        #expect(guest.mayUpload())
        #expect(guest.isOwned)
        #expect(guest.load("A").object == ["a": 2])
        try guest.save([StateChange(key: "A", changes: ["b": 3])])
        try guest.store([.event("g3")])
        #expect(guest.counts == EventCounts(appended: 4, settled: 0))
        #expect(try guest.deliverAll() == ["o1", "g1", "g2", "g3"])
        guest.close()
        let next = try folder.open()
        #expect(next.isOwned)
        #expect(next.load("A").object == ["a": 2, "b": 3])
        #expect(next.sums == LogIndex.Sums(delivered: 4))
    }

    /// Its own run of before has a number that lies before those of the owners meanwhile.
    @Test func stateIsReadInTheOrderOfOwners() throws {
        let first = try folder.open()
        try first.save([StateChange(key: "A", changes: ["a": 1])])
        first.releaseOwnership()
        #expect(!first.isOwned)
        let second = try folder.open()
        #expect(second.isOwned)
        try second.save([StateChange(key: "A", changes: ["a": 2])])
        try first.store([.event("e1", changes: [StateChange(key: "A", changes: ["a": 9])])])
        #expect(!first.reclaim())
        second.close()
        #expect(first.reclaim())
        #expect(first.load("A").object == ["a": 2])
        try first.save([StateChange(key: "A", changes: ["a": 3])])
        first.close()
        let third = try folder.open()
        #expect(third.load("A").object == ["a": 3])
        #expect(try third.deliverAll() == ["e1"])
    }

    @Test func whoHasGivenUpTheFolderAcknowledgesNothing() throws {
        let first = try folder.open()
        try first.store(StoreRecord.events(1...3))
        let batch = try #require(try first.nextBatch(.count(2)))
        first.releaseOwnership()
        let second = try folder.open()
        #expect(throws: EventLog.Closed.self) { try first.acknowledge(batch) }
        // Once more, because of the hand-over.
        #expect(try second.deliverAll() == .events(1...3))
        #expect(second.sums == LogIndex.Sums(delivered: 3))
        try first.store(StoreRecord.events(4...4))
        second.look()
        #expect(try second.deliverAll() == ["e4"])
        second.close()
        #expect(first.reclaim())
        try first.acknowledge(batch)  // of a run that is gone
        #expect(first.sums == LogIndex.Sums(delivered: 4))
    }

    /// As many instances as there are threads want the folder: one gets it.
    @Test func oneOfManyTakesOver() async throws {
        let owner = try folder.open()
        let guests = try (1...4).map { _ in try folder.open() }
        for (index, guest) in guests.enumerated() { try guest.store(StoreRecord.events(1...5, "g\(index)_")) }
        owner.close()
        await onThreads(4) { thread in _ = guests[thread].reclaim() }
        let owners = guests.filter(\.isOwned)
        #expect(owners.count == 1)
        #expect(try owners[0].deliverAll().count == 20)
    }

    // MARK: The signal

    @Test func aGuestThatWantsAnUploadWakesTheOwner() async throws {
        let owner = try folder.open()
        let guest = try folder.open()
        try guest.store(StoreRecord.events(1...2))
        await withCheckedContinuation { continuation in
            let waiting = Locked<CheckedContinuation<Void, Never>?>(continuation)
            owner.whenOthersStore { waiting.withLock { $0.take() }?.resume() }
            #expect(!guest.mayUpload())
        }
        owner.look()
        #expect(try owner.deliverAll() == .events(1...2))
        #expect(try folder.names(".fifo") == ["owner.fifo"])
        owner.close()
        // Nobody reads it now.
        SystemFiles().signal(folder.path + "/owner.fifo")
    }

    @Test func whatIsNoSignalOfOursIsLeftAlone() throws {
        let owner = try folder.open()
        try folder.put("mine", "owner.fifo")
        owner.whenOthersStore {}
        let guest = try folder.open()
        try guest.store(StoreRecord.events(1...1))
        #expect(!guest.mayUpload())
        #expect(try folder.contents("owner.fifo") == Array("mine".utf8))
        try FileManager.default.removeItem(atPath: folder.path + "/owner.fifo")
        try FileManager.default.createSymbolicLink(
            atPath: folder.path + "/owner.fifo", withDestinationPath: "elsewhere")
        #expect(!guest.mayUpload())
        #expect(try !folder.names().contains("elsewhere"))
    }

    // MARK: No locks

    @Test func withoutLocksEventsAreKeptInMemoryAndStateIsRead() throws {
        let before = try folder.open()
        try before.save([StateChange(key: "A", changes: ["a": 1])])
        before.close()
        let log = try EventLog(
            folder: folder.path, on: LocklessDisk(), boot: 1,
            diagnostics: Diagnostics(logger: folder.logger, level: .error))
        #expect(!log.isOwned && !log.isDurable)
        #expect(log.load("A").object == ["a": 1])
        #expect(log.append(StoreRecord.events(1...1)).stored == 0)
        #expect(!log.reclaim())
        #expect(folder.logger.texts(.error).filter { $0.contains("no locks") }.count == 1)
    }
}

// MARK: - Disks

/// Does something when the files have been listed for the first time.
private struct RaceDisk: WrappedDisk {
    private let action: @Sendable () -> Void
    private let isOver = Locked(false)

    init(_ action: @escaping @Sendable () -> Void) { self.action = action }

    func list(_ folder: String) throws -> [FileEntry] {
        let entries = try SystemFiles().list(folder)
        let isFirst = isOver.withLock { isOver in
            defer { isOver = true }
            return !isOver
        }
        if isFirst { action() }
        return entries
    }
}

private struct LocklessDisk: WrappedDisk {
    func lock(_ path: String) throws -> (any FileLock)? {
        throw FileFailure.system(operation: "lock", path: path, code: 37)
    }
}

/// The system's files, but for what a conformer does itself.
private protocol WrappedDisk: FileSystem {}

extension WrappedDisk {
    private var base: SystemFiles { SystemFiles() }

    func contents(of path: String) throws -> [UInt8]? { try base.contents(of: path) }
    func contents(of path: String, from offset: Int, count: Int) throws -> [UInt8]? {
        try base.contents(of: path, from: offset, count: count)
    }
    func store(_ bytes: [UInt8], at path: String) throws { try base.store(bytes, at: path) }
    func overwrite(_ bytes: [UInt8], at path: String, offset: Int) throws {
        try base.overwrite(bytes, at: path, offset: offset)
    }
    func createAppender(_ path: String) throws -> any FileAppender { try base.createAppender(path) }
    func sync(_ path: String) throws { try base.sync(path) }
    func list(_ folder: String) throws -> [FileEntry] { try base.list(folder) }
    func remove(_ path: String) throws { try base.remove(path) }
    func move(_ path: String, to newPath: String) throws { try base.move(path, to: newPath) }
    func makeFolder(_ path: String) throws { try base.makeFolder(path) }
    func lock(_ path: String) throws -> (any FileLock)? { try base.lock(path) }
    func makeLock(_ path: String, by temporary: String, mayBeSeenUnlocked: Bool) throws -> any FileLock {
        try base.makeLock(path, by: temporary, mayBeSeenUnlocked: mayBeSeenUnlocked)
    }
    func isLocked(_ path: String) throws -> Bool { try base.isLocked(path) }
}

extension LogFolder {
    fileprivate func writeBase(_ values: [UInt64]) throws {
        var base = SlotFile(new: path + "/base.ack")
        try base.write(values)
    }
}
