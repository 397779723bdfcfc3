// MARK: - Checkpoints

extension EventLog {
    /// What a checkpoint is to say.
    struct PendingCheckpoint: Sendable {
        let checkpoint: Checkpoint
        /// How many changes of state there had been.
        let changeCount: Int
    }

    /// What is known of the files that the last checkpoint left.
    struct CheckpointFiles: Sendable {
        /// The last of the own segments whose name is on the disk itself.
        var named = LogPlace()
        /// The checkpoint is one that was written here.
        var isOwn = false
        /// The one before it is there too, and the disk itself knows that it is not the checkpoint any more.
        var hasSpare = false
    }

    /// The state up to here, under another name first. The segments that it covers are brought to the disk before it.
    func checkpoint(_ writer: inout Writer) {
        checkpoints.withLock { present in
            // What lies in the place of a removed folder is not ours.
            guard isInPlace, let new = known.withLock({ nextCheckpoint(writer, $0) }) else { return }
            do {
                try sync(&writer)
                try write(new, &present)
                known.withLock { $0.pending = nil }
            } catch {
                sayThatItFailed(error)
            }
        }
    }

    /// The state up to here, written while the log goes on, where somebody does that: a disk takes longer to sync a segment
    /// than the next one takes to fill. Of several that wait only the last is written.
    func checkpointLater(_ writer: inout Writer) {
        guard let housekeeper else { return checkpoint(&writer) }
        let isAskedFor = known.withLock { known in
            let isAskedFor = known.pending != nil
            known.pending = nextCheckpoint(writer, known)
            return isAskedFor || known.pending == nil
        }
        if !isAskedFor { housekeeper.async { [weak self] in self?.writePendingCheckpoints() } }
    }

    /// None that waits is written any more, and none is being written: the folder, or what is known of it, changes hands.
    func dropPendingCheckpoint() {
        known.withLock { $0.pending = nil }
        checkpoints.withLock { $0 = CheckpointFiles(named: $0.named) }
    }

    private func writePendingCheckpoints() {
        defer { messages.deliver() }
        while writePendingCheckpoint() {}
        reader.withLock { reader in if !reader.isClosed { sweep(&reader) } }
    }

    /// - Returns: Whether there was one.
    private func writePendingCheckpoint() -> Bool {
        checkpoints.withLock { present in
            guard let new = known.withLock({ $0.pending }) else { return false }
            // What lies in the place of a removed folder is not ours.
            guard isInPlace else {
                known.withLock { $0.pending = nil }
                return false
            }
            let place = new.checkpoint.place
            do {
                for segment in known.withLock({ $0.index.ownSegments(upTo: place) }) {
                    try syncIfThere(segment.index, of: place.run)
                }
                if present.named.run != place.run || present.named.segment < place.segment {
                    try disk.sync(files.folder)
                }
                try write(new, &present)
            } catch {
                sayThatItFailed(error)
            }
            known.withLock { known in
                if known.pending?.checkpoint.place == place { known.pending = nil }
            }
            return true
        }
    }

    /// `nil`: what is not known is not replaced.
    private func nextCheckpoint(_ writer: Writer, _ known: Known) -> PendingCheckpoint? {
        guard known.isOwner, case .objects(let objects) = known.contents, !known.index.hasUnread,
            !known.mustCompleteErasure
        else { return nil }
        var checkpoint = known.checkpoint
        checkpoint.objects = objects
        if writer.run != nil {
            checkpoint.place = LogPlace(run: known.index.ownRun, segment: writer.segment, offset: writer.size)
            checkpoint.next = writer.next
        } else {
            // An owner without a run has read all owners before it.
            checkpoint.place = max(known.index.covered, LogPlace(run: known.highestRun + 1))
            checkpoint.next = nil
        }
        return PendingCheckpoint(checkpoint: checkpoint, changeCount: known.changeCount)
    }

    private func write(_ new: PendingCheckpoint, _ present: inout CheckpointFiles) throws {
        // Earlier processes may have been killed before they did so.
        for (run, segment) in known.withLock({ $0.index.uncoveredOfEarlierRuns }) {
            try disk.sync(files.segment(segment, of: run))
        }
        takeSpare(&present)
        try disk.store(new.checkpoint.bytes, at: files.newCheckpoint)
        let keepsUnreadable = known.withLock { $0.keepsOldCheckpoint }
        if keepsUnreadable { try keepUnreadableCheckpoint() }
        let hasSpare = present.isOwn && (try? disk.addName(files.oldCheckpoint, to: files.checkpoint)) != nil
        try disk.move(files.newCheckpoint, to: files.checkpoint)
        // One that was begun meanwhile has its name then too.
        let last = known.withLock { LogPlace(run: $0.index.ownRun, segment: $0.index.lastOwnSegment) }
        try disk.sync(files.folder)
        present = CheckpointFiles(named: last, isOwn: true, hasSpare: hasSpare)
        known.withLock { known in
            known.index.covered = new.checkpoint.place
            known.coveredChangeCount = new.changeCount
            if keepsUnreadable { known.keepsOldCheckpoint = false }
        }
    }

    /// The file of the last checkpoint but one is written anew: ext4 without a journal uses no inode that was freed in the last
    /// minutes, and looks at each of them before it makes a file. Where that can't be, a new file is made.
    private func takeSpare(_ present: inout CheckpointFiles) {
        let isTaken = present.hasSpare && (try? disk.move(files.oldCheckpoint, to: files.newCheckpoint)) != nil
        present.hasSpare = false
        // After a power cut it may be the checkpoint: its name goes, not its bytes. While it is there, there is no other.
        if !isTaken { try? disk.remove(files.oldCheckpoint) }
    }

    /// When no checkpoint of this instance follows: its own spare file, and what was left by one that died while it wrote.
    func removeSpareCheckpoint() {
        checkpoints.withLock { present in
            guard isOwned, isInPlace else { return }
            present.hasSpare = false
            // What can't go now, the next owner removes.
            for path in [files.oldCheckpoint, files.newCheckpoint] { try? disk.remove(path) }
        }
    }

    private func keepUnreadableCheckpoint() throws {
        do {
            try disk.move(files.checkpoint, to: files.unreadableCheckpoint)
        } catch FileFailure.missing {}  // nothing to keep
    }

    private func sayThatItFailed(_ error: any Error) {
        diagnostics.once("checkpoint", .error, "The state's checkpoint could not be written", error)
    }
}

// MARK: - The disk itself

extension EventLog {
    func sync() {
        defer { messages.deliver() }
        writer.withLock { writer in
            do {
                try sync(&writer)
            } catch {
                diagnostics.once("sync", .error, "What is stored could not be brought to the disk itself", error)
            }
        }
    }

    func sync(_ writer: inout Writer) throws {
        try writer.appender?.sync()
        writer.isDirty = false
        while let segment = writer.unsynced.first {
            // What a checkpoint covers was synced before it.
            let (run, isSynced) = known.withLock { ($0.index.ownRun, $0.index.isInCheckpoint(segment)) }
            if !isSynced { try syncIfThere(segment, of: run) }
            writer.unsynced.removeFirst()
        }
        if writer.mustSyncFolder { try disk.sync(files.folder) }
        writer.mustSyncFolder = false
    }

    /// One that has been delivered and removed needs no sync.
    private func syncIfThere(_ segment: Int, of run: Int) throws {
        func path() -> String? {
            known.withLock { known in
                let segments = known.index.runs.first { $0.number == run }?.segments
                return segments?.first { $0.index == segment }.map { files.segment($0, of: run) }
            }
        }
        guard let present = path() else { return }
        do {
            try disk.sync(present)
        } catch {
            if path() != nil { throw error }
        }
    }
}
