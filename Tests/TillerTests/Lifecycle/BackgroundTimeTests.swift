import Foundation
import Testing
import TillerTesting

@testable import Tiller

/// The time that an instance takes for an upload at a background notice, with a system that is a stub.
@Suite(.timeLimit(.minutes(5))) struct BackgroundTimeTests {
    private let transport = StubTransport(.hold)
    private let source = StubSuspendingSource()

    private func instance(_ plugins: [any Plugin] = []) -> Analytics {
        var configuration = Configuration.test(transport: transport)
        configuration.lifecycleSource = source
        return Analytics(configuration: configuration, plugins: plugins)
    }

    private var time: StubBackgroundTime { source.time }

    @Test func b91_theTimeIsGivenBackWhenTheUploadIsOver() async {
        let analytics = instance()
        analytics.track(name: "A")
        source.lifecycle.background()
        await transport.requests(count: 1)
        #expect(time.log == ["begin 1"])
        transport.release()
        await time.entries(count: 2)
        #expect(time.log == ["begin 1", "end 1"])
        #expect(transport.events.count == 1)
        await analytics.shutdownAndWait()
        #expect(time.log == ["begin 1", "end 1"])
    }

    @Test func b91_aFailedUploadGivesTheTimeBackToo() async {
        transport.answerAlways(.status(503))
        let analytics = instance()
        analytics.track(name: "A")
        source.lifecycle.background()
        await time.entries(count: 2)
        #expect(time.log == ["begin 1", "end 1"])
        await analytics.shutdownAndWait()
    }

    @Test func b91_theSystemWantsTheTimeBackFirst() async {
        let analytics = instance()
        analytics.track(name: "A")
        source.lifecycle.background()
        await transport.requests(count: 1)
        time.expire()
        #expect(time.log == ["begin 1", "end 1"])
        time.expire()
        transport.release()
        #expect(await analytics.flushed() != .stopped(reason: ""))
        await analytics.shutdownAndWait()
        #expect(time.log == ["begin 1", "end 1"])
    }

    @Test func b91_timeThatIsUpAtOnceIsGivenBackOnce() async {
        time.isUpAtOnce.withLock { $0 = true }
        transport.release()
        let analytics = instance()
        analytics.track(name: "A")
        source.lifecycle.background()
        await analytics.shutdownAndWait()
        #expect(time.log == ["begin 1", "end 1"])
    }

    @Test func b91_withNothingToSendTheTimeIsGivenBack() async {
        let analytics = instance()
        source.lifecycle.background()
        await time.entries(count: 2)
        #expect(time.log == ["begin 1", "end 1"])
        #expect(transport.requests.isEmpty)
        await analytics.shutdownAndWait()
    }

    @Test func b91_twoNoticesInARowAreOne_twoVisitsAreTwo() async {
        let analytics = instance()
        analytics.track(name: "A")
        source.lifecycle.background()
        source.lifecycle.background()
        await transport.requests(count: 1)
        source.lifecycle.foreground()
        source.lifecycle.background()
        #expect(time.log == ["begin 1", "begin 2"])
        transport.release()
        await time.entries(count: 4)
        #expect(time.log.suffix(2).sorted() == ["end 1", "end 2"])
        await analytics.shutdownAndWait()
        #expect(time.log.count == 4)
    }

    @Test func b91_aShutdownDuringTheUploadGivesTheTimeBackAtItsEnd() async {
        let analytics = instance()
        analytics.track(name: "A")
        source.lifecycle.background()
        await transport.requests(count: 1)
        analytics.shutdown()
        #expect(time.log == ["begin 1"])
        transport.release()
        await analytics.finished()
        await time.entries(count: 2)
        #expect(time.log == ["begin 1", "end 1"])
    }

    @Test func aSystemThatGivesNoTimeStillGetsTheUpload() async {
        time.gives.withLock { $0 = false }
        let analytics = instance()
        analytics.track(name: "A")
        source.lifecycle.background()
        await transport.requests(count: 1)
        transport.release()
        await analytics.shutdownAndWait()
        #expect(time.log == [])
    }

    /// What observers record at the notice is in the upload, and the notice returns while it is under way.
    @Test func whatIsRecordedAtTheNoticeIsUploaded() async {
        let last = ClosureObserver { event, analytics in
            if event == .background { analytics.track(name: "last") }
        }
        let analytics = instance([last])
        source.lifecycle.background()
        await transport.requests(count: 1)
        #expect(transport.events.compactMap { $0["event"]?.string } == ["last"])
        transport.release()
        await analytics.shutdownAndWait()
    }

    // MARK: The store

    /// The upload that was under way at the suspension, and what is recorded afterwards, leave the folder alone.
    @Test func theFolderThatWasGivenUpIsNotTakenBackBeforeTheReturn() async throws {
        let folder = TestFolder()
        var configuration = Configuration.test(storage: .folder(folder.url), transport: transport)
        configuration.lifecycleSource = source
        let analytics = Analytics(configuration: configuration)
        analytics.track(name: "A")
        source.lifecycle.background()
        await transport.requests(count: 1)
        let state = try #require(try FileManager.default.contentsOfDirectory(atPath: folder.path).first)
        let lock = folder.path + "/\(state)/owner.lock"
        #expect(try SystemFiles().isLocked(lock))
        time.expire()
        #expect(try !SystemFiles().isLocked(lock))
        transport.release()
        #expect(await analytics.flushed().wait != nil)
        analytics.track(name: "B")
        #expect(await analytics.flushed().wait != nil)
        #expect(try !SystemFiles().isLocked(lock))
        source.lifecycle.foreground()
        #expect(await analytics.flushed() == .delivered)
        #expect(try SystemFiles().isLocked(lock))
        await analytics.shutdownAndWait()
    }

    /// What it waits for is another's to deliver by now.
    @Test func flushedReturnsThoughTheFolderWasGivenUp() async throws {
        let folder = TestFolder()
        var configuration = Configuration.test(storage: .folder(folder.url), transport: transport)
        configuration.lifecycleSource = source
        configuration.flushPolicies = []
        let analytics = Analytics(
            configuration: configuration, builtIn: [RudderStackDestination(configuration: configuration)])
        await analytics.stored()
        let state = try #require(try FileManager.default.contentsOfDirectory(atPath: folder.path).first)
        let guest = try LogFolder(path: folder.path + "/" + state).open()
        try guest.store(StoreRecord.events(1...5))
        async let result = analytics.flushed()
        await transport.requests(count: 1)
        await analytics.stored()
        source.lifecycle.background()
        await analytics.stored()
        time.expire()
        analytics.flush()
        await analytics.stored()
        transport.release()
        #expect(await result.wait != nil)
        await analytics.shutdownAndWait()
    }

    @Test func theStoreIsToldBeforeTheTimeIsGivenBackUnlessTheAppHasReturned() async {
        let suspension = Suspension(of: source) { [time] in
            time.note("suspend")
        } resume: { [time] in
            time.note("resume")
        }
        let stay = suspension.beginStay()
        stay?.end()
        #expect(time.log == ["begin 1", "suspend", "end 1"])
        suspension.end()
        let second = suspension.beginStay()
        suspension.end()
        second?.end()
        #expect(time.log.suffix(4) == ["resume", "begin 2", "resume", "end 2"])
    }
}

// MARK: - Stubs

private final class StubSuspendingSource: SuspendingLifecycleSource {
    let lifecycle = ManualLifecycleSource(isInForeground: true)
    let time = StubBackgroundTime()

    var backgroundTime: any BackgroundTime { time }

    func observe(_ handler: @escaping @Sendable (LifecycleEvent) -> Void) -> LifecycleObservation {
        lifecycle.observe(handler)
    }
}

/// Notes each beginning and end, by number.
private final class StubBackgroundTime: BackgroundTime {
    private struct State: Sendable {
        var log: [String] = []
        var count = 0
        var expirations: [@Sendable () -> Void] = []
        var waiters: [(count: Int, CheckedContinuation<Void, Never>)] = []
    }

    let gives = Locked(true)
    let isUpAtOnce = Locked(false)
    private let state = Locked(State())

    var log: [String] { state.withLock { $0.log } }

    func begin(_ isUp: @escaping @Sendable () -> Void) -> CancellationToken? {
        guard gives.withLock({ $0 }) else { return nil }
        let number = state.withLock { state in
            state.count += 1
            state.expirations.append(isUp)
            return state.count
        }
        note("begin \(number)")
        if isUpAtOnce.withLock({ $0 }) { isUp() }
        return CancellationToken { self.note("end \(number)") }
    }

    /// The system wants everything back.
    func expire() { for isUp in state.withLock({ $0.expirations }) { isUp() } }

    func note(_ text: String) {
        let reached = state.withLock { state in
            state.log.append(text)
            let count = state.log.count
            let reached = state.waiters.filter { $0.count <= count }.map(\.1)
            state.waiters.removeAll { $0.count <= count }
            return reached
        }
        for waiter in reached { waiter.resume() }
    }

    func entries(count: Int) async {
        await withCheckedContinuation { continuation in
            let isThere = state.withLock { state in
                if state.log.count < count { state.waiters.append((count, continuation)) }
                return state.log.count >= count
            }
            if isThere { continuation.resume() }
        }
    }
}

private final class ClosureObserver: Plugin, LifecycleObserver {
    let stage = Stage.before
    private let body: @Sendable (LifecycleEvent, Analytics) -> Void

    init(_ body: @escaping @Sendable (LifecycleEvent, Analytics) -> Void) { self.body = body }

    func handle(_ event: LifecycleEvent, in analytics: Analytics) { body(event, analytics) }
}
