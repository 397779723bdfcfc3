/// What the names in a folder tell of a log, and the sizes of files that were looked at.
struct LogListing {
    /// Without those of a newer version.
    private(set) var runs: [Int: LogIndex.Run] = [:]
    /// Runs with segments of a newer version: what belongs to them is left alone too.
    private(set) var newer: Set<Int> = []
    /// That any file names.
    private(set) var highest = 0
    private var newLocks: [String] = []
    private let disk: any FileSystem
    private let files: LogFiles

    /// - Parameter others: Runs whose files need no look.
    init(_ files: LogFiles, on disk: any FileSystem, without others: Set<Int> = []) throws {
        self.disk = disk
        self.files = files
        let entries = try disk.list(files.folder) { name in
            LogFiles.kind(of: name).run.map { !others.contains($0) } ?? true
        }
        for entry in entries {
            note(LogFiles.kind(of: entry.name), entry, path: { files.folder + "/" + entry.name })
        }
        sort()
    }

    /// Without a look at the files that a checkpoint covers, but for the last one of each run.
    init(_ files: LogFiles, on disk: any FileSystem, after covered: LogPlace) throws {
        self.disk = disk
        self.files = files
        try disk.visitNames(in: files.folder) { name in
            note(LogFiles.kind(of: name), nil, path: { files.folder + "/" + String(decoding: name, as: UTF8.self) })
        }
        sort()
        for (number, run) in runs {
            let segments = try measured(run, after: covered)
            runs[number]?.segments = segments
        }
    }

    /// - Parameter entry: `nil`: the file was not looked at.
    private mutating func note(_ kind: LogFiles.Kind, _ entry: FileEntry?, path: () -> String) {
        guard let run = kind.run else {
            if kind == .newLock { newLocks.append(path()) }
            return
        }
        highest = max(highest, run)
        if kind == .newerSegment(run: run) { newer.insert(run) }
        guard case .segment(_, let index, let first) = kind else {
            if runs[run] == nil { runs[run] = LogIndex.Run(number: run) }
            return
        }
        var segment = LogIndex.Segment(index: index, first: first, size: nil)
        if let entry { segment.note(listed: entry) }
        runs[run, default: LogIndex.Run(number: run)].segments.append(segment)
    }

    private mutating func sort() {
        for run in newer { runs[run] = nil }
        for run in runs.keys { runs[run]?.segments.sort { $0.index < $1.index } }
    }

    /// A run's segments without those that have gone since their names were read.
    private func measured(_ run: LogIndex.Run, after covered: LogPlace) throws -> [LogIndex.Segment] {
        var later: [LogIndex.Segment] = []
        var segments = run.segments
        while let last = segments.last, later.isEmpty || last.end(in: run.number) > covered {
            segments.removeLast()
            guard let entry = try disk.entry(at: files.segment(last, of: run.number)) else { continue }
            var segment = last
            segment.note(listed: entry)
            later.append(segment)
        }
        return segments + later.reversed()
    }

    /// Segments that a later one follows may have been listed before their last records, or not at all where a folder is
    /// too large to be listed at once: now they are there, and whole.
    mutating func measureAgain() throws {
        let lasts = runs.compactMapValues(\.segments.last?.index)
        if lasts.isEmpty { return }
        for (run, last) in lasts { runs[run]?.segments.removeAll { $0.index < last } }
        let entries = try disk.list(files.folder) { LogFiles.kind(of: $0).run.map { lasts[$0] != nil } ?? false }
        for entry in entries {
            guard case .segment(let run, let index, let first) = LogFiles.kind(of: entry.name), let last = lasts[run]
            else { continue }
            if index < last {
                var segment = LogIndex.Segment(index: index, first: first)
                segment.note(listed: entry)
                runs[run]?.segments.append(segment)
            } else if index == last, let offset = runs[run]?.segments.firstIndex(where: { $0.index == last }) {
                runs[run]?.segments[offset].note(listed: entry)
            }
        }
        for run in lasts.keys { runs[run]?.segments.sort { $0.index < $1.index } }
    }

    /// Those whose lock somebody has.
    func runsThatLive() throws -> Set<Int> { try Self.live(Array(runs.keys), files, on: disk) }

    /// The runs that any file names, and those of them whose lock somebody has, without a look at the files.
    static func lives(_ files: LogFiles, on disk: any FileSystem) throws -> (all: Set<Int>, live: Set<Int>) {
        var all: Set<Int> = []
        try disk.visitNames(in: files.folder) { name in
            if let run = LogFiles.kind(of: name).run { all.insert(run) }
        }
        return (all, try live(Array(all), files, on: disk))
    }

    private static func live(_ runs: [Int], _ files: LogFiles, on disk: any FileSystem) throws -> Set<Int> {
        Set(try runs.sorted().filter { try disk.isLocked(files.runLock(of: $0)) })
    }

    /// Those of processes that were killed before their lock had its name.
    func removeNewLocks() throws {
        for path in newLocks where try !disk.isLocked(path) { try disk.remove(path) }
    }
}

extension LogIndex.Segment {
    fileprivate mutating func note(listed entry: FileEntry) {
        note(entry)
        isUnread = !entry.isFile
    }
}

extension LogIndex.Run {
    /// A whole record of the last segment was read.
    mutating func note(_ header: LogRecordHeader, endingAt offset: Int) {
        // State alone has the number of the next event: those before it were there.
        end = max(end, header.number + (header.eventLength > 0 ? 1 : 0))
        let last = segments.count - 1
        segments[last].scanned = offset
        // It may have grown since the names were listed.
        segments[last].size = max(segments[last].size ?? 0, offset)
    }
}
