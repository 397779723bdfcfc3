/// Plugins that come and go, and the end.
extension Pipeline {
    func add(_ plugin: any Plugin, in engine: Engine) {
        if let destination = plugin.asDataPlane { return add(destination, engine) }
        guard plugin.stage == .destination else {
            let isBefore = plugin.stage == .before
            members.withLock { members in
                if isBefore { members.before.append(plugin) } else { members.enrichment.append(plugin) }
            }
            return
        }
        // One that was removed and comes back shares its executor with what it still has to do.
        let former = stillClosing().first { $0.plugin === plugin }
        let runner = DestinationRunner(plugin, limits: limits, after: former, in: engine)
        members.withLock { $0.runners.append(runner) }
    }

    func remove(_ plugin: any Plugin, in engine: Engine) {
        engine.letGo(of: plugin)
        let runner = members.withLock { members in
            let index = members.runners.firstIndex { $0.plugin === plugin }
            let runner = index.map { members.runners.remove(at: $0) }
            if let runner { members.closing.append(runner) }
            return runner
        }
        if let runner { return runner.take([.close]) }
        if let destination = plugin.asDataPlane {
            // One that another instance uses was never ours to tear down.
            let removed = members.withLock { members in
                members.dataPlane?.destination === destination ? members.dataPlane.take() : nil
            }
            if let removed { end(removed) }
            return
        }
        members.withLock { members in
            members.before.removeAll { $0 === plugin }
            members.enrichment.removeAll { $0 === plugin }
        }
        plugin.teardown()
    }

    private func add(_ destination: any DataPlaneDestination, _ engine: Engine) {
        let uploads = members.withLock { members in
            defer { members.uploads.removeAll { $0.done.isReached } }
            return members.uploads
        }
        let isFree = uploads.last { !$0.done.isReached }?.done ?? .reached
        let environment = engine.dataPlaneEnvironment(isFree: isFree) { changes in
            var batch = StoreWriter.Batch()
            batch.addState(changes)
            writer.write(&batch, for: engine)
        }
        guard let new = destination.attach(to: environment) else {
            diagnostics.error("A data-plane destination that another instance uses was added; it gets no events")
            return
        }
        members.withLock { members in
            members.uploads.append(new)
            members.dataPlane = DataPlane(destination: destination, uploads: new)
        }
    }

    /// What is stored goes, and what waits to be; requests under way are broken off if they last.
    func erase(leaving changes: [StateChange], _ engine: Engine) {
        writer.erase(leaving: changes, keys: engine.storageKeys, for: engine)
        engine.didErase()
        guard let present = members.withLock({ $0.dataPlane.take() }) else { return }
        present.uploads.hurry()
        present.destination.teardown()
        add(present.destination, engine)  // with another installation's id
    }

    private func end(_ dataPlane: DataPlane) {
        dataPlane.destination.ownPlugins.detach()
        dataPlane.destination.teardown()
    }

    /// Destinations that were removed and have not done what they were handed before.
    private func stillClosing() -> [DestinationRunner] {
        let removed = members.withLock { members in
            defer { members.closing.removeAll(where: \.isDone) }
            return members.closing
        }
        return removed.filter { !$0.isDone }
    }

    /// Destinations that were removed, and have not done what they were handed before, are waited for too.
    ///
    /// - Parameter item: What every other destination gets before the barrier.
    func passBarrier(after item: DestinationItem? = nil, _ action: @escaping @Sendable () -> Void) {
        let runners = members.withLock { $0.runners }
        let former = stillClosing()
        let left = Locked(runners.count + former.count + 1)
        let arrive: @Sendable () -> Void = {
            let isLast = left.withLock { left in
                left -= 1
                return left == 0
            }
            if isLast { action() }
        }
        for runner in runners { runner.take((item.map { [$0] } ?? []) + [.barrier(arrive)]) }
        for runner in former { runner.take([.barrier(arrive)]) }
        arrive()
    }

    /// - Parameter drained: Run when every destination has handled its last event and has been torn down.
    func close(_ engine: Engine, _ drained: @escaping @Sendable () -> Void) {
        passBarrier(after: .close, drained)
        // Destinations hold themselves while they work, and the engine too.
        let former = members.withLock { members in
            defer {
                (members.before, members.enrichment, members.runners, members.closing) = ([], [], [], [])
            }
            return members
        }
        for plugin in former.ordered { plugin.teardown() }
        writer.end(engine)
        store.endWriting()
        let (uploads, dataPlane) = members.withLock { ($0.uploads, $0.dataPlane.take()) }
        store.whenWanted { for uploads in uploads { uploads.hurry() } }
        if let dataPlane { end(dataPlane) }
        (uploads.last?.done ?? .reached).whenReached { engine.finish() }
    }
}
