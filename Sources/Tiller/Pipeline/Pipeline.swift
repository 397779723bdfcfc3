/// The ordered run Before → Enrichment → seal → destinations.
///
/// It is run by one executor at a time, the instance's; its state is behind a
/// lock only so that it can be a `Sendable` class, and no plugin is called
/// from inside it.
final class Pipeline: Sendable {
    /// Nothing is let go of inside the lock: with the last reference goes a plugin, and its end is foreign code.
    let members = Locked(Members())
    let limits: Limits
    let store: OverflowingStore
    let writer: StoreWriter
    let diagnostics: Diagnostics

    init(limits: Limits, store: OverflowingStore, diagnostics: Diagnostics) {
        self.limits = limits
        self.store = store
        writer = StoreWriter(store, diagnostics)
        self.diagnostics = diagnostics
    }

    /// Plugins in the order in which they were added, and what stands for those that are destinations.
    struct Members: Sendable {
        var before: [any Plugin] = []
        var enrichment: [any Plugin] = []
        /// The data plane, for which the last step stores events on the pipeline's own executor.
        var dataPlane: DataPlane?
        var runners: [DestinationRunner] = []
        /// Removed, and not done yet.
        var closing: [DestinationRunner] = []
        /// What has or had the data plane's place, and may use the store yet: each waits for the one before it.
        var uploads: [any Uploads] = []

        /// Those that see events before the destinations.
        var ordered: [any Plugin] { before + enrichment }
    }

    struct DataPlane: Sendable {
        let destination: any DataPlaneDestination
        let uploads: any Uploads
    }

    /// What has passed the stages and waits for the seal.
    private struct Chunk: Sendable {
        var items: [Item] = []
        /// Of the events among the items, as the data plane gets them.
        var texts: [UInt8] = []
        /// Events that left memory, by reason.
        var releases: [Account.Reason: (count: Int, bytes: Int)] = [:]

        enum Item: Sendable {
            case survivor(Survivor)
            /// State without an event.
            case state([StateChange])
            case reset(ResetOptions)
            case flush
        }

        /// Room for so many events, or for as many as there will be.
        mutating func reserve(_ count: Int) {
            let bytes = min(count * Pipeline.usualText, Pipeline.textsPerChunk)
            // The last one comes on top.
            texts.reserveCapacity(bytes + Pipeline.usualText)
            items.reserveCapacity(bytes / Pipeline.usualText)
        }

        /// When that was first asked, by the continuous clock.
        private var isHeldSince: Duration?

        /// Whether it has been held for more than 20 ms.
        mutating func isHeldTooLong(at now: Duration) -> Bool {
            guard let since = isHeldSince else {
                isHeldSince = now
                return false
            }
            return now - since > .milliseconds(20)
        }

        /// State that was saved since the last survivor: it is stored in one record with the next one.
        var changes: [StateChange] = []

        mutating func takeChanges() -> [StateChange] {
            defer { changes = [] }
            return changes
        }

        /// Nothing follows with which they could be stored.
        mutating func closeChanges() {
            if !changes.isEmpty { items.append(.state(takeChanges())) }
        }

        mutating func release(_ event: Event, as reason: Account.Reason) {
            let sum = releases[reason, default: (0, 0)]
            releases[reason] = (sum.count + 1, sum.bytes + event.cost)
        }
    }

    /// An event that no plugin dropped.
    private struct Survivor: Sendable {
        var event: Event
        /// Its text among those of the chunk, if there is a data plane.
        let written: WrittenEvent?
        /// What the seal has added to its context since.
        var additions: [(key: String, value: JSONValue)] = []
        /// The state that changed with it, and with what was dropped before it.
        var changes: [StateChange]
    }

    /// With plugins that take their time, what has passed them does not wait for the rest of the chunk. The clock is looked
    /// at now and then only.
    private static let eventsBetweenLooks = 8

    /// In bytes: what is written at once, and no more than a processor's cache takes.
    private static let textsPerChunk = 1 << 18
    /// In bytes: most events have less.
    private static let usualText = 1_024

    /// Runs a chunk of the road, in order.
    func run(_ items: consuming [RoadItem], in engine: Engine) {
        var chunk = Chunk()
        let analytics = engine.makeHandle()
        var way = way(in: engine)
        var writer = JSONWriter(capacity: Self.usualText)
        for index in items.indices {
            // Taken out: who changes an event that somebody else has copies it.
            var item = RoadItem(load: .none, changes: [])
            swap(&item, &items[index])
            if case .erase = item.load {
                handOn(&chunk, engine)
                erase(leaving: item.changes, engine)
                continue
            }
            if !item.changes.isEmpty { chunk.changes.merge(item.changes) }
            switch item.load {
            case .none, .erase: break
            case .event(let event):
                item.load = .none
                if chunk.texts.isEmpty, way.dataPlane != nil {
                    chunk.reserve(items.count - index)
                }
                pass(event, along: way, into: &chunk, with: &writer, in: analytics)
                if chunk.texts.count >= Self.textsPerChunk
                    || index % Self.eventsBetweenLooks == 0 && chunk.isHeldTooLong(at: engine.time.continuous)
                {
                    handOn(&chunk, engine)
                }
            case .reset(let options):
                for plugin in way.plugins { plugin.reset(options) }
                chunk.closeChanges()
                chunk.items.append(.reset(options))
            case .flush:
                for plugin in way.plugins { plugin.flush() }
                chunk.closeChanges()
                chunk.items.append(.flush)
            case .add(let plugin):
                handOn(&chunk, engine)
                add(plugin, in: engine)
                way = self.way(in: engine)
            case .remove(let plugin):
                handOn(&chunk, engine)
                remove(plugin, in: engine)
                way = self.way(in: engine)
            case .barrier(let throughDestinations, let action):
                handOn(&chunk, engine)
                if throughDestinations { passBarrier(action) } else { action() }
            case .close:
                handOn(&chunk, engine)
                close(engine) { engine.drained.reach() }
                engine.didClose()
            }
        }
        handOn(&chunk, engine)
    }
}

// MARK: - The stages

extension Pipeline {
    /// Plugins that only capture are passed by.
    private static func processes(_ plugin: any Plugin) -> Bool {
        plugin.asCapturing?.processesEvents ?? true
    }

    /// What an event meets until a plugin comes or goes.
    private final class Way: Sendable {
        let plugins: [any Plugin]
        /// Those that see events.
        let processing: [any Plugin]
        let dataPlane: (any DataPlaneDestination)?
        /// What other plugins than their owner did to these keys of the context is undone; a removal stays.
        let contextKeys: JSONObject.Keys

        init(_ plugins: [any Plugin], _ dataPlane: (any DataPlaneDestination)?, _ contextKeys: JSONObject.Keys) {
            self.plugins = plugins
            processing = plugins.filter(Pipeline.processes)
            self.dataPlane = dataPlane
            self.contextKeys = contextKeys
        }
    }

    private func way(in engine: Engine) -> Way {
        let (plugins, dataPlane) = members.withLock { ($0.ordered, $0.dataPlane?.destination) }
        return Way(plugins, dataPlane, engine.contextKeys)
    }

    /// Takes an event through the Before and Enrichment stages, and sees whether the data plane would have it.
    private func pass(
        _ event: consuming Event, along way: Way, into chunk: inout Chunk, with writer: inout JSONWriter,
        in analytics: Analytics
    ) {
        var event = event
        // Kept apart: a plugin may put another event in the place of this one.
        var captured = Event.Captured()
        swap(&captured, &event.fields.captured)
        let fixed = event.fields.fixed
        for plugin in way.processing where !event.pass(plugin, keeping: fixed, in: analytics) {
            let name = String(describing: type(of: plugin))
            diagnostics.log(.debug, "\(name) dropped an event of kind \(event.kind)")
            chunk.release(event, as: .plugin(name))
            return
        }
        if event.undoChanges(under: way.contextKeys, since: captured.context) {
            let keys = way.contextKeys.texts.joined(separator: ", ")
            diagnostics.once(
                "undone", .warn, "A plugin changed context keys of another (\(keys)); that was undone")
        }
        guard restoreIdentity(of: &event, since: captured) else {
            chunk.release(event, as: .invalid)
            return
        }
        swap(&captured, &event.fields.captured)
        var written: WrittenEvent?
        if let dataPlane = way.dataPlane {
            written = write(event, for: dataPlane, to: &chunk.texts, with: &writer)
            if written == nil {
                chunk.release(event, as: .tooLarge)
                return
            }
        }
        chunk.items.append(.survivor(Survivor(event: event, written: written, changes: chunk.takeChanges())))
    }

    /// Adds the event's text to others; `nil`, and nothing is added, if it is more than an event may have.
    private func write(
        _ event: borrowing Event, for dataPlane: any DataPlaneDestination, to texts: inout [UInt8],
        with writer: inout JSONWriter
    ) -> WrittenEvent? {
        let anonymousId = writer.write(event, channel: dataPlane.channel)
        report(writer, of: event)
        let (size, limit) = (writer.count, limits.eventBytes)
        if size <= limit { return texts.append(writer, anonymousId: anonymousId) }
        diagnostics.loss(1, "larger than \(limit) bytes") {
            "An event of \(size) bytes was dropped: \(limit) bytes are the limit"
        }
        return nil
    }

    /// The gateway refuses a batch with an event without an id: what plugins blanked comes back.
    private func restoreIdentity(of event: inout Event, since captured: borrowing Event.Captured) -> Bool {
        // Written only where there is something to change: the event is shared.
        if event.userId != nil, event.userId.nonBlank == nil { event.userId = nil }
        if event.anonymousId != nil, event.anonymousId.nonBlank == nil { event.anonymousId = nil }
        if event.userId != nil || event.anonymousId != nil { return true }
        guard let anonymousId = captured.anonymousId else {
            diagnostics.loss(1, "without user id and anonymous id") {
                "An event without user id and anonymous id was dropped; is IdentityPlugin left out?"
            }
            return false
        }
        diagnostics.once(
            "blanked", .warn, "A plugin blanked both ids of an event; its anonymous id was restored")
        event.anonymousId = anonymousId
        return true
    }

    private func report(_ writer: borrowing JSONWriter, of event: borrowing Event) {
        if writer.nonFiniteCount > 0 {
            diagnostics.once(
                "nonFinite", .warn, "A number that is not finite was sent as null, in an event of kind \(event.kind)")
        }
        if writer.tooDeepCount > 0 {
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
        chunk.closeChanges()
        seal(&chunk, engine)
        let texts = chunk.texts
        var items: [Chunk.Item] = []
        swap(&items, &chunk.items)
        chunk = Chunk()
        deliver(consume items, texts, engine)
        engine.didChange()
    }

    /// One critical section for the whole chunk, and none where nothing is to be sealed.
    private func seal(_ chunk: inout Chunk, _ engine: Engine) {
        guard !chunk.items.isEmpty else { return }
        chunk = engine.sealing(chunk) { chunk, core in
            var aftermaths: [Core.Aftermath] = []
            for index in chunk.items.indices {
                guard case .survivor(var survivor) = chunk.items[index] else { continue }
                let seal = core.seal(&survivor.event)
                survivor.additions = seal.additions
                survivor.changes.merge(seal.changes)
                chunk.items[index] = .survivor(survivor)
                aftermaths.append(seal.aftermath)
            }
            return aftermaths
        }
    }

    /// - Parameter texts: Of the events among the items.
    private func deliver(_ items: consuming [Chunk.Item], _ texts: [UInt8], _ engine: Engine) {
        guard !items.isEmpty else { return }
        let (runners, dataPlane) = members.withLock { ($0.runners, $0.dataPlane) }
        let handed = runners.isEmpty ? [] : handedOn(items)
        let through = dataPlane.flatMap { $0.destination.ownPlugins.isEmpty ? nil : $0.destination }
        let eventsBefore = store.counts.appended
        var batch = StoreWriter.Batch()
        var passed: (count: Int, bytes: Int) = (0, 0)
        batch.reserve(items.count)
        for index in items.indices {
            // Taken out: what is not copied need not be counted.
            var item = Chunk.Item.flush
            swap(&item, &items[index])
            switch consume item {
            case .survivor(let survivor):
                if let through {
                    take(survivor, through: through, into: &batch, engine)
                } else if let written = survivor.written {
                    var encoded = EncodedEvent(written, in: texts, moment: survivor.event.moment)
                    for (key, value) in survivor.additions { encoded.splice(key, value) }
                    batch.add(consume encoded, cost: survivor.event.cost, with: survivor.changes)
                } else {
                    passed = (passed.count + 1, passed.bytes + survivor.event.cost)
                    batch.addState(survivor.changes)
                }
            case .state(let changes): batch.addState(changes)
            case .reset(let options):
                writer.write(&batch, for: engine)
                dataPlane?.destination.ownPlugins.reset(options)
                dataPlane?.destination.reset(options)
            case .flush:
                writer.write(&batch, for: engine)
                dataPlane?.destination.ownPlugins.flush()
                dataPlane?.destination.flush()
            }
        }
        writer.write(&batch, for: engine)
        engine.release(count: passed.count, bytes: passed.bytes, as: nil)
        if store.counts.appended > eventsBefore { dataPlane?.uploads.didStoreChunk() }
        if !handed.isEmpty { for runner in runners { runner.take(handed) } }
    }

    /// Of the data plane that was attached last; they may go on after the pipeline's end.
    var lastUploads: (any Uploads)? { members.withLock { $0.uploads.last } }

    /// What the store has not written is tried again; the executor's.
    func writeAgain(_ engine: Engine) { writer.writeAgain(for: engine) }

    /// What other destinations get.
    private func handedOn(_ items: [Chunk.Item]) -> [DestinationItem] {
        items.compactMap { item in
            switch item {
            case .survivor(let survivor): .event(survivor.event)
            case .state: nil
            case .reset(let options): .reset(options)
            case .flush: .flush
            }
        }
    }

    /// They come after the seal, so that what they drop spends no mark.
    private func take(
        _ survivor: Survivor, through dataPlane: any DataPlaneDestination, into batch: inout StoreWriter.Batch,
        _ engine: Engine
    ) {
        let cost = survivor.event.cost
        switch throughOwnPlugins(survivor.event, of: dataPlane, engine) {
        case .success(let encoded): batch.add(encoded, cost: cost, with: survivor.changes)
        case .failure(let drop):
            engine.release(count: 1, bytes: cost, as: drop.reason)
            batch.addState(survivor.changes)
        }
    }

    private struct Drop: Error {
        let reason: Account.Reason
    }

    /// What a data plane's own plugins leave must still be an event that it takes.
    private func throughOwnPlugins(
        _ sealed: Event, of dataPlane: any DataPlaneDestination, _ engine: Engine
    ) -> Result<EncodedEvent, Drop> {
        let own = dataPlane.ownPlugins
        guard var event = own.process(sealed, keeping: engine.contextKeys, in: engine.makeHandle()) else {
            return .failure(Drop(reason: .plugin(String(describing: type(of: dataPlane)))))
        }
        guard restoreIdentity(of: &event, since: sealed.fields.captured) else {
            return .failure(Drop(reason: .invalid))
        }
        var texts: [UInt8] = []
        var writer = JSONWriter()
        guard let written = write(event, for: dataPlane, to: &texts, with: &writer) else {
            return .failure(Drop(reason: .tooLarge))
        }
        return .success(EncodedEvent(written, in: texts, moment: event.moment))
    }
}
