/// The protocol of the event store, as `WhatIsStored.md` describes it: one instance at a time, each file operation a step.
struct StoreModel: Sendable {
    typealias Disk = ModelDisk
    typealias Stop = ModelDisk.Interruption

    enum Action: Sendable, Hashable, CustomStringConvertible {
        case open, shutdown, rotate, checkpoint, evict
        case append(Chunk)
        /// A `write` that takes only some of a chunk's records; then the file is cut back, or that fails too.
        case appendShort(whole: Int, isCutBack: Bool)
        case deliver(Answer)
        /// What happens between two lives.
        case damageOldest, damageNewest, loseOldest, cutPower

        var description: String {
            switch self {
            case .open: "open"
            case .shutdown: "shutdown"
            case .rotate: "rotate"
            case .checkpoint: "checkpoint"
            case .evict: "evict"
            case .append(let chunk): "append \(chunk)"
            case .appendShort(let whole, true): "append \(whole) of several, cut back"
            case .appendShort(let whole, false): "append \(whole) of several, not cut back"
            case .deliver(let answer): "deliver \(answer)"
            case .damageOldest: "damage oldest record"
            case .damageNewest: "damage newest record"
            case .loseOldest: "lose oldest segment"
            case .cutPower: "cut power"
            }
        }
    }

    enum Chunk: Sendable, CaseIterable {
        case event, eventAndState, state, several
    }

    enum Answer: Sendable, CaseIterable {
        case accepted, none
        /// The data plane has it, and we don't know.
        case lost
    }

    /// Wrong protocols.
    enum Mutation: Sendable, CaseIterable {
        case unlinkBeforeAcknowledge, foldWithoutNotingRun, numberFromFilesOnly, singleAckSlot
        case checkpointCoversMore, replayFromSegmentStart, evictionNotCounted, removeWithoutCheckpoint, reuseFileName
        case foldWithoutCheckpoint, evictWithoutCheckpoint, evictBeforeCounting, removeOpenSegment
        case numberBeforeCompletion, eventAndStateApart, keepTemporary, checkpointInPlace
        case readLeftovers, dropStateAtLimit, positionWithoutAckIsFirst, foldUnfinished
        case checkpointBeforeSync, checkpointBeforeSyncOfEarlierRuns, unlinkBeforeSync, foldBeforeSync, numberBeforeSync
    }

    /// The memory of one life.
    struct Instance: Sendable {
        let run: Int
        var segment: Disk.File?
        /// What was written to it, torn or whole.
        var entries = 0
        var segmentIndex = -1
        var number = 0
        var state: [Int: Int]
        var covered: Disk.Place
    }

    /// In records.
    static let segmentSize = 2
    static let batchSize = 3

    var disk = Disk()
    private(set) var instance: Instance?
    private(set) var ledger = StoreLedger()
    private var calls = 0
    private var changes = 0
    let mutation: Mutation?

    init(mutation: Mutation? = nil) {
        self.mutation = mutation
    }

    var log: ModelLog { ModelLog(disk, mutation: mutation) }

    func allows(_ action: Action) -> Bool {
        switch action {
        case .open: instance == nil
        case .cutPower: instance == nil && !disk.unsynced.isEmpty
        case .damageOldest, .damageNewest, .loseOldest: instance == nil && disk.hasSegments
        default: instance != nil
        }
    }

    /// Does it, and checks what must always hold.
    mutating func perform(_ action: Action) throws(Stop) {
        switch action {
        case .open: try open()
        case .shutdown: try shutdown()
        case .rotate: try rotate()
        case .checkpoint:
            try checkpoint()
            try tidy()
        case .evict: try evict()
        case .append(let chunk): try append(records(chunk))
        case .appendShort(let whole, let isCutBack): try appendShort(whole: whole, isCutBack: isCutBack)
        case .deliver(let answer): try deliver(answer)
        case .damageOldest: damage { $0.first }
        case .damageNewest: damage { $0.last }
        case .loseOldest: loseOldest()
        case .cutPower:
            disk.cutPower()
            ledger.powerWasCut(log)
        }
        ledger.absorb(disk.takeWritten())
        try check()
    }

    /// The process is gone; what it wrote is there.
    mutating func crash() throws(Stop) {
        ledger.absorb(disk.takeWritten())
        instance = nil
        try check()
    }

    private func check() throws(Stop) {
        try ledger.check(log, state: instance?.state)
    }
}

// MARK: - Opening and shutting down

extension StoreModel {
    private mutating func open() throws(Stop) {
        try disk.lock()
        if mutation != .keepTemporary, disk.files[.checkpointTemporary] != nil {
            try disk.unlink(.checkpointTemporary)
        }
        if mutation != .numberBeforeCompletion { try completeFold() }
        try begin(try noteNumber())
        try tidy()
    }

    private mutating func begin(_ run: Int) throws(Stop) {
        let log = self.log
        instance = Instance(
            run: run, state: log.state(fromSegmentStart: mutation == .replayFromSegmentStart),
            covered: log.checkpoint?.place ?? Disk.Place())
        try ledger.began(run)
    }

    private mutating func noteNumber() throws(Stop) -> Int {
        let log = self.log
        if mutation == .numberFromFilesOnly {
            if disk.files[.base] == nil { try disk.create(.base, .base(Disk.Slots())) }
            return log.highestRun + 1
        }
        var base = log.base ?? Disk.BaseSlot()
        base.highestRun = max(base.highestRun, log.highestRun, log.checkpoint?.place.run ?? 0) + 1
        if mutation == .numberBeforeCompletion { base.takenIn = nil }
        if disk.files[.base] == nil { try disk.create(.base, .base(Disk.Slots())) }
        try disk.write(base)
        if mutation != .numberBeforeSync { try disk.sync(.base) }
        return base.highestRun
    }

    private mutating func completeFold() throws(Stop) {
        let log = self.log
        guard let takenIn = log.base?.takenIn, let run = log.runs.first(where: { $0.number == takenIn }) else { return }
        // The life that wrote the slot may have been killed before it was synced.
        if mutation != .foldBeforeSync { try syncIfNeeded(.base) }
        try removeFiles(of: run)
    }

    private mutating func shutdown() throws(Stop) {
        try checkpoint()
        try tidy()
        try disk.step()  // The lock is given up.
        instance = nil
    }
}

// MARK: - Writing

extension StoreModel {
    private mutating func records(_ chunk: Chunk) -> [(hasEvent: Bool, change: Disk.Change?)] {
        func change() -> Disk.Change {
            changes += 1
            // Pairs of changes of the same key, so that losing the second shows the first again.
            return Disk.Change(key: (changes + 1) / 2 % 3, value: changes % 5 == 0 ? nil : changes)
        }
        return switch chunk {
        case .event: [(true, nil)]
        case .eventAndState: [(true, change())]
        case .state: [(false, change())]
        case .several: [(false, change()), (true, change()), (true, nil)]
        }
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

    private mutating func append(_ parts: [(hasEvent: Bool, change: Disk.Change?)]) throws(Stop) {
        let file = try segmentToWrite()
        guard let first = instance?.number else { return }
        let records = number(parts, from: first)
        try disk.append(records, to: file)
        noteWritten(records, entries: records.count)
    }

    private mutating func appendShort(whole: Int, isCutBack: Bool) throws(Stop) {
        var file = try segmentToWrite()
        guard let first = instance?.number else { return }
        let records = number(records(.several), from: first)
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

    private mutating func noteWritten(_ records: [Disk.Record], entries: Int) {
        instance?.entries += entries
        for record in records {
            if record.event != nil { instance?.number = record.number + 1 }
            if let change = record.change { instance?.state[change.key] = change.value }
        }
    }

    private mutating func segmentToWrite() throws(Stop) -> Disk.File {
        if let instance, let file = instance.segment {
            if instance.entries < Self.segmentSize { return file }
            try close()
        }
        return try makeSegment()
    }

    private mutating func makeSegment() throws(Stop) -> Disk.File {
        guard var instance else { throw .broken("no instance") }
        if mutation != .reuseFileName || instance.segmentIndex < 0 { instance.segmentIndex += 1 }
        let file = Disk.File.segment(run: instance.run, index: instance.segmentIndex, first: instance.number)
        try disk.create(file, .segment([]))
        instance.segment = file
        instance.entries = 0
        self.instance = instance
        return file
    }

    private mutating func close() throws(Stop) {
        try checkpoint()
        instance?.segment = nil
    }

    private mutating func rotate() throws(Stop) {
        guard instance?.segment != nil else { return }
        try close()
        try tidy()
        _ = try makeSegment()
    }

    private mutating func syncIfNeeded(_ file: Disk.File) throws(Stop) {
        if disk.unsynced.contains(file) { try disk.sync(file) }
    }

    /// Under another name, synced, renamed. It covers all that this run and those before it have written, so that it must
    /// not be there after a power cut if that is gone.
    private mutating func checkpoint() throws(Stop) {
        guard let instance else { return }
        for segment in log.runs.flatMap(\.segments) where segment.lastPlace > instance.covered {
            if mutation == .checkpointBeforeSync && segment.run == instance.run { continue }
            if mutation == .checkpointBeforeSyncOfEarlierRuns && segment.run != instance.run { continue }
            try syncIfNeeded(segment.file)
        }
        var place = Disk.Place(run: instance.run, segment: instance.segmentIndex, offset: instance.entries)
        if instance.segment == nil { place = Disk.Place(run: instance.run, segment: instance.segmentIndex + 1) }
        if mutation == .checkpointCoversMore { place.offset += 1 }
        let checkpoint = Disk.Checkpoint(place: place, state: instance.state)
        if mutation == .checkpointInPlace {
            try disk.write(checkpoint, to: .checkpoint)
        } else {
            try disk.write(checkpoint, to: .checkpointTemporary)
            try disk.sync(.checkpointTemporary)
            try disk.rename(.checkpointTemporary, to: .checkpoint)
        }
        self.instance?.covered = place
    }
}

// MARK: - Delivering

extension StoreModel {
    private mutating func deliver(_ answer: Answer) throws(Stop) {
        guard let run = log.runs.first(where: { $0.position < $0.end }) else { return }
        let batch = Array(run.waiting.prefix(Self.batchSize))
        // Where all that is left is damaged there is nothing to ask the data plane.
        let position = batch.last.map { $0.number + 1 } ?? run.end
        if !batch.isEmpty {
            try disk.step()
            if answer != .none { try ledger.received(batch, of: run.number) }
            guard answer == .accepted else { return }
        }
        if mutation == .unlinkBeforeAcknowledge {
            for segment in run.segments where segment.file != instance?.segment && segment.end <= position {
                try disk.unlink(segment.file)
            }
        }
        let damaged = position - run.position - batch.count
        let sums = Disk.Sums(delivered: batch.count, damaged: damaged)
        try acknowledge(run, position: position, adding: sums)
        try ledger.acknowledged(batch, of: run.number, position: position)
        try tidy()
    }

    private mutating func acknowledge(_ run: ModelLog.Run, position: Int, adding sums: Disk.Sums) throws(Stop) {
        let file = Disk.File.ack(run: run.number)
        if !run.hasAck { try disk.create(file, .ack(Disk.Slots())) }
        let slot = Disk.AckSlot(position: position, sums: (run.ack?.sums ?? Disk.Sums()) + sums)
        try disk.write(slot, to: file, inPlace: mutation == .singleAckSlot)
    }

    /// Removes what is delivered and covered, and takes in the runs that are over.
    private mutating func tidy() throws(Stop) {
        for run in log.runs {
            for segment in run.segments where segment.end <= run.position && isClosed(segment) {
                guard isCovered(segment) || mutation == .removeWithoutCheckpoint else { continue }
                if mutation != .unlinkBeforeSync { try syncIfNeeded(.ack(run: run.number)) }
                try disk.unlink(segment.file)
            }
        }
        for run in log.runs where run.number != instance?.run {
            let isDone = run.position == run.end || mutation == .foldUnfinished
            if isDone && (run.segments.allSatisfy(isCovered) || mutation == .foldWithoutCheckpoint) { try fold(run) }
        }
    }

    private func isClosed(_ segment: ModelLog.Segment) -> Bool {
        segment.file != instance?.segment || mutation == .removeOpenSegment
    }

    private func isCovered(_ segment: ModelLog.Segment) -> Bool {
        (instance?.covered).map { $0 >= segment.lastPlace } ?? false
    }

    private mutating func fold(_ run: ModelLog.Run) throws(Stop) {
        var base = log.base ?? Disk.BaseSlot()
        base.sums = base.sums + (run.ack?.sums ?? Disk.Sums())
        base.takenIn = mutation == .foldWithoutNotingRun ? nil : run.number
        try disk.write(base)
        if mutation != .foldBeforeSync { try disk.sync(.base) }
        try removeFiles(of: run)
    }

    private mutating func removeFiles(of run: ModelLog.Run) throws(Stop) {
        for segment in run.segments { try disk.unlink(segment.file) }
        if run.hasAck { try disk.unlink(.ack(run: run.number)) }
    }

    /// The oldest segment that is not being written: covered, counted, then removed.
    private mutating func evict() throws(Stop) {
        let log = self.log
        guard let run = log.runs.first(where: { $0.segments.contains { $0.file != instance?.segment } }),
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

// MARK: - Between two lives

extension StoreModel {
    private mutating func damage(_ choose: ([(place: Disk.Place, record: Disk.Record)]) -> (Disk.Place, Disk.Record)?) {
        let log = self.log
        let segments = log.runs.filter { $0.number != log.base?.takenIn }.flatMap(\.segments)
        guard let (place, record) = choose(segments.flatMap(\.records)),
            let segment = segments.first(where: { $0.run == place.run && $0.index == place.segment })
        else { return }
        disk.damage(place, in: segment.file)
        ledger.damaged(record, at: place, covered: log.checkpoint?.place)
    }

    private mutating func loseOldest() {
        let log = self.log
        guard let run = log.runs.first(where: { $0.number != log.base?.takenIn && !$0.segments.isEmpty }),
            let segment = run.segments.first
        else { return }
        for (place, record) in segment.records { ledger.damaged(record, at: place, covered: log.checkpoint?.place) }
        disk.lose(segment.file)
    }
}
