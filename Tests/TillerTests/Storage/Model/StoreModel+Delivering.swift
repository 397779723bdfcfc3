// MARK: - Delivering

extension StoreModel {
    /// A batch is taken, and the data plane has it or not.
    mutating func send(_ answer: Answer) throws(Stop) {
        let runs = instance?.isOwner == true ? knownRuns : log.runs.filter { $0.number == instance?.run }
        guard let run = runs.first(where: { $0.position < $0.end }) else { return }
        let batch = Array(run.waiting.prefix(Self.batchSize))
        // Where all that is left is damaged there is nothing to ask the data plane.
        let end = batch.last.map { $0.number + 1 } ?? run.end
        if !batch.isEmpty {
            try disk.step()
            if answer != .none { try ledger.received(batch, of: run.number) }
        }
        instance?.inFlight = InFlight(
            run: run, batch: batch, end: end, answer: batch.isEmpty ? .accepted : answer)
    }

    /// An owner writes down what was delivered; who has given the folder up meanwhile leaves it, and the batch is sent again.
    mutating func answer() throws(Stop) {
        guard let inFlight = instance?.inFlight else { return }
        instance?.inFlight = nil
        let isOwner = instance?.isOwner == true
        let mayAcknowledge = isOwner || [.guestAcknowledges, .acknowledgeAfterRelease].contains(mutation)
        guard inFlight.answer == .accepted, mayAcknowledge,
            let found = log.runs.first(where: { $0.number == inFlight.run.number && $0.number != log.base?.takenIn })
        else { return }
        // Who does not own the folder knows nothing of what became of it.
        var run = isOwner ? found : inFlight.run
        run.hasAck = found.hasAck
        if mutation == .unlinkBeforeAcknowledge {
            for segment in run.segments where isClosed(segment, of: run) && segment.end <= inFlight.end {
                try disk.unlink(segment.file)
            }
        }
        try settle(inFlight, run)
        if isOwner { try tidy() }
    }

    private mutating func settle(_ inFlight: InFlight, _ run: ModelLog.Run) throws(Stop) {
        guard inFlight.end > run.position || mutation == .evictedCountedAgain else { return }
        // What was evicted meanwhile has been counted.
        let start = inFlight.run.position
        let from = mutation == .evictedCountedAgain ? start : max(start, run.position)
        let delivered = inFlight.batch.filter { $0.number >= from }
        let sums = Disk.Sums(delivered: delivered.count, damaged: inFlight.end - from - delivered.count)
        let position = max(inFlight.end, run.position)
        try acknowledge(run, position: position, adding: sums)
        try ledger.acknowledged(delivered, of: run.number, position: position)
    }

    private mutating func acknowledge(_ run: ModelLog.Run, position: Int, adding sums: Disk.Sums) throws(Stop) {
        let file = Disk.File.ack(run: run.number)
        if !run.hasAck { try disk.create(file, .ack(Disk.Slots())) }
        let slot = Disk.AckSlot(position: position, sums: (run.ack?.sums ?? Disk.Sums()) + sums)
        try disk.write(slot, to: file, inPlace: mutation == .singleAckSlot)
    }
}

// MARK: - What goes

extension StoreModel {
    /// Removes what is delivered and covered, in order, and takes in the runs that are over.
    mutating func tidy() throws(Stop) {
        for run in knownRuns {
            for segment in run.segments {
                guard segment.end <= run.position, isClosed(segment, of: run),
                    isCovered(segment) || mutation == .removeWithoutCheckpoint
                else { break }
                if mutation != .unlinkBeforeSync { try syncIfNeeded(.ack(run: run.number)) }
                try disk.unlink(segment.file)
            }
        }
        var folded: [ModelLog.Run] = []
        for run in knownRuns where isOver(run) {
            let isDone = run.position == run.end || mutation == .foldUnfinished
            guard isDone, run.segments.allSatisfy(isCovered) || mutation == .foldWithoutCheckpoint else { continue }
            try takeIn(run)
            if mutation == .nextFoldBeforeFilesAreGone { folded.append(run) } else { try removeFiles(of: run) }
        }
        for run in folded { try removeFiles(of: run) }
    }

    /// Its sums and its number, with one slot.
    private mutating func takeIn(_ run: ModelLog.Run) throws(Stop) {
        var base = log.base ?? Disk.BaseSlot()
        base.sums = base.sums + (run.ack?.sums ?? Disk.Sums())
        base.takenIn = mutation == .foldWithoutNotingRun ? nil : run.number
        if mutation != .numberFromFilesOnly { base.highestRun = max(base.highestRun, run.number) }
        if disk.files[.base] == nil { try disk.create(.base, .base(Disk.Slots())) }
        try disk.write(base)
        if mutation != .foldBeforeSync { try disk.sync(.base) }
    }

    /// The lock last: as long as it is there, nobody takes the number.
    mutating func removeFiles(of run: ModelLog.Run) throws(Stop) {
        for segment in run.segments { try disk.unlink(segment.file) }
        if run.hasAck { try disk.unlink(.ack(run: run.number)) }
        if run.hasLock { try disk.unlink(.runLock(run: run.number)) }
    }

    /// The oldest segment that is not being written: covered, counted, then removed.
    mutating func evict() throws(Stop) {
        guard let run = knownRuns.first(where: { run in run.segments.contains { isClosed($0, of: run) } }),
            let segment = run.segments.first
        else { return }
        if !isCovered(segment), mutation != .evictWithoutCheckpoint { try checkpoint() }
        if mutation == .evictBeforeCounting { try disk.unlink(segment.file) }
        if segment.end > run.position {
            let from = max(run.position, segment.first)
            let evicted = mutation == .evictionNotCounted ? 0 : segment.end - from
            let sums = Disk.Sums(damaged: from - run.position, evicted: evicted)
            try acknowledge(run, position: segment.end, adding: sums)
            try ledger.evicted(from..<segment.end, of: run.number)
        }
        if mutation != .unlinkBeforeSync { try syncIfNeeded(.ack(run: run.number)) }
        if mutation != .evictBeforeCounting { try disk.unlink(segment.file) }
        try tidy()
    }
}
