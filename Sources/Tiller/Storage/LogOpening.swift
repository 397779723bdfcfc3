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
    private let disk: any FileSystem
    private let files: LogFiles
    private let diagnostics: Diagnostics

    /// - Parameter isOwner: Whether what was begun may be completed. A guest only reads.
    /// - Throws: Why nothing can be stored in the folder.
    init(_ files: LogFiles, on disk: any FileSystem, isOwner: Bool, _ diagnostics: Diagnostics) throws {
        self.disk = disk
        self.files = files
        self.diagnostics = diagnostics
        var base = SlotFile(new: files.base, on: disk)
        do {
            base = try SlotFile(reading: files.base, on: disk)
        } catch let damage as SlotFile.Damage {
            diagnostics.error("What became of earlier events is not known any more", damage)
        }
        self.base = base
        let checkpoint = Self.readCheckpoint(files, on: disk, diagnostics)
        let (runs, highest) = try Self.list(
            files, on: disk, folded: Int(clamping: base.values[1]), isOwner, diagnostics)
        let place = checkpoint?.place ?? LogPlace()
        let last = max(highest, Int(clamping: base.values[0]), Int(clamping: base.values[1]), place.run)
        index = LogIndex(ownRun: min(last, Int.max / 2) + 1)
        index.covered = place
        index.folded = LogIndex.Sums(base.values[2...])
        contents = .unreadable(changes: [])
        var changes: [StateChange] = []
        for run in runs { index.runs.append(try open(run, &changes)) }
        if let checkpoint {
            self.checkpoint = checkpoint
            contents = .objects(changes.applied(to: checkpoint.objects))
        } else {
            contents = .unreadable(changes: changes)
        }
        index.counts.appended = index.runs.reduce(0) { $0 + Int($1.end - $1.position) }
    }

    /// The runs whose files are there, and the highest number that any file names.
    private static func list(
        _ files: LogFiles, on disk: any FileSystem, folded: Int, _ isOwner: Bool, _ diagnostics: Diagnostics
    ) throws -> (runs: [LogIndex.Run], highest: Int) {
        var runs: [Int: LogIndex.Run] = [:]
        var newer: Set<Int> = []
        var highest = 0
        for entry in try disk.list(files.folder) {
            switch LogFiles.kind(of: entry.name) {
            case .segment(let run, let index, let first):
                highest = max(highest, run)
                runs[run, default: LogIndex.Run(number: run)].segments.append(
                    LogIndex.Segment(index: index, first: first, size: entry.size, isUnread: !entry.isFile))
            case .acknowledgement(let run):
                highest = max(highest, run)
                if runs[run] == nil { runs[run] = LogIndex.Run(number: run) }
            case .newerSegment(let run):
                highest = max(highest, run)
                newer.insert(run)
                diagnostics.once("newer log", .error, "Events of a newer version were found; they are left as they are")
            case .other: break
            }
        }
        // It has been taken into the base: what is left of it is not events any more.
        if let leftover = runs.removeValue(forKey: folded), isOwner, !newer.contains(folded) {
            // The process that wrote that may have been killed before it brought it to the disk.
            try disk.sync(files.base)
            for segment in leftover.segments { try disk.remove(files.segment(segment, of: folded)) }
            try disk.remove(files.acknowledgement(of: folded))
        }
        // Also what belongs to them.
        for run in newer { runs[run] = nil }
        let sorted = runs.values.sorted { $0.number < $1.number }.map { run in
            var run = run
            run.segments.sort { $0.index < $1.index }
            return run
        }
        return (sorted, highest)
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
            scan(&run, offset, &changes)
        }
        // After a power cut the acknowledgement may be there and the events that it speaks of not.
        run.end = max(run.end, run.position)
        return run
    }

    /// Reads a segment for its state and, if it is the last one, for its end.
    private mutating func scan(_ run: inout LogIndex.Run, _ offset: Int, _ changes: inout [StateChange]) {
        let segment = run.segments[offset]
        let path = files.segment(segment, of: run.number)
        let bytes: [UInt8]
        do {
            guard let found = try disk.contents(of: path) else { return }  // it went meanwhile
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
                // State alone has the number of the next event: those before it were there.
                if limit == nil { run.end = max(run.end, found.header.number + (isEvent ? 1 : 0)) }
                guard found.header.stateLength > 0 else { continue }
                let end = LogPlace(run: run.number, segment: segment.index, offset: found.end)
                guard end > covered else { continue }
                run.segments[offset].hasState = true
                changeCount += 1
                changes.merge(Self.changes(in: bytes[found.state]))
            }
            if limit == nil, let damaged = scanner.highestDamaged { run.end = max(run.end, damaged + 1) }
            if scanner.skipped > 0 {
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
            guard let found = try disk.contents(of: files.checkpoint) else { return Checkpoint() }
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
