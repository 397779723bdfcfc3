/// The protocol of the event store, as `WhatIsStored.md` describes it: processes on one folder, each file operation a step.
///
/// An action is not interrupted by those of the other process; where that would hide something, it is there in parts.
struct StoreModel: Sendable {
    typealias Disk = ModelDisk
    typealias Stop = ModelDisk.Interruption

    enum Process: Sendable, CaseIterable {
        case a, b
    }

    enum Action: Sendable, Hashable, CustomStringConvertible {
        case open, shutdown, rotate, checkpoint, evict
        /// A segment's end whose checkpoint is written later, and that.
        case rotateAtOnce, writePending
        case append(Chunk)
        /// A `write` that takes only some of a chunk's records; then the file is cut back, or that fails too.
        case appendShort(whole: Int, isCutBack: Bool)
        /// A `write` that the other process sees half done, until `finishAppend` or the next one.
        case beginAppend, finishAppend
        /// The next part of what comes before a run's first segment.
        case beginRun
        case deliver(Answer)
        /// The two halves of a delivery.
        case send(Answer), answer
        /// What the others wrote, and its two halves.
        case look, testLocks, readRuns
        case takeOver, release
        /// What happens when no process lives.
        case damageOldest, damageNewest, loseOldest, cutPower

        var description: String {
            switch self {
            case .open: "open"
            case .shutdown: "shutdown"
            case .rotate: "rotate"
            case .checkpoint: "checkpoint"
            case .rotateAtOnce: "rotate at once"
            case .writePending: "write the checkpoint that waits"
            case .evict: "evict"
            case .append(let chunk): "append \(chunk)"
            case .appendShort(let whole, true): "append \(whole) of several, cut back"
            case .appendShort(let whole, false): "append \(whole) of several, not cut back"
            case .beginAppend: "begin to append"
            case .finishAppend: "finish appending"
            case .beginRun: "begin run"
            case .deliver(let answer): "deliver \(answer)"
            case .send(let answer): "send \(answer)"
            case .answer: "answer"
            case .look: "look"
            case .testLocks: "test locks"
            case .readRuns: "read runs"
            case .takeOver: "take over"
            case .release: "release"
            case .damageOldest: "damage oldest record"
            case .damageNewest: "damage newest record"
            case .loseOldest: "lose oldest segment"
            case .cutPower: "cut power"
            }
        }
    }

    /// An action of one process.
    struct Turn: Sendable, Hashable, CustomStringConvertible {
        let process: Process
        let action: Action

        var description: String { process == .a ? "\(action)" : "B: \(action)" }
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
        case eventAndStateApart, keepTemporary, checkpointInPlace
        case readLeftovers, dropStateAtLimit, positionWithoutAckIsFirst, foldUnfinished
        case checkpointBeforeSync, checkpointBeforeSyncOfEarlierRuns, unlinkBeforeSync, foldBeforeSync
        case pendingAfterNewer, pendingBeforeSync

        /// These need two processes, or few actions.
        case nextFoldBeforeFilesAreGone, evictedCountedAgain, lockVisibleBeforeLocked, foldLiveRun
        case removeLastSegmentOfLiveRun, readRunsBeforeLocks, tornTailIsDamage
        case guestAcknowledges, guestWritesState, acknowledgeAfterRelease, takeOverWithoutLock, takeOverInOldRun
        case takeOverWithOldState, numberNotCheckedAgain, keepLockTemporary
    }

    /// The memory of one life.
    struct Instance: Sendable {
        var isOwner = false
        /// Begun with its first segment.
        var run: Int?
        var beginning: Beginning?
        var lock: Int?
        var segment: Disk.File?
        /// What was written to the segment, torn or whole.
        var entries = 0
        var segmentIndex = -1
        var number = 0
        /// What is being written.
        var unfinished: [Disk.Record]?
        var state: [Int: Int]
        var covered: Disk.Place
        /// The checkpoint that waits to be written.
        var pending: Disk.Checkpoint?
        /// The other runs as they were last read, and those of them that were over before.
        var others: [ModelLog.Run] = []
        var runsOver: Set<Int> = []
        var runsFoundFree: Set<Int> = []
        var inFlight: InFlight?
    }

    /// How far a run has come that has no segment yet.
    enum Beginning: Sendable {
        case chosen(Int)
        case linked(Int, lock: Int)
    }

    struct InFlight: Sendable {
        /// As it was when the batch was taken.
        let run: ModelLog.Run
        let batch: [Disk.Record]
        let end: Int
        let answer: Answer
    }

    /// In records.
    static let segmentSize = 2
    static let batchSize = 3

    var disk = Disk()
    var instances: [Process: Instance] = [:]
    /// Whose turn it is.
    var process = Process.a
    var ledger = StoreLedger()
    var calls = 0
    var changes = 0
    let mutation: Mutation?

    init(mutation: Mutation? = nil) {
        self.mutation = mutation
    }

    var log: ModelLog { ModelLog(disk, mutation: mutation) }

    /// Of the process whose turn it is.
    var instance: Instance? {
        get { instances[process] }
        set { instances[process] = newValue }
    }

    func allows(_ turn: Turn) -> Bool {
        let instance = instances[turn.process]
        switch turn.action {
        case .open: return instance == nil
        case .cutPower: return instances.isEmpty && !disk.unsynced.isEmpty
        case .damageOldest, .damageNewest, .loseOldest: return instances.isEmpty && disk.hasSegments
        default: break
        }
        guard let instance else { return false }
        switch turn.action {
        case .finishAppend: return instance.unfinished != nil
        case .beginRun: return instance.run == nil
        case .answer: return instance.inFlight != nil
        case .deliver, .send:
            return instance.inFlight == nil && (instance.isOwner || mutation == .guestAcknowledges)
        case .writePending: return instance.pending != nil
        case .rotateAtOnce: return instance.isOwner && instance.segment != nil
        case .checkpoint, .evict, .look, .testLocks, .readRuns, .release: return instance.isOwner
        case .takeOver: return !instance.isOwner && (disk.owner == nil || mutation == .takeOverWithoutLock)
        default: return true
        }
    }

    /// Does it, and checks what must always hold.
    mutating func perform(_ turn: Turn) throws(Stop) {
        process = turn.process
        // A process writes one thing at a time.
        if turn.action != .finishAppend, instance?.unfinished != nil { try finishAppend() }
        while turn.action != .beginRun, instance?.beginning != nil { try beginRun() }
        ledger.absorb(disk.takeWritten())
        try perform(turn.action)
        ledger.absorb(disk.takeWritten())
        try check()
    }

    private mutating func perform(_ action: Action) throws(Stop) {
        switch action {
        case .open: try open()
        case .shutdown: try shutdown()
        case .rotate: try rotate()
        case .checkpoint:
            try checkpoint()
            try tidy()
        case .rotateAtOnce: try rotateAtOnce()
        case .writePending:
            try writePending()
            if instance?.isOwner == true { try tidy() }
        case .evict: try evict()
        case .append(let chunk): try append(records(chunk))
        case .appendShort(let whole, let isCutBack): try appendShort(whole: whole, isCutBack: isCutBack)
        case .beginAppend: try beginAppend()
        case .finishAppend: try finishAppend()
        case .beginRun: try beginRun()
        case .deliver(let answer):
            try send(answer)
            try self.answer()
        case .send(let answer): try send(answer)
        case .answer: try self.answer()
        case .look: try look()
        case .testLocks: testLocks()
        case .readRuns: readRuns()
        case .takeOver: try takeOver()
        case .release: try release()
        case .damageOldest: damage { $0.first }
        case .damageNewest: damage { $0.last }
        case .loseOldest: loseOldest()
        case .cutPower:
            disk.cutPower()
            ledger.powerWasCut(log)
        }
    }

    /// The process is gone; what it wrote is there.
    mutating func crash(_ process: Process) throws(Stop) {
        ledger.absorb(disk.takeWritten())
        disk.release(process)
        instances[process] = nil
        try check()
    }

    private func check() throws(Stop) {
        let owners = instances.values.filter(\.isOwner)
        if owners.count > 1 { throw .broken("there are two owners") }
        try ledger.check(log, state: owners.first?.state)
    }
}

// MARK: - When no process lives

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
