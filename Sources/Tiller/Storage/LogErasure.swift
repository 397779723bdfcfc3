/// The removal of all that is stored but a state.
///
/// It has happened once its file is there: what is left to be done then is completed, after a kill by who owns the folder
/// next. Runs that another process writes stay: they are its own to erase.
struct LogErasure {
    private let files: LogFiles
    private let disk: any FileSystem
    private let checkpoint: Checkpoint

    /// One that is to be done.
    ///
    /// - Parameters:
    ///   - objects: The state that it leaves.
    ///   - highest: No number of a run up to this one is used again.
    init(_ files: LogFiles, on disk: any FileSystem, leaving objects: JSONObject, upTo highest: Int) throws {
        self.files = files
        self.disk = disk
        var checkpoint = Checkpoint()
        checkpoint.objects = objects
        checkpoint.place = LogPlace(run: highest + 1)
        self.checkpoint = checkpoint
        let new = files.erasure + ".new"
        try disk.store(checkpoint.bytes, at: new)
        try disk.move(new, to: files.erasure)
        try disk.sync(files.folder)
    }

    /// One that was begun; `nil` if none was.
    ///
    /// - Throws: Why its file can't be read.
    init?(begunIn files: LogFiles, on disk: any FileSystem) throws {
        guard let bytes = try disk.contents(of: files.erasure) else { return nil }
        self.files = files
        self.disk = disk
        checkpoint = try Checkpoint(reading: bytes)
    }

    /// Up to here the state that is left holds what was stored.
    var place: LogPlace { checkpoint.place }

    /// - Returns: The base as it is afterwards.
    @discardableResult
    func complete() throws -> SlotFile {
        let listing = try LogListing(files, on: disk)
        let live = try listing.runsThatLive()
        let runs = listing.runs.values.sorted { $0.number < $1.number }
        for run in runs where run.number < place.run && !live.contains(run.number) {
            for path in files.all(of: run) { try disk.remove(path) }
        }
        var base = SlotFile(new: files.base, on: disk)
        do {
            base = try SlotFile(reading: files.base, on: disk)
        } catch is SlotFile.Damage {}  // it is replaced
        try base.write([UInt64(place.run) - 1, 0, 0, 0, 0, 0])
        try disk.sync(files.base)
        for path in [files.unreadableCheckpoint, files.oldCheckpoint, files.newCheckpoint] { try disk.remove(path) }
        // What was removed must be gone before the file that says so is.
        try disk.sync(files.folder)
        try disk.move(files.erasure, to: files.checkpoint)
        try disk.sync(files.folder)
        return base
    }
}

// MARK: - The log

extension EventLog {
    func erase(leaving changes: [StateChange], keys: [String]) throws -> (count: Int, bytes: Int) {
        defer { messages.deliver() }
        try writer.withLock { writer in
            guard isDurable, !writer.isClosed, !isInherited else { throw Closed() }
            do { try renewFolder(&writer) } catch is TakenOver {}  // what is another's stays
            endRun(&writer)
            try reader.withLock { reader in
                if isOwned {
                    try eraseAll(leaving: changes.applied(to: [:]), &reader)
                } else {
                    try eraseOwn()
                }
            }
        }
        return (0, 0)
    }

    private func eraseAll(leaving objects: JSONObject, _ reader: inout Reader) throws {
        let listing = try LogListing(files, on: disk)
        let live = try listing.runsThatLive()
        let highest = max(
            listing.highest, known.withLock { max($0.highestRun, $0.index.covered.run) },
            Int(clamping: reader.base.values[0]))
        let erasure = try LogErasure(files, on: disk, leaving: objects, upTo: highest)
        known.withLock { known in
            known.index.erase(coveredUpTo: erasure.place, keeping: live)
            known.mustCompleteErasure = true
            known.contents = .objects(objects)
            known.checkpoint = Checkpoint()
            known.coveredChangeCount = known.changeCount
            known.keepsOldCheckpoint = false
            known.highestRun = max(known.highestRun, highest)
        }
        let kept = reader.acknowledgements.filter { run, _ in
            known.withLock { $0.index.runs.contains { $0.number == run } }
        }
        reader.forgetFiles()
        reader.acknowledgements = kept
        reader.base = try erasure.complete()
        known.withLock { $0.mustCompleteErasure = false }
    }

    /// One that the disk did not let end.
    func completeErasure() throws {
        guard known.withLock({ $0.mustCompleteErasure }) else { return }
        try reader.withLock { reader in
            if let base = try LogErasure(begunIn: files, on: disk)?.complete() { reader.base = base }
        }
        known.withLock { $0.mustCompleteErasure = false }
    }

    /// A guest's own runs, which are closed: the owner finds them gone, and counts what it knew of them as damaged.
    private func eraseOwn() throws {
        for run in known.withLock({ $0.index.runs }) {
            for segment in run.segments { try disk.remove(files.segment(segment, of: run.number)) }
        }
        known.withLock { known in
            known.index.counts.erased += known.index.forget()
            known.index.folded = LogIndex.Sums()
        }
    }
}

extension LogIndex {
    /// Only what other processes are writing stays.
    fileprivate mutating func erase(coveredUpTo place: LogPlace, keeping live: Set<Int>) {
        let erased = runs.filter { !live.contains($0.number) }.reduce(0) { $0 + Int($1.end) - Int($1.position) }
        runs.removeAll { !live.contains($0.number) }
        counts.settled += erased
        counts.lost += erased
        counts.erased += erased
        folded = Sums()
        covered = place
        ownRun = 0
    }
}
