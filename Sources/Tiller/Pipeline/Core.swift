/// Everything that the one lock guards: who captures, in what order, and the road.
struct Core: Sendable {
    /// A plugin of the instance. The number tells one adding from another of the same object.
    struct Member: Sendable {
        let id: Int
        let plugin: any Plugin
        /// It is on the road; until then it is being set up.
        var hasEntered = false
    }

    private(set) var members: [Member] = []
    private(set) var slots: [any CaptureSlot] = []
    /// Those of the slots whose plugins want to see events.
    private var capturing: [Int] = []
    private(set) var road = Road()
    private(set) var isShutDown = false
    private(set) var account = Account()
    private(set) var isInForeground = false
    private var memory: MemoryUse
    private var sequence: UInt64 = 0
    private var lastId = 0
    private var identifiers: IdentifierGenerator
    private var wakeCount: UInt64 = 0
    /// What this instance has saved, a change for each key: a plugin that comes back must not find what the store held before.
    private var saved: [StateChange] = []
    private let time: any TimeSource
    /// The clocks are read at each call: without an object between where that can be.
    private let isSystemTime: Bool
    private let bootIdentity: String?
    private var ownsStore: Bool

    init(configuration: Configuration, ownsStore: Bool) {
        time = configuration.time
        isSystemTime = time is SystemTime
        bootIdentity = configuration.time.bootIdentity
        identifiers = configuration.identifiers
        memory = MemoryUse(limits: configuration.limits)
        self.ownsStore = ownsStore
    }

    /// What a critical section asks to be done once the lock is left.
    struct Aftermath: Sendable {
        var startsPipeline = false
        var isIgnored = false
        var isRefused = false
        var wakes: [(slot: Int, request: UInt64, delay: Duration?)] = []
        var reports: [(level: LogLevel, message: String, once: Bool)] = []
    }
}

// MARK: - Events and commands

extension Core {
    /// Takes an event in: its moment, the commands that it demands, what the capturing plugins put on it.
    mutating func record(_ event: consuming Event, after commands: [any Command]) -> Aftermath {
        guard !isShutDown else { return Aftermath(isIgnored: true) }
        account.recorded += 1
        let mustTakeEffect = event.kind == .identify || event.kind == .alias
        let hasRoom = memory.hasRoom(for: event.cost, times: mustTakeEffect ? 2 : 1)
        var section = makeSection()
        for command in commands { dispatch(command, in: &section) }
        if !hasRoom, !mustTakeEffect { return refuse(section) }
        event.fields.begin(at: section.moment, section.identifiers.next())
        // By place: to go over an array itself is to hold it, at every call.
        for place in capturing.indices {
            for command in slots[capturing[place]].commands(before: event) { dispatch(command, in: &section) }
        }
        for place in capturing.indices { slots[capturing[place]].capture(&event, in: &section) }
        event.fields.settle()
        guard hasRoom else { return refuse(section) }
        memory.take(event.cost)
        return close(section, with: .event(event))
    }

    /// The event goes no further; what its section did has been done.
    private mutating func refuse(_ section: consuming Section) -> Aftermath {
        account.dropped[.queueFull, default: 0] += 1
        var aftermath = close(section, with: .none)
        aftermath.isRefused = true
        return aftermath
    }

    mutating func perform(_ command: any Command) -> Aftermath {
        guard !isShutDown else { return Aftermath(isIgnored: true) }
        var section = makeSection()
        dispatch(command, in: &section)
        return close(section, with: .none)
    }

    /// A change of the app's state, and what the plugins make of it: one step.
    mutating func change(toForeground: Bool, by command: any Command) -> Aftermath {
        let aftermath = perform(command)
        if !aftermath.isIgnored { isInForeground = toForeground }
        return aftermath
    }

    /// A wake-up that is still wanted reaches the plugin that asked for it.
    mutating func wake(_ slot: Int) -> Aftermath {
        guard !isShutDown, let index = slots.firstIndex(where: { $0.id == slot }) else { return Aftermath() }
        var section = makeSection()
        slots[index].apply(Wake(), in: &section)
        return close(section, with: .none)
    }

    mutating func shutDown() -> Aftermath {
        var aftermath = perform(Shutdown())
        guard !aftermath.isIgnored else { return aftermath }
        isShutDown = true
        road.append(RoadItem(load: .close, changes: []))
        aftermath.startsPipeline = startsPipeline() || aftermath.startsPipeline
        return aftermath
    }

    /// A reset of everything; what is saved here is all that is stored afterwards.
    mutating func erase() -> Aftermath {
        guard !isShutDown else { return Aftermath(isIgnored: true) }
        var section = makeSection()
        saved = []
        dispatch(ResetOptions(), in: &section)
        dispatch(Erase(), in: &section)
        return close(section, with: .erase)
    }

    /// What came before has been erased: the account begins anew, with what is in memory since.
    mutating func didErase() {
        account = Account()
        account.recorded = memory.count
    }

    /// The keys under which plugins have stored something.
    var storageKeys: [String] { slots.map(\.key) }

    /// Puts something on the road that no capturing plugin needs to know of.
    mutating func send(_ load: RoadItem.Load) -> Aftermath {
        if case .flush = load, isShutDown { return Aftermath(isIgnored: true) }
        road.append(RoadItem(load: load, changes: []))
        return Aftermath(startsPipeline: startsPipeline())
    }

    mutating func makeId() -> String { identifiers.next().description }

    /// What a getter sees: this moment, in no one's section.
    func view() -> Section {
        let now =
            isSystemTime
            ? SystemTime.now : (wall: time.wallMilliseconds, continuous: time.continuous.wholeNanoseconds)
        let moment = Moment(
            wallMilliseconds: now.wall, continuousNanoseconds: now.continuous, sequence: sequence)
        return Section(
            moment: moment, isInForeground: isInForeground, bootIdentity: bootIdentity, ownsStore: ownsStore,
            identifiers: identifiers)
    }

    private mutating func makeSection() -> Section {
        sequence += 1
        return view()
    }

    private mutating func dispatch(_ command: any Command, in section: inout Section) {
        for index in slots.indices { slots[index].apply(command, in: &section) }
        guard let reset = command as? ResetOptions else { return }
        // Plugins that can't keep up get neighbouring resets as one; between events there is always room for another.
        if isCrowded, road.mergeIntoTail(reset) { return }
        road.append(RoadItem(load: .reset(reset), changes: []))
    }

    /// As many commands wait as events may.
    private var isCrowded: Bool { road.commandCount >= memory.limits.memoryEvents }

    private mutating func close(_ section: consuming Section, with load: consuming RoadItem.Load) -> Aftermath {
        identifiers = section.identifiers
        if section.effects.isEmpty {
            // As most events' are.
            if case .none = load { return Aftermath(startsPipeline: startsPipeline()) }
            road.append(RoadItem(load: load, changes: []))
            return Aftermath(startsPipeline: startsPipeline())
        }
        let effects = section.effects
        var aftermath = aftermath(of: effects)
        let changes = effects.saves.isEmpty ? [] : stateChanges(effects.saves)
        switch load {
        case .none:
            if !changes.isEmpty { append(changes) }
        case let load:
            road.append(RoadItem(load: load, changes: changes))
        }
        aftermath.startsPipeline = startsPipeline()
        return aftermath
    }

    private mutating func aftermath(of effects: Section.Effects) -> Aftermath {
        var aftermath = Aftermath()
        aftermath.reports = effects.reports
        for (slot, delay) in effects.wakes {
            wakeCount += 1
            aftermath.wakes.append((slot, wakeCount, delay))
        }
        return aftermath
    }

    /// State that travels alone.
    private mutating func append(_ changes: [StateChange]) {
        if isCrowded {
            road.mergeIntoTail(changes)
        } else {
            road.append(RoadItem(load: .none, changes: changes))
        }
    }

    /// What a guest saves goes no further than this instance.
    private mutating func stateChanges(_ saves: [(slot: Int, changes: JSONObject)]) -> [StateChange] {
        var changes: [StateChange] = []
        for (slot, save) in saves {
            guard let key = slots.first(where: { $0.id == slot })?.key else { continue }
            let change = [StateChange(key: key, changes: save)]
            changes.merge(change)
            saved.merge(change)
        }
        return ownsStore ? changes : []
    }

    /// What is stored once everything on the road is.
    private func upToDate(_ stored: Stored, _ key: String) -> Stored {
        guard let change = saved.first(where: { $0.key == key }) else { return stored }
        if case .value(let object) = stored { return .value(change.applied(to: object)) }
        return .value(change.applied(to: JSONObject()))
    }

    private mutating func startsPipeline() -> Bool {
        guard !road.isServed, !road.isEmpty else { return false }
        road.isServed = true
        return true
    }
}

// MARK: - The pipeline's side

extension Core {
    /// What waits, or nothing; then the pipeline rests until it is started again.
    mutating func takeRoad() -> [[RoadItem]] {
        if road.isEmpty {
            road.isServed = false
            return []
        }
        return road.takeAll()
    }

    /// Whether some capturing plugin wants to seal.
    var seals: Bool { slots.contains { $0.seals } }

    /// The keys that capturing plugins keep to themselves.
    var contextKeys: JSONObject.Keys { JSONObject.Keys(slots.flatMap(\.contextKeys)) }

    /// What a seal gave an event, and what it asks for.
    struct Seal: Sendable {
        /// Stored with the event.
        var changes: [StateChange] = []
        /// What is new in the event's context.
        var additions: [(key: String, value: JSONValue)] = []
        var aftermath = Aftermath()
    }

    /// The last touch of one surviving event: what plugins add under their own context keys, and nothing else.
    mutating func seal(_ event: inout Event) -> Seal {
        var seal = Seal()
        var section = Section(
            moment: event.moment, isInForeground: isInForeground, bootIdentity: bootIdentity, ownsStore: ownsStore,
            identifiers: identifiers)
        for index in slots.indices where slots[index].seals {
            var sealed = event
            slots[index].seal(&sealed, in: &section)
            for key in slots[index].contextKeys where event.context[key] == nil {
                if let value = sealed.context[key] { seal.additions.append((key, value)) }
            }
        }
        for (key, value) in seal.additions { event.context[key] = value }
        identifiers = section.identifiers
        let effects = section.effects
        seal.aftermath = aftermath(of: effects)
        if !effects.saves.isEmpty { seal.changes = stateChanges(effects.saves) }
        return seal
    }

    /// Events that left memory, delivered or not.
    mutating func release(count: Int, bytes: Int, as reason: Account.Reason?) {
        memory.release(count: count, bytes: bytes)
        if let reason { account.dropped[reason, default: 0] += count } else { account.delivered += count }
    }

    /// Events were written to the disk.
    ///
    /// - Parameter correction: From now on what the store has taken costs so much more.
    mutating func didStore(count: Int, bytes: Int, correction: Int) {
        memory.correct(by: correction)
        memory.release(count: count, bytes: bytes)
        account.stored += count
    }

    mutating func countDrops(_ count: Int, by destination: String) {
        account.droppedByDestination[destination, default: 0] += count
    }
}

// MARK: - Plugins

extension Core {
    enum Admission {
        case new(id: Int)
        case known
        /// There can be one of its kind only.
        case refused
        case shutDown
    }

    mutating func admit(_ plugin: any Plugin) -> Admission {
        if isShutDown { return .shutDown }
        if members.contains(where: { $0.plugin === plugin }) { return .known }
        if members.contains(where: { $0.plugin.excludes(plugin) }) { return .refused }
        lastId += 1
        members.append(Member(id: lastId, plugin: plugin))
        return .new(id: lastId)
    }

    /// The plugin takes part from here on; `nil` if it was removed before it came to that.
    mutating func enter(_ id: Int) -> Aftermath? {
        guard let index = members.firstIndex(where: { $0.id == id }), !isShutDown else { return nil }
        members[index].hasEntered = true
        return send(.add(members[index].plugin))
    }

    /// As `enter(_:)`, for a capturing plugin.
    mutating func enter<P: CapturingPlugin>(_ id: Int, capturing plugin: P, stored: Stored) -> Aftermath? {
        guard let index = members.firstIndex(where: { $0.id == id }), !isShutDown else { return nil }
        members[index].hasEntered = true
        var section = makeSection()
        let stored = upToDate(stored, plugin.storageKey)
        if let index = slots.firstIndex(where: { !$0.isCapturing && $0 is Slot<P> }),
            var slot = slots[index] as? Slot<P>
        {
            slot.resume(plugin, stored: stored, in: &section)
            slots[index] = slot
        } else {
            slots.append(Slot(plugin, id: id, stored: stored, in: &section))
            if plugin.capturesEvents { capturing.append(slots.count - 1) }
        }
        return close(section, with: .add(plugin))
    }

    /// Capture stops here; teardown comes in the order of the road, or from the adder if it is still being set up.
    mutating func remove(_ plugin: any Plugin) -> Aftermath? {
        guard !isShutDown, let index = members.firstIndex(where: { $0.plugin === plugin }) else { return nil }
        let member = members.remove(at: index)
        guard member.hasEntered else { return Aftermath() }
        var aftermath = send(.remove(plugin))
        if let index = slots.firstIndex(where: { $0.plugin === plugin }) {
            slots[index].pause()
            wakeCount += 1
            aftermath.wakes.append((slots[index].id, wakeCount, nil))
        }
        return aftermath
    }

    /// A removal has passed the road.
    ///
    /// - Returns: The plugin, to be released outside the lock.
    mutating func letGo(of plugin: any Plugin) -> (any Plugin)? {
        guard let index = slots.firstIndex(where: { $0.plugin === plugin }) else { return nil }
        return slots[index].letGo()
    }

    /// Nothing is left on the road and nothing will be.
    ///
    /// - Returns: What the instance held, to be released outside the lock.
    mutating func dismantle() -> (members: [Member], slots: [any CaptureSlot]) {
        defer {
            members = []
            slots = []
            capturing = []
            saved = []
        }
        return (members, slots)
    }

    /// Capturing plugins whose stored state was unreadable.
    var unreadKeys: [(slot: Int, key: String)] { slots.filter(\.isUnread).map { ($0.id, $0.key) } }

    /// The store has become this instance's, or another's. What a guest saved was its own and ends here.
    ///
    /// - Parameter stored: What the store has for each slot, read off the lock; empty for another's.
    mutating func changeOwnership(to isOwned: Bool, _ stored: [(slot: Int, stored: Stored)]) -> Aftermath {
        guard !isShutDown, ownsStore != isOwned else { return Aftermath() }
        ownsStore = isOwned
        saved = []
        var section = makeSection()
        for (slot, stored) in stored {
            guard let index = slots.firstIndex(where: { $0.id == slot }) else { continue }
            slots[index].restore(stored, in: &section)
        }
        return close(section, with: .none)
    }

    /// What plugins have stored, by slot.
    var keys: [(slot: Int, key: String)] { slots.map { ($0.id, $0.key) } }

    mutating func restore(_ slot: Int, from stored: Stored) -> Aftermath {
        guard !isShutDown, let index = slots.firstIndex(where: { $0.id == slot && $0.isUnread }) else {
            return Aftermath()
        }
        var section = makeSection()
        slots[index].restore(stored, in: &section)
        return close(section, with: .none)
    }
}

extension Plugin {
    /// Whether there can be only one of the two: a second of a capturing type, of a storage key, or of the data plane.
    fileprivate func excludes(_ other: any Plugin) -> Bool {
        if asDataPlane != nil, other.asDataPlane != nil { return true }
        guard let mine = asCapturing, let others = other.asCapturing else { return false }
        return ObjectIdentifier(type(of: self)) == ObjectIdentifier(type(of: other))
            || mine.storageKey == others.storageKey
    }
}

extension Event.Fields {
    /// What the moment of the call decides.
    fileprivate mutating func begin(at moment: Moment, _ id: MessageID) {
        captured = Event.Captured()
        fixed.moment = moment
        fixed.messageId = id
        dropBlankIds()
    }

    /// An id of nothing but blanks is none to the gateway; capturing plugins need not ask.
    private mutating func dropBlankIds() {
        if userId != nil { userId = userId.nonBlank }
        if anonymousId != nil { anonymousId = anonymousId.nonBlank }
        if previousId != nil { previousId = previousId.nonBlank }
    }

    /// Capturing plugins are through with it.
    fileprivate mutating func settle() {
        if fixed.kind == .identify { settleTraits() }
        captured.context = context
        captured.anonymousId = anonymousId
    }

    /// The wire has a user's traits in the context, those of identify too. Traits in a caller's
    /// custom context replace them, as in RudderStack's SDK.
    private mutating func settleTraits() {
        guard !traits.isEmpty else { return }
        if context["traits"] == nil { context["traits"] = .object(traits) }
        traits = JSONObject()
    }
}
