// MARK: - Appending

extension EventLog {
    /// What a store says that takes nothing any more.
    struct Closed: Error, CustomStringConvertible {
        var description: String { "the store was closed" }
    }

    /// Nobody is kept out of the folder any more, so that nothing may be written there but a new lock.
    struct Removed: Error, CustomStringConvertible {
        var description: String { "the folder was removed" }
    }

    /// Another instance was faster.
    struct TakenOver: Error, CustomStringConvertible {
        var description: String { "the folder was removed, and another instance has made it anew" }
    }

    /// So much of a log can be given up at once. A small bound has small segments.
    var segmentBytes: Int { min(1 << 20, max(limits.storageBytes / 8, 1)) }

    /// In bytes: more than the events of a chunk have.
    private static let largestBuffer = 1 << 19

    /// Checkpoints are written at the end of a segment; this many changes of state are the most that lie between two.
    private static let changesPerCheckpoint = 1_024

    func append(_ records: [StoreRecord]) -> (stored: Int, failure: (any Error)?) {
        if isInherited { return (0, Closed()) }
        defer { messages.deliver() }
        return writer.withLock { writer in
            guard isDurable, !writer.isClosed else { return (0, Closed()) }
            if !isOwned { return appendAsGuest(records, &writer) }
            // What could not be read is replaced only if it still can't.
            if records.contains(where: { !$0.changes.isEmpty }) { readAgain() }
            let (stored, failure) = append(records, &writer)
            return failure is TakenOver && stored == 0 ? appendAsGuest(records, &writer) : (stored, failure)
        }
    }

    private func append(_ records: [StoreRecord], _ writer: inout Writer) -> (stored: Int, failure: (any Error)?) {
        var stored = 0
        var mayMakeRoom = true
        while stored < records.count {
            do {
                stored += try appendSome(of: records[stored...], isFirst: stored == 0, &writer)
            } catch {
                guard mayMakeRoom, (error as? FileFailure)?.isNoSpace == true, makeRoom(&writer) else {
                    return (stored, error)
                }
                mayMakeRoom = false
            }
        }
        return (stored, nil)
    }

    /// What takes up a full disk need not be the log's own delivered events: the segment that is written goes, if nothing
    /// in it waits.
    ///
    /// - Returns: Whether something is gone.
    private func makeRoom(_ writer: inout Writer) -> Bool {
        guard isOwned, known.withLock({ $0.index.isOwnRunOver }), writer.size > 0 else { return false }
        // Needs a little room itself, where there is state in the segment.
        if known.withLock({ $0.changesSinceCheckpoint > 0 }) { checkpoint(&writer) }
        leaveSegment(&writer)
        measure()
        let before = known.withLock { $0.index.bytes }
        reader.withLock { sweep(&$0) }
        return known.withLock { $0.index.bytes } < before
    }

    /// A guest writes no state.
    private func appendAsGuest(
        _ records: [StoreRecord], _ writer: inout Writer
    ) -> (stored: Int, failure: (any Error)?) {
        let events = records.indices.filter { records[$0].event != nil }
        if events.isEmpty { writer.lastAppend = (ownRun, writer.next) }
        let (stored, failure) = append(events.map { StoreRecord(event: records[$0].event, changes: []) }, &writer)
        return (stored < events.count ? events[stored] : records.count, failure)
    }

    /// As many records as the segment takes, in one write.
    private func appendSome(
        of records: ArraySlice<StoreRecord>, isFirst: Bool, _ writer: inout Writer
    ) throws -> Int {
        if let appender = writer.appender, !appender.hasName {
            leaveSegment(&writer)
            writer.mustWriteAll = true
        }
        let appender = try writer.appender ?? beginSegment(&writer)
        var bytes: [UInt8] = []
        swap(&bytes, &writer.buffer)
        defer {
            bytes.removeAll(keepingCapacity: bytes.capacity <= Self.largestBuffer)
            swap(&bytes, &writer.buffer)
        }
        var changes: [StateChange] = []
        var next = writer.next
        var count = 0
        var changeCount = 0
        records.withUnsafeBufferPointer { records in
            while count < records.count, writer.size + bytes.count < segmentBytes || count == 0 {
                // In place: to copy a record takes longer than to look.
                bytes.append(records[count], number: next, boot: boot)
                if records[count].event != nil { next += 1 }
                if !records[count].changes.isEmpty {
                    changes.merge(records[count].changes)
                    changeCount += 1
                }
                count += 1
            }
        }
        do {
            try appender.append(bytes[...])
        } catch {
            cutBack(appender, &writer)
            throw error
        }
        if isFirst { writer.lastAppend = (ownRun, writer.next) }
        writer.isDirty = true
        writer.size += bytes.count
        writer.next = next
        note(changes, count: changeCount, oldest: records.lazy.compactMap(\.event).first?.moment, &writer)
        if writer.size >= segmentBytes { endSegment(&writer) }
        return count
    }

    private func note(_ changes: [StateChange], count: Int, oldest: Moment?, _ writer: inout Writer) {
        let (size, next) = (writer.size, writer.next)
        let mustCheckpoint = known.withLock { known in
            if let oldest, known.index.counts.waiting == 0 { known.index.oldest = oldest.wallMilliseconds }
            known.index.grow(to: size, end: next, hasState: !changes.isEmpty)
            guard !changes.isEmpty else { return false }
            known.changeCount += count
            return Self.apply(changes, &known) || known.changesSinceCheckpoint >= Self.changesPerCheckpoint
        }
        if mustCheckpoint { checkpoint(&writer) }
    }

    /// - Returns: Whether something that could not be read was replaced: a checkpoint makes that known.
    private static func apply(_ changes: [StateChange], _ known: inout Known) -> Bool {
        let objects: JSONObject
        switch known.contents {
        case .objects(let present): objects = present
        case .unreadable(let earlier):
            // Only changes that may replace what is unread come here (`Section.save`).
            objects = earlier.applied(to: [:])
            known.keepsOldCheckpoint = true
        }
        if changes.contains(where: { objects[$0.key].map { $0.object == nil } ?? false }) {
            known.keepsOldCheckpoint = true
        }
        known.contents = .objects(changes.applied(to: objects))
        return known.keepsOldCheckpoint
    }

    /// What was half written goes; where that fails, the segment is left, and the next one says how far it counts.
    private func cutBack(_ appender: any FileAppender, _ writer: inout Writer) {
        do {
            try appender.truncate(to: writer.size)
        } catch {
            leaveSegment(&writer)
        }
    }

    /// Nothing is appended to the segment any more, full or not. What could not be synced now is with the next notice.
    private func leaveSegment(_ writer: inout Writer) {
        // Those that a checkpoint has covered since, or that are gone: it may be long until somebody syncs.
        known.withLock { known in writer.unsynced.removeAll { known.index.isInCheckpoint($0) } }
        if writer.isDirty { writer.unsynced.append(writer.segment) }
        writer.isDirty = false
        writer.appender.take()?.close()
        known.withLock { $0.index.endLastSegment() }
    }
}

// MARK: - Segments

extension EventLog {
    private func beginSegment(_ writer: inout Writer) throws -> any FileAppender {
        if writer.run == nil { try disk.makeFolder(files.folder) }
        try renewFolder(&writer)
        try completeErasure()
        // Processes that store less than a segment each come this way only.
        evictAtBeginning(&writer)
        let run = try writer.run ?? beginRun(&writer)
        var segment = LogIndex.Segment(index: writer.segment + 1, first: writer.next)
        let appender: any FileAppender
        do {
            appender = try disk.createAppender(files.segment(segment, of: run.number))
        } catch FileFailure.exists {
            // Something that is not ours has the name.
            segment = LogIndex.Segment(index: writer.segment + 2, first: writer.next)
            appender = try disk.createAppender(files.segment(segment, of: run.number))
        }
        writer.appender = appender
        writer.segment = segment.index
        writer.size = 0
        writer.mustSyncFolder = true
        known.withLock { $0.index.begin(segment) }
        if writer.mustWriteAll { writeAll(&writer) }
        return appender
    }

    /// The number is chosen late: an owner's run must come after those of all owners before it.
    private func beginRun(_ writer: inout Writer) throws -> RunLock {
        let (isOwner, covered) = known.withLock { ($0.isOwner, $0.index.covered) }
        let run = try RunLock(files, on: disk, isOwner: isOwner, after: covered)
        writer.run = run
        known.withLock { known in
            known.index.ownRun = run.number
            known.ownRuns.insert(run.number)
        }
        if isOwner { reader.withLock { reserve(&$0, for: LogIndex.Run(number: run.number)) } }
        return run
    }

    /// The segment is synced by the checkpoint that its end asks for; a guest writes none.
    private func endSegment(_ writer: inout Writer) {
        if isOwned {
            checkpointLater(&writer)
        } else {
            try? sync(&writer)  // events survive the process anyway
        }
        leaveSegment(&writer)
        guard isOwned else { return }
        evict(&writer)
        // A checkpoint that is written later sees to it then.
        if housekeeper == nil { reader.withLock { sweep(&$0) } }
    }

    /// The first record does not wait until all files have been looked at.
    private func evictAtBeginning(_ writer: inout Writer) {
        guard let housekeeper, !known.withLock({ $0.index.unmeasured.isEmpty }) else { return evict(&writer) }
        writer.mustEvict = true
        housekeeper.async { [weak self] in self?.evictLate() }
    }

    private func evictLate() {
        measure()
        tellingEvictions { writer.withLock { writer in if !writer.isClosed, writer.mustEvict { evict(&writer) } } }
        messages.deliver()
    }

    /// Where nothing else tells that the account has changed.
    func tellingEvictions(_ body: () -> Void) {
        let before = known.withLock { $0.index.sums.evicted }
        body()
        if known.withLock({ $0.index.sums.evicted != before }) { handlers.withLock { $0.evicted }?() }
    }

    /// The oldest segments go until the rest is as small, and as young, as it should be.
    func evict(_ writer: inout Writer) {
        writer.mustEvict = false
        guard isOwned else { return }
        measure()
        while let (run, segment, isCovered) = segmentToEvict() {
            if !isCovered { checkpoint(&writer) }
            guard
                known.withLock({ $0.index.oldestClosedSegment.map { $0.isCovered && $0.segment.size != nil } }) == true,
                reader.withLock({ evict(segment, of: run, &$0) })
            else {
                diagnostics.once("evict", .error, "The store is larger than it should be, and nothing of it can go now")
                return
            }
        }
    }

    private func segmentToEvict() -> (run: Int, segment: LogIndex.Segment, isCovered: Bool)? {
        if let found = known.withLock({ $0.index.segmentToEvict(limit: limits.storageBytes) }) { return found }
        guard let age = limits.storageAge, let oldest = known.withLock({ $0.index.oldestClosedSegment }),
            let newest = newestEvent(in: oldest.segment, of: oldest.run),
            newest < wallMilliseconds().addingClamped(-age.wholeMilliseconds)
        else { return nil }
        return oldest
    }

    /// When a segment's newest event was recorded, by the wall clock; `nil` if it holds none, or can't be read.
    private func newestEvent(in segment: LogIndex.Segment, of run: Int) -> Int64? {
        guard let bytes = try? disk.contents(of: files.segment(segment, of: run), from: 0, count: segment.size ?? 0)
        else {
            return nil
        }
        return bytes.withUnsafeBytes { buffer in
            var scanner = LogScanner()
            var newest: Int64?
            while let found = scanner.next(in: buffer) {
                let wall = found.header.wallMilliseconds
                if found.header.eventLength > 0 { newest = max(newest ?? wall, wall) }
            }
            return newest
        }
    }

    /// - Returns: Whether the segment is gone.
    private func evict(_ segment: LogIndex.Segment, of run: Int, _ reader: inout Reader) -> Bool {
        guard let (changed, count) = known.withLock({ $0.index.evict(segment.index, of: run) }) else { return false }
        if count > 0 {
            let reason = "the store was full, or they were too old"
            diagnostics.loss(Int(count), reason) { "\(count) stored events were given up: \(reason)" }
        }
        do {
            try acknowledge(changed, &reader)
        } catch {
            diagnostics.once("acknowledge", .error, "What became of events could not be written down", error)
            return false
        }
        sweep(&reader)
        return known.withLock { known in
            !known.index.runs.contains { $0.number == run && $0.segments.contains { $0.index == segment.index } }
        }
    }
}

// MARK: - The end

extension EventLog {
    func endWriting() {
        defer {
            // Where nothing waits, nothing is delivered, which would see to it.
            tidy()
            messages.deliver()
        }
        writer.withLock { writer in
            guard !writer.isClosed else { return }
            if writer.mustEvict { evict(&writer) }
            writer.isClosed = true
            if known.withLock({ $0.changesSinceCheckpoint > 0 || $0.pending != nil }) { checkpoint(&writer) }
            removeSpareCheckpoint()
            try? sync(&writer)  // said by the checkpoint, if there was state; events survive the process anyway
            writer.appender.take()?.close()
        }
    }
}
