import Foundation
import Testing
import TillerTesting

@testable import Tiller

/// An instance whose disk is full or takes nothing for another reason, from the start or in the middle of its life:
/// delivery goes on from memory, what is not delivered is written when there is room, and the account balances.
@Suite(.timeLimit(.minutes(5))) struct FullDiskTests {
    private let time = VirtualTime()
    private let logger = RecordingLogger()
    private let transport = StubTransport()
    private let files = MemoryFiles()
    private let disk: FaultyFiles

    init() { disk = FaultyFiles(files) }

    /// - Parameter place: A name of the test's own.
    private func start(_ place: String = #function, limits: Limits = Limits(), seed: UInt64 = 1) -> Analytics {
        var configuration = Configuration.test(
            time: time, storage: .folder(URL(fileURLWithPath: "/memory/\(place.prefix { $0 != "(" })")),
            transport: transport, logger: logger, limits: limits)
        configuration.fileSystem = disk
        configuration.identifiers = .seeded(seed)
        return Analytics(configuration: configuration)
    }

    private func errors(_ text: String = "") -> Int {
        logger.texts(.error).filter { text.isEmpty || $0.contains(text) }.count
    }

    /// A hundred writes fail, every other one after half a record; then they succeed.
    @Test func b50_aFullDiskCostsNothingAndSaysSoOnce() async throws {
        let analytics = start()
        for number in 1...3 { analytics.track(name: "e\(number)") }
        #expect(await analytics.stored() == .stored)
        let left = Locked(100)
        disk.fail { operation, _, _ in
            guard operation == .append else { return nil }
            return left.withLock { left in
                left -= left > 0 ? 1 : 0
                return left == 0 ? nil : left % 2 == 0 ? .half : .noSpace
            }
        }
        var number = 3
        while left.withLock({ $0 > 0 }) {
            number += 1
            analytics.track(name: "e\(number)")
            await analytics.stored()
        }
        analytics.track(name: "e\(number + 1)")
        #expect(await analytics.stored() == .stored)
        #expect(await analytics.flushed().leavesNothing)
        #expect(transport.events.names == .events(1...number + 1))
        #expect(errors() == 1)
        #expect(analytics.account.stored == number + 1)
        await analytics.shutdownAndWait()
        // No half record is left.
        let next = start()
        await next.shutdownAndWait()
        #expect(logger.messages.allSatisfy { !$0.text.contains("no whole record") })
    }

    @Test func deliveryGoesOnFromMemory() async throws {
        let analytics = start()
        analytics.identify(userId: "alice")
        await analytics.stored()
        disk.fill()
        analytics.track(name: "e1")
        analytics.identify(userId: "alice", traits: ["plan": "pro"])
        analytics.track(name: "e3")
        #expect(await analytics.stored() == .inMemory)
        #expect(analytics.account.inMemory == 3)
        #expect(await analytics.flushed().leavesNothing)
        #expect(transport.events.map { $0["type"]?.string } == ["identify", "track", "identify", "track"])
        let account = analytics.account
        #expect((account.recorded, account.stored, account.delivered, account.inMemory) == (4, 1, 3, 0))
        // State waits yet.
        #expect(await analytics.stored() == .inMemory)
        disk.fail(nil)
        time.advance(by: .seconds(5))
        #expect(await analytics.stored() == .stored)
        #expect(await analytics.flushed() == .nothingWaiting)
        let session = analytics.sessionId
        #expect(await analytics.shutdownAndWait() == 0)
        let next = start(seed: 2)
        #expect(next.userId == "alice" && next.traits == ["plan": "pro"] && next.sessionId == session)
        #expect(await next.flushed() == .nothingWaiting)
        await next.shutdownAndWait()
        #expect(transport.events.count == 4)
    }

    @Test func whatWaitsIsWrittenInOrderWhenThereIsRoom() async throws {
        transport.answerAlways(.status(503))
        let analytics = start()
        analytics.track(name: "e1")
        await analytics.stored()
        disk.fill()
        for number in 2...4 {
            analytics.track(name: "e\(number)")
            await analytics.stored()
        }
        #expect(await analytics.flushed().wait != nil)
        disk.fail(nil)
        time.advance(by: .seconds(5))
        #expect(await analytics.stored() == .stored)
        #expect(analytics.account.stored == 4)
        #expect(await analytics.shutdownAndWait() == 4)
        transport.answerAlways(.status(200))
        let before = transport.events.count
        let next = start(seed: 2)
        await next.flushed()
        #expect(Array(transport.events.dropFirst(before)).names == .events(1...4))
        await next.shutdownAndWait()
    }

    /// What was found by a simulation: the retry that succeeds between the flush and the answer.
    @Test func flushedWaitsForWhatWasInMemoryAtTheFlush() async throws {
        let analytics = start()
        await analytics.stored()
        let refusals = Locked(1)
        disk.fail { operation, _, _ in
            guard operation == .append || operation == .create else { return nil }
            return refusals.withLock { refusals in
                refusals -= 1
                return refusals >= 0 ? .noSpace : nil
            }
        }
        analytics.track(name: "e1")
        #expect(await analytics.flushed() == .delivered)
        #expect(transport.events.names == ["e1"])
        await analytics.shutdownAndWait()
    }

    @Test func theNewestAreRefusedWhenMemoryIsUsedUp() async throws {
        transport.answerAlways(.status(503))
        let analytics = start(limits: Limits(memoryEvents: 10))
        await analytics.stored()
        disk.fill()
        for number in 1...15 {
            analytics.track(name: "e\(number)")
            await analytics.stored()
        }
        #expect(analytics.account.dropped == [.queueFull: 5])
        #expect(analytics.account.inMemory == 10)
        disk.fail(nil)
        time.advance(by: .seconds(5))
        #expect(await analytics.stored() == .stored)
        // There is room again.
        analytics.track(name: "e16")
        await analytics.stored()
        #expect(analytics.account.stored == 11 && analytics.account.inMemory == 0)
        transport.answerAlways(.status(200))
        #expect(await analytics.flushed() == .delivered)
        #expect(transport.events.names == .events(1...10) + ["e16"])
        await analytics.shutdownAndWait()
    }

    @Test(arguments: [false, true]) func atTheEndTheDataPlaneIsTriedOnce(_ isUp: Bool) async throws {
        let analytics = start()
        await analytics.stored()
        disk.fill()
        for number in 1...3 { analytics.track(name: "e\(number)") }
        if !isUp { transport.answerAlways(.status(503)) }
        #expect(await analytics.shutdownAndWait() == (isUp ? 0 : 3))
        #expect(transport.requests.count == 1)
        #expect(analytics.account.dropped == (isUp ? [:] : [.notStored: 3]))
        #expect(analytics.account.delivered == (isUp ? 3 : 0))
        #expect(analytics.account.inMemory == 0)
        #expect(errors("neither stored nor delivered") == (isUp ? 0 : 1))
    }

    /// What was delivered can be said, and so removed, without more room.
    @Test(arguments: [1, 400]) func aDiskThatTheBacklogHasFilledIsEmptiedOnce(_ count: Int) throws {
        let folder = LogFolder()
        let disk = FaultyFiles()
        let owner = try folder.open(storageBytes: 400_000, on: disk)
        let guest = try folder.open(storageBytes: 400_000)
        try owner.store(StoreRecord.events(1...count, padding: 50))
        try guest.store(StoreRecord.events(1...count, "g", padding: 50))
        owner.look()
        disk.fill()
        #expect(try owner.deliverAll(.count(30)).count == 2 * count)
        let killed = try folder.afterKill().open(storageBytes: 400_000)
        #expect(try killed.deliverAll() == [])
        #expect(killed.sums == LogIndex.Sums(delivered: UInt64(2 * count)))
        guest.close()
        owner.close()
        let next = try folder.open(storageBytes: 400_000, on: disk)
        #expect(try next.deliverAll() == [])
        #expect(try folder.names(".log") == [])
        #expect(folder.logger.texts(.error) == [])
    }

    @Test(arguments: [FaultyFiles.Fault.noSpace, .readOnly, .inputOutput]) func aDiskThatTakesNothingFromTheStartOn(
        _ fault: FaultyFiles.Fault
    ) async throws {
        let first = start("start-\(fault)")
        first.identify(userId: "alice")
        await first.shutdownAndWait()
        disk.fill(fault)
        let analytics = start("start-\(fault)", seed: 2)
        #expect(analytics.userId == "alice")
        analytics.track(name: "e1")
        #expect(await analytics.stored() == .inMemory)
        #expect(await analytics.flushed().leavesNothing)
        #expect(transport.events.names.last == "e1")
        #expect(errors("can't be stored") == 1)
        #expect(errors() == 1)
        #expect(await analytics.shutdownAndWait() == 0)
    }

    /// Where not even the lock can be had, everything is in memory.
    @Test(arguments: [FaultyFiles.Operation.lock, .makeFolder, .list, .read])
    func aFolderThatCannotBeOpenedMeansMemoryWithOneError(_ operation: FaultyFiles.Operation) async throws {
        disk.fail { asked, name, _ in asked == operation && name != "checkpoint.json" ? .readOnly : nil }
        let analytics = start("open-\(operation)")
        analytics.track(name: "e1")
        #expect(await analytics.stored() == .inMemory)
        #expect(await analytics.flushed().leavesNothing)
        #expect(errors() == 1 && errors(operation == .lock ? "has no locks" : "Nothing can be stored") == 1)
        #expect(await analytics.shutdownAndWait() == 0)
    }

    /// Each sync fails: what is stored is stored all the same, and outlives the process.
    @Test func aDiskThatCannotSyncCostsNothing() async throws {
        let first = start()
        await first.shutdownAndWait()
        transport.answerAlways(.status(503))
        disk.fail { operation, name, _ in operation == .sync && name != "base.ack" ? .inputOutput : nil }
        let analytics = start()
        for number in 1...3 { analytics.track(name: "e\(number)") }
        #expect(await analytics.stored() == .stored)
        #expect(await analytics.shutdownAndWait() == 3)
        disk.fail(nil)
        transport.answerAlways(.status(200))
        let next = start()
        await next.flushed()
        #expect(transport.requests.last?.events.names == .events(1...3))
        await next.shutdownAndWait()
    }
}
