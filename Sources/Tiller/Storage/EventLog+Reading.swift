// MARK: - Batches

extension EventLog {
    /// What a store says of a segment that could not be read.
    struct Unread: Error, CustomStringConvertible {
        var description: String { "stored events can't be read" }
    }

    func nextBatch(_ bounds: BatchBounds, after held: StoredBatch?) throws -> StoredBatch? {
        defer {
            tidy()
            messages.deliver()
        }
        if known.withLock({ $0.index.nextRun(after: held)?.hasUnread ?? false }) { readUnread() }
        return try reader.withLock { reader in
            guard isOwned else { return nil }
            let isFirst = held == nil
            var held = held
            while !reader.isClosed, let run = known.withLock({ [held] in $0.index.nextRun(after: held) }) {
                let start = run.start(after: held)
                // It is not passed over.
                if start >= run.end { throw Unread() }
                var batch = StoredBatch(run: run.number, isOwnRun: run.number == ownRun, start: start)
                do {
                    try fill(&batch, from: run, within: bounds, &reader)
                } catch {
                    // What lies before it need not wait for it.
                    if batch.events.isEmpty { throw error }
                }
                if let first = batch.events.first {
                    if isFirst { known.withLock { $0.index.oldest = first.wallMilliseconds } }
                    return batch
                }
                // Nothing whole was left there: there is nothing to send.
                if held == nil, batch.end > batch.start, batch.end == run.end {
                    try settle([SettledBatch(batch: batch, outcome: .delivered)], &reader)
                } else {
                    batch.extend(to: run.end)
                    held = batch
                }
            }
            return nil
        }
    }

    /// Reads what could not be read at the opening, and the state with it, in its place.
    private func readUnread() {
        writer.withLock { _ in
            reader.withLock { reader in
                guard !reader.isClosed, let found = try? LogOpening(files, on: disk, isOwner: false, diagnostics) else {
                    return
                }
                known.withLock { known in
                    known.index.learn(from: found.index)
                    known.contents = found.contents
                    known.changeCount = known.coveredChangeCount + found.changeCount
                }
            }
        }
    }

    private func fill(
        _ batch: inout StoredBatch, from run: LogIndex.Run, within bounds: BatchBounds, _ reader: inout Reader
    ) throws {
        var isCut = false
        for (offset, segment) in run.segments.enumerated() {
            let end = run.end(ofSegmentAt: offset)
            guard end > batch.end else { continue }
            if segment.first > batch.end { batch.extend(to: segment.first) }
            let cursor = reader.cursor.take().flatMap { cursor in
                (cursor.run, cursor.segment, cursor.number) == (run.number, segment.index, batch.end) ? cursor : nil
            }
            let from = cursor?.offset ?? 0
            guard let bytes = try rest(of: segment, of: run.number, from: from, cursor?.ahead ?? []) else {
                diagnostics.once("missing", .error, "A file of the store is gone, and the events in it with it")
                batch.extend(to: end)
                continue
            }
            if let stop = Self.take(from: bytes, end: end, into: &batch, within: bounds) {
                reader.cursor = Cursor(
                    run: run.number, segment: segment.index, number: batch.end, offset: from + stop,
                    ahead: run.isLive ? [] : bytes.dropFirst(stop))
                return
            }
            let isLast = offset == run.segments.count - 1
            if isLast, run.isLive { isCut = true } else { batch.extend(to: end) }
            if isLast, run.number == ownRun || run.isLive && batch.end >= end {
                reader.cursor = Cursor(
                    run: run.number, segment: segment.index, number: batch.end,
                    offset: run.isLive ? segment.scanned : from + bytes.count)
            }
        }
        // What a live process has not written whole, or has taken back and writes again, may be there the next time.
        if !isCut { batch.extend(to: run.end) }
    }

    /// What a segment has from an offset on; `nil` if its file is gone.
    ///
    /// - Parameter ahead: What was read of that before.
    private func rest(
        of segment: LogIndex.Segment, of run: Int, from offset: Int, _ ahead: ArraySlice<UInt8>
    ) throws -> ArraySlice<UInt8>? {
        guard let size = try segment.size ?? measure(segment, of: run) else { return nil }
        if !ahead.isEmpty, offset + ahead.count >= size { return ahead }
        return try disk.contents(
            of: files.segment(segment, of: run), from: offset, count: max(0, size - offset))?[...]
    }

    /// - Returns: The segment's size; `nil` if its file is gone.
    private func measure(_ segment: LogIndex.Segment, of run: Int) throws -> Int? {
        guard let entry = try disk.entry(at: files.segment(segment, of: run)) else { return nil }
        if !entry.isFile { throw Unread() }
        known.withLock { $0.index.note([(run, segment.index, entry)]) }
        return LogIndex.Segment.size(of: entry)
    }

    /// Asks for the sizes that were not asked for at the opening. What can't be looked at now is looked at the next time.
    func measure() {
        var found: [(run: Int, segment: Int, entry: FileEntry?)] = []
        for (run, segment) in known.withLock({ $0.index.unmeasured }) {
            do {
                found.append((run, segment.index, try disk.entry(at: files.segment(segment, of: run))))
            } catch {
                diagnostics.once("measure", .error, "A file of the store can't be looked at; it stays", error)
            }
        }
        if !found.isEmpty { known.withLock { [found] known in known.index.note(found) } }
    }

    /// - Returns: Where the first record begins that the batch does not take; `nil` if it took all.
    private static func take(
        from bytes: ArraySlice<UInt8>, end: UInt64, into batch: inout StoredBatch, within bounds: BatchBounds
    ) -> Int? {
        bytes.withUnsafeBytes { buffer in
            var scanner = LogScanner()
            while let found = scanner.next(in: buffer) {
                let header = found.header
                guard header.eventLength > 0, header.number >= batch.end, header.number < end else { continue }
                let place = bytes.startIndex + found.event.lowerBound
                let isTaken = batch.take(
                    bytes[place..<place + found.event.count], anonymousId: header.anonymousId,
                    number: header.number, wallMilliseconds: header.wallMilliseconds,
                    continuousNanoseconds: header.continuousNanoseconds, boot: header.boot, within: bounds)
                if !isTaken { return found.payload.lowerBound - LogRecordHeader.size }
            }
            return nil
        }
    }
}

// MARK: - Acknowledging

extension EventLog {
    func acknowledge(_ settled: [SettledBatch]) throws {
        defer {
            tidy()
            messages.deliver()
        }
        try reader.withLock { reader in
            // The folder may be another instance's now, which sends the batch again.
            if reader.isClosed || !isOwned { throw Closed() }
            try settle(settled, &reader)
        }
    }

    /// One write for each run.
    private func settle(_ settled: [SettledBatch], _ reader: inout Reader) throws {
        let (runs, damaged) = known.withLock { known in
            let before = known.index.sums.damaged
            var runs: [LogIndex.Run] = []
            for run in settled.compactMap({ known.index.settle($0) }) {
                if runs.last?.number == run.number { runs.removeLast() }
                runs.append(run)
            }
            return (runs, known.index.sums.damaged - before)
        }
        diagnostics.loss(Int(clamping: damaged), "damaged on the disk") {
            "\(damaged) stored events were damaged and can't be delivered"
        }
        var failure: (any Error)?
        for run in runs {
            do { try acknowledge(run, &reader) } catch { failure = failure ?? error }
        }
        if let failure { throw failure }
    }

    func acknowledge(_ run: LogIndex.Run, _ reader: inout Reader) throws {
        guard isInPlace else { throw Removed() }
        var slots =
            reader.acknowledgements[run.number] ?? SlotFile(new: files.acknowledgement(of: run.number), on: disk)
        try slots.write([run.position] + run.sums.values + [0])
        reader.acknowledgements[run.number] = slots
    }

    /// Room for what is going to be said of a run, and of all runs: on a disk that its events have filled there is none.
    /// What can't be reserved now is tried when it is needed.
    func reserve(_ reader: inout Reader, for run: LogIndex.Run) {
        try? reader.base.reserve()
        guard
            var slots = reader.acknowledgements[run.number]
                ?? (try? SlotFile(reading: files.acknowledgement(of: run.number), on: disk))
        else { return }
        try? slots.reserve()
        reader.acknowledgements[run.number] = slots
    }

    /// Removes what is finished, after a checkpoint where it needs one.
    func tidy() {
        let (isFinished, needsCheckpoint) = known.withLock { known in
            guard known.isOwner else { return (false, false) }
            let waits = !known.index.finishedSegments(covered: false).isEmpty
            let isFinished = known.index.hasFinished
            // One that is being written removes what it covers.
            return (waits || isFinished, waits && known.pending == nil)
        }
        guard isFinished else { return }
        if needsCheckpoint {
            writer.withLock { writer in if !writer.isClosed { checkpoint(&writer) } }
        }
        reader.withLock { reader in if !reader.isClosed { sweep(&reader) } }
    }

    /// Removes closed segments that hold nothing any more, and runs that are over. First acknowledge, then remove, and on
    /// the disk itself too.
    func sweep(_ reader: inout Reader) {
        guard isOwned, known.withLock({ $0.index.hasFinished && !$0.mustCompleteErasure }), isInPlace else { return }
        measure()
        do {
            let removable = known.withLock { $0.index.removableSegments }
            for run in Set(removable.map(\.run)).sorted() { try secureAcknowledgement(of: run, &reader) }
            for (run, segment) in removable {
                try disk.remove(files.segment(segment, of: run))
                known.withLock { $0.index.remove(segment.index, of: run) }
            }
            while let run = known.withLock({ $0.index.runToFold }) { try fold(run, &reader) }
        } catch {
            diagnostics.once("sweep", .error, "Files that hold nothing any more could not be removed", error)
        }
    }

    /// What allows a removal must be on the disk, also where it could not be written at first.
    private func secureAcknowledgement(of number: Int, _ reader: inout Reader) throws {
        guard let run = known.withLock({ $0.index.runs.first { $0.number == number } }) else { return }
        if reader.acknowledgements[number]?.values[0] ?? 0 != run.position { try acknowledge(run, &reader) }
        // A run that had nothing but state has none.
        if reader.acknowledgements[number]?.generation ?? 0 > 0 {
            try disk.sync(files.acknowledgement(of: number))
            // Its name too: once in the life of a process, for that does not change.
            if !reader.secured.contains(number) { try disk.sync(files.folder) }
            reader.secured.insert(number)
        }
    }

    /// Takes a run that is over into the base: its sums and its number with one write, then its files go, the lock last: as
    /// long as that is there, nobody takes the number.
    private func fold(_ run: LogIndex.Run, _ reader: inout Reader) throws {
        try removeLeftovers(&reader)
        // The base names one run only: nothing of the one before may come back.
        try syncFolder(&reader)
        let base = reader.base.values
        let number = UInt64(run.number)
        try reader.base.write([max(base[0], number), number] + (LogIndex.Sums(base[2...]) + run.sums).values)
        reader.acknowledgements[run.number] = nil
        reader.secured.remove(run.number)
        reader.leftovers = files.all(of: run)
        known.withLock { $0.index.fold(run.number) }
        reader.mustSyncFolder = base[0] == 0
        try disk.sync(files.base)
        // A new one has a new name.
        try syncFolder(&reader)
        try removeLeftovers(&reader)
    }

    private func syncFolder(_ reader: inout Reader) throws {
        if reader.mustSyncFolder { try disk.sync(files.folder) }
        reader.mustSyncFolder = false
    }

    private func removeLeftovers(_ reader: inout Reader) throws {
        while let path = reader.leftovers.first {
            try disk.remove(path)
            reader.mustSyncFolder = true
            reader.leftovers.removeFirst()
        }
    }
}

// MARK: - The account

extension EventLog {
    /// What has become of events that are gone, over all lives.
    var sums: LogIndex.Sums { known.withLock { $0.index.sums } }

    var account: StoredAccount? {
        let (sums, waiting) = known.withLock { ($0.index.sums, $0.index.counts.waiting) }
        var account = StoredAccount()
        account.delivered = Int(clamping: sums.delivered)
        account.waiting = waiting
        account.refused = Int(clamping: sums.refused)
        account.evicted = Int(clamping: sums.evicted)
        account.damaged = Int(clamping: sums.damaged)
        return account
    }

    var backlog: (bytes: Int, oldest: Int64?) {
        known.withLock { known in
            if known.index.counts.waiting == 0 { return (0, nil) }
            return (known.index.waitingBytes(unmeasured: segmentBytes), known.index.oldest)
        }
    }
}
