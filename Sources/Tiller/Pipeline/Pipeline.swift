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
                remove(plugin)
            case .barrier(let throughDestinations, let action):
                handOn(&chunk, engine)
                if throughDestinations { passBarrier(action) } else { action() }
            case .close:
                handOn(&chunk, engine)
                close()
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
                chunk.release(event, as: .plugin(String(describing: type(of: plugin))))
                return
            }
            event = next
        }
        for key in contextKeys where event.context[key] != nil {
            let captured = event.captured.context[key]
            if event.context[key] != captured { event.context[key] = captured }
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
            let keys = core.contextKeys
            for index in chunk.items.indices {
                guard case .survivor(var survivor) = chunk.items[index] else { continue }
                let before = survivor.event.context
                chunk.changes.merge(core.seal(&survivor.event))
                for key in keys where before[key] == nil {
                    if let value = survivor.event.context[key] { survivor.encoded?.splice(key, value) }
                }
                chunk.items[index] = .survivor(survivor)
            }
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
            for item in items { hand(item, to: dataPlane, engine) }
            dataPlane.didTakeChunk()
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

    private func hand(_ item: Chunk.Item, to dataPlane: any DataPlaneDestination, _ engine: Engine) {
        switch item {
        case .survivor(let survivor):
            guard let encoded = survivor.encoded else { return }
            guard !dataPlane.ownPlugins.isEmpty else {
                dataPlane.take(encoded, of: survivor.event)
                return
            }
            handThroughOwnPlugins(survivor.event, to: dataPlane, engine)
        case .reset(let options):
            dataPlane.ownPlugins.reset(options)
            dataPlane.reset(options)
        case .flush:
            dataPlane.ownPlugins.flush()
            dataPlane.flush()
        }
    }

    /// They come after the seal, so that what they drop spends no mark; what they leave must still be an event that the
    /// data plane takes.
    private func handThroughOwnPlugins(
        _ sealed: Event, to dataPlane: any DataPlaneDestination, _ engine: Engine
    ) {
        guard var event = dataPlane.ownPlugins.process(sealed, in: engine.makeHandle()) else {
            let name = String(describing: type(of: dataPlane))
            engine.release(count: 1, bytes: sealed.cost, as: .plugin(name))
            return
        }
        guard restoreIdentity(of: &event) else {
            engine.release(count: 1, bytes: sealed.cost, as: .invalid)
            return
        }
        guard let encoded = encode(event, for: dataPlane) else {
            engine.release(count: 1, bytes: sealed.cost, as: .tooLarge)
            return
        }
        dataPlane.take(encoded, of: event)
    }
}

// MARK: - Coming and going

extension Pipeline {
    private func add(_ plugin: any Plugin, in engine: Engine) {
        if let destination = plugin as? any DataPlaneDestination {
            let isFirst = dataPlane.withLock { present in
                guard present == nil else { return false }
                present = destination
                return true
            }
            if !isFirst { diagnostics.error("A second data-plane destination was added; it gets no events") }
            return
        }
        guard plugin.stage == .destination else {
            stages.withLock { $0[plugin.stage, default: []].append(plugin) }
            return
        }
        let runner = DestinationRunner(
            plugin, limits: limits, analytics: { engine.makeHandle() }, onDrop: { engine.countDrop(by: $0) })
        runners.withLock { $0.append(runner) }
    }

    private func remove(_ plugin: any Plugin) {
        if let runner = runners.withLock({ runners in
            runners.firstIndex { $0.plugin === plugin }.map { runners.remove(at: $0) }
        }) {
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

    private func passBarrier(_ action: @escaping @Sendable () -> Void) {
        let runners = runners.withLock { $0 }
        let left = Locked(runners.count + 1)
        let arrive: @Sendable () -> Void = {
            if left.withLock({
                $0 -= 1; return $0 == 0
            }) {
                action()
            }
        }
        for runner in runners { runner.take([.barrier(arrive)]) }
        arrive()
    }

    private func close() {
        for runner in runners.withLock({ $0 }) { runner.take([.close]) }
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
