import Foundation
import Testing
import Tiller
import TillerTesting

/// The calls of RudderStack's Swift documentation, written as there.
@Suite(.timeLimit(.minutes(5)))
struct CallSurfaceTests {
    private let transport = StubTransport()

    private func makeAnalytics() -> Analytics { Analytics(configuration: testConfiguration(transport: transport)) }

    private func last(of analytics: Analytics) async throws -> JSONObject {
        try #require(await analytics.delivered(to: transport).last)
    }

    // MARK: Values

    @Test func trackTakesALiteralOfLiterals() async throws {
        let analytics = makeAnalytics()
        analytics.track(name: "Order Completed", properties: ["total": 12.5, "items": ["a", "b"], "coupon": nil])
        #expect(
            try await last(of: analytics)["properties"] == ["total": 12.5, "items": ["a", "b"], "coupon": nil])
    }

    @Test func trackTakesALiteralWithVariablesInIt() async throws {
        let analytics = makeAnalytics()
        let someString = "ann"
        let price: Float = 1.1
        let tags: Set<String> = ["b", "a"]
        analytics.track(
            name: "Order Completed",
            properties: [
                "total": 12.5, "items": ["a", "b"], "user": someString, "price": price, "tags": tags,
                "nested": ["user": someString, "list": [1, someString]],
            ])
        let properties = try await last(of: analytics)["properties"]
        #expect(properties["total"] == 12.5)
        #expect(properties["items"] == ["a", "b"])
        #expect(properties["user"] == "ann")
        #expect(properties["price"] == 1.1)
        #expect(properties["tags"] == ["a", "b"])
        #expect(properties["nested"] == ["user": "ann", "list": [1, "ann"]])
    }

    @Test func trackTakesAnExistingDictionary() async throws {
        let analytics = makeAnalytics()
        let values: [String: Any] = ["count": 3, "date": Date(timeIntervalSince1970: 0), "none": NSNull()]
        analytics.track(name: "A", properties: values)
        #expect(
            try await last(of: analytics)["properties"]
                == ["count": 3, "date": "1970-01-01T00:00:00.000Z", "none": nil])
    }

    @Test func trackTakesADictionaryOfOneType() async throws {
        let analytics = makeAnalytics()
        let values = ["a": "1", "b": "2"]
        analytics.track(name: "A", properties: values)
        #expect(try await last(of: analytics)["properties"] == ["a": "1", "b": "2"])
    }

    @Test func trackTakesAJSONObject() async throws {
        let analytics = makeAnalytics()
        var values: JSONObject = ["a": 1]
        values["b"] = .string("two")
        analytics.track(name: "A", properties: values)
        #expect(try await last(of: analytics)["properties"] == ["a": 1, "b": "two"])
    }

    @Test func noPropertiesCanBeWrittenInEveryWay() async {
        let analytics = makeAnalytics()
        let none: [String: Any]? = nil
        let noObject: JSONObject? = nil
        analytics.track(name: "A")
        analytics.track(name: "A", properties: nil)
        analytics.track(name: "A", properties: none)
        analytics.track(name: "A", properties: noObject)
        analytics.track(name: "A", properties: [:])
        analytics.track(name: "A", properties: nil, options: nil)
        analytics.track(name: "A", options: RudderOption())
        let events = await analytics.delivered(to: transport)
        #expect(events.count == 7)
        #expect(events.allSatisfy { $0["properties"] == nil })
    }

    // MARK: The five calls

    @Test func screenSendsNameAndCategory() async throws {
        let analytics = makeAnalytics()
        let tab = 1
        analytics.screen(screenName: "Home", category: "Main", properties: ["tab": 1])
        analytics.screen(screenName: "Home", category: "Main", properties: ["tab": tab])
        analytics.screen(screenName: "Home")
        let events = await analytics.delivered(to: transport)
        #expect(events.map { $0["event"] } == ["Home", "Home", "Home"])
        #expect(events[0]["properties"] == ["tab": 1, "name": "Home", "category": "Main"])
        #expect(events[1]["properties"] == events[0]["properties"])
        #expect(events[2]["properties"] == ["name": "Home"])
    }

    @Test func groupSendsIdAndTraits() async {
        let analytics = makeAnalytics()
        let plan = "pro"
        analytics.group(groupId: "acme", traits: ["plan": "pro"])
        analytics.group(groupId: "acme", traits: ["plan": plan])
        analytics.group(groupId: "acme")
        let events = await analytics.delivered(to: transport)
        #expect(events.map { $0["groupId"] } == ["acme", "acme", "acme"])
        #expect(events.map { $0["traits"] } == [["plan": "pro"], ["plan": "pro"], nil])
    }

    @Test func identifySendsTraitsAndOptions() async throws {
        let analytics = makeAnalytics()
        analytics.identify(
            userId: "alice", traits: ["age": 42, "beta": true, "since": Date(timeIntervalSince1970: 0)],
            options: RudderOption(
                integrations: ["Amplitude": false], customContext: ["campaign": ["name": "spring"]],
                externalIds: [ExternalId(type: "brazeId", id: "1")]))
        let event = try await last(of: analytics)
        #expect(event["userId"] == "alice")
        #expect(event["integrations"] == ["All": true, "Amplitude": false])
        #expect(event["context"]["campaign"] == ["name": "spring"])
        #expect(event["context"]["externalId"] == [["id": "1", "type": "brazeId"]])
        #expect(event["context"]["traits"] == ["age": 42, "beta": true, "since": "1970-01-01T00:00:00.000Z"])
        #expect(analytics.userId == "alice")
        #expect(analytics.traits?["beta"] == true)
    }

    @Test func optionsTakeVariablesToo() async throws {
        let analytics = makeAnalytics()
        let season = "spring"
        let isOn = false
        analytics.track(
            name: "A",
            options: RudderOption(integrations: ["Amplitude": isOn], customContext: ["campaign": ["name": season]]))
        let event = try await last(of: analytics)
        #expect(event["integrations"] == ["All": true, "Amplitude": false])
        #expect(event["context"]["campaign"] == ["name": "spring"])
    }

    @Test func identifyWithTraitsAloneKeepsTheUser() async throws {
        let analytics = makeAnalytics()
        analytics.identify(userId: "alice")
        analytics.identify(traits: ["plan": "pro"])
        #expect(analytics.userId == "alice")
        let event = try await last(of: analytics)
        #expect(event["userId"] == "alice")
        #expect(event["context"]["traits"] == ["plan": "pro"])
    }

    @Test func aliasSendsBothIds() async throws {
        let analytics = makeAnalytics()
        analytics.identify(userId: "alice")
        analytics.alias(newId: "alice-2", previousId: "alice")
        let event = try await last(of: analytics)
        #expect(event["userId"] == "alice-2")
        #expect(event["previousId"] == "alice")
        #expect(analytics.userId == "alice-2")
    }

    @Test func openRecordsTheLink() async throws {
        let analytics = makeAnalytics()
        let url = try #require(URL(string: "app://x?utm_source=mail"))
        let referrer: Any = "mail"
        analytics.open(url: url, options: ["referrer": "mail"])
        analytics.open(url: url, options: ["referrer": referrer])
        analytics.open(url: url)
        let events = await analytics.delivered(to: transport)
        #expect(events.map { $0["event"] } == ["Deep Link Opened", "Deep Link Opened", "Deep Link Opened"])
        #expect(
            events.map { $0["properties"] } == [
                ["utm_source": "mail", "url": "app://x?utm_source=mail", "referrer": "mail"],
                ["utm_source": "mail", "url": "app://x?utm_source=mail", "referrer": "mail"],
                ["utm_source": "mail", "url": "app://x?utm_source=mail"],
            ])
    }

    // MARK: Session, identity, ending

    @Test func sessionCallsAreWrittenAsInTheDocumentation() async throws {
        let analytics = Analytics(
            configuration: Configuration(
                writeKey: "<WRITE_KEY>",
                dataPlaneUrl: "https://data.example.com",
                sessionConfiguration: SessionConfiguration(
                    automaticSessionTracking: false,
                    sessionTimeoutInMillis: 300_000,
                    updateSessionOnBackgroundEvents: true),
                logger: RecordingLogger(), storage: .memory, transport: transport))
        #expect(analytics.sessionId == nil)
        analytics.startSession()
        #expect(analytics.sessionId != nil)
        analytics.startSession(sessionId: 1_234_567_890)
        #expect(analytics.sessionId == 1_234_567_890)
        analytics.startSession(1_234_567_891)
        let id: UInt64? = analytics.sessionId
        #expect(id == 1_234_567_891)
        analytics.endSession()
        #expect(analytics.sessionId == nil)
        await analytics.shutdownAndWait()
    }

    @Test func resetRenewsEverything() {
        let analytics = makeAnalytics()
        analytics.identify(userId: "alice", traits: ["a": 1])
        let before = (analytics.anonymousId, analytics.sessionId)
        analytics.reset()
        #expect(analytics.userId == nil)
        #expect(analytics.traits == [:])
        #expect(analytics.anonymousId != nil && analytics.anonymousId != before.0)
        #expect(analytics.sessionId != nil && analytics.sessionId != before.1)
    }

    @Test func resetKeepsWhatItIsToldToKeep() {
        let analytics = makeAnalytics()
        analytics.identify(userId: "alice", traits: ["a": 1])
        let before = (analytics.anonymousId, analytics.sessionId)
        analytics.reset(options: ResetOptions(entries: ResetEntries(anonymousId: false, session: false)))
        #expect(analytics.anonymousId == before.0)
        #expect(analytics.sessionId == before.1)
        #expect(analytics.userId == nil)
        #expect(analytics.traits == [:])
    }

    @Test func resetEntriesSelectEverythingByDefault() {
        let all = ResetEntries()
        #expect(all.anonymousId && all.userId && all.traits && all.session)
        #expect(ResetOptions() == ResetOptions(entries: all))
        let some = ResetEntries(anonymousId: true, userId: false, traits: true, session: false)
        #expect(some.anonymousId && !some.userId && some.traits && !some.session)
    }

    @Test func flushUploadsWithoutWaiting() async {
        let analytics = makeAnalytics()
        analytics.track(name: "A")
        analytics.flush()
        await transport.requests(count: 1)
        #expect(transport.events.map { $0["event"] } == ["A"])
    }

    @Test func waitingCallsSayWhatBecameOfTheEvents() async {
        let analytics = makeAnalytics()
        #expect(await analytics.flushed() == .nothingWaiting)
        analytics.track(name: "A")
        #expect(await analytics.stored() == .inMemory)
        // The first event is uploaded by itself, perhaps before this.
        #expect([.delivered, .nothingWaiting].contains(await analytics.flushed()))
        analytics.track(name: "B")
        #expect(await analytics.shutdownAndWait(timeout: .seconds(5)) == 0)
        #expect(transport.events.map { $0["event"] } == ["A", "B"])
    }

    @Test func afterShutdownGettersAreNilAndCallsAreIgnored() async {
        let analytics = makeAnalytics()
        analytics.identify(userId: "alice")
        analytics.shutdown()
        analytics.shutdown()
        analytics.track(name: "Late")
        analytics.identify(userId: "bob")
        analytics.reset()
        analytics.startSession()
        analytics.flush()
        #expect(analytics.anonymousId == nil)
        #expect(analytics.userId == nil)
        #expect(analytics.traits == nil)
        #expect(analytics.sessionId == nil)
        await analytics.shutdownAndWait()
        #expect(transport.events.map { $0["type"] } == ["identify"])
    }

    // MARK: Services

    @Test func optionsCanNameThePersonOfOneCall() async {
        let analytics = makeAnalytics()
        analytics.track(name: "A", options: EventOptions(userId: "bob"))
        analytics.track(name: "B", options: EventOptions(anonymousId: "anon-1"))
        analytics.track(name: "C", options: EventOptions(userId: "bob", anonymousId: "anon-1"))
        let events = await analytics.delivered(to: transport)
        #expect(events.map { $0["userId"] } == ["bob", nil, "bob"])
        #expect(events.map { $0["anonymousId"] } == [nil, "anon-1", "anon-1"])
        #expect(events.allSatisfy { $0["context"]["sessionId"] == nil })
        #expect(analytics.userId == nil)
    }

    @Test func aScopedHandleHasTheFiveCallsOpenAndFlush() async throws {
        let analytics = makeAnalytics()
        let bob = analytics.scoped(userId: "bob", anonymousId: "anon-1")
        let value: Any = 1
        let url = try #require(URL(string: "app://x"))
        bob.track(name: "A")
        bob.track(name: "A", properties: ["a": value])
        bob.screen(screenName: "S", category: "C")
        bob.screen(screenName: "S", properties: ["a": value])
        bob.group(groupId: "G", traits: ["a": 1])
        bob.group(groupId: "G", traits: ["a": value])
        bob.identify(traits: ["a": 1])
        bob.identify(traits: ["a": value])
        bob.open(url: url)
        bob.open(url: url, options: ["a": value])
        bob.flush()
        let events = await analytics.delivered(to: transport)
        #expect(events.count == 10)
        #expect(events.allSatisfy { $0["userId"] == "bob" && $0["anonymousId"] == "anon-1" })
        bob.alias(newId: "bob-2")
        let alias = try await last(of: analytics)
        #expect(alias["userId"] == "bob-2")
        #expect(alias["previousId"] == "bob")
        #expect(analytics.userId == nil)
        #expect(analytics.traits == [:])
    }

    @Test func constantsAreAsDocumented() {
        let configuration = Configuration(writeKey: "<WRITE_KEY>", dataPlaneUrl: "<DATA_PLANE_URL>")
        #expect(configuration.controlPlaneUrl == "https://api.rudderlabs.com")
        #expect(configuration.gzipEnabled)
        #expect(configuration.flushPolicies.count == 3)
        #expect(configuration.flushPolicies[0] is StartupFlushPolicy)
        #expect((configuration.flushPolicies[1] as? FrequencyFlushPolicy)?.interval == .seconds(10))
        #expect((configuration.flushPolicies[2] as? CountFlushPolicy)?.flushAt == 30)
        #expect(configuration.collectDeviceId == nil)
        #expect(configuration.trackApplicationLifecycleEvents == nil)
        #expect(configuration.logLevel == .error)
        #expect(LogLevel.allCases == [.none, .error, .warn, .info, .debug, .verbose])
        #expect(!Analytics.version.isEmpty)
    }

    @Test func configurationTakesAllParametersOfTheSDKInItsOrder() {
        let configuration = Configuration(
            writeKey: "<WRITE_KEY>", dataPlaneUrl: "<DATA_PLANE_URL>", controlPlaneUrl: "https://control.example.com",
            gzipEnabled: false,
            flushPolicies: [
                StartupFlushPolicy(), FrequencyFlushPolicy(flushIntervalInMillis: 10_000),
                CountFlushPolicy(flushAt: 30),
            ],
            collectDeviceId: false, trackApplicationLifecycleEvents: true,
            sessionConfiguration: SessionConfiguration(), logger: RecordingLogger(), logLevel: .verbose)
        #expect(configuration.controlPlaneUrl == "https://control.example.com")
        #expect(!configuration.gzipEnabled)
        #expect(configuration.collectDeviceId == false)
        #expect(configuration.trackApplicationLifecycleEvents == true)
        #expect(configuration.logLevel == .verbose)
    }
}
