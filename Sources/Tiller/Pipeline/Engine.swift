/// What stands behind the handles of one instance: the core and its lock, the pipeline and its executor, timers.
///
/// It owns itself until the road is empty: a dispatched run holds it, so that releasing the last `Analytics` loses
/// nothing.
final class Engine: Sendable {
    let configuration: Configuration
    let diagnostics: Diagnostics
    let core: Locked<Core>
    let pipeline: Pipeline
    let executor: any WorkQueue
    let store: OverflowingStore
    let time: any TimeSource
    /// The pipeline has come to its end.
    let closed = Milestone()
    /// Every destination beside the data plane has handled its last event and has been torn down.
    let drained = Milestone()
    /// The last upload is over, and the store is closed.
    let finished = Milestone()
    let held = Locked(Held())
    private let birth = ForkedChild.generation
    let hub: LifecycleHub
    /// Those who follow the status.
    let changes = ChangeHandlers()
    let suspension: Suspension

    /// What is held for a while, or not at all.
    struct Held: Sendable {
        /// The user's own handle.
        fileprivate weak var analytics: Analytics?
        /// The newest wake-up of each capturing plugin, by slot.
        var wakes: [Int: (request: UInt64, token: CancellationToken?)] = [:]
        /// Ends what is to be done at the process's end.
        var exitToken: CancellationToken?
    }

    init(configuration: Configuration) {
        self.configuration = configuration
        diagnostics = Diagnostics(
            logger: configuration.logger ?? SystemLogger(), level: configuration.logLevel, time: configuration.time)
        time = configuration.time
        executor = configuration.executors.makeQueue("tiller.pipeline")
        store = configuration.makeStore(diagnostics)
        core = Locked(Core(configuration: configuration, ownsStore: store.isOwned))
        pipeline = Pipeline(limits: configuration.limits, store: store, diagnostics: diagnostics)
        hub = LifecycleHub()
        // The system ends an app that is suspended with a lock in a folder that it shares with its extensions.
        let isShared = if case .folder = configuration.storage { true } else { false }
        suspension = Suspension(of: configuration.lifecycleSource) { [store] in
            if isShared { store.releaseOwnership() }
        } resume: { [store] in
            if isShared { store.reclaim() }
        }
        store.whenGone { [core] count, bytes, outcome in
            core.withLock { $0.release(count: count, bytes: bytes, as: outcome == .refused ? .refused : nil) }
        }
        let token = ProcessExit.register { [weak self] done in
            if let self { self.whenPassed(done) } else { done() }
        } upload: { [weak self] done in
            if let self { self.tryToDeliver(done) } else { done() }
        } isLate: { [weak self] in
            guard let self else { return }
            self.diagnostics.error(
                "The process ended before all was stored: about \(self.account.inMemory) events are lost")
        }
        held.withLock { $0.exitToken = token }
        store.whenEvicted { [weak self] in self?.didChange() }
        store.whenOwnershipChanges { [weak self] in self?.didChangeOwnership(to: $0) }
        if configuration.writeKey.isEmpty { diagnostics.error("The write key is empty: no data plane will know it") }
    }

    /// The handle that a plugin may keep weakly.
    func setHandle(_ analytics: Analytics) { held.withLock { $0.analytics = analytics } }

    /// A handle for plugins at work. Not the user's: the last of those is released on the user's thread, not on one of ours
    /// that held it a little longer.
    func makeHandle() -> Analytics { Analytics(standingInFor: self) }
}

// MARK: - Calls

extension Engine {
    /// The process is a forked child of the one in which this instance lives: its threads are not here, and its locks may
    /// be held by them.
    var isInert: Bool {
        guard birth != ForkedChild.generation else { return false }
        if ForkedChild.isFirstMention() {
            diagnostics.error("The process was forked: instances of its parent do nothing here; make new ones")
        }
        return true
    }

    func record(_ event: consuming Event, after commands: [any Command] = []) {
        if isInert { return }
        event.measure()
        finish(core.withLock(moving: event) { core, event in core.record(event, after: commands) })
    }

    func perform(_ command: any Command) {
        if !isInert { finish(core.withLock { $0.perform(command) }) }
    }

    func erase() {
        if !isInert { finish(core.withLock { $0.erase() }) }
    }

    func flush() {
        if !isInert { finish(core.withLock { $0.send(.flush) }) }
    }

    /// Runs an action when everything recorded before has passed the pipeline, or at once after the end.
    func whenPassed(_ action: @escaping @Sendable () -> Void) { whenPassed(throughDestinations: false, action) }

    /// - Parameter throughDestinations: Whether the queues of the destinations beside the data plane count too.
    func whenPassed(throughDestinations: Bool, _ action: @escaping @Sendable () -> Void) {
        if isInert || closed.isReached {
            action()
        } else {
            finish(core.withLock { $0.send(.barrier(throughDestinations: throughDestinations, action)) })
        }
    }

    func read<P: CapturingPlugin, Result>(
        _ type: P.Type, _ body: (P.State, borrowing Section) -> Result?
    ) -> Result? {
        if isInert { return nil }
        return core.withLock { core in
            guard !core.isShutDown,
                let state = core.slots.first(where: { $0.isCapturing && $0.plugin is P })?.state(as: P.State.self)
            else { return nil }
            return body(state, core.view())
        }
    }

    var account: Account {
        var account = core.withLock { $0.account }
        account.store = store.account
        return account
    }

    var status: Analytics.Status {
        let backlog = store.backlog
        let delivery = pipeline.lastUploads?.delivery ?? DeliveryProgress()
        return Analytics.Status(
            account: account, delivery: delivery.activity, lastError: delivery.lastError, waitingBytes: backlog.bytes,
            oldestWaiting: backlog.oldest)
    }

    /// Something of the status has changed.
    func didChange() { changes.callAll() }

    /// Does what a critical section asked for, outside of it.
    func finish(_ aftermath: consuming Core.Aftermath) {
        if aftermath.startsPipeline { executor.async { self.serve() } }
        if aftermath.isIgnored {
            diagnostics.once("afterShutdown", .error, "The instance was shut down; calls are ignored")
        }
        if aftermath.isRefused {
            didChange()
            let reason = "what may wait in memory is used up"
            diagnostics.loss(1, reason) { "An event was refused: \(reason)" }
        }
        // As after most calls: to go over an array is to hold it.
        if aftermath.reports.isEmpty, aftermath.wakes.isEmpty { return }
        for (level, message, once) in aftermath.reports {
            if once { diagnostics.once(message, level, message) } else { diagnostics.log(level, message) }
        }
        for wake in aftermath.wakes { schedule(wake.slot, wake.request, wake.delay) }
    }

    private func serve() {
        while true {
            var chunks = core.withLock { $0.takeRoad() }
            if chunks.isEmpty { return }
            chunks.reverse()
            // Handed over one by one: what nobody else holds is taken apart without a copy.
            while let chunk = chunks.popLast() { pipeline.run(chunk, in: self) }
        }
    }
}

// MARK: - Wake-ups

extension Engine {
    /// The newest request of a plugin wins, in whatever order the threads that carry them come here.
    private func schedule(_ slot: Int, _ request: UInt64, _ delay: Duration?) {
        let token = delay.map { delay in
            time.schedule(after: delay) { [weak self] in self?.wake(slot, request) }
        }
        let outdated = held.withLock { held -> CancellationToken? in
            guard request > held.wakes[slot]?.request ?? 0 else { return token }
            let outdated = held.wakes[slot]?.token
            held.wakes[slot] = (request, token)
            return outdated
        }
        outdated?.cancel()
    }

    private func wake(_ slot: Int, _ request: UInt64) {
        // A timer may fire before its request is noted, never after a newer one was.
        guard held.withLock({ $0.wakes[slot]?.request ?? 0 }) <= request else { return }
        finish(core.withLock { $0.wake(slot) })
    }
}

// MARK: - Plugins

extension Engine {
    func add(_ plugin: any Plugin) {
        if isInert { return }
        switch core.withLock({ $0.admit(plugin) }) {
        case .known: return
        case .shutDown:
            diagnostics.once("afterShutdown", .error, "The instance was shut down; calls are ignored")
        case .refused:
            diagnostics.error("A second \(type(of: plugin)) was refused: there can be one of its kind or storage key")
        case .new(let id):
            let analytics = held.withLock { $0.analytics } ?? makeHandle()
            let ownPlugins = plugin.asDestination?.ownPlugins
            plugin.setup(analytics: analytics)
            ownPlugins?.attach(to: analytics)
            let aftermath =
                plugin.asCapturing.map { enter(id, capturing: $0) } ?? core.withLock { $0.enter(id) }
            guard let aftermath else {
                ownPlugins?.detach()
                plugin.teardown()  // removed, or shut down, while it was being set up
                return
            }
            finish(aftermath)
            if let observer = plugin.asObserver { hub.add(observer, in: self) }
        }
    }

    private func enter(_ id: Int, capturing plugin: some CapturingPlugin) -> Core.Aftermath? {
        let stored = store.load(plugin.storageKey)
        if case .unreadable = stored {
            diagnostics.once("unreadable", .error, "What is stored can't be read; it is left as it is")
        }
        return core.withLock { $0.enter(id, capturing: plugin, stored: stored) }
    }

    /// No type is called that, so no plugin's storage key is.
    private static let installationKey = "tiller.installation"

    /// The environment holds the core, so that the last upload of a released instance is still accounted for.
    ///
    /// - Parameters:
    ///   - isFree: Reached when what had the place before is done with the store.
    ///   - save: Stores state at once: on the road it might come behind the end.
    func dataPlaneEnvironment(isFree: Milestone, save: ([StateChange]) -> Void) -> DataPlaneEnvironment {
        let stored = store.load(Self.installationKey)
        var installationId = core.withLock { $0.makeId() }
        if case .value(let value) = stored, let id = value["id"]?.string {
            installationId = id
        } else if case .absent = stored {
            save([StateChange(key: Self.installationKey, changes: ["id": .string(installationId)])])
        }
        return DataPlaneEnvironment(
            diagnostics: diagnostics, instance: ObjectIdentifier(self), installationId: installationId, store: store,
            isFree: isFree,
            onExecutor: { [weak self] action in self?.whenPassed(action) },
            didChangeDelivery: { [changes] in changes.callAll() })
    }

    func remove(_ plugin: any Plugin) {
        guard !isInert, let aftermath = core.withLock({ $0.remove(plugin) }) else { return }
        if let observer = plugin.asObserver { hub.remove(observer) }
        finish(aftermath)
    }

    func isMember(_ plugin: AnyObject) -> Bool { core.withLock { $0.members }.contains { $0.plugin === plugin } }

    func plugin<P>(ofType type: P.Type) -> P? {
        core.withLock { $0.members }.lazy.compactMap { $0.plugin as? P }.first
    }
}

// MARK: - The pipeline's side

extension Engine {
    /// The keys that capturing plugins keep to themselves.
    var contextKeys: JSONObject.Keys { core.withLock { $0.contextKeys } }

    /// Runs a body in a critical section if some capturing plugin wants to seal.
    ///
    /// - Parameter body: Returns what its seals ask for.
    func sealing<Chunk: Sendable>(
        _ chunk: Chunk, _ body: (inout Chunk, inout Core) -> [Core.Aftermath]
    ) -> Chunk {
        let (sealed, aftermaths) = core.withLock(moving: chunk) { core, chunk -> (Chunk, [Core.Aftermath]) in
            guard core.seals else { return (chunk, []) }
            var chunk = chunk
            let aftermaths = body(&chunk, &core)
            return (chunk, aftermaths)
        }
        for aftermath in aftermaths { finish(aftermath) }
        return sealed
    }

    /// The keys under which something may be stored.
    var storageKeys: [String] { core.withLock { $0.storageKeys } + [Self.installationKey] }

    func didErase() {
        core.withLock { $0.didErase() }
        didChange()
    }

    /// A plugin's removal has passed the road.
    func letGo(of plugin: any Plugin) { _ = core.withLock { $0.letGo(of: plugin) } }

    func didStore(count: Int, bytes: Int, correction: Int) {
        if count == 0, correction == 0 { return }
        core.withLock { $0.didStore(count: count, bytes: bytes, correction: correction) }
    }

    /// A destination's queue was full: its oldest events are gone.
    func didOverflow(_ count: Int, _ destination: String) {
        countDrops(count, by: destination)
        let reason = "the queue of \(destination) was full"
        diagnostics.loss(count, reason) { "Events of a destination were dropped: \(reason)" }
    }

    func release(count: Int, bytes: Int, as reason: Account.Reason?) {
        guard count > 0 else { return }
        core.withLock { $0.release(count: count, bytes: bytes, as: reason) }
    }

    func countDrops(_ count: Int, by destination: String) {
        core.withLock { $0.countDrops(count, by: destination) }
        didChange()
    }
}
