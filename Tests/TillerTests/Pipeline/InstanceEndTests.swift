import Foundation
import Testing
import TillerTesting

@testable import Tiller

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#endif

/// The end of an instance and the waits for it, also where something is stuck.
@Suite(.timeLimit(.minutes(5))) struct InstanceEndTests {
    private let folder = TestFolder()
    private let transport = StubTransport()
    private let time = VirtualTime()

    private func instance(_ transport: StubTransport? = nil, _ plugins: [any Plugin] = []) -> Analytics {
        Analytics(
            configuration: .test(time: time, storage: .folder(folder.url), transport: transport ?? self.transport),
            plugins: plugins)
    }

    /// Lets a wait's time pass when it has begun.
    private func pass(_ duration: Duration) async {
        let end = time.now + duration
        while time.nextTimer != end { await Task.yield() }
        time.advance(by: duration)
    }

    // MARK: What was recorded before

    @Test func b158_whatWasRecordedBeforeAShutdownIsDeliveredOnceByEitherInstance() async {
        let first = instance()
        for number in 0..<100 { first.track(name: "\(number)") }
        first.shutdown()
        let second = instance()
        second.flush()
        #expect(await second.shutdownAndWait(timeout: .seconds(60)) == 0)
        await first.shutdownAndWait(timeout: .seconds(60))
        // On a machine where the first needs more than a second to let go of the folder, neither may upload any more.
        let third = instance()
        await third.flushed()
        #expect(await third.shutdownAndWait(timeout: .seconds(60)) == 0)
        #expect(transport.events.names == (0..<100).map { "\($0)" })
        first.track(name: "late")
        #expect(first.anonymousId == nil)
    }

    @Test func b158_callsThatRaceWithAShutdownFromFourThreadsAreTakenOrRefusedWhole() async {
        let analytics = instance()
        await onThreads(8) { thread in
            for number in 0..<50 {
                if thread < 4 { analytics.track(name: "\(thread).\(number)") } else { analytics.shutdown() }
            }
        }
        #expect(await analytics.shutdownAndWait(timeout: .seconds(60)) == 0)
        let account = analytics.account
        #expect(transport.events.count == account.recorded)
        #expect(account.inMemory == 0)
        // Of each thread the first ones, without a gap.
        for thread in 0..<4 {
            let numbers = transport.events.names.filter { $0.hasPrefix("\(thread).") }
            #expect(numbers == (0..<numbers.count).map { "\(thread).\($0)" })
        }
    }

    @Test func b158_aFlushAShutdownAndAnExitAtOnceLoseNothing() async {
        let folder = TestFolder(name: "exit-after-shutdown")
        try? FileManager.default.removeItem(at: folder.url)
        await #expect(processExitsWith: .exitCode(7)) {
            let analytics = Analytics(
                configuration: .test(
                    storage: .folder(TestFolder(name: "exit-after-shutdown").url), transport: StubTransport(.hold)))
            ProcessExit.bound.withLock { $0 = .seconds(60) }
            for number in 0..<100 { analytics.track(name: "\(number)") }
            analytics.flush()
            analytics.shutdown()
            exit(7)
        }
        let next = Analytics(configuration: .test(storage: .folder(folder.url), transport: transport))
        #expect(await next.flushed() == .delivered)
        #expect(transport.events.names == (0..<100).map { "\($0)" })
        await next.shutdownAndWait()
    }

    // MARK: Where something is stuck

    @Test func aStuckPluginHoldsUpNoShutdownForLongerThanItsTime() async {
        let stuck = StuckPlugin()
        let analytics = instance(nil, [stuck])
        analytics.track(name: "A")
        async let left = analytics.shutdownAndWait(timeout: .seconds(5))
        await pass(.seconds(5))
        #expect(await left == 1)
        stuck.open()
        #expect(await analytics.shutdownAndWait(timeout: .seconds(60)) == 0)
        #expect(transport.events.names == ["A"])
    }

    @Test func aTransportThatDoesNotAnswerHoldsUpNoShutdownForLongerThanItsTime() async {
        let silent = StubTransport(.hold)
        let analytics = instance(silent)
        analytics.track(name: "A")
        analytics.flush()
        await silent.requests(count: 1)
        async let left = analytics.shutdownAndWait(timeout: .seconds(5))
        await pass(.seconds(5))
        #expect(await left == 1)
        silent.release()
        #expect(await analytics.shutdownAndWait(timeout: .seconds(60)) == 0)
    }

    @Test func allThatWaitForOneEndAreTold() async {
        let analytics = instance()
        for number in 0..<100 { analytics.track(name: "\(number)") }
        let left = await withTaskGroup(of: Int.self) { group in
            for _ in 0..<8 { group.addTask { await analytics.shutdownAndWait(timeout: .seconds(60)) } }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(left == Array(repeating: 0, count: 8))
        #expect(await analytics.stored() == .stored)
        #expect(await analytics.flushed() == .nothingWaiting)
    }

    @Test func waitsEndWhenTheirTaskIsCancelled() async {
        let stuck = StuckPlugin()
        let analytics = instance(nil, [stuck])
        analytics.track(name: "A")
        let storing = Task { await analytics.stored() }
        let flushing = Task { await analytics.flushed() }
        storing.cancel()
        flushing.cancel()
        #expect(await storing.value == .inMemory)
        #expect(await flushing.value.wait?.reason == "the task was cancelled")
        let ending = Task { await analytics.shutdownAndWait(timeout: .seconds(60)) }
        ending.cancel()
        #expect(await ending.value == 1)
        stuck.open()
        #expect(await analytics.stored() == .stored)
        #expect(await analytics.shutdownAndWait(timeout: .seconds(60)) == 0)
        #expect(transport.events.names == ["A"])
    }

    @Test func aFlushThatGetsNoAnswerEndsWhenItsTaskIsCancelled() async {
        let silent = StubTransport(.hold)
        let analytics = instance(silent)
        analytics.track(name: "A")
        let flushing = Task { await analytics.flushed() }
        await silent.requests(count: 1)
        flushing.cancel()
        #expect(await flushing.value.wait?.reason == "the task was cancelled")
        silent.release()
        #expect(await analytics.flushed() == .nothingWaiting || transport.events.isEmpty)
        await analytics.shutdownAndWait(timeout: .seconds(60))
        #expect(silent.events.names == ["A"])
    }

    // MARK: At the start and at the end of the process

    @Test func b161_aShutdownOnTheLineAfterTheStartIsAnEnd() async {
        await onThreads(4) { _ in
            for _ in 0..<25 {
                let analytics = Analytics(configuration: .test())
                analytics.shutdown()
            }
        }
        let analytics = Analytics(configuration: .test())
        #expect(await analytics.shutdownAndWait(timeout: .seconds(60)) == 0)
        #expect(analytics.account.inMemory == 0)
    }

    @Test func b161_anInstanceMayEndAndBeginInAnExitHandler() async {
        await #expect(processExitsWith: .exitCode(7)) {
            Kept.instance.withLock { $0 = Analytics(configuration: .test()) }
            atexit {
                let instance = Kept.instance.withLock { $0 }
                instance?.track(name: "A")
                instance?.shutdown()
                let late = Analytics(configuration: .test())
                late.track(name: "B")
                late.shutdown()
                Kept.instance.withLock { $0 = late }
            }
            exit(7)
        }
        // Registered before ours: it runs after it.
        await #expect(processExitsWith: .exitCode(7)) {
            atexit {
                let late = Analytics(configuration: .test())
                late.track(name: "B")
                Kept.instance.withLock { $0 = late }
            }
            Kept.instance.withLock { $0 = Analytics(configuration: .test()) }
            exit(7)
        }
    }

    // MARK: What is left of it

    @Test func b160_ofAHundredInstancesNothingIsLeft() async {
        await #expect(processExitsWith: .exitCode(7)) {
            let lifecycle = ManualLifecycleSource(isInForeground: true)
            let time = VirtualTime()
            let transport = StubTransport()
            let folder = TestFolder()
            var afterTen: (threads: Int, descriptors: Int) = (0, 0)
            for number in 0..<100 {
                let engine: Weak<Engine>
                do {
                    let analytics = Analytics(
                        configuration: .test(
                            lifecycle: lifecycle, time: time, storage: .folder(folder.url), transport: transport,
                            flushPolicies: [StartupFlushPolicy(), FrequencyFlushPolicy(), CountFlushPolicy()]),
                        plugins: [ClosurePlugin { event, _ in event }, RecordingDestination()])
                    engine = Weak(analytics.engine)
                    analytics.track(name: "A")
                    await analytics.shutdownAndWait(timeout: .seconds(60))
                }
                await engine.gone()
                if number == 9 { afterTen = (Resources.threads, Resources.descriptors) }
            }
            let requests = transport.requests.count
            lifecycle.background()
            lifecycle.foreground()
            lifecycle.terminate()
            guard transport.events.count == 100, transport.requests.count == requests else { exit(1) }
            guard time.timerCount == 0 else { exit(2) }
            // Dispatch's own come and go.
            guard Resources.descriptors <= afterTen.descriptors + 3 else { exit(3) }
            guard Resources.threads <= afterTen.threads + 3 else { exit(4) }
            exit(7)
        }
    }
}

private enum Kept {
    static let instance = Locked<Analytics?>(nil)
}
