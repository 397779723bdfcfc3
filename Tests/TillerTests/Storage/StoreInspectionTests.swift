import Foundation
import Testing
import TillerTesting

@testable import Tiller

/// What is told of a store by reading alone.
@Suite(.timeLimit(.minutes(5))) struct StoreInspectionTests {
    private typealias Account = StoreInspection.Account
    private typealias Finding = StoreInspection.Finding

    private let folder = LogFolder()
    private static let small = 8_000

    private func inspect(readsPayloads: Bool = true) throws -> StoreInspection {
        try StoreInspection(folder: folder.path, readsPayloads: readsPayloads)
    }

    /// Four segments of one earlier run, five events each, and their names.
    private func fourSegments() throws -> [String] {
        try folder.live(StoreRecord.events(1...20, padding: 100), storageBytes: Self.small)
        let names = try folder.names(".log")
        #expect(names.count == 4)
        return names
    }

    private func damages(_ store: StoreInspection) -> [Finding] { store.findings.list.filter { $0.kind == .damage } }

    // MARK: What waits

    @Test func wholeStoreIsCounted() throws {
        try folder.live([.event("a", at: 5_000), .state("S", ["a": 1]), .event("b", changes: [])])
        let log = try folder.open()
        try log.acknowledge(try #require(try log.nextBatch(.count(1))))
        try log.store([.event("c", at: 9_000, changes: [StateChange(key: "S", changes: ["b": 2])])])
        let store = try inspect()
        #expect(store.account == Account(stored: 3, delivered: 1, waiting: 2))
        #expect(store.oldestMilliseconds == 1_000)
        #expect(store.runs.map(\.number) == [1, 2])
        #expect(store.runs.map(\.position) == [1, 0])
        #expect(store.runs.map(\.end) == [2, 1])
        #expect(store.runs.map(\.recordCount) == [3, 1])
        #expect(store.runs.map(\.eventCount) == [2, 1])
        #expect(store.runs.map(\.stateCount) == [1, 1])
        #expect(store.segmentCount == 2)
        #expect(store.findings.count == 0)
        #expect(!store.isMoving)
        #expect(store.obstacle == nil)
        var names: [String] = []
        store.records { names.append((try? JSONValue(parsing: $0.event))?["event"]?.string ?? "state") }
        #expect(names == ["a", "state", "b", "c"])
    }

    @Test func accountIsThatOfAllLives() throws {
        let first = try folder.open(storageBytes: Self.small)
        try first.store(StoreRecord.events(1...150, padding: 100))
        first.close()
        let second = try folder.open(storageBytes: Self.small)
        for _ in 0..<3 { try second.acknowledge(try #require(try second.nextBatch(.count(7)))) }
        try second.store(StoreRecord.events(1...3))
        let store = try inspect()
        let account = try #require(store.account)
        #expect(account.evicted > 0)
        #expect(account.stored == 153)
        #expect(account.unknown == 0)
        #expect(account.delivered == second.sums.delivered)
        #expect(account.waiting == UInt64(second.counts.waiting))
        #expect(account.stored == account.delivered + account.waiting + account.evicted)
    }

    @Test func emptyAndNewStoresAreWhole() throws {
        try folder.live([])
        var store = try inspect()
        #expect(store.account == Account())
        #expect(store.oldestMilliseconds == nil)
        #expect(store.checkpoint == .absent)
        let log = try folder.open()
        try log.store([.event("a"), .state("S", ["a": 1])])
        log.endWriting()
        log.close()
        store = try inspect()
        #expect(store.findings.count == 0)
        guard case .covers(let run, _, let offset) = store.checkpoint else {
            Issue.record("\(store.checkpoint)")
            return
        }
        #expect((run, offset) == (store.runs[0].number, store.runs[0].bytes))
    }

    // MARK: Read-only

    @Test func nothingIsChangedAndNoOwnerDisturbed() throws {
        _ = try fourSegments()
        // What an opening would remove: a run that is taken into the base.
        var base = try SlotFile(reading: folder.path + "/base.ack")
        try base.write([2, 1, 20, 0, 0, 0])
        let log = try EventLog(
            folder: folder.path, boot: 1, diagnostics: Diagnostics(logger: folder.logger, level: .debug))
        _ = try fourSegmentsAgain()
        let before = try contents()
        let store = try inspect()
        store.records { _ in }
        #expect(try contents() == before)
        #expect(log.isOwned)
        #expect(store.findings.remarkCount == 1)
        #expect(store.account?.delivered == 20)
        #if !canImport(Darwin)
        #expect(store.owner == .held(by: Int(getpid())))
        #endif
        try log.store([.event("x")])
    }

    /// The leftover of a kill between the base's write and the files' end.
    private func fourSegmentsAgain() throws -> String {
        let name = "00000001-000001-000000000000.log"
        try folder.put([], name)
        return name
    }

    private func contents() throws -> [String: [UInt8]] {
        Dictionary(uniqueKeysWithValues: try folder.names().map { ($0, try folder.contents($0)) })
    }

    /// Whatever it sees between two writes of a busy owner is whole, or it says that it is not of one moment.
    @Test func ownerMayWriteMeanwhile() async throws {
        let log = try folder.open(storageBytes: Self.small)
        let path = folder.path
        let isDone = Locked(false)
        async let inspections = Self.inspect(path, until: isDone)
        for round in 1...200 {
            try log.store(StoreRecord.events(round...round + 6, padding: 50))
            if round % 3 == 0 { _ = try log.deliverAll(.count(5)) }
        }
        isDone.withLock { $0 = true }
        let seen = try await inspections
        #expect(seen.count > 0)
        for store in seen where !store.isMoving {
            #expect(store.findings.damageCount == 0, "\(store.findings.list)")
            #expect(store.account?.unknown == 0)
            #expect(store.obstacle == nil)
        }
        #expect(try inspect().account?.stored == 1_400)
    }

    private static func inspect(_ path: String, until isDone: Locked<Bool>) async throws -> [StoreInspection] {
        var seen: [StoreInspection] = []
        repeat { seen.append(try StoreInspection(folder: path)) } while !isDone.withLock { $0 }
        return seen
    }

    // MARK: Damage

    /// Each byte of a store's log changed in turn: each change is found, and costs no more than its record.
    @Test func everyChangedByteIsFound() throws {
        try folder.live([.event("a"), .state("S", ["k": "v"]), .event("b"), .event("c")])
        let name = try folder.names(".log")[0]
        let whole = try folder.contents(name)
        var starts: [Int] = []
        try inspect().records { starts.append($0.offset) }
        let last = try #require(starts.last)
        for offset in whole.indices {
            var bytes = whole
            bytes[offset] ^= 0x10
            try folder.put(bytes, name)
            let store = try inspect()
            let start = try #require(starts.last { $0 <= offset })
            let findings = store.findings.list
            #expect(findings.map(\.offset) == [start], "byte \(offset)")
            // A head that is not whole at the end can't be told from a write that was cut off.
            let isHeadAtTheEnd = (last..<last + LogRecordHeader.size).contains(offset)
            #expect(findings.map(\.kind) == [isHeadAtTheEnd ? .remark : .damage], "byte \(offset)")
            #expect(store.runs[0].recordCount == 3)
            let isEvent = start != starts[1]
            #expect(store.lostCount == (isEvent && !isHeadAtTheEnd ? 1 : 0), "byte \(offset)")
        }
    }

    @Test func everyTruncationIsAWriteThatWasCutOff() throws {
        try folder.live([.event("a"), .event("b")])
        let name = try folder.names(".log")[0]
        let whole = try folder.contents(name)
        var starts: [Int] = []
        try inspect().records { starts.append($0.offset) }
        for count in 0..<whole.count {
            try folder.put(Array(whole[..<count]), name)
            let store = try inspect()
            #expect(store.findings.damageCount == 0)
            #expect(store.findings.remarkCount == (starts.contains(count) ? 0 : 1), "\(count) bytes")
            #expect(store.account?.waiting == (count >= starts[1] ? 1 : 0))
        }
    }

    @Test func missingAndEmptySegmentsAreFound() throws {
        let names = try fourSegments()
        let firsts = names.compactMap { UInt64($0.split(separator: "-")[2].split(separator: ".")[0]) }
        try folder.put([], names[1])
        try folder.remove(names[2])
        let store = try inspect()
        #expect(
            damages(store) == [
                Finding(
                    kind: .damage, file: names[3], offset: nil,
                    text: "Events \(firsts[1]) to \(firsts[3] - 1) are in no file before it")
            ])
        #expect(store.lostCount == firsts[3] - firsts[1])
        #expect(store.account?.waiting == 20)
        try folder.remove(names[0])
        #expect(try inspect().lostCount == firsts[3])
    }

    @Test func endOfAClosedSegmentIsMissed() throws {
        let names = try fourSegments()
        let bytes = try folder.contents(names[1])
        try folder.put(Array(bytes.dropLast(10)), names[1])
        let store = try inspect()
        #expect(damages(store).map(\.file) == [names[1]])
        #expect(damages(store)[0].text.hasSuffix("its writing was cut off; event 9 is lost"), "\(damages(store))")
        #expect(store.lostCount == 1)
    }

    @Test func damagedSlotsAndSumsAreFound() throws {
        let log = try folder.open()
        try log.store(StoreRecord.events(1...6))
        for _ in 0..<2 { try log.acknowledge(try #require(try log.nextBatch(.count(2)))) }
        log.close()
        let name = try folder.names(".ack").filter { $0 != "base.ack" }[0]
        let whole = try folder.contents(name)
        for (offset, slot) in [(5, 0), (4_096 + 20, 4_096)] {
            var bytes = whole
            bytes[offset] ^= 1
            try folder.put(bytes, name)
            let store = try inspect()
            #expect(damages(store).map(\.offset) == [slot])
            #expect(damages(store)[0].text == "This slot is not whole; the other one counts")
        }
        try folder.put([UInt8](repeating: 1, count: whole.count), name)
        #expect(damages(try inspect()).map(\.offset) == [0, 4_096])
        try folder.put(whole, name)
        var slots = try SlotFile(reading: folder.path + "/" + name)
        try slots.write([5, 3, 0, 0, 0, 0])
        let store = try inspect()
        #expect(damages(store).map(\.text) == ["5 events are settled, and 3 of them accounted for"])
        #expect(store.account == Account(stored: 6, delivered: 3, waiting: 1))
        #expect(store.account?.unknown == 2)
    }

    @Test func damagedCheckpointIsFound() throws {
        let log = try folder.open()
        try log.store([.state("S", ["a": 1])])
        log.endWriting()
        log.close()
        #expect(try inspect().findings.count == 0)
        var bytes = try folder.contents("checkpoint.json")
        bytes[3] ^= 1
        try folder.put(bytes, "checkpoint.json")
        var store = try inspect()
        #expect(store.checkpoint == .damaged)
        #expect(damages(store).map(\.file) == ["checkpoint.json"])
        try folder.put(CheckedText.bytes(of: Array(#"{"format":2}"#.utf8)), "checkpoint.json")
        store = try inspect()
        #expect(store.checkpoint == .newerFormat)
        #expect(store.names(.newer) == ["checkpoint.json"])
        #expect(store.findings.damageCount == 0)
        try folder.put(CheckedText.bytes(of: Array(#"{"format":1,"state":{},"covers":{}}"#.utf8)), "checkpoint.json")
        #expect(try inspect().checkpoint == .damaged)
    }

    /// A right checksum does not make a writer right.
    @Test func payloadsThatAreNoJSONAreFoundWhereTheyAreRead() throws {
        let content = EncodedEvent(
            bytes: Array("[1]".utf8), anonymousId: 0..<0,
            moment: Moment(wallMilliseconds: 0, continuous: .zero, sequence: 0))
        var bytes: [UInt8] = []
        bytes.append(StoreRecord(event: content, changes: []), number: 0, boot: 0)
        try folder.put(bytes, "00000001-000001-000000000000.log")
        #expect(damages(try inspect()).map(\.text) == ["The event 0 is no JSON object"])
        #expect(damages(try inspect()).map(\.offset) == [LogRecordHeader.size])
        #expect(try inspect(readsPayloads: false).findings.count == 0)
    }

    @Test func unreadableFilesAreNoDamage() throws {
        let names = try fourSegments()
        try folder.makeUnreadable(names[2])
        try folder.put("x", "checkpoint.json")
        try folder.makeUnreadable("checkpoint.json")
        let store = try inspect()
        #expect(store.findings.unreadableCount == 2)
        #expect(store.findings.damageCount == 0)
        #expect(store.lostCount == 0)
        #expect(store.checkpoint == .unreadable)
    }

    // MARK: Other versions, other files

    @Test func newerAndForeignFilesAreToldApart() throws {
        try folder.live(StoreRecord.events(1...3))
        for name in ["notes.txt", "1-1-0.log", ".hidden"] { try folder.put("x", name) }
        for name in ["00000001.lock", "owner.fifo", "checkpoint.json.new"] { try folder.put("", name) }
        try folder.put("x", "00000007-000001-000000000000.log2")
        let store = try inspect()
        #expect(store.names(.foreign) == [".hidden", "1-1-0.log", "notes.txt"])
        #expect(store.names(.newer) == ["00000007-000001-000000000000.log2"])
        #expect(store.findings.damageCount == 0)
        #expect(store.account?.waiting == 3)
    }

    @Test func storeOfANewerVersionIsStillListed() throws {
        try folder.live(StoreRecord.events(1...3))
        var newer = SlotFile(new: folder.path + "/x")
        try newer.write([0, 0, 0, 0, 0, 0])
        var bytes = try folder.contents("x")
        bytes[0] = 2
        bytes.replaceSubrange(
            64..<72, with: withUnsafeBytes(of: UInt64(CRC32C.checksum(of: bytes[..<64]))) { Array($0) })
        try folder.remove("x")
        try folder.put(bytes, "base.ack")
        let store = try inspect()
        #expect(store.account == nil)
        #expect(store.obstacle?.contains("newer format") == true)
        #expect(store.names(.newer) == ["base.ack"])
        #expect(store.runs.map(\.eventCount) == [3])
        #expect(store.runs.map(\.waiting) == [nil])
        #expect(store.findings.damageCount == 0)
    }

    // MARK: Folders

    @Test func folderIsOneStoreOrHoldsSeveral() throws {
        let base = TestFolder()
        for name in ["0123456789abcdef-default", "00000000000000ff-other", "notes", "0123456789abcdeg-x"] {
            try LogFolder(path: base.path + "/" + name).put("x", "file")
        }
        let stores = ["00000000000000ff-other", "0123456789abcdef-default"].map { base.path + "/" + $0 }
        #expect(try StoreInspection.folders(in: base.path) == stores)
        #expect(try StoreInspection.folders(in: base.path + "/") == stores)
        #expect(try StoreInspection.folders(in: stores[1] + "/") == [stores[1]])
        #expect(throws: StoreInspection.Unreadable.self) { try StoreInspection.folders(in: base.path + "/notes") }
        #expect(throws: StoreInspection.Unreadable.self) { try StoreInspection.folders(in: base.path + "/missing") }
        try folder.live([])
        #expect(try StoreInspection.folders(in: folder.path) == [folder.path])
        #expect(throws: StoreInspection.Unreadable.self) { try StoreInspection(folder: base.path + "/missing") }
    }

    /// Opening one for reading waits for a writer, who may never come.
    @Test func aPipeInTheFolderIsNotWaitedFor() throws {
        try folder.live([.event("a")])
        for name in ["owner.fifo", "checkpoint.json", "00000009-000001-000000000000.log"] {
            #expect(mkfifo(folder.path + "/" + name, 0o600) == 0)
        }
        let store = try inspect()
        #expect(store.account?.waiting == 1)
        #expect(try folder.open().isOwned)
    }
}
