public import Foundation
import Tiller

extension SessionScenario {
    /// Where a scenario's processes keep their state.
    public enum Store: Sendable {
        /// In memory, handed from process to process.
        case memory
        /// In the SDK's own files below a folder, opened anew by each process.
        case folder(URL)
    }

    /// What a run showed.
    public struct Outcome: Sendable {
        /// What was seen at each step that was reached.
        public internal(set) var rows: [Row] = []
        /// The labels that were bound, and the ids behind them, in order.
        public internal(set) var sessions: [(label: String, id: UInt64)] = []
        /// The first expectation that did not hold; `nil`: all did.
        public internal(set) var failure: Failure?
    }

    /// What was seen at a step.
    public struct Row: Sendable, Hashable {
        /// Since the beginning.
        public let time: Duration
        /// What happened: the step as written, or the name of an event that the SDK sent by itself.
        public let text: String
        /// Whether the SDK sent it by itself.
        public let isEmission: Bool
        /// What an event or the getter showed; `nil` for other steps.
        public let seen: Expectation?
    }

    /// An expectation that did not hold.
    public struct Failure: Sendable, Hashable {
        /// The line of the file; 0 if there is none.
        public let line: Int
        /// The step as written.
        public let step: String
        /// What was expected.
        public let expected: String
        /// What was seen.
        public let seen: String
    }

    /// Runs the scenario with the real SDK under a virtual clock.
    ///
    /// - Parameters:
    ///   - store: Where state is kept from process to process; memory by default.
    ///   - checks: Whether expectations are checked; without, the run goes on to the end and `rows` tells what happened.
    /// - Returns: What was seen.
    public func run(store: Store = .memory, checks: Bool = true) async -> Outcome {
        var run = ScenarioRun(scenario: self, store: store, checks: checks)
        await run.run()
        return run.outcome
    }
}

/// A run under way.
private struct ScenarioRun {
    let scenario: SessionScenario
    let checks: Bool
    var outcome = SessionScenario.Outcome()

    private let store: SessionScenario.Store
    private let memory = MemoryStateStore()
    private let time: VirtualTime
    private var settings: SessionScenario.Settings
    private var process: Process?
    private var labels: ScenarioLabels
    /// Events that have been made and not been looked at: in order, those of `hold` wait here.
    private var expected: [Expected] = []

    /// A process with the SDK in it.
    private struct Process {
        let analytics: Analytics
        let lifecycle: ManualLifecycleSource
        let destination: RecordingDestination
        let gate: Gate
        let store: MortalStore
        var seen = 0
        var isShutDown = false
    }

    /// An event that a step makes.
    private struct Expected {
        let step: SessionScenario.Step
        let line: Int
        let text: String
        let isEmission: Bool
        let expectation: SessionScenario.Expectation?
        let matches: @Sendable (Event) -> Bool
    }

    init(scenario: SessionScenario, store: SessionScenario.Store, checks: Bool) {
        self.scenario = scenario
        self.store = store
        self.checks = checks
        settings = scenario.settings
        labels = ScenarioLabels(bindsFreely: !checks)
        time = VirtualTime(wallMilliseconds: scenario.wallMilliseconds)
    }

    mutating func run() async {
        for step in scenario.steps {
            await pass(to: step.time)
            if let problem = await perform(step) {
                fail(step.line, step.text, expected: problem.expected, seen: problem.seen)
            }
            if outcome.failure != nil { break }
            expect(step)
            if process?.gate.isHolding != true { await look(at: step) }
            if outcome.failure != nil { break }
        }
        await end()
        outcome.sessions = labels.bound
    }

    /// Lets time pass; what a timer does has been stored before the next one runs.
    private func pass(to instant: Duration) async {
        while time.runNextTimer(upTo: instant) { await quiesce() }
        time.advance(to: instant)
    }

    private func quiesce() async {
        guard let process, !process.isShutDown, !process.gate.isHolding else { return }
        await process.analytics.settled()
    }

    private mutating func fail(_ line: Int, _ step: String, expected: String, seen: String) {
        guard outcome.failure == nil else { return }
        outcome.failure = SessionScenario.Failure(line: line, step: step, expected: expected, seen: seen)
    }
}

// MARK: - Steps

extension ScenarioRun {
    private struct Problem {
        let expected: String
        let seen: String
    }

    private mutating func perform(_ step: SessionScenario.Step) async -> Problem? {
        switch step.action {
        case .launch(let inForeground, let change): return await launch(inForeground, change)
        case .setClock(let shift):
            time.setWallClock(by: shift)
            return nil
        case .reboot:
            guard process == nil else { return Problem(expected: "no process at a reboot", seen: "one is running") }
            time.reboot()
            return nil
        default: break
        }
        guard let process else { return Problem(expected: "a launch before this step", seen: "no process is running") }
        switch step.action {
        case .kill: await end()
        case .terminate(let survived):
            process.lifecycle.terminate()
            if !survived {
                await quiesce()
                await end()
            }
        case .shutdown:
            process.analytics.shutdown()
            process.gate.open(dropping: false)
            await process.analytics.finished()
            self.process?.isShutDown = true
        case .hold:
            await quiesce()
            process.gate.hold()
        case .release: process.gate.open(dropping: false)
        case .readSessionId: return read(step, process)
        default: call(step.action, process)
        }
        return nil
    }

    private func call(_ action: SessionScenario.Action, _ process: Process) {
        let analytics = process.analytics
        switch action {
        case .foreground: process.lifecycle.foreground()
        case .background: process.lifecycle.background()
        case .track(let name): analytics.track(name: name)
        case .screen(let name): analytics.screen(screenName: name)
        case .group(let id): analytics.group(groupId: id)
        case .alias(let id): analytics.alias(newId: id)
        case .identify(let id?): analytics.identify(userId: id)
        case .identify(nil): analytics.identify(traits: ["plan": "pro"])
        case .startSession(let id?): analytics.startSession(id)
        case .startSession(nil): analytics.startSession()
        case .endSession: analytics.endSession()
        case .reset(let keepsSession):
            analytics.reset(options: ResetOptions(entries: ResetEntries(session: !keepsSession)))
        case .filter(let name): analytics.add(plugin: Filter(name))
        case .launch, .terminate, .kill, .shutdown, .readSessionId, .hold, .release, .setClock, .reboot: break
        }
    }

    private mutating func launch(_ inForeground: Bool, _ change: SessionScenario.SettingsChange) async -> Problem? {
        if let process, !process.isShutDown {
            return Problem(expected: "no process at a launch", seen: "one is running")
        }
        await end()
        settings = change.applied(to: settings)
        let opened: any EventStore
        do {
            opened = try openStore()
        } catch {
            return Problem(expected: "a store", seen: "\(error)")
        }
        let lifecycle = ManualLifecycleSource(isInForeground: inForeground)
        let mortal = MortalStore(opened)
        let configuration = Configuration(
            writeKey: "scenario", dataPlaneUrl: "http://127.0.0.1", flushPolicies: [],
            trackApplicationLifecycleEvents: scenario.sendsLifecycleEvents,
            sessionConfiguration: SessionConfiguration(
                automaticSessionTracking: settings.isAutomatic, sessionTimeoutInMillis: settings.timeout,
                backgroundEvents: settings.background),
            logger: Silence(), storage: .custom(mortal), lifecycleSource: lifecycle, time: time,
            identifiers: .seeded(1), transport: StubTransport(),
            application: ApplicationInfo(name: "Scenario", version: "1.0", build: "1"),
            // The run itself waits for what is stored; in a hold it would never be.
            limits: Limits(noticeWait: .zero))
        let gate = Gate()
        let destination = RecordingDestination()
        let analytics = Analytics(
            configuration: configuration, builtIn: [gate] + Analytics.builtInPlugins(for: configuration),
            plugins: [destination])
        process = Process(
            analytics: analytics, lifecycle: lifecycle, destination: destination, gate: gate, store: mortal)
        return nil
    }

    private func openStore() throws -> any EventStore {
        switch store {
        case .memory: eventsInMemory(state: memory, logger: Silence())
        case .folder(let url): try openEventLog(folder: url.path, logger: Silence())
        }
    }

    /// The process dies: nothing that has not been stored is stored any more.
    private mutating func end() async {
        guard let process else { return }
        if !process.isShutDown {
            await quiesce()
            process.store.die()
            process.gate.open(dropping: true)
            process.analytics.shutdown()
            await process.analytics.finished()
        }
        time.removeTimers()
        await look(atLeftoversOf: process)
        self.process = nil
    }
}

// MARK: - Looking

extension ScenarioRun {
    /// Notes what events the step makes.
    private mutating func expect(_ step: SessionScenario.Step) {
        if step.action.isEvent {
            let action = step.action
            expected.append(
                Expected(
                    step: step, line: step.line, text: step.text, isEmission: false, expectation: step.expectation
                ) { $0.isMade(by: action) })
        } else if step.action != .readSessionId {
            outcome.rows.append(
                SessionScenario.Row(time: step.time, text: step.text, isEmission: false, seen: nil))
        }
        for emission in step.emissions {
            expected.append(
                Expected(
                    step: step, line: emission.line, text: "emits \"\(emission.name)\"", isEmission: true,
                    expectation: emission.expectation
                ) { $0.kind == .track && $0.name == emission.name })
        }
    }

    /// Compares what has arrived with what was made.
    private mutating func look(at step: SessionScenario.Step) async {
        await quiesce()
        guard var process else { return }
        let arrived = process.destination.events.dropFirst(process.seen)
        process.seen += arrived.count
        self.process = process
        compare(Array(arrived), at: step)
    }

    private mutating func look(atLeftoversOf process: Process) async {
        guard !expected.isEmpty, let step = scenario.steps.last else { return }
        compare(Array(process.destination.events.dropFirst(process.seen)), at: step)
    }

    private mutating func compare(_ arrived: [Event], at step: SessionScenario.Step) {
        var arrived = arrived[...]
        for wanted in expected {
            let event = arrived.first.flatMap { wanted.matches($0) ? $0 : nil }
            if event != nil { arrived.removeFirst() }
            note(wanted, event)
        }
        expected = []
        for extra in arrived {
            let seen = Seen(extra)
            outcome.rows.append(
                SessionScenario.Row(
                    time: step.time, text: "emits \"\(extra.name ?? "")\"", isEmission: true,
                    seen: labels.describe(seen)))
            if checks {
                fail(step.line, step.text, expected: "no further event", seen: "\"\(extra.name ?? "")\" arrived")
            }
        }
    }

    private mutating func note(_ wanted: Expected, _ event: Event?) {
        let seen = event.map { Seen($0) }
        let holds = checks ? wanted.expectation.map { labels.admit(seen, as: $0) } ?? true : true
        let description = seen.map { labels.describe($0) } ?? .dropped
        outcome.rows.append(
            SessionScenario.Row(
                time: wanted.step.time, text: wanted.text, isEmission: wanted.isEmission, seen: description))
        guard !holds else { return }
        fail(
            wanted.line, wanted.text, expected: labels.explain(wanted.expectation),
            seen: seen.map { labels.explain($0) } ?? "it did not arrive")
    }

    private mutating func read(_ step: SessionScenario.Step, _ process: Process) -> Problem? {
        let seen = Seen(session: process.analytics.sessionId, starts: false)
        let holds = checks ? step.expectation.map { labels.admit(seen, as: $0) } ?? true : true
        outcome.rows.append(
            SessionScenario.Row(time: step.time, text: step.text, isEmission: false, seen: labels.describe(seen)))
        return holds ? nil : Problem(expected: labels.explain(step.expectation), seen: labels.explain(seen))
    }
}

extension Event {
    fileprivate func isMade(by action: SessionScenario.Action) -> Bool {
        switch action {
        case .track(let name): kind == .track && self.name == name
        case .screen(let name): kind == .screen && self.name == name
        case .group(let id): kind == .group && groupId == id
        case .alias(let id): kind == .alias && userId == id
        case .identify: kind == .identify
        default: false
        }
    }
}
