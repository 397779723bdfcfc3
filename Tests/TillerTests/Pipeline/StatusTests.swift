import Testing
import TillerTesting

@testable import Tiller

/// What an app can know of its events and their delivery, and that it adds up.
@Suite(.timeLimit(.minutes(5))) struct StatusTests {
    @Test func nothingHasHappenedYet() {
        let status = DeliveryBench().analytics.status
        #expect(status.account == Account())
        #expect(status.delivery == .idle)
        #expect(status.lastError == nil)
        #expect(status.waitingBytes == 0)
        #expect(status.oldestWaiting == nil)
    }

    @Test func theAccountFollowsTheEvents() async {
        let folder = TestFolder()
        let bench = DeliveryBench(answer: .status(503)) { configuration in
            configuration.storage = .folder(folder.url)
            configuration.limits.eventBytes = 1_000
        }
        let filter = ClosurePlugin { event, _ in event.name == "Dropped" ? nil : event }
        bench.analytics.add(plugin: filter)
        bench.track("A", "Dropped", "B")
        bench.analytics.track(name: "C", properties: ["x": .string(String(repeating: "x", count: 1_000))])
        await bench.analytics.stored()
        let stored = bench.analytics.status
        #expect(stored.account.recorded == 4)
        #expect(stored.account.stored == 2)
        #expect(stored.account.inMemory == 0)
        #expect(stored.account.dropped == [.plugin("ClosurePlugin"): 1, .tooLarge: 1])
        #expect(stored.account.store?.waiting == 2)
        #expect(stored.account.store?.stored == 2)
        #expect(stored.waitingBytes > 100)
        #expect(stored.oldestWaiting == bench.time.wallMilliseconds)

        _ = await bench.analytics.flushed()
        let failed = bench.analytics.status
        guard case .waiting(let until, let reason) = failed.delivery else {
            Issue.record("\(failed.delivery)")
            return
        }
        #expect(until >= bench.time.wallMilliseconds)
        #expect(reason == "the data plane answered 503")
        #expect(failed.lastError == reason)
        #expect(failed.account == stored.account)

        bench.transport.stub.answerAlways(.status(200))
        bench.analytics.flush()
        #expect(await bench.analytics.flushed() == .delivered)
        let delivered = bench.analytics.status
        #expect(delivered.delivery == .idle)
        #expect(delivered.lastError == nil)
        #expect(delivered.account.store?.delivered == 2)
        #expect(delivered.account.store?.waiting == 0)
        #expect(delivered.waitingBytes == 0)
        #expect(delivered.oldestWaiting == nil)
    }

    /// Over kills and restarts too.
    @Test func theStoresAccountOutlivesTheProcess() async throws {
        let folder = LogFolder()
        try folder.live(StoreRecord.events(1...5))
        let second = try folder.open()
        try second.acknowledge(try #require(try second.nextBatch(.count(2))))
        try second.store(StoreRecord.events(6...7))
        #expect(second.account?.stored == 7)
        #expect(second.account?.delivered == 2)
        second.close()
        let third = try folder.open()
        #expect(third.account == second.account)
        _ = try third.deliverAll()
        #expect(third.account?.delivered == 7)
        #expect(third.account?.waiting == 0)
        third.close()
        let fourth = try folder.open()
        #expect(fourth.account == third.account)
    }

    @Test func memoryHasNoStoredAccount() async {
        let bench = DeliveryBench()
        bench.track("A", "B")
        await bench.analytics.stored()
        let waiting = bench.analytics.status
        #expect(waiting.account.store == nil)
        #expect(waiting.account.inMemory == 2)
        #expect(waiting.waitingBytes > 100)
        #expect(waiting.oldestWaiting == bench.time.wallMilliseconds)
        #expect(await bench.analytics.flushed() == .delivered)
        #expect(bench.analytics.status.account.delivered == 2)
        #expect(bench.analytics.status.waitingBytes == 0)
    }

    // MARK: As a sequence

    @Test func theStatusIsToldAfterEachChangeUntilTheEnd() async {
        let bench = DeliveryBench()
        var statuses = bench.analytics.statuses.makeAsyncIterator()
        #expect(await statuses.next()?.account.recorded == 0)
        bench.track("A")
        await bench.analytics.stored()
        #expect(await statuses.next()?.account.recorded == 1)
        bench.track("B")
        #expect(await bench.analytics.flushed() == .delivered)
        // However many changes there were, the last one is what is told.
        var last: Analytics.Status?
        await bench.analytics.shutdownAndWait()
        while let status = await statuses.next() { last = status }
        #expect(last?.account.delivered == 2)
        #expect(await statuses.next() == nil)
    }

    @Test func aRefusedEventIsTold() async {
        let stuck = StuckPlugin()
        let bench = DeliveryBench(plugins: [stuck]) { $0.limits.memoryEvents = 1 }
        var statuses = bench.analytics.statuses.makeAsyncIterator()
        _ = await statuses.next()
        bench.track("A", "B")
        let status = await statuses.next()
        #expect(status?.account.dropped == [.queueFull: 1])
        stuck.open()
    }

    @Test func aSequenceOfAnInstanceThatIsGoneEnds() async {
        let bench = DeliveryBench()
        await bench.analytics.shutdownAndWait()
        var seen = 0
        for await status in bench.analytics.statuses {
            seen += 1
            #expect(status.account == Account())
        }
        #expect(seen == 1)
    }

    /// Who follows the status must not keep the instance alive.
    @Test func followingKeepsNoInstanceAlive() async {
        let folder = TestFolder()
        var statuses: Analytics.Statuses.Iterator?
        do {
            let bench = DeliveryBench { $0.storage = .folder(folder.url) }
            statuses = bench.analytics.statuses.makeAsyncIterator()
            bench.track("A")
        }
        var last: Analytics.Status?
        while let status = await statuses?.next() { last = status }
        #expect(last?.account.store?.delivered == 1)
    }
}
