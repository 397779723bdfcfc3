import Foundation
import Testing
import TillerTesting

@testable import Tiller

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// What becomes of events and state that the store does not take, and what is said of it.
@Suite(.timeLimit(.minutes(5))) struct StoreWriterTests {
    private let time = VirtualTime()
    private let logger = RecordingLogger()
    private let transport = StubTransport()
    private let store = RefusingStore()

    @Test func whatTheStoreRefusesIsDeliveredAllTheSame() async throws {
        let analytics = instance()
        store.refuses(true)
        analytics.track(name: "A")
        #expect(await analytics.stored() == .inMemory)
        #expect(await analytics.flushed().leavesNothing)
        #expect(transport.events.names == ["A"])
        #expect(analytics.account.delivered == 1)
        // State waits yet, and is tried again.
        #expect(await analytics.stored() == .inMemory)
        store.refuses(false)
        time.advance(by: .seconds(5))
        #expect(await analytics.stored() == .stored)
        await analytics.shutdownAndWait()
    }

    @Test func storedSaysAfterTheEndWhatWasGivenUp() async {
        let analytics = instance()
        transport.answerAlways(.status(503))
        store.refuses(true)
        analytics.track(name: "A")
        #expect(await analytics.stored() == .inMemory)
        #expect(await analytics.shutdownAndWait() == 1)
        #expect(await analytics.stored() == .inMemory)
        #expect(analytics.account.dropped == [.notStored: 1])
        #expect(analytics.account.inMemory == 0)
    }

    /// State is bounded by what there is of it, however often it changes meanwhile.
    @Test func stateThatCannotBeStoredDoesNotGrow() async {
        let analytics = instance()
        await analytics.stored()
        store.refuses(true)
        for _ in 0..<200 {
            analytics.reset()
            await analytics.stored()
        }
        #expect(store.mostAtOnce < 5)
        store.refuses(false)
        time.advance(by: .seconds(5))
        let id = analytics.anonymousId
        #expect(await analytics.stored() == .stored)
        #expect(store.load("IdentityPlugin").object?["anonymousId"]?.string == id)
        await analytics.shutdownAndWait()
    }

    @Test func orderIsKeptOverARefusal() async {
        let analytics = instance()
        analytics.track(name: "A")
        await analytics.stored()
        store.refuses(true)
        for name in ["B", "C"] {
            analytics.track(name: name)
            await analytics.stored()
        }
        store.refuses(false)
        analytics.track(name: "D")
        #expect(await analytics.flushed() == .delivered)
        #expect(transport.events.names == ["A", "B", "C", "D"])
        await analytics.shutdownAndWait()
    }

    // MARK: What is said

    /// An answer may hold what was sent, and another text each time.
    @Test func answersAreNotRepeatedInTheLog() async {
        let answers = EchoingTransport()
        let bench = DeliveryBench { $0.transport = answers }
        bench.track("A")
        for number in 1...5 {
            bench.analytics.flush()
            await bench.analytics.stored()
            bench.time.virtual.advance(by: await bench.failure(number))
        }
        #expect(bench.logger.texts(.error).count == 1)
        #expect(bench.logger.messages.allSatisfy { !$0.text.contains("alice") })
        await bench.analytics.shutdownAndWait()
    }

    /// With plugins that take their time: what has passed them is not held back for the rest of the chunk.
    @Test func whatHasPassedSlowPluginsIsStored() async {
        let time = VirtualTime()
        let stuck = StuckPlugin()
        let start = StuckPlugin()
        let slow = ClosurePlugin { event, _ in
            if event.name == "first" { return start.process(event) }
            time.advance(by: .milliseconds(30))
            return event.name == "last" ? stuck.process(event) : event
        }
        let analytics = Analytics(
            configuration: .test(time: time, storage: .folder(TestFolder().url)), plugins: [slow])
        analytics.track(name: "first")
        start.waitForArrival()
        // All these are one chunk.
        for number in 0..<40 { analytics.track(name: "\(number)") }
        analytics.track(name: "last")
        start.open()
        stuck.waitForArrival()
        #expect(analytics.account.stored >= 24)
        stuck.open()
        #expect(await analytics.stored() == .stored)
        await analytics.shutdownAndWait()
    }

    /// Standard error may be full or gone.
    @Test func aLogThatCannotBeWrittenEndsNothing() async {
        await #expect(processExitsWith: .exitCode(7)) {
            close(STDERR_FILENO)
            let analytics = Analytics(
                configuration: Configuration(writeKey: "", dataPlaneUrl: "", logLevel: .verbose, storage: .memory))
            analytics.track(name: "A")
            await analytics.stored()
            exit(7)
        }
    }

    // MARK: Bounds and ends

    /// Processes that store less than a segment each are bounded too.
    @Test func theBoundHoldsOverManyShortLives() throws {
        let folder = LogFolder()
        let limit = 10_000
        for life in 0..<60 {
            try folder.live((0..<3).map { .numbered(life * 3 + $0) }, storageBytes: limit)
            let sizes = try folder.names(".log").map { try folder.contents($0).count }
            #expect(sizes.reduce(0, +) <= limit + 1_000)
        }
        let log = try folder.open(storageBytes: limit)
        #expect(log.sums.evicted > 0)
        #expect(Int(log.sums.evicted) + log.counts.waiting == 180)
        log.close()
    }

    /// Events that were given up are not called delivered.
    @Test func whatIsEvictedIsNotDelivered() async throws {
        let folder = TestFolder()
        let offline = StubTransport(.status(503))
        let analytics = Analytics(
            configuration: .test(
                time: time, storage: .folder(folder.url), transport: offline, logger: logger,
                limits: Limits(storageBytes: 40_000)))
        for number in 0..<300 { analytics.track(name: "\(number)") }
        await analytics.stored()
        offline.answerAlways(.status(200))
        let result = await analytics.flushed()
        #expect(result != .nothingWaiting)
        let delivered = offline.events.count
        #expect(delivered < 300)
        #expect(await analytics.shutdownAndWait() == 300 - delivered)
    }

    @Test func anInstanceThatLostADestinationIsReleased() async {
        let engine: Weak<Engine>
        do {
            let analytics = instance()
            engine = Weak(analytics.engine)
            let recorder = RecordingDestination()
            analytics.add(plugin: recorder)
            analytics.track(name: "A")
            await analytics.settled()
            analytics.remove(plugin: recorder)
            await analytics.shutdownAndWait()
        }
        await engine.gone()
        #expect(engine.object == nil)
    }

    // MARK: Steps

    private func instance() -> Analytics {
        Analytics(
            configuration: .test(time: time, storage: .custom(store), transport: transport, logger: logger))
    }
}

/// A store on a disk that may be full.
private final class RefusingStore: EventStore {
    private struct Full: Error {}

    private let base = MemoryEventStore(
        state: MemoryStateStore(), diagnostics: Diagnostics(logger: RecordingLogger(), level: .none))
    private let state = Locked((refuses: false, mostAtOnce: 0))

    func refuses(_ refuses: Bool) { state.withLock { $0.refuses = refuses } }

    /// The most records that were handed over at once while it refused.
    var mostAtOnce: Int { state.withLock { $0.mostAtOnce } }

    var isOwned: Bool { true }
    var isDurable: Bool { true }
    var counts: EventCounts { base.counts }
    var account: StoredAccount? { base.account }
    var backlog: (bytes: Int, oldest: Int64?) { base.backlog }
    var countsAndOwn: (counts: EventCounts, own: Int) { base.countsAndOwn }
    var lastAppend: (run: Int, number: UInt64) { base.lastAppend }
    func load(_ key: String) -> Stored { base.load(key) }
    func save(_ changes: [StateChange]) throws { try base.save(changes) }

    func append(_ records: [StoreRecord]) -> (stored: Int, failure: (any Error)?) {
        let refuses = state.withLock { state in
            if state.refuses { state.mostAtOnce = max(state.mostAtOnce, records.count) }
            return state.refuses
        }
        return refuses ? (0, Full()) : base.append(records)
    }

    func nextBatch(_ bounds: BatchBounds, after held: StoredBatch?) throws -> StoredBatch? {
        base.nextBatch(bounds, after: held)
    }
    func acknowledge(_ settled: [SettledBatch]) throws { base.acknowledge(settled) }
    func erase(leaving changes: [StateChange], keys: [String]) throws -> (count: Int, bytes: Int) {
        try base.erase(leaving: changes, keys: keys)
    }
    func sync() {}
    func endWriting() {}
    func whenWanted(_ action: @escaping @Sendable () -> Void) {}
    func prepareToClose() {}
    func close() {}
}

/// A server that says something else each time, and what it was sent.
private final class EchoingTransport: Transport {
    private let count = Locked(0)

    func post(_ request: TransportRequest) async throws -> TransportResponse {
        let number = count.withLock { count in
            count += 1
            return count
        }
        return TransportResponse(status: 503, body: Array("request \(number): userId=alice".utf8))
    }
}
