/// What is found in a folder when its log is opened.
struct LogOpening {
    private(set) var index: LogIndex
    private(set) var contents: EventLog.Contents
    private(set) var base: SlotFile
    /// As it was read, or an empty one.
    private(set) var checkpoint = Checkpoint()
    private(set) var acknowledgements: [Int: SlotFile] = [:]
    /// How many records told of state that the checkpoint does not hold.
    private(set) var changeCount = 0
    /// That any file names, or the base.
    private(set) var highestRun = 0
    /// What the checkpoint says of its place.
    private let nextCovered: UInt64?
    private let disk: any FileSystem
    private let files: LogFiles
    private let diagnostics: Diagnostics

    /// - Parameter isOwner: Whether what was begun may be completed. A guest only reads.
    /// - Throws: Why nothing can be stored in the folder.
    init(_ files: LogFiles, on disk: any FileSystem, isOwner: Bool, _ diagnostics: Diagnostics) throws {
        self.disk = disk
        self.files = files
        self.diagnostics = diagnostics
        if isOwner { try LogErasure(begunIn: files, on: disk)?.complete() }
        var base = SlotFile(new: files.base, on: disk)
        do {
            base = try SlotFile(reading: files.base, on: disk)
        } catch let damage as SlotFile.Damage {
            diagnostics.error("What became of earlier events is not known any more", damage)
        }
        self.base = base
        let checkpoint = Self.readCheckpoint(files, on: disk, diagnostics)
        index = LogIndex(ownRun: 0)
        index.covered = checkpoint?.place ?? LogPlace()
        nextCovered = checkpoint?.next
        index.folded = LogIndex.Sums(base.values[2...])
        contents = .unreadable(changes: [])
        var changes: [StateChange] = []
        for run in try list(isOwner) { index.runs.append(try open(run, &changes)) }
        if let checkpoint {
            self.checkpoint = checkpoint
            contents = .objects(changes.applied(to: checkpoint.objects))
        } else {
            contents = .unreadable(changes: changes)
        }
        index.counts.appended = index.runs.reduce(0) { $0 + Int($1.end - $1.position) }
    }

    /// Whether there is another checkpoint by now.
    var isOutdated: Bool {
        let place = Self.readCheckpoint(files, on: disk, diagnostics)?.place
        return place != nil && place != index.covered
    }

    /// The runs whose files are there. The locks first: what a run has whose lock was free before is all that it will have.
    private mutating func list(_ isOwner: Bool) throws -> [LogIndex.Run] {
        let (known, live) = try isOwner ? LogListing.lives(files, on: disk) : ([], [])
        var listing = try LogListing(files, on: disk, after: index.covered)
        if !live.isEmpty { try listing.measureAgain() }
        if !listing.newer.isEmpty {
            diagnostics.once("newer log", .error, "Events of a newer version were found; they are left as they are")
        }
        let folded = Int(clamping: base.values[1])
        highestRun = max(listing.highest, Int(clamping: base.values[0]), folded)
        var runs = listing.runs
        // It has been taken into the base: what is left of it is not events any more.
        if let leftover = runs.removeValue(forKey: folded), isOwner, !listing.newer.contains(folded) {
            // The process that wrote that may have been killed before it brought it to the disk.
            try disk.sync(files.base)
            for path in files.all(of: leftover) { try disk.remove(path) }
        }
        if isOwner { try listing.removeNewLocks() }
        return runs.values.sorted { $0.number < $1.number }.map { run in
            var run = run
            run.isLive = live.contains(run.number) || isOwner && !known.contains(run.number)
            return run
        }
    }

    /// Finds out how far a run goes and how far it is delivered.
    private mutating func open(_ run: LogIndex.Run, _ changes: inout [StateChange]) throws -> LogIndex.Run {
        var run = run
        var slots = SlotFile(new: files.acknowledgement(of: run.number), on: disk)
        run.end = run.segments.map(\.first).max() ?? 0
        do {
            slots = try SlotFile(reading: slots.path, on: disk)
            run.position = slots.values[0]
        } catch let damage as SlotFile.Damage {
            diagnostics.error("How far events were delivered is not known any more; they may be sent again", damage)
            run.position = run.segments.first?.first ?? 0
        }
        run.sums = LogIndex.Sums(slots.values[1...4])
        acknowledgements[run.number] = slots
        for offset in run.segments.indices {
            let place = LogPlace(run: run.number, segment: run.segments[offset].index, offset: .max)
            let isLast = offset == run.segments.count - 1
            guard isLast || place > index.covered else { continue }
            if isLast, let end = end(of: run) {
                run.end = max(run.end, end)
                run.segments[offset].scanned = run.segments[offset].size ?? 0
            } else {
                scan(&run, offset, &changes)
            }
        }
        // After a power cut the acknowledgement may be there and the events that it speaks of not.
        run.end = max(run.end, run.position)
        return run
    }

    /// What the checkpoint says of the number after a run's last event; `nil` if the run goes on behind it.
    private func end(of run: LogIndex.Run) -> UInt64? {
        guard let last = run.segments.last, !last.isUnread, last.end(in: run.number) == index.covered else {
            return nil
        }
        return nextCovered
    }

    /// Reads a segment for its state and, if it is the last one, for its end.
    private mutating func scan(_ run: inout LogIndex.Run, _ offset: Int, _ changes: inout [StateChange]) {
        let segment = run.segments[offset]
        let path = files.segment(segment, of: run.number)
        let bytes: [UInt8]
        do {
            // It may have gone.
            guard let found = try disk.contents(of: path, from: 0, count: segment.size ?? 0) else { return }
            bytes = found
        } catch {
            diagnostics.once("read log", .error, "Stored events can't be read; they stay", error)
            run.segments[offset].isUnread = true
            return
        }
        let limit = offset + 1 < run.segments.count ? run.segments[offset + 1].first : nil
        let covered = index.covered
        bytes.withUnsafeBytes { buffer in
            var scanner = LogScanner()
            while let found = scanner.next(in: buffer) {
                let isEvent = found.header.eventLength > 0
                if let limit, isEvent ? found.header.number >= limit : found.header.number > limit { continue }
                if limit == nil { run.note(found.header, endingAt: found.end) }
                guard found.header.stateLength > 0 else { continue }
                let end = LogPlace(run: run.number, segment: segment.index, offset: found.end)
                guard end > covered else { continue }
                run.segments[offset].hasState = true
                changeCount += 1
                changes.merge(Self.changes(in: bytes[found.state]))
            }
            // Another process may be writing it.
            if limit == nil, !run.isLive, let damaged = scanner.highestDamaged { run.end = max(run.end, damaged + 1) }
            if scanner.skipped > 0, !run.isLive {
                diagnostics.log(.info, "\(scanner.skipped) bytes of a log are no whole record, as after a kill")
            }
        }
    }

    private static func changes(in bytes: ArraySlice<UInt8>) -> [StateChange] {
        guard let objects = (try? JSONValue(parsing: bytes))?.object else { return [] }
        return objects.compactMap { key, value in value.object.map { StateChange(key: key, changes: $0) } }
    }

    static func readCheckpoint(_ files: LogFiles, on disk: any FileSystem, _ diagnostics: Diagnostics) -> Checkpoint? {
        let bytes: [UInt8]
        do {
            let read = { try disk.contents(of: files.checkpoint) }
            guard let found = try Checkpoint.bytes(read) else { return Checkpoint() }
            bytes = found
        } catch {
            diagnostics.once("read state", .error, "The state can't be read", error)
            return nil
        }
        do {
            return try Checkpoint(reading: bytes)
        } catch {
            diagnostics.once("damaged state", .error, "\(files.checkpoint) is left as it is", error)
            return nil
        }
    }
}
