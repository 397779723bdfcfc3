import Foundation
import Testing
import TillerTesting

@testable import Tiller

/// Events arrive in the order of the calls, each once, whatever happens on the way.
@Suite(.timeLimit(.minutes(5))) struct DeliveryOrderTests {
    @Test func b23_eventsLeaveInTheOrderOfTheCalls() async {
        let bench = DeliveryBench([CountFlushPolicy(flushAt: 30)])
        let count = 10_000
        await onThreads(2) { thread in
            if thread == 0 {
                for number in 0..<count { bench.track("e\(number)") }
            } else {
                for _ in 0..<200 { bench.analytics.flush() }
            }
        }
        await bench.analytics.flushed()
        #expect(bench.sent == (0..<count).map { "e\($0)" })
        #expect(bench.transport.mostAtOnce == 1)
    }

    /// The destination has taken the notice that was there, and the next one is told before the uploader has begun.
    @Test func aForegroundThatComesWhileTheUploaderBeginsIsNotLost() async {
        let transport = StubTransport()
        let configuration = Configuration.test(transport: transport, flushPolicies: [StartupFlushPolicy()])
        let (uploader, _) = Uploader.overMemory(
            configuration,
            beforeItBegins: { uploader, store in
                store.append(1)
                uploader.comeToForeground()
            })
        await transport.requests(count: 1)
        await withCheckedContinuation { done in
            uploader.whenFlushed(settledBefore: 0) { _ in done.resume() }
        }
        #expect(transport.requests.count == 1)
    }

    @Test func b24_twelveBatchesOfAnOfflineTimeAreUploadedInOrder() async {
        let bench = DeliveryBench(answer: .failure(StubTransport.NoAnswer())) { $0.limits.batchBytes = 1 }
        let names = (0..<12).map { "\($0)" }
        for name in names {
            bench.track(name)
            await bench.analytics.flushed()
        }
        bench.transport.stub.answerAlways(.status(200))
        bench.time.virtual.advance(by: .seconds(300))
        #expect(await bench.analytics.flushed() == .delivered)
        #expect(Array(bench.batches.suffix(12)) == names.map { [$0] })
    }

    @Test func b26_eventsWithinOneMillisecondKeepTheirOrder() async {
        let bench = DeliveryBench()
        bench.track("A")
        bench.time.virtual.advance(by: .milliseconds(39))
        bench.track("B", "C")
        bench.time.virtual.advance(by: .microseconds(900))
        bench.track("D")
        await bench.analytics.flushed()
        #expect(bench.sent == ["A", "B", "C", "D"])
        let stamps = bench.transport.stub.events.compactMap { $0["originalTimestamp"]?.string }
        #expect(stamps == ["37.000", "37.039", "37.039", "37.039"].map { "2025-02-25T06:06:\($0)Z" })
    }

    @Test func b27_stampsFollowTheWallClockAndAgesTheContinuousOne() async {
        let bench = DeliveryBench()
        bench.time.virtual.advance(by: .seconds(10_800))  // the device sleeps: both clocks go on
        bench.track("A")
        bench.time.virtual.setWallClock(by: .seconds(3_600))
        bench.track("B")
        bench.time.virtual.advance(by: .seconds(7))
        await bench.analytics.flushed()
        let events = bench.transport.stub.events
        #expect(events.map { $0["originalTimestamp"] } == ["2025-02-25T09:06:37.000Z", "2025-02-25T10:06:37.000Z"])
        #expect(events.map { $0["sentAt"] } == ["2025-02-25T09:06:44.000Z", "2025-02-25T10:06:44.000Z"])
    }

    @Test func b29_eventsOfAnOldSessionKeepItWhenTheyAreDeliveredLater() async {
        let time = VirtualTime()
        let lifecycle = ManualLifecycleSource(isInForeground: true)
        let transport = StubTransport(.failure(StubTransport.NoAnswer()))
        let analytics = Analytics(configuration: .test(lifecycle: lifecycle, time: time, transport: transport))
        analytics.track(name: "A")
        analytics.track(name: "B")
        await analytics.flushed()
        let first = analytics.sessionId
        let offline = transport.events
        lifecycle.background()
        time.advance(by: .seconds(86_400))
        await analytics.stored()
        transport.answerAlways(.status(200))
        lifecycle.foreground()
        #expect(analytics.sessionId != first)
        analytics.track(name: "C")
        await analytics.flushed()
        let online = transport.requests.dropFirst().flatMap(\.events)
        let kept = online.filter { ["A", "B"].contains($0["event"]?.string) }.suffix(2)
        #expect(kept.map { $0["context"]["sessionId"]?.uint } == [first, first])
        #expect(kept.map(\.withoutSentAt) == offline.map(\.withoutSentAt))
        #expect(Array(kept) != offline)
    }

    @Test func b33_quickSuccessiveFlushesLoseNothing() async {
        let bench = DeliveryBench()
        bench.transport.stub.answerNext(.hold)
        for number in 0..<10 {
            bench.track("\(number)")
            bench.analytics.flush()
        }
        await bench.requests(1)
        bench.transport.stub.release()
        await bench.analytics.flushed()
        #expect(bench.sent == (0..<10).map { "\($0)" })
        #expect(bench.transport.mostAtOnce == 1)
    }

    @Test func b34_oneRequestIsInFlightWhateverAsksForAnother() async {
        let bench = DeliveryBench([FrequencyFlushPolicy(flushIntervalInMillis: 1_000), CountFlushPolicy(flushAt: 2)])
        bench.transport.stub.answerNext(.hold)
        bench.track("A")
        bench.analytics.flush()
        await bench.requests(1)
        for _ in 0..<5 { bench.analytics.flush() }
        bench.track("B")
        await bench.analytics.stored()
        bench.time.virtual.advance(by: .seconds(1))
        bench.track("C", "D")
        await bench.analytics.stored()
        bench.time.virtual.advance(by: .seconds(1))
        bench.lifecycle.background()
        bench.lifecycle.foreground()
        await bench.analytics.stored()
        #expect(bench.batches == [["A"]])
        bench.transport.stub.release()
        #expect(await bench.analytics.flushed() == .delivered)
        #expect(bench.batches == [["A"], ["B", "C", "D"]])
        #expect(bench.transport.mostAtOnce == 1)
    }

    @Test func b35_aResendIsTheSameBytesButForSentAt() async throws {
        let bench = DeliveryBench()
        bench.transport.stub.answerNext(.failure(StubTransport.NoAnswer()), .status(503))
        bench.track("A", "B")
        #expect(await bench.analytics.flushed().wait != nil)
        bench.track("C")
        bench.time.virtual.advance(by: await bench.failure(1))
        bench.time.virtual.advance(by: await bench.failure(2))
        await bench.requests(3)
        #expect(await bench.analytics.flushed() == .delivered)
        let requests = bench.transport.stub.requests
        #expect(requests.prefix(3).map { $0.events.names } == [["A", "B"], ["A", "B"], ["A", "B"]])
        #expect(Set(requests.prefix(3).map(\.bodyWithoutSentAt)).count == 1)
        #expect(requests[0].events.ids == requests[1].events.ids)
        let ages = try requests.prefix(3).map { try #require($0.events.first?["sentAt"]?.string) }
        #expect(ages == ages.sorted())
        #expect(ages[0] < ages[2])
        #expect(Set(bench.transport.stub.events.ids).count == 3)
        #expect(bench.sent.last == "C")
    }

    @Test func b37_eventsOfARunningUploadNeedNoOtherTrigger() async {
        let bench = DeliveryBench([CountFlushPolicy(flushAt: 1)])
        bench.transport.stub.answerNext(.hold)
        bench.track("A")
        await bench.requests(1)
        bench.track("B")
        await bench.analytics.stored()
        bench.transport.stub.release()
        await bench.requests(2)
        #expect(bench.batches == [["A"], ["B"]])
    }

    @Test func b39_eventOnTheLineAfterInitIsDeliveredFirstOverASlowStore() async {
        let store = SlowStore()
        let bench = DeliveryBench([CountFlushPolicy(flushAt: 1)]) { $0.storage = .custom(store) }
        bench.track("A")
        bench.analytics.identify(userId: "alice")
        bench.track("B")
        store.open()
        #expect(await bench.analytics.flushed() != .nothingWaiting)
        #expect(bench.sent == ["A", "identify", "B"])
    }

    @Test func b85_twoDrainsOfAnAlmostEmptyQueueHandleEachEventOnce() async {
        let transport = StubTransport()
        let (uploader, store) = Uploader.overMemory(.test(transport: transport))
        let rounds = 3_000
        await onThreads(3) { thread in
            for number in 0..<rounds {
                if thread == 0 {
                    store.append(number)
                } else {
                    uploader.flush()
                }
            }
        }
        uploader.flush()
        await withCheckedContinuation { done in uploader.whenFlushed(settledBefore: 0) { _ in done.resume() } }
        #expect(transport.events.compactMap { $0["n"]?.int } == (0..<rounds).map(Int64.init))
        #expect(store.counts.settled == rounds)
    }

    @Test(arguments: [true, false]) func nothingIsLostOverFailuresOfEveryKind(_ fails: Bool) async {
        let bench = DeliveryBench([CountFlushPolicy(flushAt: 1)]) { $0.limits.batchBytes = 1 }
        let statuses = [301, 401, 404, 429, 500, 502, 503, 199, 403, 408]
        for status in statuses {
            bench.transport.stub.answerNext(fails ? .failure(StubTransport.NoAnswer()) : .status(status))
        }
        bench.track("A", "B", "C")
        for number in 1...statuses.count { bench.time.virtual.advance(by: await bench.failure(number)) }
        await bench.requests(statuses.count + 3)
        #expect(await bench.analytics.shutdownAndWait() == 0)
        #expect(bench.sent == Array(repeating: "A", count: statuses.count) + ["A", "B", "C"])
        #expect(bench.analytics.account.delivered == 3)
    }

    @Test(arguments: [200, 201, 204, 299]) func everySuccessAcknowledges(_ status: Int) async {
        let bench = DeliveryBench(answer: .status(status))
        bench.track("A")
        #expect(await bench.analytics.flushed() == .delivered)
        #expect(await bench.analytics.flushed() == .nothingWaiting)
    }
}

/// A store whose writes are stuck until it is opened.
private final class SlowStore: StateStore {
    private let base = MemoryStateStore()
    private let closed = DispatchGroup()

    init() { closed.enter() }

    func open() { closed.leave() }

    var isOwned: Bool { true }
    func load(_ key: String) -> Stored { base.load(key) }
    func save(_ changes: [StateChange]) {
        closed.wait()
        base.save(changes)
    }
    func prepareToClose() {}
    func close() {}
}

extension JSONObject {
    var withoutSentAt: JSONObject {
        var object = self
        object["sentAt"] = nil
        return object
    }
}

extension TransportRequest {
    /// The bytes with every `sentAt` cut out.
    fileprivate var bodyWithoutSentAt: String {
        String(decoding: body, as: UTF8.self).split(separator: "\"sentAt\":\"").enumerated()
            .map { $0 == 0 ? String($1) : String($1.dropFirst(24)) }.joined()
    }
}

extension Uploader {
    /// A store in memory that counts nothing.
    static func overMemory(
        _ configuration: Configuration, network: @escaping NetworkObservation = { _ in nil },
        didChange: @escaping @Sendable () -> Void = {},
        beforeItBegins: (Uploader, MemoryEventStore) -> Void = { _, _ in }
    ) -> (Uploader, MemoryEventStore) {
        let diagnostics = Diagnostics(logger: RecordingLogger(), level: .none)
        let store = MemoryEventStore(state: MemoryStateStore(), diagnostics: diagnostics)
        let environment = DataPlaneEnvironment(
            diagnostics: diagnostics, instance: ObjectIdentifier(store), installationId: "installation", store: store,
            isFree: .reached, onExecutor: { $0() }, didChangeDelivery: didChange)
        let uploader = Uploader(
            configuration: configuration, environment: environment, observeNetwork: network)
        beforeItBegins(uploader, store)
        uploader.begin(inForeground: false)
        return (uploader, store)
    }
}

extension MemoryEventStore {
    /// Stores an event with a number.
    func append(_ number: Int) { _ = append([.numbered(number)]) }
}

extension StoreRecord {
    /// An event with a number, of no one.
    static func numbered(_ number: Int) -> StoreRecord {
        StoreRecord(event: EncodedEvent("{\"n\":\(number)}"), changes: [])
    }
}

extension EncodedEvent {
    /// An event as it is written, of no one.
    init(_ text: String, wall: Int64 = 0, at instant: Duration = .zero) {
        self.init(
            bytes: Array(text.utf8), anonymousId: 0..<0,
            moment: Moment(wallMilliseconds: wall, continuous: instant, sequence: 1))
    }
}
