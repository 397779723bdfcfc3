import Testing

@testable import Tiller

/// All sequences of inputs up to a depth, through the SDK's rules and through a second, naive statement of them.
@Suite struct SessionRulesExhaustiveTests {
    struct Setting: Sendable, CustomTestStringConvertible {
        let policy: NaivePolicy
        let isAutomatic: Bool

        var testDescription: String { "\(policy), automatic \(isAutomatic ? "on" : "off")" }

        static let all = NaivePolicy.allCases.flatMap { policy in
            [true, false].map { Setting(policy: policy, isAutomatic: $0) }
        }
    }

    /// Under the thread sanitizer there is nothing to find in single-threaded values.
    private static let depth = isUnderThreadSanitizer ? 3 : 5

    @Test(arguments: Setting.all)
    func rulesAgreeWithTheNaiveModelOverAllSequencesOfFive(_ setting: Setting) async {
        let check = await ExhaustiveCheck.run(depth: Self.depth, setting) { RulesUnderTest(setting) }
        print("\(setting.testDescription): \(check.sequences) sequences of \(Self.depth) inputs out of 14 tried")
        #expect(check.sequences == (0..<Self.depth).reduce(1) { count, _ in count * SessionInput.allCases.count })
        #expect(check.difference == nil)
    }

    @Test(arguments: Setting.all)
    func pluginAgreesWithTheNaiveModelOverAllSequencesOfThree(_ setting: Setting) async {
        let check = await ExhaustiveCheck.run(depth: 3, setting) { PluginUnderTest(setting) }
        #expect(check.sequences == 2_744)
        #expect(check.difference == nil)
    }

    @Test(arguments: RulesUnderTest.Mutation.allCases)
    func eachMutationOfTheRulesIsNoticed(_ mutation: RulesUnderTest.Mutation) async {
        for setting in Setting.all {
            let check = await ExhaustiveCheck.run(depth: 5, setting) { RulesUnderTest(setting, mutation: mutation) }
            guard let difference = check.difference else { continue }
            print(
                "\(mutation) is noticed in \(setting.testDescription) by \(difference.map { "\($0)" }.joined(separator: ", "))"
            )
            return
        }
        Issue.record("\(mutation) was not noticed")
    }
}

/// Something that answers inputs as an SDK does, as a value: a branch of the search is a copy.
private protocol SessionSubject: Sendable {
    mutating func step(_ input: SessionInput) -> SessionObservation
}

extension NaiveSessionModel: SessionSubject {}

/// Depth first, both sides copied at each branch, until the first difference.
private struct ExhaustiveCheck: Sendable {
    let depth: Int
    /// Whole sequences that were tried.
    private(set) var sequences = 0
    /// The first sequence that the two sides answer differently.
    private(set) var difference: [SessionInput]?
    private var path: [SessionInput] = []

    private init(depth: Int) { self.depth = depth }

    static func run(
        depth: Int, _ setting: SessionRulesExhaustiveTests.Setting,
        _ subject: @escaping @Sendable () -> some SessionSubject
    ) async -> ExhaustiveCheck {
        await computing {
            var check = ExhaustiveCheck(depth: depth)
            check.run(
                subject(), NaiveSessionModel(policy: setting.policy, automatic: setting.isAutomatic))
            return check
        }
    }

    private mutating func run(_ subject: some SessionSubject, _ model: NaiveSessionModel) {
        if path.count == depth {
            sequences += 1
            return
        }
        for input in SessionInput.allCases {
            var (subject, model) = (subject, model)
            path.append(input)
            defer { path.removeLast() }
            if subject.step(input) != model.step(input) {
                difference = path
                return
            }
            run(subject, model)
            if difference != nil { return }
        }
    }
}

/// The pure rules as the SDK calls them: the latch for the notices, the session state, and the demand for a reset at
/// another user's identify.
struct RulesUnderTest: SessionSubject {
    /// A rule that is broken, to show that the check would notice.
    enum Mutation: CaseIterable, Sendable {
        case s3RepeatedNoticeCounts
        case s5BackgroundIsNoActivity
        case s9CarriedEventExtends
        case s16ResetMakesASession
        case s18IdsMayRepeat
    }

    private let mutation: Mutation?
    private var rules: SessionState
    private var latch = LifecycleLatch()
    private var isInForeground = false
    private var isUserKnown = false
    private var now: Int64 = 1_740_463_597_000

    init(_ setting: SessionRulesExhaustiveTests.Setting, mutation: Mutation? = nil) {
        self.mutation = mutation
        rules = SessionState(
            isAutomatic: setting.isAutomatic, timeout: 300_000, policy: BackgroundEventPolicy(setting.policy))
        notice(.foreground)
    }

    mutating func step(_ input: SessionInput) -> SessionObservation {
        var seen = SessionObservation(getter: nil, eventSession: nil, eventStarts: false)
        switch input {
        case .event: seen = event()
        case .droppedEvent: _ = makeEvent()
        case .foreground: notice(.foreground)
        case .background: notice(.background)
        case .reset: reset()
        case .startSession:
            if mutation == .s18IdsMayRepeat { forgetIds() }
            rules.startManually(id: nil, at: instant)
        case .startGivenSession: rules.startManually(id: 1_234_567_890, at: instant)
        case .endSession: rules.end()
        case .identifyAnother:
            if isUserKnown { reset() }
            isUserKnown = true
            seen = event()
        case .relaunchForeground: relaunch(inForeground: true)
        case .relaunchBackground: relaunch(inForeground: false)
        case .waitAMoment: now += 400
        case .waitTimeout: now += 300_000
        case .waitBeyond: now += 300_001
        }
        seen.getter = rules.carried(at: instant, isInForeground: isInForeground)?.id
        return seen
    }

    private var instant: SessionState.Instant {
        SessionState.Instant(wall: now, continuous: now - 1_740_000_000_000, boot: "boot")
    }

    private mutating func notice(_ event: LifecycleEvent) {
        guard latch.admits(event) || mutation == .s3RepeatedNoticeCounts else { return }
        if event == .foreground {
            rules.comeToForeground(at: instant)
        } else if mutation != .s5BackgroundIsNoActivity {
            rules.touch(at: instant)
        }
        isInForeground = event == .foreground
    }

    private mutating func makeEvent() -> SessionState.Session? {
        let carried = rules.makeEvent(at: instant, isInForeground: isInForeground).carried
        if carried != nil, mutation == .s9CarriedEventExtends { rules.touch(at: instant) }
        return carried
    }

    private mutating func event() -> SessionObservation {
        let carried = makeEvent()
        let starts = carried.map { rules.giveMark(of: $0.generation) } ?? false
        return SessionObservation(getter: nil, eventSession: carried?.id, eventStarts: starts)
    }

    private mutating func reset() {
        if mutation == .s18IdsMayRepeat { forgetIds() }
        rules.refresh(at: instant, isInForeground: isInForeground)
        isUserKnown = false
        if rules.session == nil, mutation == .s16ResetMakesASession { rules.startManually(id: nil, at: instant) }
    }

    private mutating func forgetIds() {
        rules.lastGenerated = 0
        rules.lastId = nil
    }

    /// The heartbeat of S6 comes just before the kill, as the model has it.
    private mutating func relaunch(inForeground: Bool) {
        if isInForeground { rules.touch(at: instant) }
        var stored = rules.stored
        stored.merge(rules.storedMark)
        var next = SessionState(isAutomatic: rules.isAutomatic, timeout: rules.timeout, policy: rules.policy)
        next.load(stored)
        next.launch(at: instant)
        rules = next
        latch = LifecycleLatch()
        isInForeground = false
        if inForeground { notice(.foreground) }
    }
}

/// The plugin as the core calls it, section by section; what it saves is what the next process finds.
private struct PluginUnderTest: SessionSubject {
    private let plugin: SessionTrackingPlugin
    private var state: SessionTrackingPlugin.State
    private var stored = JSONObject()
    private var latch = LifecycleLatch()
    private var isInForeground = false
    private var isUserKnown = false
    private var now: Int64 = 1_740_463_597_000

    init(_ setting: SessionRulesExhaustiveTests.Setting) {
        plugin = SessionTrackingPlugin(
            configuration: SessionConfiguration(
                automaticSessionTracking: setting.isAutomatic, backgroundEvents: BackgroundEventPolicy(setting.policy)))
        var section = Self.section(at: now, isInForeground: false)
        state = plugin.restore(.absent, present: nil, in: &section)
        keep(section)
        notice(.foreground)
    }

    mutating func step(_ input: SessionInput) -> SessionObservation {
        var seen = SessionObservation(getter: nil, eventSession: nil, eventStarts: false)
        switch input {
        case .event: seen = event(survives: true)
        case .droppedEvent: _ = event(survives: false)
        case .foreground: notice(.foreground)
        case .background: notice(.background)
        case .reset:
            apply(ResetOptions())
            isUserKnown = false
        case .startSession: apply(StartSession())
        case .startGivenSession: apply(StartSession(id: 1_234_567_890))
        case .endSession: apply(EndSession())
        case .identifyAnother:
            if isUserKnown { apply(ResetOptions()) }
            isUserKnown = true
            seen = event(survives: true)
        case .relaunchForeground: relaunch(inForeground: true)
        case .relaunchBackground: relaunch(inForeground: false)
        case .waitAMoment: now += 400
        case .waitTimeout: now += 300_000
        case .waitBeyond: now += 300_001
        }
        let section = Self.section(at: now, isInForeground: isInForeground)
        seen.getter = state.rules.carried(at: section.instant, isInForeground: isInForeground)?.id
        return seen
    }

    private static func section(at now: Int64, isInForeground: Bool) -> Section {
        Section(
            moment: Moment(wallMilliseconds: now, continuous: .milliseconds(now - 1_740_000_000_000), sequence: 1),
            isInForeground: isInForeground, bootIdentity: "boot", ownsStore: true, identifiers: .seeded(1))
    }

    private mutating func keep(_ section: borrowing Section) {
        for (_, changes) in section.effects.saves {
            stored = StateChange(key: "", changes: changes).applied(to: stored)
        }
    }

    private mutating func apply(_ command: any Command) {
        var section = Self.section(at: now, isInForeground: isInForeground)
        plugin.apply(command, to: &state, in: &section)
        keep(section)
    }

    private mutating func notice(_ event: LifecycleEvent) {
        guard latch.admits(event) else { return }
        apply(event)
        isInForeground = event == .foreground
    }

    private mutating func event(survives: Bool) -> SessionObservation {
        var event = Event(.track, name: "A")
        var section = Self.section(at: now, isInForeground: isInForeground)
        plugin.capture(&event, state: &state, in: &section)
        if survives, plugin.seals(state) { plugin.seal(&event, state: &state, in: &section) }
        keep(section)
        return SessionObservation(
            getter: nil, eventSession: event.context["sessionId"]?.uint,
            eventStarts: event.context["sessionStart"] == .bool(true))
    }

    private mutating func relaunch(inForeground: Bool) {
        if isInForeground { apply(Wake()) }
        var section = Self.section(at: now, isInForeground: false)
        state = plugin.restore(.value(stored), present: nil, in: &section)
        keep(section)
        latch = LifecycleLatch()
        isInForeground = false
        if inForeground { notice(.foreground) }
    }
}

extension BackgroundEventPolicy {
    fileprivate init(_ policy: NaivePolicy) {
        switch policy {
        case .carry: self = .carry
        case .exclude: self = .exclude
        case .include: self = .include
        }
    }
}
