import Foundation
import Testing
import Tiller
import TillerTesting

/// What is in the store when a process goes, whose it is, and a store that is ended out of order.
@Suite(.timeLimit(.minutes(5))) struct StoreLifeTests {
    @Test func prepareThatComesAfterTheCloseEndsNothing() async {
        await #expect(processExitsWith: .success) {
            let folder = TestFolder()
            for _ in 0..<3 {
                let store = try openEventLog(folder: folder.path, logger: RecordingLogger())
                guard store.isOwned else { throw CancellationError() }
                store.close()  // what the pipeline does ...
                store.prepareToClose()  // ... before the shutdown comes to this
            }
        }
    }

    @Test func whatTheNoticeOfABackgroundSavedIsStoredWhenItReturns() async {
        for _ in 0..<20 {
            let time = VirtualTime()
            let store = ScriptedStore()
            let lifecycle = ManualLifecycleSource(isInForeground: true)
            let analytics = Analytics(configuration: .test(lifecycle: lifecycle, time: time, storage: .custom(store)))
            await analytics.stored()
            time.advance(by: .seconds(20))
            lifecycle.background()
            let killed = store.afterKill()
            await analytics.stored()
            #expect(killed.objects == store.objects)
        }
    }

    @Test func loadBesideASaveLosesNothing() async throws {
        var big = JSONObject()
        for index in 0..<100 { big["k\(index)"] = .string(String(repeating: "x", count: 150)) }
        for _ in 0..<(isUnderThreadSanitizer ? 3 : 10) {
            let folder = TestFolder()
            let file = folder.url.appendingPathComponent("checkpoint.json")
            let maker = try openEventLog(folder: folder.path, logger: RecordingLogger())
            try maker.save([StateChange(key: "Big", changes: big)])
            maker.endWriting()
            maker.close()
            let valid = try Data(contentsOf: file)
            try Data("garbage".utf8).write(to: file)
            let store = try openEventLog(folder: folder.path, logger: RecordingLogger())
            try valid.write(to: file)
            await onThreads(2) { index in
                if index == 0 {
                    _ = store.load("Big")
                } else {
                    try? store.save([StateChange(key: "IdentityPlugin", changes: ["userId": "u"])])
                }
            }
            try store.save([StateChange(key: "Other", changes: ["a": 1])])
            store.close()
            let next = try openEventLog(folder: folder.path, logger: RecordingLogger())
            #expect(next.load("IdentityPlugin").object == ["userId": "u"])
            #expect(next.load("Big").object == big)
            next.close()
        }
    }

    private enum ModuleA {
        final class Counter: CapturingPlugin {
            struct State: Sendable { var count: Int64 = 0 }

            let stage = Stage.before

            func restore(_ stored: Stored, present: State?, in section: inout Section) -> State {
                if case .value(let value) = stored { State(count: value["count"]?.int ?? -1) } else { State() }
            }

            func capture(_ event: inout Event, state: inout State, in section: inout Section) {
                state.count += 1
                section.save(["count": .int(state.count)])
            }
        }
    }

    private enum ModuleB {
        final class Counter: CapturingPlugin {
            struct State: Sendable {}

            let stage = Stage.before

            func restore(_ stored: Stored, present: State?, in section: inout Section) -> State { State() }

            func capture(_ event: inout Event, state: inout State, in section: inout Section) {
                section.save(["count": "text"])
            }
        }
    }

    @Test func pluginsOfTheSameNameShareNoState() async {
        let store = MemoryStateStore()
        let analytics = Analytics(
            configuration: .test(storage: .custom(store)), plugins: [ModuleA.Counter(), ModuleB.Counter()])
        analytics.track(name: "A")
        await analytics.shutdownAndWait(timeout: .zero)
        let next = Analytics(
            configuration: .test(storage: .custom(store)), plugins: [ModuleA.Counter(), ModuleB.Counter()])
        #expect(next.read(ModuleA.Counter.self) { state, _ in state.count } == 1)
    }
}
