// MARK: - The end

extension Engine {
    func shutDown() {
        if isInert { return [closed, drained, finished].forEach { $0.reach() } }
        let observation = hub.stop()
        if configuration.lifecycleSource is ProcessLifecycleSource {
            // Until then a signal waits for what is on its way, if only for a while.
            finished.whenReached { observation?.cancel() }
        } else {
            observation?.cancel()
        }
        store.prepareToClose()  // before the pipeline can come to its end
        let aftermath = core.withLock { $0.shutDown() }
        if aftermath.isIgnored { return }  // a second call, or the release of an instance that was shut down
        finish(aftermath)
        let tokens = held.withLock { held in
            defer { held.wakes = held.wakes.mapValues { ($0.request, nil) } }
            return held.wakes.values.compactMap(\.token)
        }
        for token in tokens { token.cancel() }
    }

    /// The last thing the pipeline does.
    func didClose() {
        _ = core.withLock { $0.dismantle() }
        closed.reach()
    }

    /// The last upload is over: what was kept in memory only is lost.
    func finish() {
        held.withLock { $0.exitToken.take() }?.cancel()
        let rest = store.giveUp()
        if rest.count > 0 {
            diagnostics.error("\(rest.count) events could be neither stored nor delivered before the shutdown")
            core.withLock { $0.release(count: rest.count, bytes: rest.bytes, as: .notStored) }
        }
        let waiting = store.counts.waiting
        if waiting > 0, !store.isDurable {
            diagnostics.error("\(waiting) events were not delivered before the shutdown")
            core.withLock { $0.release(count: $0.account.inMemory, bytes: 0, as: .undelivered) }
        }
        store.close()
        diagnostics.sayRest()
        finished.reach()
        didChange()
    }

    /// How many events the data plane has not got: those that wait, and those that were lost for that.
    var undeliveredCount: Int {
        let account = account
        let lost = account.dropped[.undelivered, default: 0] + account.dropped[.notStored, default: 0]
        let counts = store.counts
        // In a store in memory, and before a full disk, they are in memory.
        return account.inMemory + lost + counts.lost - counts.erased
            + (store.isDurable ? counts.waiting - store.unwrittenCount : 0)
    }

    func writeAgain() { pipeline.writeAgain(self) }

    /// Whether everything that has passed the pipeline is on the disk, but for what was delivered without it.
    var isStored: Bool { store.hasStoredAll }

    /// What the store has got rid of, and how, since it was opened.
    var storeCounts: EventCounts { store.counts }

    /// What became of a flush that has passed the pipeline.
    ///
    /// - Parameter before: The store's counts at the call.
    func whenFlushed(after before: EventCounts, _ resume: @escaping @Sendable (FlushResult) -> Void) {
        guard let uploads = pipeline.lastUploads else { return resume(.nothingWaiting) }
        uploads.whenFlushed(settledBefore: before.settled) { [self] result in
            let lost = store.counts.lost - before.lost
            guard result == .delivered, lost > 0 else { return resume(result) }
            resume(.stopped(reason: "\(lost) stored events were given up, damaged or erased; the others are delivered"))
        }
    }
}
