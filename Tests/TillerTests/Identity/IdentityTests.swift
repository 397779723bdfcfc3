import Foundation
import Testing
import Tiller
import TillerTesting

/// Who an event is by (`rudderstack.md` §6, `DECISIONS.md` 13 to 15 and 32).
@Suite(.timeLimit(.minutes(5)))
struct IdentityTests {
    private let transport = StubTransport()
    private let destination = RecordingDestination()
    private let logger = RecordingLogger()

    private func makeAnalytics(builtIn: [any Plugin]? = nil, plugins: [any Plugin] = []) -> Analytics {
        Analytics(
            configuration: .test(transport: transport, logger: logger), builtIn: builtIn,
            plugins: plugins + [destination])
    }

    // MARK: identify

    @Test func aFirstLaunchHasARandomAnonymousIdAndNothingElse() {
        let analytics = makeAnalytics()
        let id = analytics.anonymousId ?? ""
        #expect(UUID(uuidString: id) != nil)
        #expect(id == id.lowercased())
        #expect(analytics.userId == nil)
        #expect(analytics.traits == [:])
    }

    @Test func anAnonymousEventHasNoUserIdAndNoTraits() async {
        let analytics = makeAnalytics()
        analytics.track(name: "A")
        let event = await analytics.settled(destination).first
        #expect(event?.anonymousId == analytics.anonymousId)
        #expect(event?.userId == nil)
        #expect(event?.context["traits"] == nil)
    }

    @Test func theFirstUserKeepsAnonymousIdSessionAndTraits() async {
        let analytics = makeAnalytics()
        let before = (analytics.anonymousId, analytics.sessionId)
        analytics.identify(traits: ["theme": "dark", "plan": "free"])
        analytics.identify(userId: "u1", traits: ["plan": "pro"])
        #expect(analytics.userId == "u1")
        #expect(analytics.traits == ["theme": "dark", "plan": "pro"])
        #expect((analytics.anonymousId, analytics.sessionId) == before)
        let events = await analytics.settled(destination)
        #expect(events.map(\.userId) == [nil, "u1"])
        #expect(events.last?.context["traits"] == ["theme": "dark", "plan": "pro"])
    }

    @Test func theSameUsersTraitsAreMergedAtTheTopLevelOnly() {
        let analytics = makeAnalytics()
        analytics.identify(userId: "u1", traits: ["a": 1, "address": ["city": "Rome", "zip": "1"]])
        analytics.identify(userId: "u1", traits: ["b": 2, "address": ["city": "Oslo"]])
        #expect(analytics.traits == ["a": 1, "b": 2, "address": ["city": "Oslo"]])
    }

    @Test func aNullTraitIsKept() {
        let analytics = makeAnalytics()
        analytics.identify(userId: "u1", traits: ["a": 1])
        analytics.identify(userId: "u1", traits: ["a": nil])
        #expect(analytics.traits == ["a": nil])
    }

    @Test func anotherUserStartsAnew() async {
        let analytics = makeAnalytics()
        analytics.identify(userId: "u1", traits: ["a": 1])
        let before = (anonymousId: analytics.anonymousId, sessionId: analytics.sessionId)
        analytics.identify(userId: "u2", traits: ["b": 2])
        #expect(analytics.userId == "u2")
        #expect(analytics.traits == ["b": 2])
        #expect(analytics.anonymousId != before.anonymousId)
        #expect(analytics.sessionId != before.sessionId)
        let event = await analytics.settled(destination).last
        #expect(event?.userId == "u2")
        #expect(event?.anonymousId == analytics.anonymousId)
        #expect(event?.sessionId == analytics.sessionId)
        #expect(event?.isSessionStart == true)
        #expect(event?.context["traits"] == ["b": 2])
    }

    @Test func destinationsAreResetBetweenTheOldUsersEventsAndTheNewOnes() async {
        let analytics = makeAnalytics()
        analytics.identify(userId: "u1")
        analytics.identify(userId: "u2")
        await analytics.settled()
        let entries = destination.entries.map { entry in
            switch entry {
            case .event(let event): event.userId ?? "-"
            case .reset(let options): options == ResetOptions() ? "reset" : "partial reset"
            default: "other"
            }
        }
        #expect(entries == ["u1", "reset", "u2"])
    }

    @Test(arguments: [nil, "", " ", "\n\t"])
    func anIdOfNothingButBlanksIsNone(id: String?) async {
        let analytics = makeAnalytics()
        analytics.identify(userId: "u1", traits: ["a": 1])
        let before = (analytics.anonymousId, analytics.sessionId)
        analytics.identify(userId: id, traits: ["b": 2])
        #expect(analytics.userId == "u1")
        #expect(analytics.traits == ["a": 1, "b": 2])
        #expect((analytics.anonymousId, analytics.sessionId) == before)
        #expect(await analytics.settled(destination).map(\.userId) == ["u1", "u1"])
    }

    @Test func anIdKeepsTheBlanksAroundIt() {
        let analytics = makeAnalytics()
        analytics.identify(userId: " u1 ")
        #expect(analytics.userId == " u1 ")
    }

    @Test func identityHasChangedWhenTheCallReturns() {
        let analytics = makeAnalytics()
        for index in 0..<20 {
            analytics.identify(userId: "u\(index)", traits: ["n": .int(Int64(index))])
            #expect(analytics.userId == "u\(index)")
            #expect(analytics.traits == ["n": .int(Int64(index))])
        }
    }

    @Test func anEventHasTheIdentityOfItsCallHoweverLateItIsProcessed() async {
        let stuck = StuckPlugin()
        let analytics = makeAnalytics(plugins: [stuck])
        let anonymousId = analytics.anonymousId
        analytics.track(name: "A")
        analytics.identify(userId: "u1")
        analytics.track(name: "B")
        analytics.reset()
        analytics.track(name: "C")
        stuck.open()
        let events = await analytics.settled(destination)
        #expect(events.map(\.userId) == [nil, "u1", "u1", nil])
        #expect(events.prefix(3).allSatisfy { $0.anonymousId == anonymousId })
        #expect(events.last?.anonymousId == analytics.anonymousId)
    }

    @Test func anIdentifyMadeByHandIsTakenInLikeACall() async {
        let analytics = makeAnalytics()
        var event = Event(.identify, name: "identify", traits: ["a": 1])
        event.userId = "u1"
        analytics.record(event)
        #expect(analytics.userId == "u1")
        #expect(analytics.traits == ["a": 1])
        event.userId = "  "
        analytics.record(event)
        #expect(analytics.userId == "u1")
        #expect(await analytics.settled(destination).last?.userId == "u1")
    }

    // MARK: group

    @Test func aGroupChangesNothing() async {
        let analytics = makeAnalytics()
        analytics.identify(userId: "u1", traits: ["a": 1])
        let before = (analytics.anonymousId, analytics.sessionId)
        analytics.group(groupId: "acme", traits: ["plan": "pro"])
        #expect(analytics.userId == "u1")
        #expect(analytics.traits == ["a": 1])
        #expect((analytics.anonymousId, analytics.sessionId) == before)
    }

    // MARK: alias

    @Test func anAliasIsTheUserFromThenOn() async {
        let analytics = makeAnalytics()
        analytics.identify(userId: "u1", traits: ["a": 1])
        let before = (analytics.anonymousId, analytics.sessionId)
        analytics.alias(newId: "u2")
        analytics.track(name: "A")
        #expect(analytics.userId == "u2")
        #expect(analytics.traits == ["a": 1])
        #expect((analytics.anonymousId, analytics.sessionId) == before)
        let events = await analytics.settled(destination)
        #expect(events.map(\.userId) == ["u1", "u2", "u2"])
        #expect(events[1].previousId == "u1")
        #expect(events[1].context["traits"] == ["a": 1])
    }

    @Test(arguments: [nil, "", "  "])
    func thePreviousIdOfAnAliasIsTheUserOrWhileAnonymousTheAnonymousId(previous: String?) async {
        let analytics = makeAnalytics()
        analytics.alias(newId: "u1", previousId: previous)
        analytics.alias(newId: "u2", previousId: previous)
        #expect(await analytics.settled(destination).map(\.previousId) == [analytics.anonymousId, "u1"])
    }

    @Test func aPreviousIdThatIsGivenWins() async {
        let analytics = makeAnalytics()
        analytics.identify(userId: "u1")
        analytics.alias(newId: "u2", previousId: "legacy")
        #expect(await analytics.settled(destination).last?.previousId == "legacy")
        #expect(analytics.userId == "u2")
    }

    @Test func identifyAfterAliasWithTheNewIdIsTheSameUser() {
        let analytics = makeAnalytics()
        analytics.identify(userId: "u1", traits: ["a": 1])
        let anonymousId = analytics.anonymousId
        analytics.alias(newId: "u2")
        analytics.identify(userId: "u2", traits: ["b": 2])
        #expect(analytics.traits == ["a": 1, "b": 2])
        #expect(analytics.anonymousId == anonymousId)
        analytics.identify(userId: "u3")
        #expect(analytics.traits == [:])
        #expect(analytics.anonymousId != anonymousId)
    }

    @Test(arguments: ["", " ", "\n"])
    func anAliasWithoutAnIdIsRefusedAndSaid(id: String) async {
        let analytics = makeAnalytics()
        analytics.identify(userId: "u1")
        analytics.alias(newId: id, previousId: "u0")
        #expect(analytics.userId == "u1")
        #expect(await analytics.settled(destination).map(\.kind) == [.identify])
        #expect(logger.texts(.error).contains { $0.hasPrefix("alias: ") })
    }

    // MARK: reset

    /// All sixteen choices.
    private static let choices = (0..<16).map { bits in
        ResetEntries(
            anonymousId: bits & 1 != 0, userId: bits & 2 != 0, traits: bits & 4 != 0, session: bits & 8 != 0)
    }

    @Test(arguments: choices)
    func aResetRenewsWhatIsSelectedAndNothingElse(entries: ResetEntries) async throws {
        let analytics = makeAnalytics()
        analytics.identify(userId: "u1", traits: ["a": 1])
        let before = (anonymousId: analytics.anonymousId, sessionId: analytics.sessionId)
        analytics.reset(options: ResetOptions(entries: entries))
        #expect((analytics.anonymousId != before.anonymousId) == entries.anonymousId)
        #expect((analytics.userId == nil) == entries.userId)
        #expect((analytics.traits == [:]) == entries.traits)
        #expect((analytics.sessionId != before.sessionId) == entries.session)
        #expect(UUID(uuidString: try #require(analytics.anonymousId)) != nil)
        analytics.track(name: "A")
        let event = try #require(await analytics.settled(destination).last)
        #expect(event.anonymousId == analytics.anonymousId)
        #expect(event.userId == analytics.userId)
        #expect(event.context["traits"] == (entries.traits ? nil : ["a": 1]))
        #expect(event.sessionId == analytics.sessionId)
        #expect(event.isSessionStart == entries.session)
    }

    @Test(arguments: choices)
    func everyResetReachesPluginsAndDestinationsInItsPlace(entries: ResetEntries) async {
        let witness = WitnessPlugin()
        let analytics = makeAnalytics(plugins: [witness])
        analytics.track(name: "A")
        analytics.reset(options: ResetOptions(entries: entries))
        analytics.track(name: "B")
        await analytics.settled()
        #expect(witness.entries == ["setup", "A", "reset", "B"])
        let resets = destination.entries.compactMap { entry in
            if case .reset(let options) = entry { options.entries } else { nil }
        }
        #expect(resets == [entries])
        guard destination.entries.count == 3, case .reset = destination.entries[1] else {
            Issue.record("the reset should stand between the events")
            return
        }
    }

    // MARK: What plugins do to ids

    @Test func aPluginMaySetTheAnonymousIdOfAnEvent() async {
        let plugin = ClosurePlugin { event, _ in
            var event = event
            event.anonymousId = "own"
            return event
        }
        let analytics = makeAnalytics(plugins: [plugin])
        let before = analytics.anonymousId
        analytics.track(name: "A")
        #expect(await analytics.settled(destination).map(\.anonymousId) == ["own"])
        #expect(analytics.anonymousId == before)
    }

    @Test(arguments: [nil, "", "  "])
    func whatAPluginBlanksOfBothIdsComesBack(blank: String?) async {
        let plugin = ClosurePlugin { event, _ in
            var event = event
            event.anonymousId = blank
            event.userId = blank
            return event
        }
        let analytics = makeAnalytics(plugins: [plugin])
        analytics.identify(userId: "u1")
        analytics.track(name: "A")
        let events = await analytics.settled(destination)
        #expect(events.map(\.anonymousId) == [analytics.anonymousId, analytics.anonymousId])
        #expect(events.map(\.userId) == [nil, nil])
        #expect(logger.texts(.warn).filter { $0.contains("blanked both ids") }.count == 1)
        #expect(analytics.account.dropped.isEmpty)
    }

    @Test func aPluginMayTakeOneOfTwoIdsAway() async {
        let plugin = ClosurePlugin { event, _ in
            var event = event
            event.anonymousId = nil
            return event
        }
        let analytics = makeAnalytics(plugins: [plugin])
        analytics.identify(userId: "u1")
        let event = await analytics.delivered(to: transport).last
        #expect(event?["userId"] == "u1")
        #expect(event?["anonymousId"] == nil)
    }

    // MARK: Without the plugin

    @Test func withoutThePluginAnEventNeedsAnIdOfItsOwn() async {
        let configuration = Configuration.test(transport: transport, logger: logger)
        let builtIn = Analytics.builtInPlugins(for: configuration).filter { !($0 is IdentityPlugin) }
        let analytics = makeAnalytics(builtIn: builtIn)
        analytics.track(name: "None")
        analytics.identify(userId: "u1", traits: ["a": 1])
        analytics.alias(newId: "u2", previousId: "u1")
        analytics.track(name: "Scoped", options: EventOptions(userId: "u3"))
        let events = await analytics.settled(destination)
        #expect(events.map(\.kind) == [.identify, .alias, .track])
        #expect(events.map(\.userId) == ["u1", "u2", "u3"])
        #expect(events[0].context["traits"] == ["a": 1])
        #expect(analytics.account.dropped == [.invalid: 1])
        #expect(logger.texts(.error).filter { $0.contains("IdentityPlugin") }.count == 1)
        #expect(analytics.anonymousId == nil)
        #expect(analytics.userId == nil)
        #expect(analytics.traits == nil)
    }

    @Test func aRemovedPluginRemembersNothingMore() async {
        let analytics = makeAnalytics()
        guard let plugin = analytics.plugin(ofType: IdentityPlugin.self) else {
            Issue.record("it is built in")
            return
        }
        analytics.identify(userId: "u1")
        analytics.remove(plugin: plugin)
        #expect(analytics.userId == nil)
        analytics.track(name: "None")
        await analytics.stored()
        analytics.add(plugin: plugin)
        #expect(analytics.userId == "u1")
        #expect(await analytics.settled(destination).map(\.kind) == [.identify])
    }

    // MARK: The end

    @Test func afterShutdownNothingIsKnownAndNothingChanges() async {
        let analytics = makeAnalytics()
        analytics.identify(userId: "u1", traits: ["a": 1])
        analytics.shutdown()
        analytics.identify(userId: "u2")
        analytics.alias(newId: "u3")
        analytics.reset()
        #expect(analytics.anonymousId == nil)
        #expect(analytics.userId == nil)
        #expect(analytics.traits == nil)
        await analytics.shutdownAndWait()
        #expect(destination.events.map(\.userId) == ["u1"])
    }
}
