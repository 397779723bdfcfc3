// MARK: - A folder that was removed while it is used

extension EventLog {
    /// Where somebody has removed the folder, it is made anew, and locked anew. What was in it is lost, and counted.
    ///
    /// - Throws: `TakenOver` where another instance was faster: this one is a guest from now on.
    func renewFolder(_ writer: inout Writer) throws {
        guard !isInPlace || !(writer.run?.isInPlace ?? true) else { return }
        diagnostics.once("removed", .error, "\(files.folder) was removed while it is used; it is made anew")
        try disk.makeFolder(files.folder)
        let isTaken = try isOwned && !(ownership.map { try $0.isInPlace || $0.renew() } ?? true)
        writer.mustWriteAll = true
        let isEmpty = try forgetWhatIsGone(&writer)
        if isTaken {
            becomeGuest()
            throw TakenOver()
        }
        if isEmpty, isOwned { try writeBaseAnew() }
    }

    /// - Returns: Whether nothing is left of what was known; otherwise only locks are gone.
    private func forgetWhatIsGone(_ writer: inout Writer) throws -> Bool {
        let listing = try LogListing(files, on: disk)
        // Numbers may be those of a process that was faster.
        var live = try listing.runsThatLive()
        if let run = writer.run, run.isInPlace { live.remove(run.number) }
        let strangers = live
        // The file that is written and its lock do not go together otherwise; what has their names is another's.
        let isOwnGone = writer.appender.map { !$0.hasName } ?? false && !(writer.run?.isInPlace ?? true)
        let isGone = known.withLock { known in
            isOwnGone
                || known.index.runs.allSatisfy {
                    listing.runs[$0.number] == nil || strangers.contains($0.number) && !$0.isLive
                }
        }
        if isGone {
            // Nothing of it can be brought to the disk itself.
            writer.isDirty = false
            writer.unsynced = []
        }
        if isGone || !(writer.run?.isInPlace ?? true) { endRun(&writer) }
        guard isGone else { return false }
        let lost = known.withLock { known in
            known.ownRuns = []
            return known.index.forget()
        }
        diagnostics.loss(lost, "removed from the disk") { "\(lost) stored events were removed by somebody else" }
        return true
    }

    /// The sums go on; the numbers of runs go on behind those that were used.
    private func writeBaseAnew() throws {
        try reader.withLock { reader in
            reader.forgetFiles()
            reader.base = (try? SlotFile(reading: files.base, on: disk)) ?? SlotFile(new: files.base, on: disk)
            let (sums, run) = known.withLock { ($0.index.folded, $0.index.covered.run) }
            try reader.base.write([UInt64(max(run, 1) - 1), 0] + sums.values)
        }
        handlers.withLock { $0.signal.take() }?.cancel()
        listen()
    }

    /// What is known and was on the disk, and is there no longer: the state, and how far events are delivered.
    func writeAll(_ writer: inout Writer) {
        writer.mustWriteAll = false
        guard isOwned else { return }
        checkpoint(&writer)
        reader.withLock { reader in
            do {
                for run in known.withLock({ $0.index.runs }) where run.position > 0 { try acknowledge(run, &reader) }
            } catch {
                diagnostics.once("acknowledge", .error, "What became of events could not be written down", error)
            }
        }
    }
}
