/// The files of a store's folder as values. Every operation is one step, before or within which the process can be killed.
struct ModelDisk: Sendable {
    enum File: Hashable, Sendable {
        case ownerLock, base, checkpoint, checkpointTemporary
        case segment(run: Int, index: Int, first: Int)
        case ack(run: Int)
        case runLock(run: Int)
        /// A run's lock before it has its name.
        case lockTemporary(Int)
    }

    /// A plugin's value that changes; `nil` removes it.
    struct Change: Sendable, Equatable {
        let key: Int
        let value: Int?
    }

    struct Record: Sendable, Equatable {
        /// Which call it was, over all lives; `nil`: state alone.
        var event: Int?
        var change: Change?
        /// The event's number in its run; without an event the number of the next one.
        var number: Int
    }

    enum Entry: Sendable, Equatable {
        case whole(Record)
        case torn, damaged
    }

    /// An offset counts entries, not bytes.
    struct Place: Sendable, Comparable {
        var run = -1
        var segment = 0
        var offset = 0

        static func < (left: Place, right: Place) -> Bool {
            (left.run, left.segment, left.offset) < (right.run, right.segment, right.offset)
        }
    }

    struct Sums: Sendable, Equatable {
        var delivered = 0
        var damaged = 0
        var evicted = 0

        static func + (left: Sums, right: Sums) -> Sums {
            Sums(
                delivered: left.delivered + right.delivered, damaged: left.damaged + right.damaged,
                evicted: left.evicted + right.evicted)
        }
    }

    struct AckSlot: Sendable {
        var position = 0
        var sums = Sums()
    }

    struct BaseSlot: Sendable {
        var highestRun = 0
        var takenIn: Int?
        var sums = Sums()
    }

    /// Two slots, written in turn. `nil` is a slot that was never written, or is torn.
    struct Slots<Slot: Sendable>: Sendable {
        private(set) var slots: [(generation: Int, slot: Slot)?] = [nil, nil]

        var newest: Slot? { slots[newestIndex]?.slot }

        private var newestIndex: Int {
            (slots[0]?.generation ?? -1) >= (slots[1]?.generation ?? -1) ? 0 : 1
        }

        mutating func write(_ slot: Slot?, inPlace: Bool) {
            let generation = (slots[newestIndex]?.generation ?? 0) + 1
            slots[inPlace ? 0 : 1 - newestIndex] = slot.map { (generation, $0) }
        }
    }

    struct Checkpoint: Sendable {
        var place = Place()
        var state: [Int: Int] = [:]
    }

    enum Content: Sendable {
        case empty
        /// Two names of one file have the same number.
        case lock(Int)
        case segment([Entry])
        case ack(Slots<AckSlot>)
        case base(Slots<BaseSlot>)
        /// `nil` is a torn one.
        case checkpoint(Checkpoint?)
    }

    /// Where the process dies. Way 0 is before the step takes effect, the others leave it done in part.
    struct Kill: Sendable {
        var step: Int
        var way: Int
    }

    enum Interruption: Error {
        case killed
        /// The step can't be interrupted in that way.
        case noSuchWay
        case broken(String)
    }

    /// What truly reached the log, in order: for the ledger, not for the protocol.
    enum Written: Sendable {
        case record(Record, Place)
        case begun(run: Int, first: Int)
    }

    private(set) var files: [File: Content] = [:]
    /// What a power cut leaves of each file. What is done to the folder itself (create, rename, unlink) is there at once.
    private var synced: [File: Content] = [:]
    private(set) var unsynced: Set<File> = []
    private(set) var steps = 0
    private var kill: Kill?
    private var written: [Written] = []
    private(set) var owner: StoreModel.Process?
    /// Who holds the lock of which file.
    private var holders: [Int: StoreModel.Process] = [:]
    private var lockCount = 0

    var hasSegments: Bool {
        files.keys.contains { if case .segment = $0 { true } else { false } }
    }

    mutating func arm(_ kill: Kill?) {
        steps = 0
        self.kill = kill
    }

    mutating func takeWritten() -> [Written] {
        defer { written = [] }
        return written
    }
}

// MARK: - Steps

extension ModelDisk {
    /// A step that is no file operation of its own, or whose effect the caller applies after it.
    mutating func step() throws(Interruption) {
        try step(ways: 1) { _, _ in }
    }

    private mutating func step(ways: Int, torn: (inout ModelDisk, Int) -> Void) throws(Interruption) {
        defer { steps += 1 }
        guard let kill, kill.step == steps else { return }
        guard kill.way < ways else { throw .noSuchWay }
        if kill.way > 0 { torn(&self, kill.way) }
        throw .killed
    }

    mutating func create(_ file: File, _ content: Content) throws(Interruption) {
        try step()
        if files[file] != nil { throw .broken("\(file) is created over an existing one") }
        files[file] = content
        synced[file] = content
        if case .segment(let run, _, let first) = file { written.append(.begun(run: run, first: first)) }
    }

    /// Several records with one `write`. Where it is interrupted, any part of them is there.
    mutating func append(_ records: [Record], to file: File) throws(Interruption) {
        try step(ways: 2 * records.count) { disk, way in
            disk.add(Array(records.prefix(way / 2)), to: file, isShort: way % 2 == 1)
        }
        add(records, to: file, isShort: false)
    }

    /// A `write` that returns less than it was given.
    mutating func appendShort(_ records: [Record], whole: Int, to file: File) throws(Interruption) {
        try step()
        add(Array(records.prefix(whole)), to: file, isShort: true)
    }

    private mutating func add(_ records: [Record], to file: File, isShort: Bool) {
        guard case .segment(let run, let index, _) = file else { return }
        // What is written to a file that was unlinked is stored, and gone.
        unsynced.insert(file)
        var entries: [Entry] = if case .segment(let entries)? = files[file] { entries } else { [] }
        for record in records {
            written.append(.record(record, Place(run: run, segment: index, offset: entries.count)))
            entries.append(.whole(record))
        }
        if isShort { entries.append(.torn) }
        if files[file] != nil { files[file] = .segment(entries) }
    }

    /// Takes the torn record off the end.
    mutating func cutBack(_ file: File) throws(Interruption) {
        try step()
        if case .segment(var entries)? = files[file], entries.last == .torn {
            entries.removeLast()
            unsynced.insert(file)
            files[file] = .segment(entries)
        }
    }

    mutating func write(_ slot: AckSlot, to file: File, inPlace: Bool = false) throws(Interruption) {
        guard case .ack(let slots)? = files[file] else { throw .broken("\(file) is not there") }
        let write = { (disk: inout ModelDisk, slot: AckSlot?) in
            var slots = slots
            slots.write(slot, inPlace: inPlace)
            disk.unsynced.insert(file)
            disk.files[file] = .ack(slots)
        }
        try step(ways: 2) { disk, _ in write(&disk, nil) }
        write(&self, slot)
    }

    mutating func write(_ slot: BaseSlot) throws(Interruption) {
        guard case .base(let slots)? = files[.base] else { throw .broken("base.ack is not there") }
        let write = { (disk: inout ModelDisk, slot: BaseSlot?) in
            var slots = slots
            slots.write(slot, inPlace: false)
            disk.unsynced.insert(.base)
            disk.files[.base] = .base(slots)
        }
        try step(ways: 2) { disk, _ in write(&disk, nil) }
        write(&self, slot)
    }

    mutating func write(_ checkpoint: Checkpoint, to file: File) throws(Interruption) {
        if file == .checkpointTemporary, files[file] != nil {
            throw .broken("\(file) is created over an existing one")
        }
        try step(ways: 2) { disk, _ in disk.files[file] = .checkpoint(nil) }
        files[file] = .checkpoint(checkpoint)
        unsynced.insert(file)
    }

    mutating func sync(_ file: File) throws(Interruption) {
        try step()
        synced[file] = files[file]
        unsynced.remove(file)
    }

    mutating func rename(_ file: File, to other: File) throws(Interruption) {
        try step()
        files[other] = files.removeValue(forKey: file)
        synced[other] = synced.removeValue(forKey: file)
        if unsynced.remove(file) != nil { unsynced.insert(other) } else { unsynced.remove(other) }
    }

    mutating func unlink(_ file: File) throws(Interruption) {
        try step()
        lose(file)
    }

}

// MARK: - Locks

extension ModelDisk {
    /// - Returns: Whether the owner's lock was free.
    mutating func lockOwner(for process: StoreModel.Process, evenIfTaken: Bool) throws(Interruption) -> Bool {
        try step()
        files[.ownerLock] = .empty
        guard owner == nil || evenIfTaken else { return false }
        owner = process
        return true
    }

    mutating func unlockOwner() throws(Interruption) {
        try step()
        owner = nil
    }

    /// A file that is there to be locked, under a name that nobody looks for.
    mutating func createLock(for process: StoreModel.Process, isLocked: Bool) throws(Interruption) -> Int {
        lockCount += 1
        let number = lockCount
        try create(.lockTemporary(number), .lock(number))
        if isLocked { try take(number, for: process) }
        return number
    }

    mutating func take(_ lock: Int, for process: StoreModel.Process) throws(Interruption) {
        try step()
        holders[lock] = process
    }

    /// - Returns: Whether the name was free.
    mutating func link(_ lock: Int, to file: File) throws(Interruption) -> Bool {
        try step()
        guard files[file] == nil else { return false }
        files[file] = .lock(lock)
        synced[file] = .lock(lock)
        return true
    }

    var lockTemporaries: [File] {
        (0...lockCount).map { .lockTemporary($0) }.filter { files[$0] != nil }
    }

    func isLocked(_ file: File) -> Bool {
        guard case .lock(let number)? = files[file] else { return false }
        return holders[number] != nil
    }

    mutating func unlock(_ lock: Int) throws(Interruption) {
        try step()
        holders[lock] = nil
    }

    /// A process ends, and its locks with it.
    mutating func release(_ process: StoreModel.Process) {
        if owner == process { owner = nil }
        holders = holders.filter { $0.value != process }
    }
}

// MARK: - What befalls a disk by itself

extension ModelDisk {
    mutating func damage(_ place: Place, in file: File) {
        if case .segment(var entries)? = files[file] {
            entries[place.offset] = .damaged
            files[file] = .segment(entries)
        }
        if case .segment(var entries)? = synced[file], place.offset < entries.count {
            entries[place.offset] = .damaged
            synced[file] = .segment(entries)
        }
    }

    mutating func lose(_ file: File) {
        files[file] = nil
        synced[file] = nil
        unsynced.remove(file)
    }

    mutating func cutPower() {
        for file in unsynced { files[file] = synced[file] ?? .checkpoint(nil) }
        unsynced = []
    }
}
