import Foundation
import Testing
import Tiller
import TillerTesting

/// The JSON of events as a data plane gets it (`data-plane.md` §2).
@Suite(.timeLimit(.minutes(5)))
struct EventWireTests {
    private let transport = StubTransport()
    private let time = VirtualTime()
    private let logger = RecordingLogger()

    private func makeConfiguration(limits: Limits = Limits()) -> Configuration {
        var configuration = Configuration.test(time: time, transport: transport, logger: logger, limits: limits)
        configuration.application = ApplicationInfo(name: "Shop", version: "1.10", build: "42", namespace: "com.shop")
        configuration.contextSource = ManualContextSource(SystemContext(locale: "en-US", timezone: "Europe/Vienna"))
        return configuration
    }

    /// With identity and delivery alone: nothing stands in the context but what the call put there.
    private func makeBare(limits: Limits = Limits()) -> Analytics {
        let configuration = makeConfiguration(limits: limits)
        return Analytics(
            configuration: configuration,
            builtIn: [IdentityPlugin(), RudderStackDestination(configuration: configuration)])
    }

    private func makeWhole(plugins: [any Plugin] = []) -> Analytics {
        Analytics(configuration: makeConfiguration(), plugins: plugins)
    }

    private func last(_ analytics: Analytics) async throws -> JSONObject {
        try #require(await analytics.delivered(to: transport).last)
    }

    /// What is in every event, whatever its kind.
    private static let common = [
        "type", "messageId", "originalTimestamp", "sentAt", "channel", "anonymousId", "integrations", "context",
    ]

    private func expectCommonFields(of event: JSONObject, _ type: String, and others: [String], _ analytics: Analytics)
    {
        #expect(Set(event.keys) == Set(Self.common + others))
        #expect(event.keys.count == Self.common.count + others.count)
        #expect(event["type"] == .string(type))
        #expect(event["originalTimestamp"] == "2025-02-25T06:06:37.000Z")
        #expect(event["sentAt"] == "2025-02-25T06:06:37.000Z")
        #expect(event["channel"] == "mobile")
        #expect(event["anonymousId"]?.string == analytics.anonymousId)
        #expect(event["integrations"] == ["All": true])
    }

    // MARK: The five kinds

    @Test func aTrackEventHasItsNameAndItsProperties() async throws {
        let analytics = makeBare()
        analytics.track(name: "Order Completed", properties: ["total": 12.5])
        let event = try await last(analytics)
        expectCommonFields(of: event, "track", and: ["event", "properties"], analytics)
        #expect(event["event"] == "Order Completed")
        #expect(event["properties"] == ["total": 12.5])
        #expect(event["context"] == [:])
    }

    @Test func aTrackEventWithoutPropertiesHasNoSuchKey() async throws {
        let analytics = makeBare()
        analytics.track(name: "A")
        expectCommonFields(of: try await last(analytics), "track", and: ["event"], analytics)
    }

    @Test func aScreenEventHasItsNameTwiceAndItsCategoryInTheProperties() async throws {
        let analytics = makeBare()
        analytics.screen(screenName: "Home", category: "Main", properties: ["tab": 1])
        let event = try await last(analytics)
        expectCommonFields(of: event, "screen", and: ["event", "properties"], analytics)
        #expect(event["event"] == "Home")
        #expect(event["properties"] == ["name": "Home", "category": "Main", "tab": 1])
    }

    @Test func aScreenEventAlwaysHasItsName() async throws {
        let analytics = makeBare()
        analytics.screen(screenName: "Home")
        #expect(try await last(analytics)["properties"] == ["name": "Home"])
    }

    @Test func aScreenEventKeepsTheCallersNameAndCategory() async throws {
        let analytics = makeBare()
        analytics.screen(
            screenName: "Home", category: "Main", properties: ["name": "Start page", "category": "Landing"])
        let event = try await last(analytics)
        #expect(event["event"] == "Home")
        #expect(event["properties"] == ["name": "Start page", "category": "Landing"])
        analytics.screen(screenName: "Home", properties: ["category": "Landing"])
        #expect(try await last(analytics)["properties"] == ["name": "Home", "category": "Landing"])
    }

    @Test func anIdentifyEventHasItsTraitsInTheContextOnly() async throws {
        let analytics = makeBare()
        analytics.identify(userId: "u1", traits: ["age": 42])
        let event = try await last(analytics)
        expectCommonFields(of: event, "identify", and: ["event", "userId"], analytics)
        #expect(event["event"] == "identify")
        #expect(event["userId"] == "u1")
        #expect(event["context"] == ["traits": ["age": 42]])
    }

    @Test func aGroupEventHasItsTraitsBesideThoseOfTheUser() async throws {
        let analytics = makeBare()
        analytics.identify(userId: "u1", traits: ["age": 42])
        analytics.group(groupId: "acme", traits: ["plan": "pro"])
        let event = try await last(analytics)
        expectCommonFields(of: event, "group", and: ["userId", "groupId", "traits"], analytics)
        #expect(event["groupId"] == "acme")
        #expect(event["traits"] == ["plan": "pro"])
        #expect(event["context"] == ["traits": ["age": 42]])
    }

    @Test func anAliasEventHasTheNewAndThePreviousId() async throws {
        let analytics = makeBare()
        analytics.alias(newId: "u2", previousId: "u1")
        let event = try await last(analytics)
        expectCommonFields(of: event, "alias", and: ["userId", "previousId"], analytics)
        #expect(event["userId"] == "u2")
        #expect(event["previousId"] == "u1")
    }

    @Test func everyEventOfAUserHasIdAndTraits() async {
        let analytics = makeBare()
        analytics.identify(userId: "u1", traits: ["age": 42])
        analytics.track(name: "A")
        analytics.screen(screenName: "S")
        analytics.group(groupId: "G")
        let events = await analytics.delivered(to: transport)
        #expect(events.allSatisfy { $0["userId"] == "u1" && $0["context"]["traits"] == ["age": 42] })
    }

    @Test func theServersFieldsAreNeverSent() async {
        let analytics = makeWhole()
        analytics.track(name: "A")
        analytics.identify(userId: "u1", traits: ["a": 1])
        for event in await analytics.delivered(to: transport) {
            for key in ["timestamp", "receivedAt", "request_ip", "rudderId"] { #expect(event[key] == nil) }
        }
    }

    @Test func messageIdsAreRandomUUIDsInLowerCase() async throws {
        let analytics = makeBare()
        for _ in 0..<50 { analytics.track(name: "A") }
        let ids = await analytics.delivered(to: transport).compactMap { $0["messageId"]?.string }
        #expect(Set(ids).count == 50)
        for id in ids {
            #expect(UUID(uuidString: id) != nil)
            #expect(id == id.lowercased())
            #expect(Array(id)[14] == "4")
            #expect("89ab".contains(Array(id)[19]))
        }
    }

    @Test func theChannelIsServerWhereNobodySitsInFront() async throws {
        var configuration = makeConfiguration()
        configuration.lifecycleSource = ProcessLifecycleSource()
        let service = Analytics(configuration: configuration)
        service.track(name: "A")
        #expect(try await last(service)["channel"] == "server")
        configuration.channel = .mobile
        let other = Analytics(configuration: configuration)
        other.track(name: "A")
        #expect(try await last(other)["channel"] == "mobile")
    }

    // MARK: Context, integrations, options

    @Test func theBuiltInContextWinsOverTheCallers() async throws {
        let analytics = makeWhole()
        let custom: JSONObject = [
            "app": "mine", "library": ["name": "mine"], "locale": 1, "timezone": nil, "own": ["deep": [1]],
        ]
        analytics.track(name: "A", options: EventOptions(customContext: custom))
        let context = try #require(try await last(analytics)["context"])
        #expect(context["app"] == ["name": "Shop", "version": "1.10", "build": "42", "namespace": "com.shop"])
        #expect(context["library"] == ["name": "tiller-swift", "version": .string(Analytics.version)])
        #expect(context["locale"] == "en-US")
        #expect(context["timezone"] == "Europe/Vienna")
        #expect(context["own"] == ["deep": [1]])
    }

    @Test func traitsInACustomContextReplaceTheUsersForThatEvent() async {
        let analytics = makeBare()
        analytics.identify(userId: "u1", traits: ["a": 1], options: EventOptions(customContext: ["traits": ["b": 2]]))
        analytics.track(name: "A", options: EventOptions(customContext: ["traits": ["c": 3]]))
        analytics.track(name: "B")
        let events = await analytics.delivered(to: transport)
        #expect(events.map { $0["context"]["traits"] } == [["b": 2], ["c": 3], ["a": 1]])
        #expect(analytics.traits == ["a": 1])
    }

    @Test func externalIdsReplaceThoseOfACustomContext() async {
        let analytics = makeBare()
        let ids = [ExternalId(type: "brazeId", id: "1"), ExternalId(type: "other", id: "2")]
        analytics.track(name: "A", options: EventOptions(customContext: ["externalId": "mine"], externalIds: ids))
        analytics.track(name: "B", options: EventOptions(customContext: ["externalId": "mine"], externalIds: []))
        analytics.track(name: "C", options: EventOptions(customContext: ["externalId": "mine"]))
        analytics.track(name: "D", options: EventOptions(externalIds: [ids[0]]))
        let events = await analytics.delivered(to: transport)
        #expect(
            events.map { $0["context"]["externalId"] } == [
                [["id": "1", "type": "brazeId"], ["id": "2", "type": "other"]], "mine", "mine",
                [["id": "1", "type": "brazeId"]],
            ])
    }

    @Test func sessionKeysOfACustomContextAreRemovedWithOneWarning() async {
        let analytics = makeWhole()
        let session = analytics.sessionId
        for _ in 0..<2 {
            analytics.track(
                name: "A", options: EventOptions(customContext: ["sessionId": 7, "sessionStart": true, "own": 1]))
        }
        let events = await analytics.delivered(to: transport)
        #expect(events.map { $0["context"]["sessionId"]?.uint } == [session, session])
        #expect(events.map { $0["context"]["sessionStart"] } == [true, nil])
        #expect(events.map { $0["context"]["own"] } == [1, 1])
        #expect(logger.texts(.warn).filter { $0.hasPrefix("sessionId ") }.count == 1)
    }

    @Test func integrationsAreMergedOverAll() async {
        let analytics = makeBare()
        analytics.track(name: "A", options: EventOptions(integrations: ["Amplitude": false, "Braze": ["k": 1]]))
        analytics.track(name: "B", options: EventOptions(integrations: ["All": false, "Braze": true]))
        analytics.track(name: "C", options: EventOptions(integrations: [:]))
        let events = await analytics.delivered(to: transport)
        #expect(
            events.map { $0["integrations"] } == [
                ["All": true, "Amplitude": false, "Braze": ["k": 1]], ["All": false, "Braze": true], ["All": true],
            ])
    }

    @Test func aCustomPluginHasTheLastWord() async throws {
        let plugin = ClosurePlugin(.enrichment) { event, _ in
            var event = event
            event.context["app"]["name"] = "Renamed"
            event.context["locale"] = nil
            event.context["traits"] = ["x": 1]
            event.integrations = ["All": false]
            event.name = "B"
            return event
        }
        let analytics = makeWhole(plugins: [plugin])
        analytics.track(name: "A", properties: ["p": 1])
        let event = try await last(analytics)
        #expect(event["event"] == "B")
        #expect(
            event["context"]["app"] == ["name": "Renamed", "version": "1.10", "build": "42", "namespace": "com.shop"])
        #expect(event["context"]["locale"] == nil)
        #expect(event["context"]["traits"] == ["x": 1])
        #expect(event["integrations"] == ["All": false])
    }

    // MARK: Times

    @Test func sentAtIsTheTimeOfTheCallPlusTheAgeAtEachAttempt() async throws {
        let analytics = makeBare()
        transport.answerNext(.status(503))
        analytics.track(name: "A")
        time.advance(by: .seconds(2))
        time.setWallClock(by: .seconds(3_600))
        guard case .waiting = await analytics.flushed() else {
            Issue.record("the first attempt should fail")
            return
        }
        time.setWallClock(by: .seconds(-7_200))
        #expect(time.runNextTimer(upTo: .seconds(10)))
        await transport.requests(count: 2)
        let events = transport.events
        #expect(events.map { $0["originalTimestamp"] } == Array(repeating: "2025-02-25T06:06:37.000Z", count: 2))
        #expect(events[0]["sentAt"] == "2025-02-25T06:06:39.000Z")
        let second =
            1_740_463_597_000 + time.now.components.seconds * 1_000
            + time.now.components.attoseconds / 1_000_000_000_000_000
        #expect(events[1]["sentAt"]?.string == timestampText(second))
        #expect(events[0]["messageId"] == events[1]["messageId"])
    }

    @Test func anEventRecordedUnderASetClockKeepsThatClocksTime() async throws {
        let analytics = makeBare()
        time.setWallClock(by: .seconds(-3_600))
        analytics.track(name: "A")
        time.setWallClock(by: .seconds(3_600))
        time.advance(by: .milliseconds(5))
        let event = try await last(analytics)
        #expect(event["originalTimestamp"] == "2025-02-25T05:06:37.000Z")
        #expect(event["sentAt"] == "2025-02-25T05:06:37.005Z")
    }

    @Test func aCopyDiffersInSentAtOnly() async throws {
        let analytics = makeWhole()
        analytics.identify(userId: "u1", traits: ["a": 1])
        transport.answerNext(.status(503))
        await analytics.flushed()
        time.advance(by: .seconds(20))
        await analytics.flushed()
        var copies = transport.events
        #expect(copies.count == 2)
        for index in copies.indices { copies[index]["sentAt"] = nil }
        #expect("\(copies[0])" == "\(copies[1])")
    }

    // MARK: Text

    @Test func theBodyIsCompact() async throws {
        let analytics = makeWhole()
        analytics.identify(userId: "u1", traits: ["list": [1, 2], "deep": ["a": nil]])
        analytics.track(name: "A", properties: ["url": "a/b"])
        await analytics.flushed()
        let text = String(decoding: try #require(transport.requests.last).body, as: UTF8.self)
        #expect(!text.contains { $0.isWhitespace })
        #expect(text.contains(#""url":"a/b""#))
        #expect(text.hasPrefix(#"{"batch":[{"type":"identify""#))
    }

    @Test func b80_userTextThatLooksLikeAMarkerIsLeftAlone() async throws {
        let analytics = makeBare()
        let texts = [
            "{{ RSA_DEF_SENT_AT_TS }}", #"before {{ RSA_DEF_SENT_AT_TS }} after"#,
            #","sentAt":"1970-01-01T00:00:00.000Z"}"#,
            #""anonymousId":"mallory""#, #"}}"#, "{", #""}}"#, "\u{0}", "\u{1E}", "\u{FFFF}",
        ]
        let values = JSONValue.array(texts.map { .string($0) })
        analytics.track(
            name: texts[0],
            properties: ["list": values, "sentAt": "mine", "anonymousId": "mallory", "type": "alias", "last": "{"],
            options: EventOptions(customContext: ["sentAt": "mine", "batch": [], "tail": "{"]))
        let event = try await last(analytics)
        #expect(event["event"]?.string == texts[0])
        #expect(event["type"] == "track")
        #expect(event["properties"]["list"]?.array?.compactMap(\.string) == texts)
        #expect(event["properties"]["sentAt"] == "mine")
        #expect(event["properties"]["anonymousId"] == "mallory")
        #expect(event["context"] == ["sentAt": "mine", "batch": [], "tail": "{"])
        #expect(event["sentAt"] == "2025-02-25T06:06:37.000Z")
        #expect(event["anonymousId"]?.string == analytics.anonymousId)
        #expect(transport.requests.last?.headers["AnonymousId"] == analytics.anonymousId)
    }

    @Test func theStartMarkIsSplicedInWhateverEndsTheContext() async {
        for tail in [JSONValue.string("{"), "}}", [:], [[:]], [], nil] {
            let transport = StubTransport()
            let configuration = Configuration.test(transport: transport)
            let analytics = Analytics(
                configuration: configuration,
                builtIn: [
                    IdentityPlugin(), SessionTrackingPlugin(), RudderStackDestination(configuration: configuration),
                ])
            analytics.track(name: "A", options: EventOptions(customContext: ["tail": tail]))
            let event = await analytics.delivered(to: transport).last
            #expect(event?["context"]["tail"] == tail)
            #expect(event?["context"]["sessionStart"] == true)
        }
    }

    // MARK: Values

    @Test func numbersThatAreNotFiniteBecomeNullAndAreReportedOnce() async throws {
        let analytics = makeBare()
        for _ in 0..<2 {
            analytics.track(
                name: "A",
                properties: [
                    "ok": 1, "nan": .double(.nan), "list": [.double(.infinity), 2, ["deep": .double(-.infinity)]],
                    "decimal": .decimal(.nan),
                ])
        }
        let event = try await last(analytics)
        #expect(event["properties"] == ["ok": 1, "nan": nil, "list": [nil, 2, ["deep": nil]], "decimal": nil])
        #expect(logger.texts(.warn).filter { $0.contains("not finite") }.count == 1)
    }

    @Test func whatLiesDeeperThanTwoHundredLevelsIsCutAndReported() async throws {
        let analytics = makeBare()
        analytics.track(name: "A", properties: ["deep": .nested(600), "flat": 1])
        analytics.track(name: "B", properties: ["deep": .nested(198)])
        let events = await analytics.delivered(to: transport)
        #expect(events.count == 2)
        #expect(JSONValue.object(events[0]).levels == 200)
        #expect(events[0]["properties"]["flat"] == 1)
        #expect(events[1]["properties"]["deep"] == .nested(198))
        #expect(logger.texts(.warn).filter { $0.contains("200 levels") }.count == 1)
    }

    @Test func anEventThatIsTooLargeIsDroppedAndCounted() async {
        let analytics = makeBare()
        analytics.track(name: "A")
        analytics.track(name: "Large", properties: ["text": .string(String(repeating: "x", count: 40_000))])
        analytics.track(name: "B")
        #expect(await analytics.delivered(to: transport).map { $0["event"] } == ["A", "B"])
        #expect(analytics.account.dropped == [.tooLarge: 1])
        #expect(analytics.account.recorded == 3)
        #expect(logger.texts(.error).filter { $0.contains("32768 bytes are the limit") }.count == 1)
    }

    @Test func theLimitCountsBytesOfTheStoredEvent() async throws {
        let text = JSONValue.string(String(repeating: "ü", count: 500))
        let first = makeBare()
        first.track(name: "A", properties: ["text": text])
        await first.flushed()
        // {"batch":[…]} around it, and ,"sentAt":"2025-02-25T06:06:37.000Z" in it.
        let size = try #require(transport.requests.last).body.count - 12 - 36
        let (fits, tooSmall) = (
            makeBare(limits: Limits(eventBytes: size)), makeBare(limits: Limits(eventBytes: size - 1))
        )
        fits.track(name: "A", properties: ["text": text])
        tooSmall.track(name: "A", properties: ["text": text])
        #expect(await fits.flushed() == .delivered)
        #expect(await tooSmall.flushed() == .nothingWaiting)
        #expect(tooSmall.account.dropped == [.tooLarge: 1])
    }
}
