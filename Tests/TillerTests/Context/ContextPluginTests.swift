import Testing
import Tiller
import TillerTesting

/// What surrounds every event.
@Suite(.timeLimit(.minutes(5)))
struct ContextPluginTests {
    private let transport = StubTransport()
    private let destination = RecordingDestination()

    private static let system = SystemContext(
        device: SystemContext.Device(manufacturer: "Acme", model: "Phone1,2", type: "AcmeOS"), locale: "de-AT",
        network: SystemContext.Network(wifi: true, cellular: false),
        os: SystemContext.OperatingSystem(name: "AcmeOS", version: "4.2", kernel: "9.1-rc2"),
        screen: SystemContext.Screen(width: 390, height: 844.5, density: 3), timezone: "Europe/Vienna")

    private func makeAnalytics(
        _ application: ApplicationInfo = ApplicationInfo(name: "Shop"),
        source: any ContextSource = ManualContextSource(Self.system), plugins: [any Plugin] = []
    ) -> Analytics {
        var configuration = Configuration.test(transport: transport)
        configuration.application = application
        configuration.collectDeviceId = false
        configuration.contextSource = source
        return Analytics(configuration: configuration, plugins: plugins + [destination])
    }

    private func context(of analytics: Analytics) async throws -> JSONObject {
        analytics.track(name: "A")
        return try #require(await analytics.settled(destination).last).context
    }

    @Test func everyPartHasTheNameAndTheTypeOfTheSpecification() async throws {
        let context = try await context(of: makeAnalytics())
        #expect(context["app"] == ["name": "Shop"])
        #expect(context["device"] == ["manufacturer": "Acme", "model": "Phone1,2", "type": "AcmeOS"])
        #expect(context["library"] == ["name": "tiller-swift", "version": .string(Analytics.version)])
        #expect(context["locale"] == "de-AT")
        #expect(context["network"] == ["wifi": true, "cellular": false])
        #expect(context["os"] == ["name": "AcmeOS", "version": "4.2", "kernel": "9.1-rc2"])
        #expect(context["screen"] == ["width": 390.0, "height": 844.5, "density": 3.0])
        #expect(context["timezone"] == "Europe/Vienna")
        let own = ["app", "device", "library", "locale", "network", "os", "screen", "timezone"]
        #expect(context.keys.filter(own.contains) == own)
        let body = String(decoding: try #require(await sent(by: makeAnalytics())), as: UTF8.self)
        #expect(body.contains(#""network":{"wifi":true,"cellular":false}"#))
        #expect(body.contains(#""screen":{"width":390.0,"height":844.5,"density":3.0}"#))
    }

    private func sent(by analytics: Analytics) async -> [UInt8]? {
        analytics.track(name: "A")
        await analytics.flushed()
        return transport.requests.last.map { Array($0.body) }
    }

    @Test func whatIsNotKnownIsLeftOut() async throws {
        let nothing = try await context(of: makeAnalytics(ApplicationInfo(), source: ManualContextSource()))
        let own = ["app", "device", "locale", "network", "os", "screen", "timezone"]
        #expect(own.allSatisfy { nothing[$0] == nil })
        let empty = SystemContext(
            device: SystemContext.Device(id: "", manufacturer: "", model: "m", type: ""), locale: "",
            os: SystemContext.OperatingSystem(name: "", version: nil, kernel: ""),
            screen: SystemContext.Screen(width: .nan, height: 0, density: 2), timezone: "")
        let part = try await context(of: makeAnalytics(source: ManualContextSource(empty)))
        #expect(part["device"] == ["model": "m"])
        #expect(part["screen"] == ["density": 2.0])
        #expect(["locale", "network", "os", "timezone"].allSatisfy { part[$0] == nil })
    }

    @Test func unknownPartsOfTheApplicationAreLeftOut() async throws {
        #expect(try await context(of: makeAnalytics(ApplicationInfo(build: "1.2.3")))["app"] == ["build": "1.2.3"])
        #expect(
            try await context(of: makeAnalytics(ApplicationInfo(name: "Shop", namespace: "com.shop")))["app"]
                == ["name": "Shop", "namespace": "com.shop"])
        #expect(try await context(of: makeAnalytics(ApplicationInfo()))["app"] == nil)
    }

    @Test func theVersionOfTheLibraryIsSemantic() {
        let parts = Analytics.version.split(separator: ".", omittingEmptySubsequences: false)
        #expect(parts.count == 3 && parts.allSatisfy { Int($0) != nil })
    }

    @Test func theContextWinsOverTheCallersButNotOverLaterPlugins() async throws {
        let plugin = ClosurePlugin(.enrichment) { event, _ in
            var event = event
            event.context["timezone"] = "Mars/Olympus"
            return event
        }
        let analytics = makeAnalytics(plugins: [plugin])
        analytics.track(
            name: "A",
            options: EventOptions(customContext: [
                "timezone": "mine", "app": "mine", "device": ["name": "mine"], "library": 1, "locale": nil,
                "network": ["carrier": "mine"], "os": [], "screen": true, "own": [1],
            ]))
        let context = try #require(await analytics.settled(destination).last).context
        #expect(context["timezone"] == "Mars/Olympus")
        #expect(context["app"] == ["name": "Shop"])
        #expect(context["device"] == ["manufacturer": "Acme", "model": "Phone1,2", "type": "AcmeOS"])
        #expect(context["library"]["name"] == "tiller-swift")
        #expect(context["locale"] == "de-AT")
        #expect(context["network"] == ["wifi": true, "cellular": false])
        #expect(context["os"]["name"] == "AcmeOS")
        #expect(context["screen"]["width"] == 390.0)
        #expect(context["own"] == [1])
    }

    @Test func whatIsNotKnownLeavesTheCallersValue() async throws {
        let analytics = makeAnalytics(source: ManualContextSource())
        analytics.track(name: "A", options: EventOptions(customContext: ["network": ["carrier": "mine"]]))
        let context = try #require(await analytics.settled(destination).last).context
        #expect(context["network"] == ["carrier": "mine"])
    }

    @Test func laterPluginsAddKeysInAndBesideWhatIsThere() async throws {
        let plugin = ClosurePlugin(.enrichment) { event, _ in
            var event = event
            event.context["device"]["token"] = "t"
            event.context["device"]["advertisingId"] = "a"
            event.context["network"]["bluetooth"] = true
            event.context["app"]["channel"] = "beta"
            event.context["userAgent"] = "Shop/1"
            let ids = event.context["externalId"]?.array ?? []
            event.context["externalId"] = .array(ids + [["id": "2", "type": "two"]])
            return event
        }
        let analytics = makeAnalytics(plugins: [plugin])
        analytics.track(name: "A", options: EventOptions(externalIds: [ExternalId(type: "one", id: "1")]))
        let event = try #require(await analytics.delivered(to: transport).last)
        #expect(event["context"]["device"]["model"] == "Phone1,2")
        #expect(event["context"]["device"]["token"] == "t")
        #expect(event["context"]["device"]["advertisingId"] == "a")
        #expect(event["context"]["network"] == ["wifi": true, "cellular": false, "bluetooth": true])
        #expect(event["context"]["app"] == ["name": "Shop", "channel": "beta"])
        #expect(event["context"]["userAgent"] == "Shop/1")
        #expect(event["context"]["externalId"] == [["id": "1", "type": "one"], ["id": "2", "type": "two"]])
    }

    @Test func b77_whatAPluginChangesInOneEventIsNotInTheNext() async {
        let plugin = ClosurePlugin(.enrichment) { event, _ in
            guard event.name == "Changed" else { return event }
            var event = event
            event.context["library"]["name"] = "forged"
            event.context["app"] = nil
            event.context["timezone"] = nil
            event.context["extra"] = 1
            return event
        }
        let analytics = makeAnalytics(plugins: [plugin])
        for name in ["Before", "Changed", "After"] { analytics.track(name: name) }
        let events = await analytics.delivered(to: transport)
        #expect(events[1]["context"]["library"]?["name"] == "forged")
        #expect(events[1]["context"]["app"] == nil)
        var (before, after) = (events[0]["context"], events[2]["context"])
        #expect(before["sessionStart"] == true)
        before["sessionStart"] = nil
        #expect(before != nil)
        #expect(before == after)
        after["extra"] = nil
        #expect(before == after)
    }

    @Test func theContextIsTheSameOnTheWireAndAtOtherDestinations() async throws {
        let analytics = makeAnalytics()
        analytics.track(name: "A", options: EventOptions(customContext: ["own": ["x": 1]]))
        let event = try #require(await analytics.settled(destination).last)
        let sent = try #require(await analytics.delivered(to: transport).last)
        #expect(sent["context"] == .object(event.context))
    }

    @Test func theContextIsAddedInTheEnrichmentStage() async {
        let seen = Locked<[Bool]>([])
        let note: @Sendable (Event, Analytics) -> Event? = { event, _ in
            seen.withLock { $0.append(event.context["library"] != nil) }
            return event
        }
        let plugins = [ClosurePlugin(.before, note), ClosurePlugin(.enrichment, note)]
        let analytics = makeAnalytics(plugins: plugins)
        analytics.track(name: "A")
        await analytics.settled()
        #expect(seen.withLock { $0 } == [false, true])
    }
}
