import Dispatch
import Testing
import Tiller
import TillerTesting

/// Many real threads at one instance: nothing lost, nothing twice, nothing torn.
@Suite struct HammerTests {
    static let callsPerThread = isUnderThreadSanitizer ? 4_000 : 100_000
    static let threads = 8

    @Test(.timeLimit(.minutes(10)))
    func eightThreadsLoseNothingAndTearNothing() async {
        let lifecycle = ManualLifecycleSource(isInForeground: true)
        let judge = Judge()
        let configuration = Configuration.test(
            lifecycle: lifecycle, limits: Limits(destinationEvents: .max, destinationBytes: .max))
        let analytics = Analytics(
            configuration: configuration,
            builtIn: Analytics.builtInPlugins(for: configuration).filter { !($0 is RudderStackDestination) },
            plugins: [judge])
        let round = Locked(0)
        await onThreads(Self.threads) { thread in
            letOthersGoFirst()
            for call in 1...Self.callsPerThread {
                analytics.track(name: "T", properties: ["thread": .int(Int64(thread)), "call": .int(Int64(call))])
                if call % 97 == thread {
                    let next = round.withLock { round in
                        round += 1
                        return round
                    }
                    disturb(analytics, lifecycle, next)
                }
                if call % 1_000 == 0 { analytics.waitForDestinations() }
            }
        }
        await analytics.settled()

        let verdict = judge.verdict
        #expect(verdict.faults == [])
        #expect(verdict.callsByThread == Array(repeating: Self.callsPerThread, count: Self.threads))
        #expect(verdict.sessions > Self.callsPerThread / 1_000)
        #expect(analytics.account.inMemory == 0)
        print("hammer: \(verdict.events) events, \(verdict.sessions) sessions, \(verdict.users) users")
    }

    @Test(.timeLimit(.minutes(10)))
    func overfilledMemoryRefusesTheNewestAndCountsThem() async {
        let limit = 1_000
        let gate = StuckPlugin()
        let recorder = RecordingDestination()
        let logger = RecordingLogger()
        let configuration = Configuration.test(
            logger: logger, limits: Limits(memoryEvents: limit, destinationEvents: .max, destinationBytes: .max))
        let analytics = Analytics(configuration: configuration, plugins: [gate, recorder])
        await onThreads(8) { _ in for _ in 0..<1_000 { analytics.track(name: "T") } }
        analytics.identify(userId: "alice")  // finds room
        let accountWhileStuck = analytics.account
        gate.open()
        await analytics.settled()

        #expect(accountWhileStuck.recorded == 8_001)
        #expect(accountWhileStuck.dropped == [.queueFull: 8_000 - limit])
        let tracked = recorder.events.filter { $0.kind == .track }
        #expect(tracked.count == limit)
        // The oldest were kept: their numbers have no gap, for a refused call takes one too.
        #expect(tracked.map(\.sequence) == Array(tracked[0].sequence..<tracked[0].sequence + UInt64(limit)))
        #expect(recorder.events.last?.userId == "alice")
        #expect(analytics.userId == "alice")
        #expect(logger.texts(.error).filter { $0.contains("refused") }.count == 1)
    }

    @Test(.timeLimit(.minutes(10)))
    func identifyTakesEffectEvenBeyondTwiceTheBound() async {
        let gate = StuckPlugin()
        let recorder = RecordingDestination()
        let analytics = Analytics(
            configuration: .test(limits: Limits(memoryEvents: 4)), plugins: [gate, recorder])
        for user in 0..<20 { analytics.identify(userId: "u\(user)") }
        for _ in 0..<100 { analytics.reset() }
        analytics.identify(userId: "last", traits: ["a": 1])
        #expect(analytics.userId == "last")
        gate.open()
        await analytics.settled()
        #expect(recorder.events.count == 8)
        #expect(analytics.account.dropped == [.queueFull: 13])
        await analytics.flushed()
        analytics.track(name: "after")
        await analytics.settled()
        #expect(recorder.events.last?.userId == "last")
    }

    @Test(.timeLimit(.minutes(10)))
    func callsReturnWhileAPluginAndTheTransportAreStuck() async {
        let transport = StubTransport(.hold)
        let gate = StuckPlugin(.enrichment)
        let configuration = Configuration.test(transport: transport, flushPolicies: [CountFlushPolicy(flushAt: 1)])
        let analytics = Analytics(configuration: configuration)
        analytics.track(name: "first")
        await transport.requests(count: 1)
        analytics.add(plugin: gate)
        for _ in 0..<1_000 { analytics.track(name: "T") }
        analytics.identify(userId: "alice")
        analytics.reset()
        analytics.flush()
        #expect(analytics.account.recorded == 1_002)
        #expect(analytics.account.inMemory == 1_002)
        gate.open()
        transport.release()
        #expect(await analytics.flushed() == .delivered)
        #expect(analytics.account.delivered == 1_002)
        #expect(transport.events.count == 1_002)
    }
}

/// Everything that changes who and in which session, with names that tell what belongs together.
private func disturb(_ analytics: Analytics, _ lifecycle: ManualLifecycleSource, _ round: Int) {
    let user = "user-\(round)"
    switch round % 6 {
    case 0: analytics.identify(userId: user, traits: ["of": .string(user)])
    case 1: analytics.startSession()
    case 2: lifecycle.background()
    case 3: analytics.reset()
    case 4: lifecycle.foreground()
    default: analytics.identify(userId: user, traits: ["of": .string(user)])
    }
}

extension Analytics {
    /// Blocks this thread until every destination has processed what was recorded before.
    fileprivate func waitForDestinations() {
        let done = DispatchSemaphore(value: 0)
        whenSettled { done.signal() }
        done.wait()
    }
}

/// A destination that judges each event as it comes.
private final class Judge: Plugin {
    struct Verdict: Sendable {
        var faults: [String] = []
        var events = 0
        var callsByThread = Array(repeating: 0, count: HammerTests.threads)
        var sessions: Int { anonymousIdOfSession.count }
        var users: Int { anonymousIdOfUser.count }
        fileprivate var lastSequence: UInt64 = 0
        fileprivate var anonymousIdOfSession: [UInt64: String] = [:]
        fileprivate var anonymousIdOfUser: [String: String] = [:]
    }

    let stage = Stage.destination
    private let state = Locked(Verdict())

    var verdict: Verdict { state.withLock { $0 } }

    func process(_ event: Event) -> Event? {
        state.withLock { Self.judge(event, &$0) }
        return event
    }

    private static func judge(_ event: Event, _ state: inout Verdict) {
        func fault(_ text: String) { if state.faults.count < 5 { state.faults.append("\(event.sequence): \(text)") } }
        state.events += 1
        if event.sequence <= state.lastSequence { fault("out of order") }
        state.lastSequence = event.sequence
        if let thread = event.properties["thread"]?.int, let call = event.properties["call"]?.int {
            state.callsByThread[Int(thread)] += 1
            if state.callsByThread[Int(thread)] != call { fault("call \(call) of thread \(thread) is not the next") }
        }
        // Traits name their user, and only a known user has any.
        if event.context["traits"]["of"]?.string != event.userId { fault("traits of another user") }
        let anonymousId = event.anonymousId ?? ""
        if let user = event.userId,
            state.anonymousIdOfUser.updateValue(anonymousId, forKey: user) ?? anonymousId != anonymousId
        {
            fault("\(user) with another anonymous id")
        }
        guard let session = event.sessionId else { return }
        // A new session comes with each reset, so that none spans two anonymous ids; its first event bears the mark.
        let known = state.anonymousIdOfSession.updateValue(anonymousId, forKey: session)
        if known ?? anonymousId != anonymousId { fault("session \(session) of two identities") }
        if event.isSessionStart != (known == nil) { fault("start mark of \(session) is wrong") }
    }
}
