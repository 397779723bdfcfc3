import Foundation
import Testing
import Tiller
import TillerTesting

/// Public reports about lifecycle events, as tests (`bug-cases.md` J). What a platform's notices become is the source's
/// business: here stand the changes that it tells.
@Suite(.timeLimit(.minutes(5)))
struct BugCasesLifecycleTests {
    private let source = ManualLifecycleSource()
    private let time = VirtualTime()
    private let transport = StubTransport()

    private func launch(
        on store: any StateStore = ScriptedStore(), application: ApplicationInfo = ApplicationInfo(version: "1.10")
    ) -> Analytics {
        var configuration = Configuration.test(
            lifecycle: source, time: time, storage: .custom(store), transport: transport)
        configuration.trackApplicationLifecycleEvents = true
        configuration.application = application
        return Analytics(configuration: configuration)
    }

    private func names(_ analytics: Analytics) async -> [String] {
        await analytics.delivered(to: transport).compactMap { $0["event"]?.string?.replacing("Application ", with: "") }
    }

    @Test func b102_openedIsSentOnceOnAColdStart() async {
        let analytics = launch()
        source.foreground()
        source.foreground()
        source.background()
        source.foreground()
        source.foreground()
        #expect(await names(analytics) == ["Installed", "Opened", "Backgrounded", "Opened"])
        #expect(transport.events[1]["properties"] == ["from_background": false, "version": "1.10"])
        #expect(transport.events[3]["properties"] == ["from_background": true])
    }

    @Test func b103_withoutARealChangeNothingIsSent() async {
        let analytics = launch()
        source.background()
        source.foreground()
        source.foreground()
        for name in ["One", "Two", "Three"] { analytics.screen(screenName: name) }
        source.background()
        source.background()
        #expect(await names(analytics) == ["Installed", "Opened", "One", "Two", "Three", "Backgrounded"])
    }

    @Test func b105_anInstanceMadeBeforeTheAppIsActiveTellsAtTheFirstActivation() async {
        let analytics = launch()
        #expect(await names(analytics) == [])
        source.foreground()
        #expect(await names(analytics) == ["Installed", "Opened"])
    }

    @Test func b106_installedComesBeforeOpenedAndBothBeforeTheFirstCall() async {
        source.foreground()
        let analytics = launch()
        analytics.track(name: "first")
        #expect(await names(analytics) == ["Installed", "Opened", "first"])
        let contexts = transport.events.map { $0["context"] }
        #expect(contexts.map { $0["sessionStart"] } == [true, nil, nil])
        #expect(contexts.allSatisfy { $0["sessionId"]?.uint == analytics.sessionId })
        let properties = transport.events[1]["properties"]
        #expect(properties["from_background"] == false)
    }

    @Test(arguments: ["42", "1.2.3", nil])
    func b107_versionAndBuildAreTheSameTextEverywhere(build: String?) async throws {
        let expected = build.map { JSONValue.string($0) }
        let store = ScriptedStore()
        source.foreground()
        let first = launch(on: store, application: ApplicationInfo(version: "1.9", build: build))
        await first.flushed()
        first.shutdown()
        let second = launch(on: store.afterKill(), application: ApplicationInfo(version: "1.10", build: build))
        #expect(await names(second) == ["Installed", "Opened", "Updated", "Opened"])
        let events = transport.events
        #expect(events[0]["properties"]["version"] == "1.9")
        #expect(events[0]["properties"]["build"] == expected)
        #expect(events[2]["properties"]["version"] == "1.10")
        #expect(events[2]["properties"]["build"] == expected)
        #expect(events[2]["properties"]["previous_version"] == "1.9")
        #expect(events[2]["properties"]["previous_build"] == expected)
        #expect(events[3]["properties"]["version"] == "1.10")
        #expect(events.map { $0["context"]["app"]["version"] } == ["1.9", "1.9", "1.10", "1.10"])
        #expect(events.allSatisfy { $0["context"]["app"]["build"] == expected })
    }

    @Test func b108_fromBackgroundIsFalseTrueFalse() async {
        let store = ScriptedStore()
        source.foreground()
        let first = launch(on: store)
        source.background()
        source.foreground()
        await first.flushed()
        let second = launch(on: store.afterKill())
        await second.flushed()
        let opened = transport.events.filter { $0["event"] == "Application Opened" }
        #expect(opened.map { $0["properties"]["from_background"] } == [false, true, false])
    }

    @Test func b109_aLaunchThatNobodySeesOpensNothing() async {
        let analytics = launch()
        time.advance(by: .seconds(5 * 3_600))
        #expect(await analytics.flushed() == .nothingWaiting)
        source.foreground()
        #expect(await names(analytics) == ["Installed", "Opened"])
        #expect(
            transport.events.map { $0["originalTimestamp"] } == Array(repeating: "2025-02-25T11:06:37.000Z", count: 2))
    }

    @Test(
        arguments: [
            ("app://open", [:]),
            ("app://open?", [:]),
            ("app://x/p%20q?a=b%20c&d=%C3%BC%26", ["a": "b c", "d": "ü&"]),
            ("app://x?tag=one&tag=two&tag=three&flag&empty=", ["tag": ["one", "two", "three"], "empty": ""]),
            ("app://x?url=mine&a=1#frag?b=2", ["a": "1"]),
            ("https://example.com/%E6%97%A5?k=%F0%9F%91%8D", ["k": "👍"]),
        ] as [(String, JSONValue)])
    func b110_aDeepLinkIsOneEventWithItsExactText(text: String, query: JSONValue) async throws {
        source.foreground()
        let analytics = launch()
        let url = try #require(URL(string: text))
        await analytics.flushed()
        analytics.open(url: url)
        let events = await analytics.delivered(to: transport)
        var expected = try #require(query.object)
        expected["url"] = .string(text)
        #expect(events.count == 3)
        #expect(events.last?["event"] == "Deep Link Opened")
        #expect(events.last?["type"] == "track")
        #expect(events.last?["properties"] == .object(expected))
    }

    @Test func b110_textThatIsNoCorrectQueryCostsTheQueryOnly() async throws {
        let analytics = launch()
        for text in ["app://x?a=%", "app://x?a=%FF&b=1", "mailto:a@example.com?subject=x", "x", "app://[::1"] {
            guard let url = URL(string: text) else { continue }
            analytics.open(url: url, options: ["referrer": "mail"])
            let event = await analytics.delivered(to: transport).last
            #expect(event?["properties"]["url"]?.string == url.absoluteString)
            #expect(event?["properties"]["referrer"] == "mail")
        }
    }

    @Test func b110_theCallersOptionsWinOverTheQuery() async throws {
        let analytics = launch()
        let url = try #require(URL(string: "app://x?a=1&b=2"))
        analytics.open(url: url, options: ["a": "mine", "url": "shorter"])
        let event = await analytics.delivered(to: transport).last
        #expect(event?["properties"] == ["a": "mine", "b": "2", "url": "shorter"])
    }
}
