import Foundation
import Testing
import TillerTesting

@testable import Tiller
@testable import simulate

/// The file of the last checkpoint but one, which the next one is written to.
@Suite struct SpareCheckpointTests {
    private static let spare = "checkpoint.json.old"
    private let folder = LogFolder()

    /// Segments of a thousand bytes.
    private func open(on disk: any FileSystem = SystemFiles(), path: String? = nil) throws -> EventLog {
        try EventLog(
            folder: path ?? folder.path, on: disk, limits: Limits(storageBytes: 8_000), boot: 1,
            diagnostics: Diagnostics(logger: folder.logger, level: .debug))
    }

    /// An event that fills a segment, whose end has a checkpoint, with a change of state.
    private func full(_ number: Int) -> StoreRecord {
        .event("e\(number)", padding: 1_000, changes: [StateChange(key: "A", changes: ["n": .int(Int64(number))])])
    }

    private func segment(_ name: String) throws -> Int {
        try Checkpoint(reading: folder.contents(name)).place.segment
    }

    private var errors: [String] { folder.logger.messages.filter { $0.level == .error }.map(\.text) }

    @Test func itIsThereFromTheSecondCheckpointToTheEnd() throws {
        let files = FaultyFiles()
        let log = try open(on: files)
        try log.store([full(1)])
        #expect(try !folder.names().contains(Self.spare))
        try log.store([full(2)])
        #expect(try (segment("checkpoint.json"), segment(Self.spare)) == (2, 1))
        try log.store([full(3)])
        #expect(try (segment("checkpoint.json"), segment(Self.spare)) == (3, 2))
        // The file of the first has been used for the third.
        let steps = files.trace.filter { $0.name.hasPrefix("checkpoint.json") }.map(\.description)
        #expect(
            steps.suffix(4) == [
                "move \(Self.spare)", "store checkpoint.json.new", "addName checkpoint.json",
                "move checkpoint.json.new",
            ])
        log.endWriting()
        #expect(try !folder.names().contains(Self.spare))
    }

    @Test func whatAnotherLifeLeftIsNotUsed() throws {
        let first = try open()
        for number in 1...3 { try first.store([full(number)]) }
        first.close()  // as a kill leaves it
        #expect(try folder.names().contains(Self.spare))
        let files = FaultyFiles()
        let second = try open(on: files)
        #expect(second.load("A").object == ["n": 3])
        files.forgetTrace()
        try second.store([full(4)])
        #expect(files.trace.map(\.description).contains("remove \(Self.spare)"))
        #expect(try !folder.names().contains(Self.spare))
        #expect(try segment("checkpoint.json") == 1)
    }

    @Test func whatAnotherLifeLeftGoesWithALifeThatWritesNone() throws {
        let first = try open()
        for number in 1...3 { try first.store([full(number)]) }
        first.close()  // as a kill leaves it
        let new = "checkpoint.json.new"
        try Data("half a check".utf8).write(to: URL(fileURLWithPath: "\(folder.path)/\(new)"))
        let second = try open()
        let guest = try open()
        guest.endWriting()
        #expect(try folder.names().filter { $0.hasPrefix("checkpoint") } == ["checkpoint.json", new, Self.spare])
        second.endWriting()
        #expect(try folder.names().filter { $0.hasPrefix("checkpoint") } == ["checkpoint.json"])
        #expect(try segment("checkpoint.json") == 3)
    }

    @Test func whereAFileHasOneNameThereIsNone() throws {
        let files = FaultyFiles()
        files.fail { operation, _, _ in operation == .addName ? .permission : nil }
        let log = try open(on: files)
        for number in 1...3 { try log.store([full(number)]) }
        #expect(try segment("checkpoint.json") == 3)
        #expect(try !folder.names().contains(Self.spare))
        #expect(errors == [])
    }

    /// The names of a folder that could not be synced may be the old ones after a power cut.
    @Test(arguments: 1...6) func aPowerCutAfterAFailedSyncLeavesOneThatIsWhole(_ seed: UInt64) throws {
        let disk = SimulatedDisk(random: SeededRandom(seed: seed, stream: 0))
        let files = FaultyFiles(disk.begin())
        func open(on disk: any FileSystem) throws -> EventLog {
            try EventLog(
                folder: "/f", on: disk, limits: Limits(), boot: 1,
                diagnostics: Diagnostics(logger: folder.logger, level: .debug))
        }
        let log = try open(on: files)
        // So many changes have a checkpoint, in the middle of a segment: nothing else syncs the folder.
        func save(_ number: Int64) { _ = log.append((1...1_024).map { _ in .state("A", ["n": .int(number)]) }) }
        for number in 1...3 as ClosedRange<Int64> { save(number) }
        files.fail { operation, _, _ in operation == .sync ? .inputOutput : nil }
        log.sync()
        save(4)
        let isMoved = Locked(false)
        files.fail { operation, name, _ in
            if operation == .move, name == "checkpoint.json.new" { isMoved.withLock { $0 = true } }
            return operation == .sync && isMoved.withLock { $0 } ? .inputOutput : nil
        }
        save(5)
        #expect(isMoved.withLock { $0 })
        // The next one dies while it writes its file.
        files.fail { operation, name, _ in operation == .store && name.hasPrefix("checkpoint") ? .half : nil }
        save(6)
        disk.cutPower(seed.isMultiple(of: 2) ? .everything : .something)
        let next = try open(on: disk.begin())
        let number = try #require(next.load("A").object?["n"]?.int)
        #expect(number >= 3)
        #expect(!errors.contains { $0.contains("is left as it is") }, "\(errors)")
    }

    /// Whatever becomes of it, checkpoints are written.
    @Test func whereItIsGoneOrInTheWayANewFileIsMade() throws {
        let log = try open()
        for number in 1...3 { try log.store([full(number)]) }
        try folder.remove(Self.spare)
        try log.store([full(4)])
        #expect(try segment("checkpoint.json") == 4)
        log.close()
        try folder.remove(Self.spare)
        try folder.block(Self.spare + "/inside")
        let next = try open()
        for number in 5...7 {
            try next.store([full(number)])
            #expect(try segment("checkpoint.json") == number - 4)
        }
        #expect(errors == [])
    }

    @Test func whereAllButTheLocksIsRemovedTheStateIsWrittenAnew() throws {
        let log = try open()
        for number in 1...3 { try log.store([full(number)]) }
        try log.store([.event("e3")])
        log.sync()
        for name in try folder.names() where !name.hasSuffix(".lock") { try folder.remove(name) }
        try log.store([.event("e4")])
        let killed = try folder.afterKill()
        #expect(try killed.open().load("A").object == ["n": 3])
    }

    @Test func whoGivesTheFolderUpLeavesNone() throws {
        let log = try open()
        for number in 1...3 { try log.store([full(number)]) }
        log.releaseOwnership()
        #expect(try !folder.names().contains(Self.spare))
    }

    @Test func theSpareOfWhoTookARemovedFolderIsItsOwn() throws {
        let former = try open()
        for number in 1...3 { try former.store([full(number)]) }
        let aside = TestFolder()
        try FileManager.default.moveItem(atPath: folder.path, toPath: aside.path)
        let owner = try LogFolder(path: folder.path).open(storageBytes: 8_000)
        for number in 4...6 { try owner.store([full(number)]) }
        former.endWriting()
        #expect(try folder.names().contains(Self.spare))
        try owner.store([full(7)])
        #expect(try segment("checkpoint.json") == 4)
    }

    @Test func anErasureTakesItToo() throws {
        let log = try open()
        for number in 1...3 { try log.store([full(number)]) }
        try folder.put("half of a ch", "checkpoint.json.new")
        _ = try log.erase(leaving: [StateChange(key: "B", changes: ["b": 1])], keys: ["A", "B"])
        #expect(try folder.names().filter { $0.hasPrefix("checkpoint") } == ["checkpoint.json"])
        try log.store([full(4)])
        log.endWriting()
        log.close()
        let next = try folder.open()
        #expect(next.load("A").object == ["n": 4])
        #expect(next.load("B").object == ["b": 1])
    }

    // MARK: Who reads meanwhile

    @Test func anOpeningReadsAgain() throws {
        let log = try open()
        for number in 1...2 { try log.store([full(number)]) }
        log.endWriting()
        log.close()
        // The first time, the owner is just writing it.
        let whole = try folder.contents("checkpoint.json")
        try folder.put(Array(whole.prefix(20)), "checkpoint.json")
        let files = FaultyFiles()
        let reads = Locked(0)
        files.before { [folder] operation in
            guard operation == .read,
                reads.withLock({
                    $0 += 1; return $0
                }) > 2
            else { return }
            try? folder.put(whole, "checkpoint.json")
        }
        #expect(try open(on: files).load("A").object == ["n": 2])
        #expect(errors == [])
    }

    @Test func whoReadsWhileItIsWrittenReadsAgain() {
        let whole = Checkpoint().bytes
        var found = [Array(whole.prefix(20)), [], [], whole]
        #expect(Checkpoint.bytes { found.removeFirst() } == whole)
        #expect(found.isEmpty)
    }

    @Test func whatIsDamagedStaysDamagedAndWhatIsAbsentAbsent() {
        var count = 0
        let read = { (bytes: [UInt8]?) -> [UInt8]? in
            count += 1
            return bytes
        }
        #expect(Checkpoint.bytes { read([1, 2, 3]) } == [1, 2, 3])
        #expect(count == 4)
        #expect(Checkpoint.bytes { read(nil) } == nil)
        #expect(Checkpoint.bytes { read(Checkpoint().bytes) } == Checkpoint().bytes)
        #expect(count == 6)
    }
}
