/// What a reader makes of the files: runs, their segments, positions and ends.
struct ModelLog: Sendable {
    typealias Disk = ModelDisk

    struct Segment: Sendable {
        let file: Disk.File
        let run: Int
        let index: Int
        let first: Int
        let entries: [Disk.Entry]
        /// Whole records that count, each with its place.
        private(set) var records: [(place: Disk.Place, record: Disk.Record)] = []
        private(set) var end: Int
        /// The next segment's `FIRST`: events from there on don't count.
        private var limit: Int?
        private let mutation: StoreModel.Mutation?

        init(
            _ file: Disk.File, run: Int, index: Int, first: Int, _ entries: [Disk.Entry],
            _ mutation: StoreModel.Mutation?
        ) {
            self.file = file
            self.run = run
            self.index = index
            self.first = first
            self.entries = entries
            self.mutation = mutation
            end = first
        }

        var hasState: Bool { records.contains { $0.record.change != nil } }
        var lastPlace: Disk.Place { Disk.Place(run: run, segment: index, offset: entries.count) }

        mutating func read(upTo limit: Int?) {
            self.limit = limit
            for (offset, entry) in entries.enumerated() {
                guard case .whole(let record) = entry, counts(record) else { continue }
                records.append((Disk.Place(run: run, segment: index, offset: offset), record))
                end = max(end, record.event == nil ? record.number : record.number + 1)
            }
            if let limit { end = limit }
        }

        /// State alone has the next event's number, so that at the end of a segment it is the limit itself.
        private func counts(_ record: Disk.Record) -> Bool {
            guard let limit else { return true }
            if record.number < limit || mutation == .readLeftovers { return true }
            return record.event == nil && record.number == limit && mutation != .dropStateAtLimit
        }
    }

    struct Run: Sendable {
        let number: Int
        var segments: [Segment] = []
        var ack: Disk.AckSlot?
        var hasAck = false
        var hasLock = false
        var positionIsFirst = false
        /// A wrong reader takes a record that is being written for a damaged one.
        var countsTornTail = false

        /// Without an acknowledgement 0, so that a first segment which is gone counts as damaged.
        var position: Int { ack?.position ?? (positionIsFirst ? segments.first?.first ?? 0 : 0) }
        var end: Int {
            let torn = countsTornTail && segments.last?.entries.last == .torn ? 1 : 0
            return max(position, (segments.last?.end ?? 0) + torn)
        }
        var waiting: [Disk.Record] {
            segments.flatMap(\.records).map(\.record).filter { $0.event != nil && $0.number >= position }
        }
    }

    private(set) var runs: [Run] = []
    private(set) var base: Disk.BaseSlot?
    private(set) var checkpoint: Disk.Checkpoint?
    private(set) var highestRun = 0

    init(_ disk: Disk, mutation: StoreModel.Mutation?) {
        var found: [Int: Run] = [:]
        for (file, content) in disk.files {
            switch (file, content) {
            case (.segment(let run, let index, let first), .segment(let entries)):
                let segment = Segment(file, run: run, index: index, first: first, entries, mutation)
                found[run, default: Run(number: run)].segments.append(segment)
            case (.ack(let run), .ack(let slots)):
                found[run, default: Run(number: run)].ack = slots.newest
                found[run]?.hasAck = true
            case (.runLock(let run), _): found[run, default: Run(number: run)].hasLock = true
            case (.base, .base(let slots)): base = slots.newest
            case (.checkpoint, .checkpoint(let checkpoint)): self.checkpoint = checkpoint
            default: break
            }
        }
        highestRun = found.keys.max() ?? 0
        runs = found.values.map { Self.inOrder($0, mutation) }.sorted { $0.number < $1.number }
    }

    private static func inOrder(_ run: Run, _ mutation: StoreModel.Mutation?) -> Run {
        var run = run
        run.positionIsFirst = mutation == .positionWithoutAckIsFirst
        run.segments.sort { $0.index < $1.index }
        for index in run.segments.indices {
            let isLast = index + 1 == run.segments.count
            run.segments[index].read(upTo: isLast ? nil : run.segments[index + 1].first)
        }
        return run
    }

    /// The checkpoint, changed by the records from the place on that it covers.
    func state(fromSegmentStart: Bool) -> [Int: Int] {
        var state = checkpoint?.state ?? [:]
        var place = checkpoint?.place ?? Disk.Place()
        if fromSegmentStart { place.offset = 0 }
        for (recordPlace, record) in runs.flatMap(\.segments).flatMap(\.records) where recordPlace >= place {
            if let change = record.change { state[change.key] = change.value }
        }
        return state
    }

    /// What is accounted for: in `base.ack`, and in the runs that it does not name as taken in.
    var account: (sums: Disk.Sums, waiting: Int) {
        let others = runs.filter { $0.number != base?.takenIn }
        return (
            others.reduce(base?.sums ?? Disk.Sums()) { $0 + ($1.ack?.sums ?? Disk.Sums()) },
            others.reduce(0) { $0 + $1.end - $1.position }
        )
    }
}
