import Dispatch
import Tiller
import TillerTesting

/// A plugin made of a closure.
final class ClosurePlugin: Plugin {
    let stage: Stage
    private let body: @Sendable (Event, Analytics) -> Event?

    init(_ stage: Stage = .before, _ body: @escaping @Sendable (Event, Analytics) -> Event?) {
        self.stage = stage
        self.body = body
    }

    func process(_ event: Event, in analytics: Analytics) -> Event? { body(event, analytics) }
}

/// A plugin that notes what is done with it.
final class WitnessPlugin: Plugin {
    let stage: Stage
    private let log = Locked<[String]>([])

    init(_ stage: Stage = .before) { self.stage = stage }

    var entries: [String] { log.withLock { $0 } }

    func setup(analytics: Analytics) { note("setup") }

    func process(_ event: Event) -> Event? {
        note(event.name ?? event.kind.rawValue)
        return event
    }

    func reset(_ options: ResetOptions) { note("reset") }
    func flush() { note("flush") }
    func teardown() { note("teardown") }

    private func note(_ text: String) { log.withLock { $0.append(text) } }
}

/// A plugin that is stuck in `process` until it is opened.
final class StuckPlugin: Plugin {
    let stage: Stage
    private let closed = DispatchGroup()
    private let isOpen = Locked(false)
    private let hasArrived = DispatchSemaphore(value: 0)

    init(_ stage: Stage = .before) {
        self.stage = stage
        closed.enter()
    }

    deinit { open() }

    func process(_ event: Event) -> Event? {
        hasArrived.signal()
        closed.wait()
        return event
    }

    func open() {
        if isOpen.withLock({ isOpen in
            defer { isOpen = true }
            return !isOpen
        }) {
            closed.leave()
        }
    }

    /// Waits, blocking, until the pipeline is stuck in it.
    func waitForArrival() { hasArrived.wait() }
}

extension Configuration {
    /// Virtual time, memory, a manual lifecycle, no network, plain bodies: what most tests need.
    static func test(
        lifecycle: ManualLifecycleSource = ManualLifecycleSource(isInForeground: true),
        time: VirtualTime = VirtualTime(), storage: Storage = .memory, transport: StubTransport = StubTransport(),
        logger: any Logger = RecordingLogger(), flushPolicies: [any FlushPolicy] = [],
        session: SessionConfiguration = SessionConfiguration(), limits: Limits = Limits()
    ) -> Configuration {
        Configuration(
            writeKey: "key", dataPlaneUrl: "http://127.0.0.1", gzipEnabled: false, flushPolicies: flushPolicies,
            trackApplicationLifecycleEvents: false, sessionConfiguration: session, logger: logger, logLevel: .debug,
            storage: storage, lifecycleSource: lifecycle, time: time, identifiers: .seeded(1), transport: transport,
            limits: limits)
    }
}
