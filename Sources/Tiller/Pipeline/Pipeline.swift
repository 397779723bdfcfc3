/// The ordered run Before → Enrichment → seal → destinations.
///
/// It is run by one executor at a time, the instance's; its state is behind
/// locks only so that it can be a `Sendable` class, and no plugin is called
/// from inside one.
final class Pipeline: Sendable {
    /// The data plane's part, which the last step runs on the pipeline's own executor.
    private let dataPlane = Locked<(any DataPlaneDestination)?>(nil)
    private let stages = Locked<[Stage: [any Plugin]]>([:])
    private let runners = Locked<[DestinationRunner]>([])
    /// Removed, and not done yet.
    private let closing = Locked<[DestinationRunner]>([])
    /// State that a store would not take yet.
    private let unsaved = Locked<[StateChange]>([])
    private let limits: Limits
    private let store: any StateStore
    private let diagnostics: Diagnostics

    init(limits: Limits, store: any StateStore, diagnostics: Diagnostics) {
        self.limits = limits
        self.store = store
        self.diagnostics = diagnostics
    }

    /// What has passed the stages and waits for the seal.
    private struct Chunk: Sendable {
        var items: [Item] = []
        /// Events that left memory, by reason.
        var releases: [Account.Reason: (count: Int, bytes: Int)] = [:]

        enum Item: Sendable {
            case survivor(Survivor)
            case reset(ResetOptions)
            case flush
        }

        /// State in the order of the road: it is stored before the events are handed on.
        var changes: [StateChange] = []

        mutating func release(_ event: Event, as reason: Account.Reason) {
            let sum = releases[reason, default: (0, 0)]
            releases[reason] = (sum.count + 1, sum.bytes + event.cost)
        }
    }

    /// An event that no plugin dropped, encoded for the data plane if there is one.
    private struct Survivor: Sendable {
        var event: Event
        var encoded: EncodedEvent?
    }

    /// Runs a chunk of the road, in order.
    func run(_ items: [RoadItem], in engine: Engine) {
        var chunk = Chunk()
        let analytics = engine.makeHandle()
        var contextKeys = engine.contextKeys
        for item in items {
            chunk.changes.merge(item.changes)
            switch item.load {
            case .none: break
            case .event(let event): pass(event, into: &chunk, keeping: contextKeys, in: analytics)
            case .reset(let options):
                for plugin in orderedPlugins { plugin.reset(options) }
                chunk.items.append(.reset(options))
            case .flush:
                for plugin in orderedPlugins { plugin.flush() }
                chunk.items.append(.flush)
            case .add(let plugin):
                handOn(&chunk, engine)
                add(plugin, in: engine)
                contextKeys = engine.contextKeys
            case .remove(let plugin):
                handOn(&chunk, engine)
                remove(plugin, in: engine)
            case .barrier(let throughDestinations, let action):
                handOn(&chunk, engine)
                if throughDestinations { passBarrier(action) } else { action() }
            case .close:
                handOn(&chunk, engine)
                close { engine.drained.reach() }
                engine.didClose()
            }
        }
        handOn(&chunk, engine)
    }
}

// MARK: - The stages

extension Pipeline {
    private var orderedPlugins: [any Plugin] {
        stages.withLock { ($0[.before] ?? []) + ($0[.enrichment] ?? []) }
    }

    /// Takes an event through the Before and Enrichment stages, and sees whether the data plane would have it.
    ///
    /// - Parameter contextKeys: What other plugins than their owner did to these is undone; a removal stays.
    private func pass(
        _ event: Event, into chunk: inout Chunk, keeping contextKeys: [String], in analytics: Analytics
    ) {
        var event = event
        for plugin in orderedPlugins {
            guard let next = event.processed(by: plugin, in: analytics) else {
                let name = String(describing: type(of: plugin))
                diagnostics.log(.debug, "\(name) dropped an event of kind \(event.kind)")
                chunk.release(event, as: .plugin(name))
                return
            }
            event = next
        }
        if event.undoChanges(under: contextKeys, since: event.captured.context) {
            diagnostics.once(
                "undone", .warn,
                "A plugin changed context keys of another (\(contextKeys.joined(separator: ", "))); that was undone")
        }
        guard restoreIdentity(of: &event) else {
            chunk.release(event, as: .invalid)
            return
        }
        var survivor = Survivor(event: event)
        if let dataPlane = dataPlane.withLock({ $0 }) {
            guard let encoded = encode(event, for: dataPlane) else {
                chunk.release(event, as: .tooLarge)
                return
            }
            survivor.encoded = encoded
        }
        chunk.items.append(.survivor(survivor))
    }

    /// The event's bytes; `nil` if they are more than an event may have.
    private func encode(_ event: Event, for dataPlane: any DataPlaneDestination) -> EncodedEvent? {
        let encoded = EncodedEvent(event, channel: dataPlane.channel)
        report(encoded, of: event)
        guard encoded.bytes.count > limits.eventBytes else { return encoded }
        diagnostics.error(
            "An event of \(encoded.bytes.count) bytes was dropped: \(limits.eventBytes) bytes are the limit")
        return nil
    }

    /// The gateway refuses a batch with an event without an id: what plugins blanked comes back.
    private func restoreIdentity(of event: inout Event) -> Bool {
        event.userId = event.userId.nonBlank
        event.anonymousId = event.anonymousId.nonBlank
        if event.userId != nil || event.anonymousId != nil { return true }
        guard let anonymousId = event.captured.anonymousId else {
            diagnostics.once(
                "invalid", .error,
                "An event without user id and anonymous id was dropped; is IdentityPlugin left out?")
            return false
        }
        diagnostics.once(
            "blanked", .warn, "A plugin blanked both ids of an event; its anonymous id was restored")
        event.anonymousId = anonymousId
        return true
    }

    private func report(_ encoded: EncodedEvent, of event: Event) {
        if encoded.nonFiniteCount > 0 {
            diagnostics.once(
                "nonFinite", .warn, "A number that is not finite was sent as null, in an event of kind \(event.kind)")
        }
        if encoded.tooDeepCount > 0 {
            diagnostics.once(
                "tooDeep", .warn,
                "Values nested deeper than \(JSONWriter.maximumDepth) levels were sent as null, in an event of kind \(event.kind)"
            )
        }
    }
}

// MARK: - Seal and hand-over

extension Pipeline {
    private func handOn(_ chunk: inout Chunk, _ engine: Engine) {
        for (reason, sum) in chunk.releases { engine.release(count: sum.count, bytes: sum.bytes, as: reason) }
        seal(&chunk, engine)
        save(chunk.changes)
        deliver(chunk.items, engine)
        chunk = Chunk()
    }

    /// One critical section for the whole chunk, and none where nothing is to be sealed.
    private func seal(_ chunk: inout Chunk, _ engine: Engine) {
        guard !chunk.items.isEmpty else { return }
        chunk = engine.sealing(chunk) { chunk, core in
            var aftermaths: [Core.Aftermath] = []
            for index in chunk.items.indices {
                guard case .survivor(var survivor) = chunk.items[index] else { continue }
                let seal = core.seal(&survivor.event)
                for (key, value) in seal.additions { survivor.encoded?.splice(key, value) }
                chunk.changes.merge(seal.changes)
                chunk.items[index] = .survivor(survivor)
                aftermaths.append(seal.aftermath)
            }
            return aftermaths
        }
    }

    /// State is stored before the events that were decided by it (S20). What a store refuses is kept and tried again with
    /// the next change.
    private func save(_ changes: [StateChange]) {
        guard store.isOwned else { return }
        let all = unsaved.withLock { unsaved in
            unsaved.merge(changes)
            return unsaved
        }
        guard !all.isEmpty else { return }
        do {
            try store.save(all)
            unsaved.withLock { $0 = [] }
        } catch {
            diagnostics.once("save", .error, "The state could not be stored; it is kept in memory", error)
        }
    }

    private func deliver(_ items: [Chunk.Item], _ engine: Engine) {
        guard !items.isEmpty else { return }
        if let dataPlane = dataPlane.withLock({ $0 }) {
            let growth = items.reduce(0) { $0 + hand($1, to: dataPlane, engine) }
            engine.correctMemory(by: growth)
            if items.contains(where: { if case .survivor = $0 { true } else { false } }) { dataPlane.didTakeChunk() }
        } else {
            let events = items.compactMap { if case .survivor(let survivor) = $0 { survivor.event } else { nil } }
            engine.release(count: events.count, bytes: events.reduce(0) { $0 + $1.cost }, as: nil)
        }
        let runners = runners.withLock { $0 }
        guard !runners.isEmpty else { return }
        let handed = items.map { item in
            switch item {
            case .survivor(let survivor): DestinationItem.event(survivor.event)
            case .reset(let options): DestinationItem.reset(options)
            case .flush: DestinationItem.flush
            }
        }
        for runner in runners { runner.take(handed) }
    }

    /// - Returns: By how many bytes the item is larger than was estimated at the call.
    private func hand(_ item: Chunk.Item, to dataPlane: any DataPlaneDestination, _ engine: Engine) -> Int {
        switch item {
        case .survivor(let survivor):
            guard let encoded = survivor.encoded else { return 0 }
            guard dataPlane.ownPlugins.isEmpty else {
                return handThroughOwnPlugins(survivor.event, to: dataPlane, engine)
            }
            dataPlane.take(encoded, of: survivor.event)
            return encoded.bytes.count - survivor.event.cost
        case .reset(let options):
            dataPlane.ownPlugins.reset(options)
            dataPlane.reset(options)
        case .flush:
            dataPlane.ownPlugins.flush()
            dataPlane.flush()
        }
        return 0
    }

    /// They come after the seal, so that what they drop spends no mark; what they leave must still be an event that the
    /// data plane takes.
    private func handThroughOwnPlugins(
        _ sealed: Event, to dataPlane: any DataPlaneDestination, _ engine: Engine
    ) -> Int {
        let own = dataPlane.ownPlugins
        guard var event = own.process(sealed, keeping: engine.contextKeys, in: engine.makeHandle()) else {
            engine.release(count: 1, bytes: sealed.cost, as: .plugin(String(describing: type(of: dataPlane))))
            return 0
        }
        guard restoreIdentity(of: &event) else {
            engine.release(count: 1, bytes: sealed.cost, as: .invalid)
            return 0
        }
        guard let encoded = encode(event, for: dataPlane) else {
            engine.release(count: 1, bytes: sealed.cost, as: .tooLarge)
            return 0
        }
        dataPlane.take(encoded, of: event)
        return encoded.bytes.count - sealed.cost
    }
}

// MARK: - Coming and going

extension Pipeline {
    private func add(_ plugin: any Plugin, in engine: Engine) {
        if let destination = plugin as? any DataPlaneDestination {
            guard destination.attach(to: engine.dataPlaneEnvironment()) else {
                diagnostics.error("A data-plane destination that another instance uses was added; it gets no events")
                return
            }
            dataPlane.withLock { $0 = destination }
            return
        }
        guard plugin.stage == .destination else {
            stages.withLock { $0[plugin.stage, default: []].append(plugin) }
            return
        }
        // One that was removed and comes back shares its executor with what it still has to do.
        let former = closing.withLock { closing in
            closing.removeAll { $0.isDone }
            return closing.first { $0.plugin === plugin }
        }
        let runner = DestinationRunner(plugin, limits: limits, after: former, in: engine)
        runners.withLock { $0.append(runner) }
    }

    private func remove(_ plugin: any Plugin, in engine: Engine) {
        engine.letGo(of: plugin)
        if let runner = runners.withLock({ runners in
            runners.firstIndex { $0.plugin === plugin }.map { runners.remove(at: $0) }
        }) {
            closing.withLock { $0.append(runner) }
            runner.take([.close])
            return
        }
        if let removed = dataPlane.withLock({ present -> (any DataPlaneDestination)? in
            guard present === plugin else { return nil }
            return present.take()
        }) {
            removed.ownPlugins.detach()
        }
        stages.withLock { stages in
            for stage in stages.keys { stages[stage]?.removeAll { $0 === plugin } }
        }
        plugin.teardown()
    }

    /// - Parameter item: What every destination gets before the barrier.
    private func passBarrier(after item: DestinationItem? = nil, _ action: @escaping @Sendable () -> Void) {
        let runners = runners.withLock { $0 }
        let left = Locked(runners.count + 1)
        let arrive: @Sendable () -> Void = {
            let isLast = left.withLock { left in
                left -= 1
                return left == 0
            }
            if isLast { action() }
        }
        for runner in runners { runner.take((item.map { [$0] } ?? []) + [.barrier(arrive)]) }
        arrive()
    }

    /// - Parameter drained: Run when every destination has handled its last event and has been torn down.
    private func close(_ drained: @escaping @Sendable () -> Void) {
        passBarrier(after: .close, drained)
        runners.withLock { $0 = [] }
        let plugins = orderedPlugins
        stages.withLock { $0 = [:] }
        for plugin in plugins { plugin.teardown() }
        if let dataPlane = dataPlane.withLock({ $0.take() }) {
            dataPlane.ownPlugins.detach()
            dataPlane.teardown()
        }
        store.close()
    }
}
