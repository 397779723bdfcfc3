import Testing
import Tiller
import TillerTesting

/// What plugins, observers and policies may call from where they are called.
@Suite(.timeLimit(.minutes(5))) struct ReentrancyTests {
    private final class KeepsWeakly: Plugin {
        let stage = Stage.enrichment
        let kept = Locked<Weak<Analytics>?>(nil)

        func setup(analytics: Analytics) { kept.withLock { $0 = Weak(analytics) } }
    }

    @Test func pluginThatAPluginAddsCanKeepTheInstanceWeakly() async {
        let late = KeepsWeakly()
        let adding = ClosurePlugin { event, analytics in
            analytics.add(plugin: late)
            return event
        }
        let analytics = Analytics(configuration: .test(), plugins: [adding])
        analytics.track(name: "A")
        await analytics.settled()
        #expect(late.kept.withLock { $0?.object } === analytics)
    }

    @Test func ownPluginsOfADestinationThatAPluginAddsAreSetUp() async {
        let recorder = RecordingDestination()
        let own = WitnessPlugin(.enrichment)
        let adding = ClosurePlugin { event, analytics in
            analytics.add(plugin: recorder)
            return event
        }
        let analytics = Analytics(configuration: .test(), plugins: [adding])
        analytics.track(name: "A")
        await analytics.settled()
        recorder.add(plugin: own)
        analytics.track(name: "B")
        await analytics.settled()
        #expect(own.entries == ["setup", "B"])
    }

    private final class RemovesItself: DestinationPlugin {
        let ownPlugins = OwnPlugins()
        let teardowns = Locked(0)

        func setup(analytics: Analytics) { analytics.remove(plugin: self) }
        func teardown() { teardowns.withLock { $0 += 1 } }
    }

    @Test func destinationThatIsRemovedWhileItIsSetUpIsTornDownOnceWithItsOwnPlugins() async {
        let destination = RemovesItself()
        let own = WitnessPlugin(.enrichment)
        destination.add(plugin: own)
        let analytics = Analytics(configuration: .test(), plugins: [destination])
        await analytics.settled()
        #expect(destination.teardowns.withLock { $0 } == 1)
        #expect(own.entries == ["setup", "teardown"] || own.entries == [])
    }

    private final class ShutsDownInSetup: Plugin {
        let stage = Stage.before

        func setup(analytics: Analytics) { analytics.shutdown() }
    }

    @Test func shutdownInSetupIsNoError() async {
        let logger = RecordingLogger()
        let analytics = Analytics(configuration: .test(logger: logger), builtIn: [], plugins: [ShutsDownInSetup()])
        await analytics.closed()
        #expect(logger.texts(.error) == [])
    }

    private final class ShutsDownAtTerminate: Plugin, LifecycleObserver {
        let stage = Stage.before

        func handle(_ event: LifecycleEvent, in analytics: Analytics) {
            if event == .terminate { analytics.shutdown() }
        }
    }

    @Test func shutdownAtTerminateIsNoError() async {
        let logger = RecordingLogger()
        let lifecycle = ManualLifecycleSource(isInForeground: true)
        let analytics = Analytics(
            configuration: .test(lifecycle: lifecycle, logger: logger), plugins: [ShutsDownAtTerminate()])
        lifecycle.terminate()
        await analytics.closed()
        #expect(logger.texts(.error) == [])
    }

    private final class FlushesWhenAsked: FlushPolicy {
        let asked = Locked(0)
        let analytics = Locked<Weak<Analytics>?>(nil)

        func shouldFlush() -> Bool {
            let count = asked.withLock { asked in
                asked += 1
                return asked
            }
            if count < 100 { analytics.withLock { $0?.object }?.flush() }
            return false
        }
    }

    @Test func policyThatFlushesIsAskedAfterEventsOnly() async {
        let policy = FlushesWhenAsked()
        let transport = StubTransport(.hold)
        let analytics = Analytics(configuration: .test(transport: transport, flushPolicies: [policy]))
        policy.analytics.withLock { $0 = Weak(analytics) }
        analytics.track(name: "A")
        for _ in 0..<200 { await analytics.stored() }
        #expect(policy.asked.withLock { $0 } == 1)
        transport.release()
    }

    @Test func destinationThatComesBackIsNeverInProcessTwiceAtOnce() async {
        let inside = Locked((now: 0, most: 0))
        let stuck = StuckPlugin(.destination)
        let destination = ClosurePlugin(.destination) { event, _ in
            inside.withLock { inside in
                inside.now += 1
                inside.most = max(inside.most, inside.now)
            }
            _ = stuck.process(event)
            inside.withLock { $0.now -= 1 }
            return event
        }
        let analytics = Analytics(configuration: .test(), plugins: [destination])
        analytics.track(name: "A")
        stuck.waitForArrival()
        analytics.remove(plugin: destination)
        analytics.add(plugin: destination)
        analytics.track(name: "B")
        await analytics.stored()
        stuck.open()
        await analytics.settled()
        #expect(inside.withLock { $0.most } == 1)
    }
}
