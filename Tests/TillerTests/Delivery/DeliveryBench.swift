import Testing
import Tiller
import TillerTesting

/// An instance with nothing but an identity and the delivery, so that every timer is the delivery's.
final class DeliveryBench: Sendable {
    let time = WatchedTime()
    let transport: WatchedTransport
    let lifecycle: ManualLifecycleSource
    let logger = RecordingLogger()
    let analytics: Analytics

    init(
        _ policies: [any FlushPolicy] = [], answer: StubTransport.Answer = .status(200), isApp: Bool = true,
        plugins: [any Plugin] = [], _ change: (inout Configuration) -> Void = { _ in }
    ) {
        transport = WatchedTransport(answer)
        lifecycle = ManualLifecycleSource(isInForeground: true, isApp: isApp)
        var configuration = Configuration(
            writeKey: "key", dataPlaneUrl: "https://data.example.com", flushPolicies: policies, logger: logger,
            logLevel: .debug, storage: .memory, lifecycleSource: lifecycle, time: time, identifiers: .seeded(1),
            transport: transport)
        configuration.gzipEnabled = false  // the bytes are looked at
        change(&configuration)
        analytics = Analytics(
            configuration: configuration,
            builtIn: [IdentityPlugin(), RudderStackDestination(configuration: configuration)], plugins: plugins)
    }

    /// Records track events.
    func track(_ names: String...) { for name in names { analytics.track(name: name) } }

    /// The names of the events that were sent, over all requests.
    var sent: [String] { transport.stub.events.names }

    /// The names of the events that were sent, for each request.
    var batches: [[String]] { transport.stub.requests.map { $0.events.names } }

    /// Waits until so many requests were posted.
    func requests(_ count: Int) async { await transport.stub.requests(count: count) }

    /// What becomes of every request: of the names of its events, say.
    func answer(_ answer: @escaping @Sendable (TransportRequest) throws -> TransportResponse) {
        transport.answer(answer)
    }

    /// Waits until a flush has an end.
    @discardableResult func flushed() async -> FlushResult { await analytics.flushed() }

    /// Lets time pass while every attempt fails: each one has its end before the next begins.
    func pass(_ duration: Duration) async {
        let end = time.virtual.now + duration
        while true {
            let count = time.delays.count
            guard time.virtual.runNextTimer(upTo: end) else { break }
            _ = await time.timer(count + 1)
        }
        time.virtual.advance(to: end)
    }

    /// Waits until the next upload has failed, and its wait has begun.
    ///
    /// - Returns: How long that is.
    func failure(_ number: Int) async -> Duration { await time.timer(number) }
}

/// Virtual time that tells what timers were set.
final class WatchedTime: TimeSource {
    private struct State: Sendable {
        var delays: [Duration] = []
        var waiters: [(number: Int, done: CheckedContinuation<Void, Never>)] = []
    }

    let virtual = VirtualTime()
    private let state = Locked(State())

    var wallMilliseconds: Int64 { virtual.wallMilliseconds }
    var continuous: Duration { virtual.continuous }
    var bootIdentity: String? { virtual.bootIdentity }

    func schedule(after delay: Duration, _ action: @escaping @Sendable () -> Void) -> CancellationToken {
        let token = virtual.schedule(after: delay, action)
        let reached = state.withLock { state in
            state.delays.append(delay)
            let count = state.delays.count
            defer { state.waiters.removeAll { $0.number <= count } }
            return state.waiters.filter { $0.number <= count }
        }
        for waiter in reached { waiter.done.resume() }
        return token
    }

    /// How long each timer was set for, in order.
    var delays: [Duration] { state.withLock { $0.delays } }

    /// Waits until so many timers were set.
    ///
    /// - Returns: How long the last of them was set for.
    func timer(_ number: Int) async -> Duration {
        await withCheckedContinuation { done in
            let isThere = state.withLock { state in
                if state.delays.count >= number { return true }
                state.waiters.append((number, done))
                return false
            }
            if isThere { done.resume() }
        }
        return delays[number - 1]
    }
}

/// A stub that tells how many requests were under way at once.
final class WatchedTransport: Transport {
    typealias Answer = @Sendable (TransportRequest) throws -> TransportResponse

    let stub: StubTransport
    private let counts = Locked((now: 0, most: 0))
    private let answer = Locked<Answer?>(nil)

    init(_ answer: StubTransport.Answer) { stub = StubTransport(answer) }

    func answer(_ answer: @escaping Answer) { self.answer.withLock { $0 = answer } }

    var mostAtOnce: Int { counts.withLock { $0.most } }

    func post(_ request: TransportRequest) async throws -> TransportResponse {
        counts.withLock { counts in
            counts.now += 1
            counts.most = max(counts.most, counts.now)
        }
        defer { counts.withLock { $0.now -= 1 } }
        let response = try await stub.post(request)
        return try answer.withLock { $0 }?(request) ?? response
    }
}

extension TransportResponse {
    /// An answer with a text.
    static func status(_ status: Int, _ text: String = "", _ headers: [String: String] = [:]) -> TransportResponse {
        TransportResponse(status: status, headers: headers, body: Array(text.utf8))
    }
}

extension [JSONObject] {
    var names: [String] { compactMap { $0["event"]?.string } }
    var ids: [String] { compactMap { $0["messageId"]?.string } }
}

extension FlushResult {
    /// The end of the wait, in milliseconds since 1970, and why.
    var wait: (until: Int64, reason: String)? {
        if case .waiting(let until, let reason) = self { (until, reason) } else { nil }
    }

    /// All is delivered; it may have been before the call, for a first event is uploaded by itself.
    var leavesNothing: Bool { self == .delivered || self == .nothingWaiting }

    var isStopped: Bool { if case .stopped = self { true } else { false } }

    /// Why something waits.
    var reason: String? {
        switch self {
        case .waiting(_, let reason), .stopped(let reason): reason
        case .delivered, .nothingWaiting: nil
        }
    }
}
