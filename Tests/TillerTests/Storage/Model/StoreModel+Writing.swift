// MARK: - Records

extension StoreModel {
    /// A guest writes no state.
    mutating func records(_ chunk: Chunk) -> [(hasEvent: Bool, change: Disk.Change?)] {
        let writesState = instance?.isOwner == true || mutation == .guestWritesState
        func change() -> Disk.Change? {
            guard writesState else { return nil }
            changes += 1
            // Pairs of changes of the same key, so that losing the second shows the first again.
            return Disk.Change(key: (changes + 1) / 2 % 3, value: changes % 5 == 0 ? nil : changes)
        }
        let parts: [(hasEvent: Bool, change: Disk.Change?)] =
            switch chunk {
            case .event: [(true, nil)]
            case .eventAndState: [(true, change())]
            case .state: [(false, change())]
            case .several: [(false, change()), (true, change()), (true, nil)]
            }
        return parts.filter { $0.hasEvent || $0.change != nil }
    }

    private mutating func number(_ parts: [(hasEvent: Bool, change: Disk.Change?)], from first: Int) -> [Disk.Record] {
        var number = first
        return parts.flatMap { part -> [Disk.Record] in
            guard part.hasEvent else { return [Disk.Record(change: part.change, number: number)] }
            calls += 1
            var record = Disk.Record(event: calls, change: part.change, number: number)
            number += 1
            guard mutation == .eventAndStateApart, part.change != nil else { return [record] }
            record.change = nil
            ledger.travels(part.change, with: record)
            return [record, Disk.Record(change: part.change, number: number)]
        }
    }
}

// MARK: - Appending

extension StoreModel {
    mutating func append(_ parts: [(hasEvent: Bool, change: Disk.Change?)]) throws(Stop) {
        guard !parts.isEmpty else { return }
        let file = try segmentToWrite()
        guard let first = instance?.number else { return }
        let records = number(parts, from: first)
        try disk.append(records, to: file)
        noteWritten(records, entries: records.count)
    }

    mutating func appendShort(whole: Int, isCutBack: Bool) throws(Stop) {
        var file = try segmentToWrite()
        guard let first = instance?.number else { return }
        let records = number(records(.several), from: first)
        let whole = min(whole, records.count - 1)
        try disk.appendShort(records, whole: whole, to: file)
        var rest = records
        if isCutBack {
            try disk.cutBack(file)
            rest.removeFirst(whole)
            instance?.entries += whole
        } else {
            try disk.step()  // Cutting back fails: the whole chunk goes to a new segment.
            file = try makeSegment()
        }
        try disk.append(rest, to: file)
        noteWritten(records, entries: rest.count)
    }

    mutating func beginAppend() throws(Stop) {
        let file = try segmentToWrite()
        guard let first = instance?.number else { return }
        let records = number(records(.event), from: first)
        try disk.appendShort(records, whole: 0, to: file)
        instance?.unfinished = records
    }

    mutating func finishAppend() throws(Stop) {
        guard let records = instance?.unfinished, let file = instance?.segment else { return }
        try disk.cutBack(file)
        try disk.append(records, to: file)
        instance?.unfinished = nil
        noteWritten(records, entries: records.count)
    }

    private mutating func noteWritten(_ records: [Disk.Record], entries: Int) {
        instance?.entries += entries
        for record in records {
            if record.event != nil { instance?.number = record.number + 1 }
            if let change = record.change { instance?.state[change.key] = change.value }
        }
    }
}

// MARK: - Segments

extension StoreModel {
    private mutating func segmentToWrite() throws(Stop) -> Disk.File {
        if let instance, let file = instance.segment {
            if instance.entries < Self.segmentSize { return file }
            try close()
        }
        return try makeSegment()
    }

    private mutating func makeSegment() throws(Stop) -> Disk.File {
        while instance?.run == nil { try beginRun() }
        guard var instance, let run = instance.run else { throw .broken("no instance") }
        if mutation != .reuseFileName || instance.segmentIndex < 0 { instance.segmentIndex += 1 }
        let file = Disk.File.segment(run: run, index: instance.segmentIndex, first: instance.number)
        try disk.create(file, .segment([]))
        instance.segment = file
        instance.entries = 0
        self.instance = instance
        return file
    }

    /// What a guest wrote is synced, and its segment closed; the checkpoint is the owner's.
    private mutating func close() throws(Stop) {
        if instance?.isOwner == true { try checkpoint() } else { try syncOwnSegment() }
        instance?.segment = nil
    }

    mutating func rotate() throws(Stop) {
        guard instance?.segment != nil else { return }
        try close()
        if instance?.isOwner == true { try tidy() }
        _ = try makeSegment()
    }

    private mutating func syncOwnSegment() throws(Stop) {
        if let file = instance?.segment { try syncIfNeeded(file) }
    }

    mutating func syncIfNeeded(_ file: Disk.File) throws(Stop) {
        if disk.unsynced.contains(file) { try disk.sync(file) }
    }

    /// Under another name, synced, renamed. It covers all that this run and those before it have written, so that it must
    /// not be there after a power cut if that is gone.
    mutating func checkpoint() throws(Stop) {
        guard let instance else { return }
        var place = placeToCover(instance)
        if mutation == .checkpointCoversMore { place.offset += 1 }
        try write(Disk.Checkpoint(place: place, state: instance.state))
        if mutation != .pendingAfterNewer { self.instance?.pending = nil }
    }

    /// What a checkpoint is to say is known at the segment's end; it is written while the next one fills.
    mutating func rotateAtOnce() throws(Stop) {
        guard let instance else { return }
        let place = placeToCover(instance)
        self.instance?.pending = Disk.Checkpoint(place: place, state: instance.state)
        self.instance?.segment = nil
        _ = try makeSegment()
    }

    mutating func writePending() throws(Stop) {
        guard let pending = instance?.pending else { return }
        try write(pending)
        instance?.pending = nil
    }

    private mutating func write(_ checkpoint: Disk.Checkpoint) throws(Stop) {
        guard let instance else { return }
        for run in log.runs {
            for segment in run.segments where segment.run == instance.run || !isCovered(segment) {
                if mutation == .checkpointBeforeSync && segment.run == instance.run { continue }
                if mutation == .checkpointBeforeSyncOfEarlierRuns && segment.run != instance.run { continue }
                if mutation == .pendingBeforeSync && instance.pending != nil { continue }
                // What it does not cover can wait.
                if segment.run == instance.run, segment.index > checkpoint.place.segment { continue }
                try syncIfNeeded(segment.file)
            }
        }
        if mutation == .checkpointInPlace {
            try disk.write(checkpoint, to: .checkpoint)
        } else {
            try disk.write(checkpoint, to: .checkpointTemporary)
            try disk.sync(.checkpointTemporary)
            try disk.rename(.checkpointTemporary, to: .checkpoint)
        }
        self.instance?.covered = checkpoint.place
    }

    /// An owner without a run has read all owners before it.
    private func placeToCover(_ instance: Instance) -> Disk.Place {
        guard let run = instance.run else { return max(instance.covered, Disk.Place(run: log.highestRun + 1)) }
        if instance.segment == nil { return Disk.Place(run: run, segment: instance.segmentIndex + 1) }
        return Disk.Place(run: run, segment: instance.segmentIndex, offset: instance.entries)
    }

    func isCovered(_ segment: ModelLog.Segment) -> Bool {
        !segment.hasState || (instance?.covered).map { $0 >= segment.lastPlace } ?? false
    }
}
