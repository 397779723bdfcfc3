import Dispatch
import Foundation
import Testing
import Tiller
import TillerTesting

/// What surrounds every event (`DECISIONS.md` 33).
@Suite(.timeLimit(.minutes(5)))
struct ContextPluginTests {
    private let transport = StubTransport()
    private let destination = RecordingDestination()

    private func makeAnalytics(
        _ application: ApplicationInfo = ApplicationInfo(name: "Shop"), plugins: [any Plugin] = []
    ) -> Analytics {
        var configuration = Configuration.test(transport: transport)
        configuration.application = application
        return Analytics(configuration: configuration, plugins: plugins + [destination])
    }

    private func context(of analytics: Analytics) async throws -> JSONObject {
        analytics.track(name: "A")
        return try #require(await analytics.settled(destination).last).context
    }

    @Test func everyEventHasLibraryLocaleAndTimezone() async throws {
        let context = try await context(of: makeAnalytics())
        #expect(context["library"] == ["name": "tiller-swift", "version": .string(Analytics.version)])
        #expect(context["timezone"]?.string == TimeZone.current.identifier)
        #expect(context["locale"]?.string == Locale.current.identifier(.bcp47))
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

    @Test func noHardwareIdentifierAndNoHostNameIsSent() async throws {
        let analytics = makeAnalytics()
        analytics.track(name: "A")
        await analytics.flushed()
        let body = String(decoding: try #require(transport.requests.last).body, as: UTF8.self)
        #expect(!body.contains(ProcessInfo.processInfo.hostName))
        let context = try await context(of: analytics)
        #expect(context["device"] == nil)
        #expect(context["network"] == nil)
    }

    @Test func theContextWinsOverTheCallersButNotOverLaterPlugins() async throws {
        let plugin = ClosurePlugin(.enrichment) { event, _ in
            var event = event
            event.context["timezone"] = "Mars/Olympus"
            return event
        }
        let analytics = makeAnalytics(plugins: [plugin])
        analytics.track(
            name: "A", options: EventOptions(customContext: ["timezone": "mine", "app": "mine", "own": [1]]))
        let context = try #require(await analytics.settled(destination).last).context
        #expect(context["timezone"] == "Mars/Olympus")
        #expect(context["app"] == ["name": "Shop"])
        #expect(context["own"] == [1])
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
        #expect(event["context"]["device"] == ["token": "t", "advertisingId": "a"])
        #expect(event["context"]["network"] == ["bluetooth": true])
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

    @Test func nothingIsReadOnTheCallersThread() async {
        let isCallers = Locked<[Bool]>([])
        let plugin = ClosurePlugin(.enrichment) { event, _ in
            let isMarked = Thread.current.threadDictionary["caller"] != nil
            isCallers.withLock { $0.append(isMarked) }
            return event
        }
        let analytics = makeAnalytics(plugins: [plugin])
        await onThreads(1) { _ in
            Thread.current.threadDictionary["caller"] = true
            analytics.track(name: "A")
        }
        await analytics.settled()
        #expect(isCallers.withLock { $0 } == [false])
    }

    @Test func b89_aSlowLookUpHoldsUpNoCallAndNoOrder() async {
        let slow = StuckPlugin(.enrichment)
        let analytics = makeAnalytics(plugins: [slow])
        for index in 0..<5 { analytics.track(name: "\(index)") }
        analytics.identify(userId: "u1")
        // All calls have returned while the look-up is still under way.
        #expect(destination.events.isEmpty)
        slow.open()
        #expect(await analytics.settled(destination).map(\.name) == ["0", "1", "2", "3", "4", "identify"])
    }
}
