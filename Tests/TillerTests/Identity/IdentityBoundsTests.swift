import Testing
import Tiller
import TillerTesting

/// What is too large or unusable costs that value or that call, and never a later event.
@Suite(.timeLimit(.minutes(5))) struct IdentityBoundsTests {
    @Test func tooLargeTraitCostsThatIdentifyOnlyAlsoAfterARestart() async {
        let store = MemoryStateStore()
        let recorder = RecordingDestination()
        let analytics = Analytics(configuration: .test(storage: .custom(store)), plugins: [recorder])
        analytics.identify(userId: "u", traits: ["bio": .string(String(repeating: "x", count: 40_000))])
        analytics.track(name: "A")
        await analytics.settled()
        await analytics.shutdownAndWait(timeout: .zero)
        let next = Analytics(configuration: .test(storage: .custom(store)), plugins: [recorder])
        next.track(name: "B")
        await next.settled()
        #expect(recorder.events.map(\.name) == ["A", "B"])
    }

    @Test func tooLongUserIdIsNotTaken() async {
        let recorder = RecordingDestination()
        let analytics = Analytics(configuration: .test(), plugins: [recorder])
        analytics.identify(userId: String(repeating: "u", count: 40_000))
        analytics.track(name: "A")
        #expect(analytics.userId == nil)
        await analytics.settled()
        #expect(recorder.events.map(\.kind) == [.identify, .track])
        #expect(recorder.events.map(\.userId) == [nil, nil])
    }

    @Test func traitsDoNotGrowWithoutEnd() async {
        let analytics = Analytics(configuration: .test())
        for index in 0..<200 {
            analytics.identify(traits: ["trait-\(index)": .string(String(repeating: "x", count: 1_000))])
            if index % 20 == 0 { await analytics.flushed() }
        }
        analytics.track(name: "A")
        await analytics.flushed()
        #expect((analytics.traits?.count ?? 0) < 200)
        #expect(analytics.account.dropped[.tooLarge] == nil)
    }

    @Test func identityOfAGuestIsKnownWhenThePluginIsAddedAgain() throws {
        let analytics = Analytics(configuration: .test(storage: .custom(ScriptedStore(isOwned: false))))
        analytics.identify(userId: "u")
        let anonymousId = analytics.anonymousId
        let plugin = try #require(analytics.plugin(ofType: IdentityPlugin.self))
        analytics.remove(plugin: plugin)
        analytics.add(plugin: plugin)
        #expect(analytics.userId == "u")
        #expect(analytics.anonymousId == anonymousId)
    }

    @Test func idThatNothingShowsStopsNoDelivery() async throws {
        let plane = try LocalDataPlane()
        var configuration = Configuration.test()
        configuration.dataPlaneUrl = plane.url
        configuration.transport = URLSessionTransport()
        let analytics = Analytics(configuration: configuration)
        analytics.track(name: "Bad", options: EventOptions(userId: "\u{200B}"))
        for _ in 0..<3 { analytics.track(name: "Good") }
        #expect(await analytics.flushed() == .delivered)
        #expect(plane.events.count { $0.name == "Good" } == 3)
    }
}
