// MARK: - Opening and shutting down

extension StoreModel {
    mutating func open() throws(Stop) {
        let log = self.log
        instance = Instance(state: log.state(fromSegmentStart: false), covered: log.checkpoint?.place ?? Disk.Place())
        if try disk.lockOwner(for: process, evenIfTaken: false) { try becomeOwner() }
    }

    mutating func shutdown() throws(Stop) {
        if instance?.isOwner == true {
            try checkpoint()
            try tidy()
            try disk.unlockOwner()
        }
        try endRun()
        disk.release(process)
        instance = nil
    }

    /// Of this instance, which goes on with a run of its own, if at all.
    private mutating func endRun() throws(Stop) {
        if case .linked(let number, _)? = instance?.beginning { try disk.unlink(.runLock(run: number)) }
        if let lock = instance?.lock { try disk.unlock(lock) }
        instance?.beginning = nil
        instance?.pending = nil
        instance?.lock = nil
        instance?.run = nil
        instance?.segment = nil
        instance?.segmentIndex = -1
        instance?.number = 0
    }
}

// MARK: - Ownership

extension StoreModel {
    /// A guest that gets the owner's lock. Its run ends: state is read in the order of runs, so that it must be written to
    /// one that comes after those of all owners before.
    mutating func takeOver() throws(Stop) {
        let isForced = mutation == .takeOverWithoutLock
        let isLocked = try disk.lockOwner(for: process, evenIfTaken: isForced)
        guard isLocked else { return }
        if mutation != .takeOverInOldRun { try endRun() }
        try becomeOwner()
    }

    private mutating func becomeOwner() throws(Stop) {
        if mutation != .keepTemporary, disk.files[.checkpointTemporary] != nil {
            try disk.unlink(.checkpointTemporary)
        }
        for file in disk.lockTemporaries where !disk.isLocked(file) && mutation != .keepLockTemporary {
            try disk.unlink(file)
        }
        try completeFold()
        instance?.isOwner = true
        try look()
        let log = self.log
        if mutation != .takeOverWithOldState {
            let state = log.state(fromSegmentStart: mutation == .replayFromSegmentStart)
            instance?.state = state
        }
        instance?.covered = log.checkpoint?.place ?? Disk.Place()
        try tidy()
    }

    /// The owner goes on as a guest, in the same run.
    mutating func release() throws(Stop) {
        try checkpoint()
        try tidy()
        try disk.unlockOwner()
        instance?.isOwner = false
        instance?.pending = nil
        instance?.others = []
    }

    private mutating func completeFold() throws(Stop) {
        let log = self.log
        guard let takenIn = log.base?.takenIn, let run = log.runs.first(where: { $0.number == takenIn }) else { return }
        // The life that wrote the slot may have been killed before it was synced.
        if mutation != .foldBeforeSync { try syncIfNeeded(.base) }
        try removeFiles(of: run)
    }
}

// MARK: - The other runs

extension StoreModel {
    /// First the locks, then the runs: what a run has whose lock was free before is all that it will ever have.
    mutating func look() throws(Stop) {
        try disk.step()
        if mutation == .readRunsBeforeLocks {
            readRuns()
            testLocks()
        } else {
            testLocks()
            readRuns()
        }
        try tidy()
    }

    mutating func testLocks() {
        let free = log.runs.map(\.number).filter { !disk.isLocked(.runLock(run: $0)) }
        instance?.runsFoundFree = Set(free)
        if mutation == .readRunsBeforeLocks { instance?.runsOver = Set(free) }
    }

    mutating func readRuns() {
        guard var instance else { return }
        if mutation != .readRunsBeforeLocks { instance.runsOver = instance.runsFoundFree }
        instance.others = log.runs.filter { $0.number != instance.run }.map { run in
            var run = run
            run.countsTornTail = mutation == .tornTailIsDamage && !instance.runsOver.contains(run.number)
            return run
        }
        self.instance = instance
    }

    /// The own run as it is; the others as they were last read, with the positions of now.
    var knownRuns: [ModelLog.Run] {
        guard let instance else { return [] }
        return log.runs.compactMap { run in
            if run.number == instance.run { return run }
            guard var known = instance.others.first(where: { $0.number == run.number }) else { return nil }
            known.segments.removeAll { disk.files[$0.file] == nil }
            known.ack = run.ack
            known.hasAck = run.hasAck
            known.hasLock = run.hasLock
            return known
        }
    }

    func isOver(_ run: ModelLog.Run) -> Bool {
        guard run.number != instance?.run else { return false }
        return instance?.runsOver.contains(run.number) == true || mutation == .foldLiveRun
    }

    /// Nothing more comes to it.
    func isClosed(_ segment: ModelLog.Segment, of run: ModelLog.Run) -> Bool {
        if run.number == instance?.run { return segment.file != instance?.segment || mutation == .removeOpenSegment }
        return isOver(run) || segment.file != run.segments.last?.file || mutation == .removeLastSegmentOfLiveRun
    }
}

// MARK: - A run of one's own

extension StoreModel {
    /// The next part; a run that has been begun is not begun again.
    mutating func beginRun() throws(Stop) {
        guard let instance, instance.run == nil else { return }
        switch instance.beginning {
        case nil:
            let number = nextNumber
            self.instance?.beginning = .chosen(number)
        case .chosen(let number): try linkLock(of: number)
        case .linked(let number, let lock): try checkNumber(number, lock)
        }
    }

    /// One more than the highest that anything names.
    private var nextNumber: Int {
        let log = self.log
        if mutation == .numberFromFilesOnly { return log.highestRun + 1 }
        return max(log.highestRun, log.base?.highestRun ?? 0, log.checkpoint?.place.run ?? 0) + 1
    }

    /// The lock gets its name when it is locked. A name that is taken stays.
    private mutating func linkLock(of chosen: Int) throws(Stop) {
        let lock = try disk.createLock(for: process, isLocked: mutation != .lockVisibleBeforeLocked)
        var number = chosen
        var isLinked = false
        while !isLinked {
            isLinked = try disk.link(lock, to: .runLock(run: number))
            if !isLinked { number += 1 }
        }
        try disk.unlink(.lockTemporary(lock))
        instance?.beginning = .linked(number, lock: lock)
    }

    /// The number may have been another's, whose files went after it was chosen: the base tells.
    private mutating func checkNumber(_ number: Int, _ lock: Int) throws(Stop) {
        if mutation == .lockVisibleBeforeLocked { try disk.take(lock, for: process) }
        let checksAgain = ![.numberNotCheckedAgain, .numberFromFilesOnly].contains(mutation)
        if checksAgain, let base = log.base, base.highestRun >= number {
            try disk.unlink(.runLock(run: number))
            try disk.unlock(lock)
            instance?.beginning = nil
            return
        }
        instance?.run = number
        instance?.lock = lock
        instance?.beginning = nil
        try ledger.began(number, by: process, asOwner: instance?.isOwner == true)
    }
}
