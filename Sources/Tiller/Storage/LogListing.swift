/// What the names in a folder tell of a log.
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

    init(_ files: LogFiles, on disk: any FileSystem) throws {
        self.disk = disk
        self.files = files
        for entry in try disk.list(files.folder) {
            let kind = LogFiles.kind(of: entry.name)
            guard let run = kind.run else {
                if kind == .newLock { newLocks.append(files.folder + "/" + entry.name) }
                continue
            }
            highest = max(highest, run)
            if kind == .newerSegment(run: run) { newer.insert(run) }
            if runs[run] == nil { runs[run] = LogIndex.Run(number: run) }
            if case .segment(_, let index, let first) = kind {
                runs[run]?.segments.append(
                    LogIndex.Segment(index: index, first: first, size: entry.size, isUnread: !entry.isFile))
            }
        }
        for run in newer { runs[run] = nil }
        for run in runs.keys { runs[run]?.segments.sort { $0.index < $1.index } }
    }

    /// Those whose lock somebody has.
    func runsThatLive() throws -> Set<Int> {
        Set(try runs.keys.filter { try disk.isLocked(files.runLock(of: $0)) })
    }

    /// Those of processes that were killed before their lock had its name.
    func removeNewLocks() throws {
        for path in newLocks where try !disk.isLocked(path) { try disk.remove(path) }
    }
}

extension LogIndex.Run {
    /// A whole record of the last segment was read.
    mutating func note(_ header: LogRecordHeader, endingAt offset: Int) {
        // State alone has the number of the next event: those before it were there.
        end = max(end, header.number + (header.eventLength > 0 ? 1 : 0))
        segments[segments.count - 1].scanned = offset
    }
}
