// MARK: - Guests and owners

extension EventLog {
    /// What is told outside all locks.
    struct Handlers: Sendable {
        var ownershipChanged: (@Sendable (Bool) -> Void)?
        var othersStored: (@Sendable () -> Void)?
        var evicted: (@Sendable () -> Void)?
        /// Wakes this owner when a guest wants an upload.
        var signal: CancellationToken?
    }

    func whenOwnershipChanges(_ action: @escaping @Sendable (_ isOwned: Bool) -> Void) {
        handlers.withLock { $0.ownershipChanged = action }
    }

    func whenEvicted(_ action: @escaping @Sendable () -> Void) { handlers.withLock { $0.evicted = action } }

    func whenOthersStore(_ action: @escaping @Sendable () -> Void) {
        handlers.withLock { $0.othersStored = action }
        listen()
    }

    /// An upload is wanted: an owner may begin one; a guest becomes the owner if it can, else wakes who is, and learns what
    /// has become of its events.
    func mayUpload() -> Bool {
        if !isDurable { return true }
        if isOwned {
            if isInPlace { return true }
            // Who lost the folder, or its lock, must not send what another sends.
            writer.withLock { writer in if !writer.isClosed { try? renewFolder(&writer) } }
            endOfCall()
            if isOwned { return true }
        }
        if !known.withLock({ $0.isGivenUp }), claim() { return true }
        learnFromOwner()
        disk.signal(files.signal)
        return false
    }

    /// Takes the folder over, if it is free. State is read anew.
    ///
    /// - Returns: Whether the folder is this instance's.
    @discardableResult
    func reclaim() -> Bool {
        known.withLock { $0.isGivenUp = false }
        return claim()
    }

    private func claim() -> Bool {
        defer { endOfCall() }
        return writer.withLock { writer in
            takeOver(&writer)
            return isOwned
        }
    }

    /// Gives the folder up, for another process to take, until `reclaim`: this instance goes on as a guest, in its run. What
    /// is delivered at this moment will be sent again.
    ///
    /// State that is still on its way to the store is lost to it.
    func releaseOwnership() {
        defer { endOfCall() }
        writer.withLock { writer in
            known.withLock { $0.isGivenUp = true }
            guard isOwned, !writer.isClosed else { return }
            checkpoint(&writer)
            try? sync(&writer)  // said by the checkpoint
            removeSpareCheckpoint()
            becomeGuest()
        }
    }

    /// Nothing but what this instance wrote itself is its own from now on. With the writer's lock; told by `endOfCall`.
    func becomeGuest() {
        reader.withLock { reader in
            dropPendingCheckpoint()
            known.withLock { known in
                known.isOwner = false
                known.mustCompleteErasure = false
                known.untold.append(false)
                known.index.letGoOfOthers(keeping: known.ownRuns)
            }
            reader.forgetFiles()
            ownership?.release()
        }
        handlers.withLock { $0.signal.take() }?.cancel()
    }

    /// A guest that gets the owner's lock. Its run ends: state is read in the order of runs, so that it must be written to
    /// one that comes after those of all owners before.
    func takeOver(_ writer: inout Writer) {
        reader.withLock { reader in
            guard !reader.isClosed, !isOwned, let ownership, ownership.take() else { return }
            learnFromOwner()
            endRun(&writer)
            do {
                becomeOwner(try LogOpening(files, on: disk, isOwner: true, diagnostics), &reader)
            } catch {
                diagnostics.once("take over", .error, "The store could not be taken over", error)
                ownership.release()
            }
        }
    }

    /// What was written in it stays; the next record begins another run.
    func endRun(_ writer: inout Writer) {
        do {
            try sync(&writer)
        } catch {
            diagnostics.once("sync", .error, "What is stored could not be brought to the disk itself", error)
        }
        dropPendingCheckpoint()
        writer.appender.take()?.close()
        writer.isDirty = false
        writer.unsynced = []
        writer.run.take()?.unlock()
        writer.segment = 0
        writer.size = 0
        writer.next = 0
        known.withLock { $0.index.ownRun = 0 }
    }

    private func becomeOwner(_ opening: LogOpening, _ reader: inout Reader) {
        reader.forgetFiles()
        reader.base = opening.base
        reader.acknowledgements = opening.acknowledgements
        reader.mustSyncFolder = true
        known.withLock { known in
            var counts = known.index.counts
            counts.appended = counts.settled + opening.index.counts.appended
            let (own, ownCount, untold) = (known.ownRuns, known.index.ownCount, known.untold)
            known = Known(opening, isOwner: true)
            known.index.counts = counts
            known.index.ownCount = ownCount
            known.ownRuns = own
            known.untold = untold + [true]
        }
    }

    /// How far the owner has delivered what this guest wrote.
    private func learnFromOwner() {
        let (runs, ownRun) = known.withLock { ($0.index.runs, $0.index.ownRun) }
        for run in runs {
            guard let slots = try? SlotFile(reading: files.acknowledgement(of: run.number), on: disk) else { continue }
            known.withLock { $0.index.settle(run.number, to: slots.values[0], LogIndex.Sums(slots.values[1...4])) }
        }
        // None of a run that has ended, and of which nothing is left, waits any more.
        let ended = known.withLock { $0.index.runs.filter { $0.number != ownRun && !$0.isOver } }
        guard !ended.isEmpty, let listing = try? LogListing(files, on: disk) else { return }
        let base = (try? SlotFile(reading: files.base, on: disk))?.values
        for run in ended where listing.runs[run.number] == nil && !listing.newer.contains(run.number) {
            var sums = run.sums
            // The base says what became of all runs together, so that this is a guess; a folder that was erased, or removed
            // and made anew, knows of less.
            let isTakenIn = base.map { $0[0] >= UInt64(run.number) && $0[2] >= run.end } ?? false
            if isTakenIn { sums.delivered += run.end - run.position } else { sums.damaged += run.end - run.position }
            known.withLock { [sums] in $0.index.settle(run.number, to: run.end, sums) }
        }
    }

    /// Says what was held back while a lock was held.
    func endOfCall() {
        messages.deliver()
        let untold = known.withLock { known in
            defer { known.untold = [] }
            return known.untold
        }
        if untold.last == true {
            listen()
            tidy()
            messages.deliver()
        }
        let handlers = handlers.withLock { $0 }
        for isOwner in untold { handlers.ownershipChanged?(isOwner) }
        if untold.last == true { handlers.othersStored?() }
    }

    /// From now on guests can wake this owner.
    func listen() {
        let isWanted = handlers.withLock { $0.signal == nil && $0.othersStored != nil }
        guard isOwned, isWanted,
            let signal = disk.makeSignal(
                files.signal, { [weak self] in self?.handlers.withLock { $0.othersStored }?() })
        else { return }
        let isLate = reader.withLock { $0.isClosed }
        let spare = handlers.withLock { handlers -> CancellationToken? in
            if isLate || handlers.signal != nil { return signal }
            handlers.signal = signal
            return nil
        }
        spare?.cancel()
    }
}

// MARK: - What the others wrote

extension EventLog {
    /// Finds out what other processes have written since it looked the last time.
    ///
    /// First the locks, then the runs: what a run has whose lock was free before is all that it will ever have.
    func look() {
        defer { messages.deliver() }
        lookAtOthers()
        guard isOwned else { return }
        // Others bound nothing themselves. What is far from the bound, were each twice a full segment, is not looked at: a
        // request would wait for that.
        guard known.withLock({ $0.index.bytes(unmeasured: 2 << 20) }) > limits.storageBytes else { return }
        measure()
        guard known.withLock({ $0.index.bytes }) > limits.storageBytes else { return }
        tellingEvictions { writer.withLock { writer in if !writer.isClosed { evict(&writer) } } }
    }

    private func lookAtOthers() {
        reader.withLock { reader in
            guard !reader.isClosed, isOwned, !known.withLock({ $0.mustCompleteErasure }) else { return }
            do {
                try look(&reader)
            } catch {
                diagnostics.once("look", .error, "What other processes have stored can't be read now", error)
            }
        }
    }

    private func look(_ reader: inout Reader) throws {
        let live = known.withLock { $0.index.runs.filter(\.isLive) }
        let over = Set(try live.map(\.number).filter { try !disk.isLocked(files.runLock(of: $0)) })
        // What is over, this instance's own, or in the base, does not grow.
        let settled = known.withLock { known in
            Set(known.index.runs.filter { !$0.isLive }.map(\.number) + [known.index.ownRun])
        }
        var listing = try LogListing(files, on: disk, without: settled.union([Int(clamping: reader.base.values[1])]))
        try listing.measureAgain()
        let known = self.known.withLock { known in
            Dictionary(uniqueKeysWithValues: known.index.runs.map { ($0.number, $0) })
        }
        for found in listing.runs.values.sorted(by: { $0.number < $1.number }) {
            var run = known[found.number] ?? LogIndex.Run(number: found.number, isLive: true)
            guard run.isLive else { continue }
            run.isLive = !over.contains(run.number)
            try run.grow(to: found, files, on: disk)
            let isNew = self.known.withLock { known in
                // The own run may have begun meanwhile.
                if run.number == known.index.ownRun { return false }
                defer { known.highestRun = max(known.highestRun, run.number) }
                return known.index.replace(run)
            }
            if isNew { reserve(&reader, for: run) }
        }
    }
}

extension LogIndex.Run {
    /// Reads what another process has written since the last time. Guests write no state.
    fileprivate mutating func grow(to found: LogIndex.Run, _ files: LogFiles, on disk: any FileSystem) throws {
        let lastKnown = segments.last?.index ?? 0
        for segment in found.segments {
            if segment.index > lastKnown {
                segments.append(segment)
            } else if let offset = segments.firstIndex(where: { $0.index == segment.index }) {
                segments[offset].size = max(segments[offset].size ?? 0, segment.size ?? 0)
            }
        }
        guard let last = segments.last else { return }
        if last.index != lastKnown { end = max(last.first, position) }
        let path = files.segment(last, of: number)
        let count = max(0, (last.size ?? 0) - last.scanned)
        guard let bytes = try disk.contents(of: path, from: last.scanned, count: count) else { return }
        bytes.withUnsafeBytes { buffer in
            var scanner = LogScanner()
            while let record = scanner.next(in: buffer) { note(record.header, endingAt: last.scanned + record.end) }
            if !isLive, let damaged = scanner.highestDamaged { end = max(end, damaged + 1) }
        }
    }
}
