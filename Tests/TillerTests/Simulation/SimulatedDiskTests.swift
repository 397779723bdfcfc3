import Testing
import Tiller
import TillerTesting

@testable import simulate

/// The simulated disk forgets what a real one may forget, and nothing else.
@Suite(.timeLimit(.minutes(5))) struct SimulatedDiskTests {
    private let disk = SimulatedDisk(random: SeededRandom(seed: 1, stream: 0))
    private let process: SimulatedDisk.Process

    init() throws {
        process = disk.begin()
        try process.makeFolder("/f")
    }

    private func contents(_ path: String) throws -> [UInt8]? { try disk.begin().contents(of: path) }

    @Test func whatAKilledProcessHasWrittenIsThereAndItWritesNoMore() throws {
        let appender = try process.createAppender("/f/a")
        try appender.append([1, 2, 3])
        disk.kill(process.id)
        #expect(throws: FileFailure.self) { try appender.append([4]) }
        #expect(throws: FileFailure.self) { try process.overwrite([9], at: "/f/a", offset: 0) }
        #expect(throws: FileFailure.self) { try process.contents(of: "/f/a") }
        #expect(try contents("/f/a") == [1, 2, 3])
    }

    @Test func aLockIsFreeWhenItsProcessIsDead() throws {
        #expect(try process.lock("/f/lock") != nil)
        #expect(try disk.begin().lock("/f/lock") == nil)
        disk.kill(process.id)
        #expect(try disk.begin().lock("/f/lock") != nil)
    }

    @Test func aPowerCutLeavesWhatIsSyncedUnderASyncedName() throws {
        let appender = try process.createAppender("/f/a")
        try appender.append([1, 2, 3])
        try appender.sync()
        try process.sync("/f")
        try appender.append([4])
        disk.cutPower(.everything)
        #expect(try contents("/f/a") == [1, 2, 3])
    }

    @Test func aSyncedFileWhoseNameIsNotSyncedIsLost() throws {
        try process.store([1], at: "/f/a")
        disk.cutPower(.everything)
        #expect(try contents("/f/a") == nil)
    }

    @Test func removalsAndNewNamesThatAreNotSyncedAreUndone() throws {
        try process.store([1], at: "/f/a")
        try process.store([2], at: "/f/b")
        try process.sync("/f")
        try process.remove("/f/a")
        try process.store([3], at: "/f/b.new")
        try process.move("/f/b.new", to: "/f/b")
        #expect(disk.files(synced: true).isEmpty)
        disk.cutPower(.everything)
        #expect(try contents("/f/a") == [1])
        #expect(try contents("/f/b") == [2])
        #expect(try contents("/f/b.new") == nil)
    }

    @Test func aPowerCutMayLoseNothing() throws {
        try process.createAppender("/f/a").append([1, 2])
        disk.cutPower(.nothing)
        #expect(try contents("/f/a") == [1, 2])
    }

    @Test func whatIsNotSyncedIsKeptOrLostPageByPage() throws {
        let old = [UInt8](repeating: 1, count: 16 * SimulatedDisk.pageSize)
        try process.store(old, at: "/f/a")
        try process.sync("/f")
        try process.overwrite([UInt8](repeating: 2, count: old.count), at: "/f/a", offset: 0)
        disk.cutPower(.something)
        let bytes = try #require(try contents("/f/a"))
        let pages = stride(from: 0, to: bytes.count, by: SimulatedDisk.pageSize).map {
            Set(bytes[$0..<$0 + SimulatedDisk.pageSize])
        }
        #expect(bytes.count == old.count)
        #expect(pages.allSatisfy { $0 == [1] || $0 == [2] })
        #expect(Set(pages).count == 2)
    }

    @Test func aFullDiskTakesWhatMakesNothingLonger() throws {
        try process.store([1, 2], at: "/f/a")
        disk.setFaults(SimulatedDisk.Faults(isFull: true))
        try process.overwrite([3], at: "/f/a", offset: 1)
        #expect(throws: FileFailure.self) { try process.overwrite([4, 4], at: "/f/a", offset: 1) }
        #expect(throws: FileFailure.self) { _ = try process.createAppender("/f/b") }
        #expect(disk.faultCount == 2)
        disk.setFaults(SimulatedDisk.Faults())
        #expect(try process.contents(of: "/f/a")?.count == 2)
        #expect(try process.contents(of: "/f/b") == nil)
    }

    @Test func aProcessDiesInTheMiddleOfAnOperation() throws {
        let appender = try process.createAppender("/f/a")
        disk.kill(process.id, after: 1)
        try appender.append([1])
        #expect(disk.isAlive(process.id))
        #expect(throws: FileFailure.self) { try appender.append([2, 3, 4]) }
        #expect(!disk.isAlive(process.id))
        #expect(try #require(try contents("/f/a")).starts(with: [1]))
    }

    @Test func aFailedWriteLeavesABeginningOfWhatItWasGiven() throws {
        disk.setFaults(SimulatedDisk.Faults(failingWrites: 2))
        var failed = 0
        for number in 0..<50 {
            let path = "/f/\(number)"
            guard let appender = try? process.createAppender(path) else { continue }
            do {
                try appender.append([1, 2, 3, 4])
                #expect(try contents(path) == [1, 2, 3, 4])
            } catch {
                failed += 1
                #expect(try [UInt8]([1, 2, 3]).starts(with: #require(try contents(path))))
            }
        }
        #expect(failed > 0)
    }
}
