import Foundation
import Testing
import Tiller
import TillerTesting

/// Events that name their person themselves.
@Suite(.timeLimit(.minutes(5)))
struct ScopedEventTests {
    private let transport = StubTransport()
    private let destination = RecordingDestination()
    private let logger = RecordingLogger()

    private func makeAnalytics() -> Analytics {
        let analytics = Analytics(
            configuration: .test(transport: transport, logger: logger), plugins: [destination])
        analytics.identify(userId: "own", traits: ["own": true])
        return analytics
    }

    @Test func aScopedEventCarriesNothingOfTheInstance() async throws {
        let analytics = makeAnalytics()
        analytics.track(name: "A", options: EventOptions(userId: "bob"))
        let event = try #require(await analytics.settled(destination).last)
        #expect(event.isScoped)
        #expect(event.userId == "bob")
        #expect(event.anonymousId == nil)
        #expect(event.sessionId == nil)
        #expect(!event.isSessionStart)
        #expect(event.context["traits"] == nil)
    }

    @Test func aScopedEventSpendsNoStartMark() async {
        let analytics = Analytics(configuration: .test(transport: transport), plugins: [destination])
        analytics.track(name: "A", options: EventOptions(userId: "bob"))
        analytics.track(name: "B")
        #expect(await analytics.settled(destination).map(\.isSessionStart) == [false, true])
    }

    @Test func aScopedEventTouchesNothingOfTheInstance() async {
        let analytics = makeAnalytics()
        let before = (analytics.anonymousId, analytics.userId, analytics.traits)
        let session = analytics.sessionId
        let bob = analytics.scoped(userId: "bob", anonymousId: "anon-bob")
        bob.identify(userId: "bob", traits: ["x": 1])
        bob.identify(userId: "robert")
        bob.alias(newId: "robert")
        bob.group(groupId: "G", traits: ["y": 1])
        analytics.identify(userId: "eve", options: EventOptions(userId: "bob"))
        analytics.alias(newId: "eve", options: EventOptions(anonymousId: "anon-eve"))
        #expect((analytics.anonymousId, analytics.userId, analytics.traits) == before)
        #expect(analytics.sessionId == session)
        await analytics.settled()
        #expect(!destination.entries.contains { if case .reset = $0 { true } else { false } })
    }

    @Test func aScopedIdentifyHasItsOwnTraitsAndTheIdOfTheCall() async throws {
        let analytics = makeAnalytics()
        analytics.scoped(userId: "bob", anonymousId: "anon-bob").identify(userId: "robert", traits: ["x": 1])
        let event = try #require(await analytics.delivered(to: transport).last)
        #expect(event["userId"] == "robert")
        #expect(event["anonymousId"] == "anon-bob")
        #expect(event["context"]["traits"] == ["x": 1])
        #expect(event["traits"] == nil)
    }

    @Test func theNewIdOfAScopedAliasReplacesThePersonsOwn() async {
        let analytics = makeAnalytics()
        analytics.scoped(userId: "bob", anonymousId: "anon").alias(newId: "robert")
        analytics.scoped(anonymousId: "anon").alias(newId: "robert")
        analytics.scoped(userId: "bob").alias(newId: "robert", previousId: "b")
        analytics.alias(newId: "robert", options: EventOptions(userId: "bob"))
        analytics.alias(newId: "robert", previousId: " ", options: EventOptions(anonymousId: "anon"))
        let events = await analytics.settled(destination).suffix(5)
        #expect(events.allSatisfy { $0.isScoped && $0.userId == "robert" })
        #expect(events.map(\.previousId) == ["bob", "anon", "b", "bob", "anon"])
        #expect(events.map(\.anonymousId) == ["anon", "anon", nil, nil, "anon"])
    }

    @Test func aPersonNamedInACallWinsOverTheHandles() async {
        let analytics = makeAnalytics()
        let bob = analytics.scoped(userId: "bob", anonymousId: "anon-bob")
        bob.track(name: "A", options: EventOptions(userId: "eve"))
        bob.track(name: "B", options: EventOptions(anonymousId: "anon-eve"))
        bob.track(name: "C", options: EventOptions(integrations: ["X": false], userId: "  "))
        let events = await analytics.settled(destination).suffix(3)
        #expect(events.map(\.userId) == ["eve", nil, "bob"])
        #expect(events.map(\.anonymousId) == [nil, "anon-eve", "anon-bob"])
        #expect(events.last?.integrations == ["All": true, "X": false])
    }

    @Test func aHandleForNobodyIsTheInstancesOwn() async {
        let analytics = makeAnalytics()
        analytics.scoped().track(name: "A")
        analytics.scoped(userId: "", anonymousId: " ").track(name: "B")
        analytics.track(name: "C", options: EventOptions(userId: "\t"))
        let events = await analytics.settled(destination).suffix(3)
        #expect(events.allSatisfy { !$0.isScoped && $0.userId == "own" && $0.sessionId == analytics.sessionId })
        #expect(logger.texts(.warn).filter { $0.contains("blank id") }.count == 1)
    }

    @Test func aPersonWithoutAnonymousIdIsABatchOfItsOwn() async {
        let analytics = makeAnalytics()
        analytics.track(name: "A", options: EventOptions(userId: "bob"))
        analytics.track(name: "B")
        let events = await analytics.delivered(to: transport)
        #expect(events.map { $0["anonymousId"]?.string } == [analytics.anonymousId, nil, analytics.anonymousId])
        #expect(transport.requests.count == 3)
    }
}
