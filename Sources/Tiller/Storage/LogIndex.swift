/// What is known of the log's files, without reading them: a value, with the rules of who goes when.
struct LogIndex: Sendable {
    struct Segment: Sendable {
        let index: Int
        /// The number of its first event.
        let first: UInt64
        /// In bytes; `nil`: it was not asked for yet, because to look at a thousand files takes longer than all else at an
        /// opening, or can't be had.
        var size: Int? = 0
        /// Of the last segment of another's run: up to here it has been read.
        var scanned = 0
        /// Whether it holds state that no checkpoint may have.
        var hasState = false
        /// Whether nothing is appended to it any more, though it may be the own run's last one.
        var isEnded = false
        /// Whether it could not be read at the opening: what it holds, and how far it goes if it is the last one, is not known.
        var isUnread = false

        /// Where it ends, as a place in the log.
        func end(in run: Int) -> LogPlace { LogPlace(run: run, segment: index, offset: size ?? .max) }

        /// Its file was looked at; `nil`: it is gone.
        mutating func note(_ entry: FileEntry?) { size = entry.map(Self.size) ?? 0 }

        static func size(of entry: FileEntry) -> Int { min(entry.size, largest) }

        /// In bytes; ours have a mebibyte and a record. A file that is larger, be it sparse, must not take all memory.
        private static let largest = 1 << 26
    }

    /// What became of events that are gone.
    struct Sums: Sendable, Equatable {
        var delivered: UInt64 = 0
        var evicted: UInt64 = 0
        var damaged: UInt64 = 0
        var refused: UInt64 = 0

        static func + (left: Sums, right: Sums) -> Sums {
            Sums(
                delivered: left.delivered + right.delivered, evicted: left.evicted + right.evicted,
                damaged: left.damaged + right.damaged, refused: left.refused + right.refused)
        }

        /// As they stand in a slot.
        var values: [UInt64] { [delivered, evicted, damaged, refused] }
    }

    struct Run: Sendable {
        let number: Int
        /// Another process writes it.
        var isLive = false
        var segments: [Segment] = []
        /// The number after its last event.
        var end: UInt64 = 0
        /// The number of the first event that waits.
        var position: UInt64 = 0
        var sums = Sums()

        var hasUnread: Bool { segments.contains(where: \.isUnread) }

        /// Nothing of it waits, as far as is known.
        var isOver: Bool { position >= end }

        /// Where to read on behind what is held.
        func start(after held: StoredBatch?) -> UInt64 {
            guard let held, held.run == number else { return position }
            return max(position, held.end)
        }

        /// The number after a segment's last event.
        func end(ofSegmentAt index: Int) -> UInt64 {
            index + 1 < segments.count ? segments[index + 1].first : end
        }
    }

    /// In the order of their numbers.
    var runs: [Run] = []
    /// This instance's own; 0: it has not begun one.
    var ownRun: Int
    /// Up to here the checkpoint on the disk holds the state.
    var covered = LogPlace()
    var counts = EventCounts()
    /// What became of the events of runs that are in the base.
    var folded = Sums()
    /// When the oldest event that waits was recorded, to within a batch; unknown until something has been read or stored.
    var oldest: Int64?

    /// All segments together.
    var bytes: Int { bytes(unmeasured: 0) }

    /// - Parameter size: Of each segment that was not looked at yet.
    func bytes(unmeasured size: Int) -> Int {
        runs.reduce(0) { $0 + $1.segments.reduce(0) { $0 + ($1.size ?? size) } }
    }

    /// Segments whose sizes were not asked for.
    var unmeasured: [(run: Int, segment: Segment)] {
        runs.flatMap { run in run.segments.lazy.filter { $0.size == nil }.map { (run.number, $0) } }
    }

    /// What all runs and the base have come to.
    var sums: Sums { runs.reduce(folded) { $0 + $1.sums } }

    /// The files that hold something which waits.
    ///
    /// - Parameter size: Of each segment that was not looked at yet.
    func waitingBytes(unmeasured size: Int) -> Int {
        runs.reduce(0) { sum, run in
            sum
                + run.segments.indices.reduce(0) {
                    $0 + (run.end(ofSegmentAt: $1) > run.position ? run.segments[$1].size ?? size : 0)
                }
        }
    }

    /// How many events the own run has had.
    var ownCount = 0

    /// The oldest run in which something waits, or may wait.
    ///
    /// - Parameter held: What lies before its end is passed over.
    func nextRun(after held: StoredBatch?) -> Run? {
        runs.first { run in
            run.number >= held?.run ?? 0 && (run.hasUnread || run.start(after: held) < run.end)
        }
    }

    /// While there is such a segment, the state is not known wholly.
    var hasUnread: Bool { runs.contains(where: \.hasUnread) }

    private func isCovered(_ segment: Segment, of run: Int) -> Bool {
        if segment.isUnread { return false }
        return !segment.hasState || segment.end(in: run) <= covered
    }

    /// Whether more may come to a run, and to its last segment.
    private func isOpen(_ run: Run) -> Bool { run.isLive || run.number == ownRun }

    private func index(of run: Int) -> Int? { runs.firstIndex { $0.number == run } }
}

extension LogIndex.Sums {
    /// - Parameter values: Four, as they stand in a slot.
    init(_ values: ArraySlice<UInt64>) {
        let first = values.startIndex
        self.init(
            delivered: values[first], evicted: values[first + 1], damaged: values[first + 2],
            refused: values[first + 3])
    }
}

// MARK: - Growing

extension LogIndex {
    mutating func begin(_ segment: Segment) {
        if let index = index(of: ownRun) {
            runs[index].isLive = false
            runs[index].segments.append(segment)
        } else {
            insert(Run(number: ownRun, segments: [segment]))
        }
    }

    private mutating func insert(_ run: Run) {
        runs.insert(run, at: runs.firstIndex { $0.number > run.number } ?? runs.count)
    }

    /// Another's run was looked at again.
    ///
    /// - Returns: Whether it was not known before.
    mutating func replace(_ run: Run) -> Bool {
        let waited = index(of: run.number).map { Int(runs[$0].end - runs[$0].position) } ?? 0
        counts.appended += Int(run.end - run.position) - waited
        guard let index = index(of: run.number) else {
            insert(run)
            return true
        }
        runs[index] = run
        return false
    }

    /// A guest's own run, of which its owner has told what became.
    mutating func settle(_ run: Int, to position: UInt64, _ sums: Sums) {
        guard let index = index(of: run), position > runs[index].position else { return }
        if position > runs[index].end {
            // Records that were half written and could not be cut back count as written.
            let count = Int(position - runs[index].end)
            counts.appended += count
            if run == ownRun { ownCount += count }
            runs[index].end = position
        }
        move(index, to: position) { mine, _ in mine = sums }
    }

    /// Only what this instance itself wrote is left: the rest is another's now.
    mutating func letGoOfOthers(keeping own: Set<Int>) {
        runs.removeAll { !own.contains($0.number) }
        counts.appended = counts.settled + runs.reduce(0) { $0 + Int($1.end - $1.position) }
    }

    /// Records were appended to the own run's last segment.
    mutating func grow(to size: Int, end: UInt64, hasState: Bool) {
        guard let index = index(of: ownRun), !runs[index].segments.isEmpty else { return }
        let last = runs[index].segments.count - 1
        let count = end > runs[index].end ? Int(end - runs[index].end) : 0
        counts.appended += count
        ownCount += count
        runs[index].end += UInt64(count)
        runs[index].segments[last].size = size
        if hasState { runs[index].segments[last].hasState = true }
    }

    /// Nothing is appended to the own run's last segment any more.
    mutating func endLastSegment() {
        guard let index = index(of: ownRun), !runs[index].segments.isEmpty else { return }
        runs[index].segments[runs[index].segments.count - 1].isEnded = true
    }

    /// Whether the own run's segments hold no event that waits.
    var isOwnRunOver: Bool { runs.first { $0.number == ownRun }?.isOver ?? true }

    /// All files are gone. What waited in them is damaged; numbers go on behind those that were used.
    ///
    /// - Returns: How many events waited.
    mutating func forget() -> Int {
        let waiting = runs.reduce(0) { $0 + Int($1.end) - Int($1.position) }
        folded = sums
        folded.damaged += UInt64(waiting)
        counts.settled += waiting
        counts.lost += waiting
        covered = LogPlace(run: (runs.map(\.number) + [ownRun, covered.run]).reduce(0, max) + 1)
        runs = []
        ownRun = 0
        return waiting
    }
}

// MARK: - Going

extension LogIndex {
    /// Events are settled: delivered or refused, or found to be damaged between those that are.
    ///
    /// - Returns: The run as it is now; `nil` if nothing changed.
    mutating func settle(_ settled: SettledBatch) -> Run? {
        let batch = settled.batch
        guard let index = index(of: batch.run), batch.end > runs[index].position else { return nil }
        // What was evicted meanwhile has been counted.
        let from = max(batch.start, runs[index].position)
        let whole = UInt64(batch.events.lazy.filter { $0.number >= from }.count)
        move(index, to: batch.end) { sums, count in
            switch settled.outcome {
            case .delivered: sums.delivered += whole
            case .refused: sums.refused += whole
            }
            sums.damaged += count - whole
        }
        oldest = batch.events.last?.wallMilliseconds ?? oldest
        return runs[index]
    }

    private mutating func move(_ index: Int, to position: UInt64, _ count: (inout Sums, UInt64) -> Void) {
        let moved = position > runs[index].position ? position - runs[index].position : 0
        let before = runs[index].sums
        runs[index].position = position
        count(&runs[index].sums, moved)
        // A guest takes over what a file says, which may know less than was known before.
        let after = runs[index].sums
        let delivered = min(after.delivered - min(before.delivered, after.delivered), moved)
        counts.settled += Int(moved)
        counts.lost += Int(moved - delivered)
        counts.refused += Int(min(after.refused - min(before.refused, after.refused), moved - delivered))
    }

    /// The oldest closed segment, if all are larger than a limit together.
    func segmentToEvict(limit: Int) -> (run: Int, segment: Segment, isCovered: Bool)? {
        bytes > limit ? oldestClosedSegment : nil
    }

    var oldestClosedSegment: (run: Int, segment: Segment, isCovered: Bool)? {
        for run in runs {
            let closed = isOpen(run) ? run.segments.dropLast() : run.segments[...]
            if let oldest = closed.first { return (run.number, oldest, isCovered(oldest, of: run.number)) }
        }
        return nil
    }

    /// Events up to the end of a segment are given up.
    ///
    /// - Returns: The run as it is now, and how many were given up.
    mutating func evict(_ segment: Int, of run: Int) -> (run: Run, count: UInt64)? {
        guard let index = index(of: run),
            let offset = runs[index].segments.firstIndex(where: { $0.index == segment })
        else { return nil }
        let end = runs[index].end(ofSegmentAt: offset)
        let count = end > runs[index].position ? end - runs[index].position : 0
        if count > 0 { move(index, to: end) { $0.evicted += $1 } }
        return (runs[index], count)
    }

    /// Closed segments that hold nothing any more.
    ///
    /// - Parameter covered: Those whose state a checkpoint has; otherwise those that wait for one.
    func finishedSegments(covered: Bool) -> [(run: Int, segment: Segment)] {
        finishedSegments.filter { isCovered($0.segment, of: $0.run) == covered }
    }

    /// Whether there may be something to remove.
    var hasFinished: Bool { !finishedSegments(covered: true).isEmpty || runToFold != nil }

    /// A look at the first ones: of a thousand segments most wait.
    private var finishedSegments: [(run: Int, segment: Segment)] {
        runs.flatMap { run in
            run.segments.indices.prefix { run.end(ofSegmentAt: $0) <= run.position }.filter { index in
                (!isOpen(run) || index < run.segments.count - 1 || run.segments[index].isEnded)
                    && !run.segments[index].isUnread
            }.map { (run.number, run.segments[$0]) }
        }
    }

    /// Those that are to be removed one by one: a run that is over goes as a whole, by folding. None before those that lie
    /// before it: they would be read to another end. What could not be looked at, or is no file, stays.
    var removableSegments: [(run: Int, segment: Segment)] {
        let finished = finishedSegments(covered: true)
        return runs.filter { isOpen($0) || !$0.isOver }.flatMap { run in
            run.segments.prefix { segment in
                segment.size != nil
                    && finished.contains { $0.run == run.number && $0.segment.index == segment.index }
            }.map { (run.number, $0) }
        }
    }

    /// 0: there is none.
    var lastOwnSegment: Int { index(of: ownRun).flatMap { runs[$0].segments.last?.index } ?? 0 }

    /// The own run's segments that a checkpoint of this place newly covers.
    func ownSegments(upTo place: LogPlace) -> [Segment] {
        guard place.run == ownRun, let index = index(of: ownRun) else { return [] }
        return runs[index].segments.filter { $0.index <= place.segment && !isInCheckpoint($0) }
    }

    private func isInCheckpoint(_ own: Segment) -> Bool {
        own.end(in: ownRun) <= covered
    }

    /// Whether all of an own segment lies before the checkpoint's place, or it is gone.
    func isInCheckpoint(_ segment: Int) -> Bool {
        guard let index = index(of: ownRun), let known = runs[index].segments.first(where: { $0.index == segment })
        else { return true }
        return isInCheckpoint(known)
    }

    /// Segments of earlier runs with state that a checkpoint is about to cover.
    var uncoveredOfEarlierRuns: [(run: Int, segment: Segment)] {
        runs.filter { $0.number != ownRun }.flatMap { run in
            run.segments.filter { !isCovered($0, of: run.number) }.map { (run.number, $0) }
        }
    }

    /// The oldest run that is over and in which nothing waits, if no segment of it waits for a checkpoint or a look.
    var runToFold: Run? {
        runs.first { run in
            !isOpen(run) && run.isOver
                && run.segments.allSatisfy { $0.size != nil && isCovered($0, of: run.number) }
        }
    }

    /// Files of segments were looked at. What is no file now may be one later.
    ///
    /// - Parameter found: In the order of the segments.
    mutating func note(_ found: [(run: Int, segment: Int, entry: FileEntry?)]) {
        var rest = found[...]
        for index in runs.indices {
            let run = runs[index].number
            for offset in runs[index].segments.indices where runs[index].segments[offset].size == nil {
                let segment = runs[index].segments[offset].index
                rest = rest.drop { ($0.run, $0.segment) < (run, segment) }
                guard let next = rest.first else { return }
                guard (next.run, next.segment) == (run, segment) else { continue }
                if next.entry?.isFile ?? true { runs[index].segments[offset].note(next.entry) }
            }
        }
    }

    /// What could not be read at the opening was read now.
    mutating func learn(from newer: LogIndex) {
        for index in runs.indices where runs[index].hasUnread {
            let known = newer.runs.first { $0.number == runs[index].number }
            for offset in runs[index].segments.indices where runs[index].segments[offset].isUnread {
                let segment = known?.segments.first { $0.index == runs[index].segments[offset].index }
                // One that is gone is not there to be read any more.
                runs[index].segments[offset].isUnread = segment?.isUnread ?? false
                runs[index].segments[offset].hasState = segment?.hasState ?? false
                // One that is covered meanwhile is not looked at again.
                runs[index].segments[offset].size = segment.map { $0.size ?? runs[index].segments[offset].size } ?? 0
            }
            let end = max(runs[index].end, known?.end ?? 0)
            counts.appended += Int(end - runs[index].end)
            runs[index].end = end
        }
    }

    mutating func remove(_ segment: Int, of run: Int) {
        guard let index = index(of: run) else { return }
        runs[index].segments.removeAll { $0.index == segment }
    }

    /// A run has been taken into the base.
    mutating func fold(_ run: Int) {
        guard let index = index(of: run) else { return }
        folded = folded + runs.remove(at: index).sums
    }
}
