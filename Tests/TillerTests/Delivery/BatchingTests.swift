import Foundation
import Testing
import Tiller
import TillerTesting

/// Which events share a request.
@Suite(.timeLimit(.minutes(5))) struct BatchingTests {
    @Test func perIdentityABatchEndsWhereTheAnonymousIdChanges() async throws {
        let bench = DeliveryBench()
        let first = try #require(bench.analytics.anonymousId)
        bench.track("A", "B")
        bench.analytics.identify(userId: "alice")
        bench.analytics.reset()
        let second = try #require(bench.analytics.anonymousId)
        bench.track("C")
        #expect(await bench.analytics.flushed() == .delivered)
        #expect(bench.batches == [["A", "B", "identify"], ["C"]])
        #expect(bench.transport.stub.requests.map { $0.headers["AnonymousId"] } == [first, second])
    }

    /// Runs are never sorted together: that would turn the order of calls around.
    @Test func perIdentityTheOrderOfCallsComesBeforeTheSizeOfBatches() async {
        let bench = DeliveryBench()
        for (name, person) in [("A", "p"), ("B", "q"), ("C", "p"), ("D", "p")] {
            bench.analytics.track(name: name, options: EventOptions(anonymousId: person))
        }
        #expect(await bench.analytics.flushed() == .delivered)
        #expect(bench.batches == [["A"], ["B"], ["C", "D"]])
        #expect(bench.transport.stub.requests.map { $0.headers["AnonymousId"] } == ["p", "q", "p"])
    }

    @Test func perIdentityEventsWithoutAnonymousIdAreABatchOfTheirOwn() async throws {
        let bench = DeliveryBench()
        bench.track("A")
        bench.analytics.track(name: "B", options: EventOptions(userId: "alice"))
        bench.analytics.track(name: "C", options: EventOptions(userId: "bob"))
        bench.track("D")
        #expect(await bench.analytics.flushed() == .delivered)
        #expect(bench.batches == [["A"], ["B", "C"], ["D"]])
        let headers = bench.transport.stub.requests.map { $0.headers["AnonymousId"] }
        #expect(headers[1] != headers[0])
        #expect(headers[1]?.isEmpty == false)
        #expect(bench.transport.stub.requests[1].events.allSatisfy { $0["anonymousId"] == nil })
    }

    @Test func mixedEventsOfManyShareARequestUnderTheInstallationsId() async throws {
        let bench = DeliveryBench { $0.batching = .mixed }
        bench.track("A")
        bench.analytics.track(name: "B", options: EventOptions(anonymousId: "p"))
        bench.analytics.reset()
        bench.track("C")
        #expect(await bench.analytics.flushed() == .delivered)
        #expect(bench.batches == [["A", "B", "C"]])
        let header = try #require(bench.transport.stub.requests[0].headers["AnonymousId"])
        #expect(!bench.transport.stub.events.contains { $0["anonymousId"]?.string == header })
    }

    @Test(arguments: [true, false]) func appsBatchPerIdentityAndServicesMix(_ isApp: Bool) async {
        let bench = DeliveryBench(isApp: isApp)
        for person in ["p", "q"] { bench.analytics.track(name: person, options: EventOptions(anonymousId: person)) }
        #expect(await bench.analytics.flushed() == .delivered)
        #expect(bench.batches == (isApp ? [["p"], ["q"]] : [["p", "q"]]))
        #expect(Set(bench.transport.stub.events.map { $0["channel"]?.string }) == [isApp ? "mobile" : "server"])
    }

    @Test func installationsIdStaysOverInstances() async {
        let store = MemoryStateStore()
        var headers: [String?] = []
        for seed in [1, 2] as [UInt64] {
            let bench = DeliveryBench {
                $0.storage = .custom(store)
                $0.batching = .mixed
                $0.identifiers = .seeded(seed)
            }
            bench.track("A")
            await bench.analytics.shutdownAndWait()
            headers += bench.transport.stub.requests.map { $0.headers["AnonymousId"] }
        }
        #expect(headers.count == 2)
        #expect(Set(headers).count == 1)
    }

    @Test func bodiesKeepToTheBoundAndUseIt() async {
        let bound = 2_000
        let bench = DeliveryBench { $0.limits.batchBytes = bound }
        for number in 0..<40 { bench.track("Event \(number)") }
        #expect(await bench.analytics.flushed() == .delivered)
        let requests = bench.transport.stub.requests
        #expect(requests.count > 1)
        #expect(requests.allSatisfy { $0.body.count <= bound })
        // The first event of the next request would not have fitted.
        for (request, next) in zip(requests, requests.dropFirst()) {
            let size = next.body.count / next.events.count
            #expect(request.body.count + size + 2 > bound)
        }
        #expect(bench.sent == (0..<40).map { "Event \($0)" })
    }

    @Test func theEventThatJustFitsIsTaken() async {
        let probe = DeliveryBench()
        probe.track("A", "B")
        await probe.analytics.flushed()
        let exact = probe.transport.stub.requests[0].body.count
        for (bound, batches) in [(exact, [["A", "B"]]), (exact - 1, [["A"], ["B"]])] {
            let bench = DeliveryBench { $0.limits.batchBytes = bound }
            bench.track("A", "B")
            await bench.analytics.flushed()
            #expect(bench.batches == batches)
        }
    }

    @Test(arguments: [Int.min, 0, 1]) func atLeastOneEventIsSentWhateverItsSize(_ bound: Int) async {
        let bench = DeliveryBench { $0.limits.batchBytes = bound }
        bench.track("A", "B", "C")
        #expect(await bench.analytics.flushed() == .delivered)
        #expect(bench.batches == [["A"], ["B"], ["C"]])
    }

    @Test func b30_oneFlushSendsAllBatches() async {
        let probe = DeliveryBench()
        for _ in 0..<50 { probe.track("Event") }
        await probe.analytics.flushed()
        let bench = DeliveryBench { $0.limits.batchBytes = probe.transport.stub.requests[0].body.count }
        for _ in 0..<120 { bench.track("Event") }
        #expect(await bench.analytics.flushed() == .delivered)
        #expect(bench.batches.map(\.count) == [50, 50, 20])
        #expect(Set(bench.transport.stub.events.ids).count == 120)
        #expect(bench.analytics.account.inMemory == 0)
        #expect(await bench.analytics.flushed() == .nothingWaiting)
    }

    @Test func b38_eventsOfOneMillisecondAndOfARepeatedOneAreAllSent() async {
        let bench = DeliveryBench { $0.limits.batchBytes = 1 }
        bench.track("A", "B")
        bench.time.virtual.advance(by: .seconds(1))
        bench.time.virtual.setWallClock(by: .seconds(-1))
        bench.track("C", "D")
        #expect(await bench.analytics.flushed() == .delivered)
        #expect(bench.batches == [["A"], ["B"], ["C"], ["D"]])
        #expect(Set(bench.transport.stub.events.map { $0["originalTimestamp"]?.string }).count == 1)
        #expect(Set(bench.transport.stub.events.ids).count == 4)
    }

    @Test func b138_configuredHostIsUsedThroughout() async {
        let bench = DeliveryBench {
            $0.dataPlaneUrl = "https://proxy.example/base/"
            $0.controlPlaneUrl = "https://control.example"
        }
        for name in ["A", "B", "C"] {
            bench.track(name)
            await bench.analytics.flushed()
            bench.lifecycle.background()
            bench.lifecycle.foreground()
        }
        #expect(Set(bench.transport.stub.requests.map(\.url)) == ["https://proxy.example/base/v1/batch"])
        #expect(bench.sent == ["A", "B", "C"])
    }

    /// What each option of the delivery does, at a value that is not its default.
    @Test func b117_everyOptionOfTheDeliveryIsInForce() async {
        let bench = DeliveryBench([CountFlushPolicy(flushAt: 3)]) {
            $0.writeKey = "another"
            $0.dataPlaneUrl = "http://other.example:1"
            $0.batching = .mixed
            $0.channel = .server
            $0.limits.eventBytes = 1_000
        }
        bench.track("A", "B")
        bench.analytics.track(name: "Large", properties: ["text": .string(String(repeating: "x", count: 1_000))])
        bench.analytics.track(name: "C", options: EventOptions(anonymousId: "p"))
        await bench.requests(1)
        #expect(bench.batches == [["A", "B", "C"]])
        let request = bench.transport.stub.requests[0]
        #expect(request.url == "http://other.example:1/v1/batch")
        #expect(request.headers["Authorization"] == "Basic " + Data("another:".utf8).base64EncodedString())
        #expect(request.events.allSatisfy { $0["channel"] == "server" })
    }
}
