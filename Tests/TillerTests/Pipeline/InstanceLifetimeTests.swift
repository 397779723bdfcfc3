import Testing
import TillerTesting

@testable import Tiller

/// What becomes of an instance and its plugins after its end, and what instances share.
@Suite(.timeLimit(.minutes(5))) struct InstanceLifetimeTests {
    @Test func instancesOfOneConfigurationHaveIdsOfTheirOwn() async throws {
        let configuration = Configuration(
            writeKey: "k", dataPlaneUrl: "http://127.0.0.1", flushPolicies: [], storage: .memory, time: VirtualTime(),
            transport: StubTransport())
        var events: [Event] = []
        for _ in 0..<2 {
            let recorder = RecordingDestination()
            let analytics = Analytics(configuration: configuration, plugins: [recorder])
            analytics.track(name: "A")
            events.append(try #require(await analytics.settled(recorder).last))
        }
        #expect(events[0].messageId != events[1].messageId)
        #expect(events[0].anonymousId != events[1].anonymousId)
    }

    @Test func refusedSecondDataPlaneIsFreed() async {
        let configuration = Configuration.test()
        let plane: Weak<RudderStackDestination>
        let witness: Weak<WitnessPlugin>
        do {
            let second = RudderStackDestination(configuration: configuration)
            second.add(plugin: WitnessPlugin(.enrichment))
            let plugin = WitnessPlugin()
            plane = Weak(second)
            witness = Weak(plugin)
            let analytics = Analytics(configuration: configuration, plugins: [second, plugin])
            analytics.track(name: "A")
            await analytics.settled()
            await analytics.shutdownAndWait(timeout: .zero)
        }
        await plane.gone()
        await witness.gone()
        #expect(plane.object == nil)
        #expect(witness.object == nil)
    }

    @Test func releasedInstanceIsFreedWithAllItsPluginsAndTimers() async throws {
        let time = VirtualTime()
        let engine: Weak<Engine>
        let witness: Weak<WitnessPlugin>
        let plane: Weak<RudderStackDestination>
        do {
            let plugin = WitnessPlugin()
            let analytics = Analytics(
                configuration: .test(
                    time: time, flushPolicies: [StartupFlushPolicy(), FrequencyFlushPolicy(), CountFlushPolicy()]),
                plugins: [plugin, RecordingDestination()])
            engine = Weak(analytics.engine)
            witness = Weak(plugin)
            plane = Weak(try #require(analytics.plugin(ofType: RudderStackDestination.self)))
            for index in 0..<50 { analytics.track(name: "\(index)") }
            await analytics.settled()
        }
        await engine.gone()
        await witness.gone()
        await plane.gone()
        #expect(engine.object == nil)
        #expect(witness.object == nil)
        #expect(plane.object == nil)
        #expect(time.timerCount == 0)
    }

    @Test func instanceOnTheRealNetworkIsFreed() async throws {
        let plane = try LocalDataPlane()
        let engine: Weak<Engine>
        let destination: Weak<RecordingDestination>
        do {
            let recorder = RecordingDestination()
            let analytics = Analytics(
                configuration: Configuration(
                    writeKey: "k", dataPlaneUrl: plane.url,
                    sessionConfiguration: SessionConfiguration(automaticSessionTracking: true), storage: .memory),
                plugins: [recorder])
            engine = Weak(analytics.engine)
            destination = Weak(recorder)
            analytics.track(name: "A")
            await analytics.flushed()
            await analytics.shutdownAndWait()
        }
        await engine.gone()
        await destination.gone()
        #expect(engine.object == nil)
        #expect(destination.object == nil)
    }

    @Test func shutDownInstanceLetsGoOfItsPlugins() async {
        let witness: Weak<WitnessPlugin>
        let analytics: Analytics
        do {
            let plugin = WitnessPlugin()
            witness = Weak(plugin)
            analytics = Analytics(configuration: .test(), plugins: [plugin])
        }
        await analytics.shutdownAndWait(timeout: .zero)
        await analytics.closed()
        await witness.gone()
        #expect(witness.object == nil)
        #expect(analytics.plugin(ofType: IdentityPlugin.self) == nil)
    }

    @Test func builtInPluginsWorkForTheNextInstance() async {
        let transport = StubTransport()
        let configuration = Configuration.test(transport: transport)
        let builtIn = Analytics.builtInPlugins(for: configuration)
        let first = Analytics(configuration: configuration, builtIn: builtIn)
        first.track(name: "A")
        await first.shutdownAndWait()
        let second = Analytics(configuration: configuration, builtIn: builtIn)
        second.track(name: "B")
        await second.flushed()
        second.track(name: "C")
        second.flush()
        await second.stored()
        await second.shutdownAndWait(timeout: .zero)
        #expect(transport.events.compactMap { $0["event"]?.string } == ["A", "B", "C"])
    }
}
