import Foundation
import Testing
import TillerTesting

@testable import Tiller

/// `erase()`: everything goes, in the order of calls, and a kill at any moment leaves all or nothing.
@Suite(.timeLimit(.minutes(5))) struct EraseTests {
    private let transport = StubTransport(.status(503))
    private let logger = RecordingLogger()
    private let time = VirtualTime()
    private let files = MemoryFiles()

    private func start(_ storage: Storage, seed: UInt64 = 1, plugins: [any Plugin] = []) -> Analytics {
        var configuration = Configuration.test(time: time, storage: storage, transport: transport, logger: logger)
        configuration.identifiers = .seeded(seed)
        configuration.fileSystem = files
        configuration.trackApplicationLifecycleEvents = true
        return Analytics(configuration: configuration, plugins: plugins)
    }

    private static let storages: [Storage] = [.folder(URL(fileURLWithPath: "/memory/erase")), .memory]

    @Test(arguments: [0, 1]) func nothingOfBeforeIsLeft(_ index: Int) async {
        let recorder = RecordingDestination()
        let analytics = start(Self.storages[index], plugins: [recorder])
        let id = analytics.anonymousId
        let session = analytics.sessionId
        analytics.identify(userId: "alice", traits: ["plan": "pro"])
        analytics.track(name: "before")
        await analytics.stored()
        time.advance(by: .seconds(5))
        analytics.erase()
        #expect(analytics.userId == nil && analytics.traits?.isEmpty == true)
        #expect(analytics.anonymousId != id)
        #expect(analytics.sessionId != session)
        analytics.track(name: "after")
        await analytics.settled()
        #expect(analytics.account.recorded == 1)
        #expect(analytics.account.dropped.isEmpty)
        if index == 0 { #expect(analytics.account.store?.stored == 1) }
        transport.answerAlways(.status(200))
        #expect(await analytics.flushed() == .delivered)
        #expect(transport.requests.last?.events.names == ["after"])
        #expect(transport.requests.last?.events.first?["anonymousId"]?.string == analytics.anonymousId)
        #expect(analytics.account.inMemory == 0)
        #expect(recorder.events.last?.name == "after")
        #expect(await analytics.shutdownAndWait() == 0)
        #expect(logger.texts(.error).filter { $0.contains("erase") }.isEmpty)
    }

    @Test func theNextProcessFindsTheNewIdentityAndNoNewInstallation() async {
        let first = start(Self.storages[0])
        first.identify(userId: "alice")
        await first.stored()
        first.erase()
        let id = first.anonymousId
        await first.shutdownAndWait()
        let seen = RecordingDestination()
        let second = start(Self.storages[0], seed: 2, plugins: [seen])
        #expect(second.anonymousId == id && second.userId == nil)
        await second.settled()
        #expect(!seen.events.map(\.name).contains("Application Installed"))
        // The second process's own Application Opened.
        #expect(second.account.store?.stored == 1)
        await second.shutdownAndWait()
    }

    /// A request that is under way is broken off, and what its answer says settles nothing any more.
    @Test func aRequestUnderWaySettlesNothingOfLater() async {
        transport.answerAlways(.hold)
        let analytics = start(Self.storages[0])
        analytics.track(name: "before")
        analytics.flush()
        await transport.requests(count: 1)
        analytics.erase()
        analytics.track(name: "after")
        await analytics.stored()
        transport.answerAlways(.status(200))
        transport.release()
        #expect(await analytics.flushed() == .delivered)
        #expect(transport.requests.last?.events.names == ["after"])
        #expect(analytics.account.store?.delivered == 1)
        await analytics.shutdownAndWait()
    }

    @Test func aFullDisksQueueIsErasedToo() async {
        let disk = FaultyFiles(files)
        var configuration = Configuration.test(
            time: time, storage: Self.storages[0], transport: transport, logger: logger)
        configuration.fileSystem = disk
        let analytics = Analytics(configuration: configuration)
        await analytics.stored()
        disk.fill()
        analytics.track(name: "before")
        #expect(await analytics.stored() == .inMemory)
        disk.fail(nil)
        analytics.erase()
        analytics.track(name: "after")
        #expect(await analytics.stored() == .stored)
        transport.answerAlways(.status(200))
        time.advance(by: .seconds(20))
        #expect(await analytics.flushed() == .delivered)
        #expect(transport.requests.last?.events.names == ["after"])
        #expect(analytics.account.inMemory == 0)
        await analytics.shutdownAndWait()
    }

    /// Whatever operation is the last one: afterwards either all is there, or nothing but the state that was to be left.
    @Test func aKillAnywhereLeavesAllOrNothing() throws {
        var outcomes: Set<String> = []
        var isOver = false
        for kill in 0..<200 {
            if isOver { break }
            let files = MemoryFiles()
            let disk = FaultyFiles(files)
            let diagnostics = Diagnostics(logger: logger, level: .none)
            let log = try EventLog(
                folder: "/erase", on: disk, limits: Limits(storageBytes: 8_000), boot: 1, diagnostics: diagnostics)
            let change = { (name: String) in [StateChange(key: "A", changes: ["name": .string(name)])] }
            try log.store((1...40).map { .event("e\($0)", changes: change("old")) })
            try log.acknowledge(try #require(try log.nextBatch(.count(3))))
            disk.forgetTrace()
            disk.fail { _, _, index in index >= kill ? .inputOutput : nil }
            let result = Result { try log.erase(leaving: change("new"), keys: ["A"]) }
            isOver = (try? result.get()) != nil
            let next = try EventLog(
                folder: "/erase", on: files.afterKill(), boot: 1, diagnostics: diagnostics)
            let name = try #require(next.load("A").object?["name"]?.string)
            outcomes.insert(name)
            let account = try #require(next.account)
            if name == "old" {
                #expect(account.stored == 40, "operation \(kill)")
                #expect(try next.deliverAll() == .events(4...40))
            } else {
                #expect(account == StoredAccount(), "operation \(kill)")
                #expect(try next.deliverAll().isEmpty)
            }
            try next.store([.event("later")])
            #expect(try next.deliverAll() == ["later"])
            next.close()
        }
        #expect(isOver)
        #expect(outcomes == ["old", "new"])
    }

    @Test func anErasureOfAGuestIsItsOwn() throws {
        let folder = LogFolder()
        let owner = try folder.open()
        try owner.store(StoreRecord.events(1...3))
        let guest = try folder.open()
        try guest.store(StoreRecord.events(4...6))
        _ = try guest.erase(leaving: [], keys: [])
        #expect(guest.counts.waiting == 0)
        try guest.store(StoreRecord.events(7...8))
        owner.look()
        #expect(try owner.deliverAll() == .events(1...3) + .events(7...8))
    }
}
