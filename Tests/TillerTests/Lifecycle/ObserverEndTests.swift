import Testing
import Tiller
import TillerTesting

/// Observers that end others, or the instance, while they are told.
@Suite(.timeLimit(.minutes(5))) struct ObserverEndTests {
    private final class Victim: Plugin, LifecycleObserver {
        let stage = Stage.before
        private let log = Locked<[String]>([])

        var entries: [String] { log.withLock { $0 } }

        func handle(_ event: LifecycleEvent, in analytics: Analytics) { log.withLock { $0.append("\(event)") } }
        func teardown() { log.withLock { $0.append("teardown") } }
    }

    private final class AtBackground: Plugin, LifecycleObserver {
        let stage = Stage.before
        private let body: @Sendable (Analytics) -> Void

        init(_ body: @escaping @Sendable (Analytics) -> Void) { self.body = body }

        func handle(_ event: LifecycleEvent, in analytics: Analytics) { if event == .background { body(analytics) } }
    }

    @Test func observerThatAnotherRemovesIsToldNothingMore() async {
        let lifecycle = ManualLifecycleSource(isInForeground: true)
        let victim = Victim()
        let remover = AtBackground { $0.remove(plugin: victim) }
        let analytics = Analytics(configuration: .test(lifecycle: lifecycle), plugins: [victim, remover])
        lifecycle.background()  // going: the last observer, the remover, hears first
        await analytics.settled()
        #expect(victim.entries == ["foreground", "teardown"])
    }

    @Test func shutdownEndsTheTelling() async {
        let lifecycle = ManualLifecycleSource(isInForeground: true)
        let victim = Victim()
        let analytics = Analytics(
            configuration: .test(lifecycle: lifecycle), plugins: [victim, AtBackground { $0.shutdown() }])
        lifecycle.background()
        await analytics.closed()
        #expect(victim.entries == ["foreground", "teardown"])
    }
}
