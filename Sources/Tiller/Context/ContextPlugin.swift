/// What surrounds every event: `app`, `device`, `library`, `locale`, `network`, `os`, `screen`, `timezone`.
///
/// Only what is known is sent. These keys win over a caller's custom context;
/// plugins that come later may change them.
///
/// The source is read off the caller's thread, before the first event is
/// enriched, and again after it has told a change. Each reading is encoded
/// once and spliced into the events. Its observation begins with the first
/// event and ends with the plugin's removal.
///
/// `device.id`, where device ids are collected, is the platform's id for the
/// app's vendor; where a platform has none, a random UUID of this plugin's
/// own, which is stored and outlives restarts and resets. It is never a
/// hardware address. While the store can't be read, none is sent.
public final class ContextPlugin: CapturingPlugin {
    /// What is remembered of the installation.
    public struct State: Sendable {
        /// A UUID in lower case; `nil` where none is needed, and while the store can't be read.
        public fileprivate(set) var installationId: String?
    }

    private struct Reading: Sendable, Equatable {
        let system: SystemContext
        let installationId: String?
    }

    private struct Known: Sendable {
        /// What the base was made of.
        var reading: Reading?
        var base: JSONObject.Base?
        /// Nothing has changed since the base was made.
        var isCurrent = false
        var installationId: String?
        var observation: CancellationToken?
    }

    /// The name under which the id is stored.
    private static let idKey = "installationId"

    /// Enrichment.
    public let stage = Stage.enrichment

    /// The type's name, as a text: to ask the runtime for it takes a millisecond at a process's start.
    public let storageKey = "ContextPlugin"

    private let application: ApplicationInfo
    private let collectsDeviceId: Bool
    private let needsInstallationId: Bool
    private let source: any ContextSource
    private let known = Locked(Known())

    /// A context for an application.
    ///
    /// - Parameters:
    ///   - application: What is sent as `app`, the known parts of it.
    ///   - collectsDeviceId: Whether `device.id` is sent; `false` by default.
    ///   - source: Knows the rest; the platform's own by default.
    public init(
        application: ApplicationInfo = .main, collectsDeviceId: Bool = false,
        source: any ContextSource = SystemContextSource()
    ) {
        self.application = application
        self.collectsDeviceId = collectsDeviceId
        self.source = source
        needsInstallationId = collectsDeviceId && !source.hasDeviceId
    }

    /// The stored id, or a new one where the instance can store it: an id that ends with the process is none.
    public func restore(_ stored: Stored, present: State?, in section: inout Section) -> State {
        var state = present ?? State()
        if needsInstallationId {
            switch stored {
            case .unreadable: break
            case .value(let value) where value[Self.idKey]?.string?.isEmpty == false:
                state.installationId = value[Self.idKey]?.string
            case .absent, .value: makeInstallationId(in: &state, &section)
            }
        }
        known.withLock { known in
            known.installationId = state.installationId
            known.isCurrent = false
        }
        return state
    }

    /// False.
    public var capturesEvents: Bool { false }

    /// After an erasure it is another installation.
    public func apply(_ command: any Command, to state: inout State, in section: inout Section) {
        guard command is Erase, needsInstallationId else { return }
        state.installationId = nil
        makeInstallationId(in: &state, &section)
        known.withLock { [id = state.installationId] known in
            known.installationId = id
            known.isCurrent = false
        }
    }

    private func makeInstallationId(in state: inout State, _ section: inout Section) {
        guard section.ownsStore else { return }
        let id = state.installationId ?? section.makeId()
        state.installationId = id
        section.save([Self.idKey: .string(id)])
    }

    /// Lays the context under the event's own.
    public func process(_ event: Event) -> Event? {
        var event = event
        lay(under: &event)
        return event
    }

    /// The same, in place.
    public func process(inPlace event: inout Event, in analytics: Analytics) -> Bool {
        lay(under: &event)
        return true
    }

    private func lay(under event: inout Event) { event.context.lay(over: currentBase()) }

    /// Ends the observation of the source.
    public func teardown() {
        let observation = known.withLock { known in
            known.isCurrent = false
            return known.observation.take()
        }
        observation?.cancel()
    }
}

// MARK: - Reading

extension ContextPlugin {
    private func currentBase() -> JSONObject.Base {
        if let base = known.withLock({ $0.isCurrent ? $0.base : nil }) { return base }
        observe()
        // Before the reading: a change that comes while it is under way leads to another one.
        let installationId = known.withLock { known in
            known.isCurrent = true
            return known.installationId
        }
        let reading = Reading(system: source.read(), installationId: installationId)
        if let base = known.withLock({ $0.reading == reading ? $0.base : nil }) { return base }
        let base = JSONObject.Base(context(of: reading))
        known.withLock { known in
            known.reading = reading
            known.base = base
        }
        return base
    }

    private func observe() {
        guard known.withLock({ $0.observation == nil }) else { return }
        let observation = source.observe { [weak self] in self?.known.withLock { $0.isCurrent = false } }
        // A plugin object in two instances may have got here twice; a token is released outside the lock.
        let outdated = known.withLock { known in
            defer { known.observation = observation }
            return known.observation
        }
        outdated?.cancel()
    }

    private func context(of reading: Reading) -> JSONObject {
        let system = reading.system
        var device = system.device
        device.id = collectsDeviceId ? device.id ?? reading.installationId : Optional.none
        var context = JSONObject()
        context.add("app", application.members)
        context.add("device", device.members)
        context.add("library", ["name": "tiller-swift", "version": .string(Analytics.version)])
        context.add("locale", system.locale)
        context.add("network", system.network?.members ?? [:])
        context.add("os", system.os.members)
        context.add("screen", system.screen?.members ?? [:])
        context.add("timezone", system.timezone)
        return context
    }
}

// MARK: - The wire's names

extension JSONObject {
    fileprivate mutating func add(_ key: String, _ text: String?) {
        if let text, !text.isEmpty { self[key] = .string(text) }
    }

    fileprivate mutating func add(_ key: String, _ members: JSONObject) {
        if !members.isEmpty { self[key] = .object(members) }
    }
}

extension ApplicationInfo {
    fileprivate var members: JSONObject {
        var members = JSONObject()
        members["name"] = name.map { .string($0) }
        members["version"] = version.map { .string($0) }
        members["build"] = build.map { .string($0) }
        members["namespace"] = namespace.map { .string($0) }
        return members
    }
}

extension SystemContext.Device {
    fileprivate var members: JSONObject {
        var members = JSONObject()
        members.add("id", id)
        members.add("manufacturer", manufacturer)
        members.add("model", model)
        members.add("type", type)
        return members
    }
}

extension SystemContext.OperatingSystem {
    fileprivate var members: JSONObject {
        var members = JSONObject()
        members.add("name", name)
        members.add("version", version)
        members.add("kernel", kernel)
        return members
    }
}

extension SystemContext.Network {
    fileprivate var members: JSONObject { ["wifi": .bool(wifi), "cellular": .bool(cellular)] }
}

extension SystemContext.Screen {
    /// A size that is no number, or none at all, is not known.
    fileprivate var members: JSONObject {
        var members = JSONObject()
        for (key, value) in [("width", width), ("height", height), ("density", density)] {
            if value.isFinite, value > 0 { members[key] = .double(value) }
        }
        return members
    }
}
