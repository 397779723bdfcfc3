import Dispatch
import Testing
import Tiller
import TillerTesting

/// When the source is read, on whose thread, and how often.
@Suite(.timeLimit(.minutes(5)))
struct ContextReadingTests {
    private let transport = StubTransport()
    private let destination = RecordingDestination()

    private func makeAnalytics(_ source: any ContextSource, plugins: [any Plugin] = []) -> Analytics {
        var configuration = Configuration.test(transport: transport)
        configuration.contextSource = source
        return Analytics(configuration: configuration, plugins: plugins + [destination])
    }

    private func locale(of analytics: Analytics, _ name: String = "A") async -> JSONValue? {
        analytics.track(name: name)
        return await analytics.settled(destination).last?.context["locale"]
    }

    // MARK: Threads

    @Test func nothingIsReadBeforeTheFirstEventAndNothingOnTheCallersThread() async {
        let source = WatchedContextSource { SystemContext(locale: "\($0)") }
        let made = Locked<Analytics?>(nil)
        await onThreads(1) { _ in
            WatchedContextSource.markCaller()
            made.withLock { $0 = makeAnalytics(source) }
        }
        let analytics = made.withLock { $0.take() }
        await analytics?.settled()
        #expect(source.readings == 0)
        #expect(source.observations == 0)
        await onThreads(1) { _ in
            WatchedContextSource.markCaller()
            for name in ["A", "B", "C"] { analytics?.track(name: name) }
            source.tellChange()
            analytics?.track(name: "D")
        }
        await analytics?.settled()
        #expect(destination.events.count == 4)
        #expect(source.readings >= 1)
        #expect(source.askedOnCallersThread == 0)
    }

    @Test func b89_aSlowLookUpHoldsUpNoCallAndNoOrder() async {
        let opened = DispatchSemaphore(value: 0)
        let source = WatchedContextSource { _ in
            opened.wait()
            return SystemContext(locale: "de-AT")
        }
        let analytics = makeAnalytics(source)
        for index in 0..<5 { analytics.track(name: "\(index)") }
        analytics.identify(userId: "u1")
        // All calls have returned while the look-up is still under way.
        #expect(destination.events.isEmpty)
        opened.signal()
        let events = await analytics.settled(destination)
        #expect(events.map(\.name) == ["0", "1", "2", "3", "4", "identify"])
        #expect(events.allSatisfy { $0.context["locale"] == "de-AT" })
    }

    // MARK: How often

    @Test func theSourceIsReadOnceForAnyNumberOfEvents() async {
        let source = WatchedContextSource { SystemContext(locale: "\($0)") }
        let analytics = makeAnalytics(source)
        for index in 0..<100 { analytics.track(name: "\(index)") }
        let events = await analytics.settled(destination)
        #expect(events.count == 100)
        #expect(events.allSatisfy { $0.context["locale"] == "1" })
        #expect(source.readings == 1)
        #expect(source.observations == 1)
    }

    @Test func aChangeIsInTheNextEventAndIsReadOnce() async {
        let source = WatchedContextSource { SystemContext(locale: "\($0)") }
        let analytics = makeAnalytics(source)
        #expect(await locale(of: analytics) == "1")
        for _ in 0..<50 { source.tellChange() }
        #expect(source.readings == 1)
        #expect(await locale(of: analytics) == "2")
        #expect(await locale(of: analytics) == "2")
        #expect(source.readings == 2)
    }

    @Test func aChangeDuringTheReadingLeadsToAnother() async {
        let itself = Locked<WatchedContextSource?>(nil)
        let source = WatchedContextSource { number in
            if number == 1 { itself.withLock { $0 }?.tellChange() }
            return SystemContext(locale: "\(number)")
        }
        itself.withLock { $0 = source }
        let analytics = makeAnalytics(source)
        #expect(await locale(of: analytics) == "1")
        #expect(await locale(of: analytics) == "2")
        #expect(await locale(of: analytics) == "2")
        itself.withLock { $0 = nil }
    }

    @Test func networkLocaleTimezoneAndScreenFollowTheSource() async {
        var system = SystemContext(locale: "en-US", timezone: "Europe/Vienna")
        let source = ManualContextSource(system)
        let analytics = makeAnalytics(source)
        analytics.track(name: "A")
        await analytics.settled()
        system.network = SystemContext.Network(wifi: false, cellular: true)
        system.screen = SystemContext.Screen(width: 1, height: 2, density: 3)
        system.locale = "de-AT"
        system.timezone = nil
        source.change(to: system)
        #expect(source.read() == system)
        analytics.track(name: "B")
        await analytics.flushed()
        let contexts = transport.events.map { $0["context"] }
        #expect(contexts[0]["network"] == nil)
        #expect(contexts[0]["screen"] == nil)
        #expect(contexts[0]["timezone"] == "Europe/Vienna")
        #expect(contexts[1]["network"] == ["wifi": false, "cellular": true])
        #expect(contexts[1]["screen"] == ["width": 1.0, "height": 2.0, "density": 3.0])
        #expect(contexts[1]["locale"] == "de-AT")
        #expect(contexts[1]["timezone"] == nil)
    }

    @Test func b84_anEventHasOneStateOfANetworkThatChangesMeanwhile() async {
        let states = [
            SystemContext(locale: "on", network: SystemContext.Network(wifi: true, cellular: false)),
            SystemContext(locale: "off", network: SystemContext.Network(wifi: false, cellular: true)),
        ]
        let source = ManualContextSource(states[0])
        let analytics = makeAnalytics(source)
        let count = isUnderThreadSanitizer ? 100 : 1_000
        await onThreads(5) { thread in
            for index in 0..<count {
                if thread == 0 { source.change(to: states[index % 2]) } else { analytics.track(name: "A") }
            }
        }
        let valid: [String: JSONValue] = [
            "on": ["wifi": true, "cellular": false], "off": ["wifi": false, "cellular": true],
        ]
        // More than a recording destination's queue takes may have come at once.
        let events = await analytics.settled(destination)
        #expect(!events.isEmpty)
        #expect(events.allSatisfy { valid[$0.context["locale"]?.string ?? ""] == $0.context["network"] })
        #expect(await locale(of: analytics) == JSONValue.string(source.read().locale ?? ""))
    }

    // MARK: The end

    @Test func observationEndsWithThePluginAndBeginsAnewWithIt() async throws {
        let source = WatchedContextSource { SystemContext(locale: "\($0)") }
        let analytics = makeAnalytics(source)
        let plugin = try #require(analytics.plugin(ofType: ContextPlugin.self))
        #expect(await locale(of: analytics) == "1")
        #expect(source.observers == 1)
        analytics.remove(plugin: plugin)
        await analytics.settled()
        #expect(source.observers == 0)
        #expect(await locale(of: analytics) == nil)
        analytics.add(plugin: plugin)
        #expect(await locale(of: analytics) == "2")  // it may have changed while nobody looked
        #expect(source.observers == 1)
        await analytics.shutdownAndWait()
        #expect(source.observers == 0)
        #expect(source.readings == 2)
    }

    @Test func aSourceKeepsNoPluginAlive() async {
        let source = WatchedContextSource { _ in SystemContext() }
        let weak = Locked<Weak<ContextPlugin>?>(nil)
        do {
            let plugin = ContextPlugin(source: source)
            weak.withLock { $0 = Weak(plugin) }
            _ = plugin.process(Event(.track, name: "A"))
            #expect(source.observers == 1)
        }
        #expect(weak.withLock { $0?.object } == nil)
        #expect(source.observers == 0)
    }

    @Test func instancesWithOneSourceHearOfItsChangesEach() async {
        let source = ManualContextSource(SystemContext(locale: "en-US"))
        let other = RecordingDestination()
        var configuration = Configuration.test()
        configuration.contextSource = source
        let (first, second) = (
            makeAnalytics(source), Analytics(configuration: configuration, plugins: [other])
        )
        for analytics in [first, second] {
            analytics.track(name: "A")
            await analytics.settled()
        }
        await first.shutdownAndWait()
        source.change(to: SystemContext(locale: "de-AT"))
        second.track(name: "B")
        await second.settled()
        #expect(other.events.map { $0.context["locale"] } == ["en-US", "de-AT"])
        #expect(destination.events.map { $0.context["locale"] } == ["en-US"])
    }
}
