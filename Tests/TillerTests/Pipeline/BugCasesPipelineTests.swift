import Foundation
import Testing
import Tiller
import TillerTesting

/// Cases of `bug-cases.md` about concurrency in the pipeline. A number in a name is the case's.
@Suite(.timeLimit(.minutes(5))) struct BugCasesPipelineTests {
    @Test func b81_pluginsComeAndGoWhileEventsAndNoticesAreMade() async {
        let lifecycle = ManualLifecycleSource(isInForeground: true)
        let recorder = RecordingDestination()
        let analytics = Analytics(
            configuration: .test(
                lifecycle: lifecycle, limits: Limits(destinationEvents: .max, destinationBytes: .max)),
            plugins: [recorder])
        let faults = Locked<[String]>([])
        await onThreads(7) { thread in
            switch thread {
            case 0..<4: for call in 0..<1_000 { analytics.track(name: "T\(thread)-\(call)") }
            case 4, 5:
                for round in 0..<200 {
                    let plugin = NameWitness()
                    let name = "plugin \(thread)-\(round)"
                    analytics.track(name: "before \(name)")
                    analytics.add(plugin: plugin)
                    analytics.track(name: "during \(name)")
                    analytics.remove(plugin: plugin)
                    analytics.track(name: "after \(name)")
                    plugin.whenTornDown { names in
                        if !names.contains("during \(name)") { faults.withLock { $0.append("missed during \(name)") } }
                        if names.contains("before \(name)") || names.contains("after \(name)") {
                            faults.withLock { $0.append("saw too much of \(name)") }
                        }
                    }
                }
            default:
                for _ in 0..<500 {
                    lifecycle.background()
                    lifecycle.foreground()
                }
            }
        }
        await analytics.shutdownAndWait()
        #expect(faults.withLock { $0 } == [])
        #expect(recorder.events.count == 5_200)  // four threads, and three for each of 400 plugins
    }

    @Test func b82_countPolicyLosesNoEventAndNoFlush() async {
        let transport = StubTransport()
        let analytics = Analytics(
            configuration: .test(transport: transport, flushPolicies: [CountFlushPolicy(flushAt: 20)]))
        await onThreads(50) { _ in for _ in 0..<200 { analytics.track(name: "T") } }
        await analytics.stored()
        _ = await analytics.flushed()
        #expect(transport.events.count == 10_000)
        let ids = Set(transport.events.compactMap { $0["messageId"]?.string })
        #expect(ids.count == 10_000)
        #expect(analytics.account.delivered == 10_000)
    }

    @Test func b23_eventsLeaveInTheOrderOfTheCallsWhateverFlushes() async {
        let transport = StubTransport()
        let analytics = Analytics(
            configuration: .test(transport: transport, flushPolicies: [CountFlushPolicy(flushAt: 10)]))
        await onThreads(2) { thread in
            if thread == 0 {
                for call in 0..<10_000 { analytics.track(name: "e\(call)") }
            } else {
                for _ in 0..<200 { analytics.flush() }
            }
        }
        _ = await analytics.flushed()
        let names = transport.events.compactMap { $0["event"]?.string }
        let expected = (0..<10_000).map { "e\($0)" }
        #expect(names == expected)
    }
}

/// Remembers the names of the events it saw, until it is torn down.
private final class NameWitness: Plugin {
    private struct State: Sendable {
        var names: Set<String> = []
        var isTornDown = false
        var waiter: (@Sendable (Set<String>) -> Void)?
    }

    let stage = Stage.before
    private let state = Locked(State())

    func process(_ event: Event) -> Event? {
        state.withLock { _ = $0.names.insert(event.name ?? "") }
        return event
    }

    func teardown() {
        let (waiter, names) = state.withLock { state in
            state.isTornDown = true
            return (state.waiter, state.names)
        }
        waiter?(names)
    }

    func whenTornDown(_ body: @escaping @Sendable (Set<String>) -> Void) {
        let names = state.withLock { state -> Set<String>? in
            if !state.isTornDown { state.waiter = body }
            return state.isTornDown ? state.names : nil
        }
        if let names { body(names) }
    }
}
