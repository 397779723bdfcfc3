import Foundation
import Testing
import TillerTesting

@testable import Tiller

/// The folder, or a file of it, goes while it is used: that is noticed at the next write, said once, and costs what was in
/// it.
@Suite(.timeLimit(.minutes(5))) struct RemovedFolderTests {
    private let folder = TestFolder()
    private let logger = RecordingLogger()
    private let transport = StubTransport(.status(503))
    private let time = VirtualTime()

    private func start(seed: UInt64 = 1) -> Analytics {
        var configuration = Configuration.test(
            time: time, storage: .folder(folder.url), transport: transport, logger: logger)
        configuration.identifiers = .seeded(seed)
        return Analytics(configuration: configuration)
    }

    private func errors(_ text: String = "") -> Int {
        logger.texts(.error).filter { text.isEmpty || $0.contains(text) }.count
    }

    private func stateFolder() throws -> String {
        folder.path + "/" + (try #require(try FileManager.default.contentsOfDirectory(atPath: folder.path).first))
    }

    @Test func aRemovedFolderIsMadeAnewWithTheIdentity() async throws {
        let analytics = start()
        analytics.identify(userId: "alice")
        analytics.track(name: "before")
        await analytics.stored()
        let id = analytics.anonymousId
        try FileManager.default.removeItem(atPath: folder.path)
        analytics.track(name: "after")
        #expect(await analytics.stored() == .stored)
        #expect(errors("was removed") == 1)
        let names = try FileManager.default.contentsOfDirectory(atPath: try stateFolder()).sorted()
        #expect(
            names == [
                "00000002-000001-000000000000.log", "00000002.ack", "00000002.lock", "base.ack", "checkpoint.json",
                "owner.fifo", "owner.lock",
            ])
        // It is locked.
        #expect(try !LogFolder(path: try stateFolder()).open().isOwned)
        #expect(analytics.account.store?.damaged == 2)
        #expect(errors("2 stored events were removed") == 1, "\(logger.texts(.error))")
        transport.answerAlways(.status(200))
        time.advance(by: .seconds(20))
        #expect(await analytics.flushed() == .delivered)
        #expect(transport.requests.last?.events.compactMap { $0["event"]?.string } == ["after"])
        await analytics.shutdownAndWait()
        let next = start(seed: 3)
        #expect(next.anonymousId == id && next.userId == "alice")
        #expect(await next.flushed() == .nothingWaiting)
        await next.shutdownAndWait()
    }

    /// In the log's own terms: nothing is counted twice in the next life.
    @Test func whatWasDeliveredBeforeStaysCounted() throws {
        let log = LogFolder(path: folder.path)
        let store = try log.open()
        try store.store(
            (1...4).map { .event("e\($0)", changes: [StateChange(key: "A", changes: ["n": .int(Int64($0))])]) })
        try store.acknowledge(try #require(try store.nextBatch(.count(3))))
        try FileManager.default.removeItem(atPath: folder.path)
        try store.store([.event("e5")])
        let copy = try log.afterKill()
        let killed = try copy.open()
        #expect(killed.load("A").object == ["n": 4])
        #expect(try killed.deliverAll() == ["e5"])
        #expect(killed.sums == LogIndex.Sums(delivered: 4, damaged: 1))
        killed.close()
        #expect(try store.deliverAll() == ["e5"])
        #expect(store.sums == LogIndex.Sums(delivered: 4, damaged: 1))
        store.endWriting()
        store.close()
        let next = try log.open()
        #expect(next.sums == LogIndex.Sums(delivered: 4, damaged: 1))
        #expect(next.load("A").object == ["n": 4])
        try next.store([.event("e6")])
        #expect(try next.deliverAll() == ["e6"])
    }

    @Test(arguments: ["log", "lock", "json", "ack"]) func aRemovedFileCostsWhatIsInIt(_ ending: String) throws {
        let log = LogFolder(path: folder.path)
        let store = try log.open(storageBytes: 8_000)
        let changes = { (number: Int) in [StateChange(key: "A", changes: ["n": .int(Int64(number))])] }
        try store.store((1...6).map { .event("e\($0)", changes: changes($0)) })
        for name in try log.names(ending) { try log.remove(name) }
        try store.store((7...40).map { .event("e\($0)", changes: changes($0)) })
        let copy = try log.afterKill()
        let killed = try copy.open(storageBytes: 8_000)
        #expect(killed.load("A").object == ["n": 40])
        killed.close()
        let delivered = try store.deliverAll()
        #expect(delivered.suffix(34) == .events(7...40))
        #expect(delivered.count == (ending == "log" ? 34 : 40))
        #expect(store.sums.damaged == (ending == "log" ? 6 : 0))
        if ending == "lock" { #expect(errorsOf(log, "was removed") == 1) }
        #expect(try !log.open().isOwned)
        store.close()
        #expect(try log.open().sums == store.sums)
    }

    private func errorsOf(_ log: LogFolder, _ text: String) -> Int {
        log.logger.texts(.error).filter { text.isEmpty || $0.contains(text) }.count
    }

    /// Who locked the new folder first owns it; the other goes on as a guest there, until it is free.
    @Test func aFolderThatAnotherHasMadeAnewIsAnothers() async throws {
        transport.answerAlways(.status(200))
        let analytics = start()
        analytics.identify(userId: "alice")
        analytics.track(name: "e1")
        await analytics.flushed()
        let path = try stateFolder()
        try FileManager.default.removeItem(atPath: folder.path)
        let files = SystemFiles()
        try files.makeFolder(path)
        let other = try #require(try files.lock(path + "/owner.lock"))
        analytics.track(name: "e2")
        #expect(await analytics.stored() == .stored)
        #expect(await analytics.flushed().wait != nil)
        #expect(transport.events.compactMap { $0["event"]?.string } == ["identify", "e1"])
        let names = try FileManager.default.contentsOfDirectory(atPath: path).sorted()
        #expect(names == ["00000002-000001-000000000000.log", "00000002.lock", "owner.lock"])
        other.unlock()
        #expect(await analytics.flushed() == .delivered)
        #expect(transport.events.compactMap { $0["event"]?.string } == ["identify", "e1", "e2"])
        #expect(analytics.userId == "alice")
        #expect(errors() == 1 && errors("was removed") == 1, "\(logger.texts(.error))")
        await analytics.shutdownAndWait()
        let next = start(seed: 3)
        #expect(next.userId == "alice")
        await next.shutdownAndWait()
    }

    @Test(arguments: [true, false]) func whoLosesARemovedFolderIsAGuestThere(hasEvents: Bool) throws {
        let log = LogFolder(path: folder.path)
        let told = Locked<[Bool]>([])
        let loser = try log.open()
        loser.whenOwnershipChanges { isOwned in told.withLock { $0.append(isOwned) } }
        let state = [StateChange(key: "A", changes: ["a": 1])]
        if hasEvents { try loser.store([.event("e1", changes: state)]) } else { try loser.save(state) }
        try FileManager.default.removeItem(atPath: folder.path)
        let owner = try log.open()
        try owner.store([.event("o1", changes: [StateChange(key: "A", changes: ["a": 2])])])
        try loser.store([.event("e2", changes: [StateChange(key: "A", changes: ["a": 3])])])
        #expect(!loser.isOwned && owner.isOwned)
        #expect(!loser.mayUpload())
        #expect(told.withLock { $0 } == [false])
        owner.look()
        #expect(try owner.deliverAll() == ["o1", "e2"])
        #expect(!loser.mayUpload())
        #expect(loser.counts.waiting == 0)
        #expect(loser.counts.lost == (hasEvents ? 1 : 0))
        owner.close()
        #expect(loser.mayUpload() && loser.isOwned)
        #expect(told.withLock { $0 } == [false, true])
        #expect(loser.load("A").object == ["a": 2])
    }

    /// Nothing but the lock's file went: what was stored is there, and the one who locks the new file delivers it.
    @Test func whoLosesTheLockAloneLosesNoEvent() throws {
        let log = LogFolder(path: folder.path)
        let loser = try log.open()
        try loser.store([.event("e1")])
        try log.remove("owner.lock")
        let owner = try log.open()
        #expect(owner.isOwned)
        try loser.store([.event("e2", padding: 1 << 17)])  // ends the segment
        #expect(loser.isOwned)
        try loser.store([.event("e3")])
        #expect(!loser.isOwned)
        owner.look()
        #expect(try owner.deliverAll() == ["e1", "e2", "e3"])
        #expect(owner.sums == LogIndex.Sums(delivered: 3))
        #expect(!loser.mayUpload())
        #expect(loser.counts == EventCounts(appended: 3, settled: 3))
    }

    /// Nobody asked for an upload between the loss and the return: it is told all the same.
    @Test func anIdentityOutlivesALossAndAReturn() async throws {
        transport.answerAlways(.status(200))
        let analytics = start()
        analytics.identify(userId: "alice")
        await analytics.flushed()
        let path = try stateFolder()
        try FileManager.default.removeItem(atPath: folder.path)
        try SystemFiles().makeFolder(path)
        let other = try #require(try SystemFiles().lock(path + "/owner.lock"))
        analytics.track(name: "e2")
        #expect(await analytics.stored() == .stored)
        other.unlock()
        #expect(await analytics.flushed().leavesNothing)
        let id = analytics.anonymousId
        await analytics.shutdownAndWait()
        let next = start(seed: 3)
        #expect(next.userId == "alice" && next.anonymousId == id)
        await next.shutdownAndWait()
    }

    @Test func anErasureLeavesAloneWhatIsAnothers() throws {
        let log = LogFolder(path: folder.path)
        let loser = try log.open()
        try loser.store([.event("e1", changes: [StateChange(key: "A", changes: ["a": 1])])])
        try FileManager.default.removeItem(atPath: folder.path)
        let owner = try log.open()
        let guest = try log.open()
        try guest.store(StoreRecord.events(1...3, "g"))
        guest.close()
        try owner.store([.event("o1", changes: [StateChange(key: "A", changes: ["a": 2])])])
        _ = try? loser.erase(leaving: [StateChange(key: "A", changes: ["a": 3])], keys: ["A"])
        let killed = try log.afterKill().open()
        #expect(killed.load("A").object == ["a": 2])
        owner.look()
        let delivered = try owner.deliverAll()
        #expect(delivered.sorted() == .events(1...3, "g") + ["o1"])
    }

    @Test func aFolderThatWasMovedAwayIsNotTheOneInItsPlace() throws {
        let log = LogFolder(path: folder.path)
        let moved = TestFolder()
        try SystemFiles().makeFolder(moved.path)
        let first = try log.open()
        try first.store((1...5).map { .event("e\($0)", changes: [StateChange(key: "A", changes: ["a": 1])]) })
        let batch = try #require(try first.nextBatch(.count(4)))
        try FileManager.default.moveItem(atPath: folder.path, toPath: moved.path + "/aside")
        let second = try log.open()
        #expect(second.isOwned)
        try second.store((1...3).map { .event("s\($0)", changes: [StateChange(key: "A", changes: ["a": 2])]) })
        try? first.acknowledge(batch)
        first.endWriting()
        let copy = try log.afterKill()
        let killed = try copy.open()
        #expect(killed.load("A").object == ["a": 2])
        #expect(try killed.deliverAll() == .events(1...3, "s"))
    }

    @Test func whoLosesTheLockAloneSendsNothingMore() throws {
        let log = LogFolder(path: folder.path)
        let first = try log.open()
        try first.store(StoreRecord.events(1...9))
        try log.remove("owner.lock")
        let second = try log.open()
        #expect(second.isOwned)
        #expect(try second.deliverAll(.count(3)).count == 9)
        var sent: [String] = []
        while first.mayUpload(), let batch = try first.nextBatch(.count(3)) {
            sent += batch.names
            try? first.acknowledge(batch)
        }
        #expect(sent.isEmpty)
    }

    /// The disk is gone with the folder: nothing can be made anew.
    @Test func aFolderThatCannotBeMadeAnewMeansMemory() async throws {
        let files = MemoryFiles()
        let disk = FaultyFiles(files)
        transport.answerAlways(.status(200))
        var configuration = Configuration.test(
            time: time, storage: .folder(URL(fileURLWithPath: "/memory/gone")), transport: transport, logger: logger)
        configuration.fileSystem = disk
        let analytics = Analytics(configuration: configuration)
        analytics.track(name: "e1")
        await analytics.flushed()
        let trace = disk.trace.first { $0.operation == .makeFolder }
        files.removeFolder("/memory/gone/" + (try #require(trace).name))
        disk.fill(.inputOutput)
        for number in 2...5 {
            analytics.track(name: "e\(number)")
            #expect(await analytics.stored() == .inMemory)
            #expect(await analytics.flushed().leavesNothing)
        }
        #expect(transport.events.compactMap { $0["event"]?.string } == .events(1...5))
        #expect(errors("was removed") == 1 && errors("can't be stored") == 1)
        disk.fail(nil)
        time.advance(by: .seconds(5))
        #expect(await analytics.stored() == .stored)
        await analytics.shutdownAndWait()
    }
}
