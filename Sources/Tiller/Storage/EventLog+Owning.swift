// MARK: - Guests and owners

extension EventLog {
    /// What is told outside all locks.
    struct Handlers: Sendable {
        var ownershipChanged: (@Sendable (Bool) -> Void)?
        var othersStored: (@Sendable () -> Void)?
        /// Wakes this owner when a guest wants an upload.
        var signal: CancellationToken?
    }

    func whenOwnershipChanges(_ action: @escaping @Sendable (_ isOwned: Bool) -> Void) {
        handlers.withLock { $0.ownershipChanged = action }
    }

    func whenOthersStore(_ action: @escaping @Sendable () -> Void) {
        handlers.withLock { $0.othersStored = action }
        listen()
    }

    /// An upload is wanted: an owner may begin one; a guest becomes the owner if it can, else wakes who is, and learns what
    /// has become of its events.
    func mayUpload() -> Bool {
        if isOwned || !isDurable { return true }
        if reclaim() { return true }
        learnFromOwner()
        disk.signal(files.signal)
        return false
    }

    /// Takes the folder over, if it is free. State is read anew.
    ///
    /// - Returns: Whether the folder is this instance's.
    @discardableResult
    func reclaim() -> Bool {
        defer { endOfCall() }
        return writer.withLock { writer in
            takeOver(&writer)
            return isOwned
        }
    }

    /// Gives the folder up, for another process to take: this instance goes on as a guest, in its run. What is delivered at
    /// this moment will be sent again.
    ///
    /// State that is still on its way to the store is lost to it.
    func releaseOwnership() {
        let isReleased = writer.withLock { writer in
            guard isOwned, !writer.isClosed else { return false }
            checkpoint(&writer)
            try? sync(&writer)  // said by the checkpoint
            becomeGuest()
            return true
        }
        messages.deliver()
        guard isReleased else { return }
        known.withLock { $0.mustTellOwnership = false }
        handlers.withLock { $0.ownershipChanged }?(false)
    }

    /// Nothing but what this instance wrote itself is its own from now on. With the writer's lock; told by `endOfCall`.
    func becomeGuest() {
        reader.withLock { reader in
            known.withLock { known in
                known.isOwner = false
                known.mustTellOwnership = true
                known.index.letGoOfOthers(keeping: known.ownRuns)
            }
            reader.cursor = nil
            reader.acknowledgements = [:]
            reader.leftovers = []
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
        reader.base = opening.base
        reader.acknowledgements = opening.acknowledgements
        reader.cursor = nil
        reader.leftovers = []
        reader.mustSyncFolder = true
        reader.secured = []
        known.withLock { known in
            var counts = known.index.counts
            counts.appended = counts.settled + opening.index.counts.appended
            let (own, ownCount) = (known.ownRuns, known.index.ownCount)
            known = Known(opening, isOwner: true)
            known.index.counts = counts
            known.index.ownCount = ownCount
            known.ownRuns = own
            known.mustTellOwnership = true
        }
    }

    /// How far the owner has delivered what this guest wrote.
    private func learnFromOwner() {
        let (runs, ownRun) = known.withLock { ($0.index.runs, $0.index.ownRun) }
        for run in runs {
            guard let slots = try? SlotFile(reading: files.acknowledgement(of: run.number), on: disk) else { continue }
            known.withLock { $0.index.settle(run.number, to: slots.values[0], LogIndex.Sums(slots.values[1...4])) }
        }
        // A run that has ended, and of which nothing is left, was taken into the base: none of it waits any more.
        let ended = known.withLock { $0.index.runs.filter { $0.number != ownRun && !$0.isOver } }
        guard !ended.isEmpty, let listing = try? LogListing(files, on: disk) else { return }
        for run in ended where listing.runs[run.number] == nil && !listing.newer.contains(run.number) {
            known.withLock { known in
                var sums = run.sums
                sums.delivered += run.end - run.position
                known.index.settle(run.number, to: run.end, sums)
            }
        }
    }

    /// Says what was held back while a lock was held.
    func endOfCall() {
        messages.deliver()
        let (isNew, isOwner) = known.withLock { known in
            defer { known.mustTellOwnership = false }
            return (known.mustTellOwnership, known.isOwner)
        }
        guard isNew else { return }
        guard isOwner else {
            handlers.withLock { $0.ownershipChanged }?(false)
            return
        }
        listen()
        tidy()
        messages.deliver()
        let handlers = handlers.withLock { $0 }
        handlers.ownershipChanged?(true)
        handlers.othersStored?()
    }

    /// From now on guests can wake this owner.
    func listen() {
        let action = handlers.withLock { $0.signal == nil ? $0.othersStored : nil }
        guard isOwned, let action, let signal = disk.makeSignal(files.signal, action) else { return }
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
        let listing = try LogListing(files, on: disk)
        let (known, ownRun, folded) = self.known.withLock {
            (
                Dictionary(uniqueKeysWithValues: $0.index.runs.map { ($0.number, $0) }), $0.index.ownRun,
                reader.base.values[1]
            )
        }
        for found in listing.runs.values where found.number != ownRun && found.number != Int(clamping: folded) {
            var run = known[found.number] ?? LogIndex.Run(number: found.number, isLive: true)
            guard run.isLive else { continue }
            run.isLive = !over.contains(run.number)
            try run.grow(to: found, files, on: disk)
            self.known.withLock { known in
                known.index.replace(run)
                known.highestRun = max(known.highestRun, run.number)
            }
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
                segments[offset].size = segment.size
            }
        }
        guard let last = segments.last else { return }
        if last.index != lastKnown { end = max(last.first, position) }
        guard let bytes = try disk.contents(of: files.segment(last, of: number), from: last.scanned, count: last.size)
        else { return }
        bytes.withUnsafeBytes { buffer in
            var scanner = LogScanner()
            while let record = scanner.next(in: buffer) { note(record.header, endingAt: last.scanned + record.end) }
            if !isLive, let damaged = scanner.highestDamaged { end = max(end, damaged + 1) }
        }
    }
}
