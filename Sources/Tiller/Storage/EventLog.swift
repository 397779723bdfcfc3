/// Events and state in a folder: an append-only log that a kill at any point leaves whole.
///
/// The article "What is stored, and how" has the files, the form of a record, and the order in which everything is written;
/// `StoreModel` in the tests is that protocol in a form that can be explored, but for the files that a checkpoint is written
/// to: there it is one step that takes effect or not.
final class EventLog: EventStore {
    /// What the plugins have stored.
    enum Contents: Sendable {
        case objects(JSONObject)
        /// The checkpoint can't be read. What the log told beside it is kept for when it can.
        case unreadable(changes: [StateChange])
    }

    struct Known: Sendable {
        var index: LogIndex
        var contents: Contents
        /// The last checkpoint that was read: what a later version of its format put beside the state is kept.
        var checkpoint: Checkpoint
        /// How many changes of state there were, and how many of them the checkpoint on the disk has.
        var changeCount = 0
        var coveredChangeCount = 0
        /// The checkpoint that waits to be written.
        var pending: PendingCheckpoint?
        /// Keys whose stored value was no object and was replaced: the present checkpoint stays beside the next one.
        var keepsOldCheckpoint = false
        /// Whether the folder is this instance's.
        var isOwner: Bool
        /// What other instances have in the folder is known up to this run.
        var highestRun: Int
        /// The runs that this instance has written.
        var ownRuns: Set<Int> = []
        /// An erasure was begun, and the disk did not let it end: nothing is written before it has.
        var mustCompleteErasure = false
        /// Since it was told, it has become an owner (`true`), or a guest, in this order.
        var untold: [Bool] = []
        /// The folder was given up on purpose: not taken again before that is asked for.
        var isGivenUp = false

        var changesSinceCheckpoint: Int { changeCount - coveredChangeCount }
    }

    /// The segment that is written.
    struct Writer: Sendable {
        var appender: (any FileAppender)?
        var segment = 0
        var size = 0
        /// The next event's number.
        var next: UInt64 = 0
        var run: RunLock?
        var mustSyncFolder = false
        /// The bound is to be seen to, and nobody has come to it yet.
        var mustEvict = false
        /// Files were removed by others: what they told is written again.
        var mustWriteAll = false
        /// Whether the appender's file has something that is not on the disk itself.
        var isDirty = false
        /// Segments that were left before they could be brought to the disk itself.
        var unsynced: [Int] = []
        /// The run of the last records that were appended, and the number of the first event among them.
        var lastAppend: (run: Int, number: UInt64) = (0, 0)
        var isClosed = false
        /// What is about to be written: kept, for memory that is given back and asked for again costs time.
        var buffer: [UInt8] = []
    }

    /// What is read and acknowledged.
    struct Reader: Sendable {
        var base: SlotFile
        var acknowledgements: [Int: SlotFile]
        /// Where the next batch is likely to begin.
        var cursor: Cursor?
        /// Files of a run that has been taken into the base: no other is before they are gone.
        var leftovers: [String] = []
        /// Whether files have been removed, perhaps by an earlier process, that a power cut would bring back.
        var mustSyncFolder = true
        /// Runs whose acknowledgement a power cut leaves its name.
        var secured: Set<Int> = []
        var isClosed = false

        /// What is known of the files is of others, or of none.
        mutating func forgetFiles() {
            cursor = nil
            acknowledgements = [:]
            leftovers = []
            secured = []
        }
    }

    struct Cursor: Sendable {
        let run: Int
        let segment: Int
        let number: UInt64
        let offset: Int
        /// What was read behind it and not taken: small batches would read a segment again and again.
        var ahead: ArraySlice<UInt8> = []
    }

    let disk: any FileSystem
    let files: LogFiles
    /// Says nothing while a lock is held: each method that takes one hands on what was said at its end.
    let diagnostics: Diagnostics
    let messages: DeferringLogger
    let limits: Limits
    let boot: UInt64
    let wallMilliseconds: @Sendable () -> Int64
    /// `nil` where the file system has no locks: nothing is stored then.
    let ownership: FolderOwnership?
    let handlers = Locked(Handlers())
    private let birth = ForkedChild.generation
    /// Writes checkpoints while the log goes on; `nil`: each is written in its place.
    let housekeeper: (any WorkQueue)?
    /// Taken in this order; the last one never while a file is read or written.
    let writer = Locked(Writer())
    let reader: Locked<Reader>
    /// Held while a checkpoint is written.
    let checkpoints = Locked(CheckpointFiles())
    let known: Locked<Known>

    /// Opens the log of a folder, which is made if it is not there.
    ///
    /// An instance of this process that is closing the folder is waited for, one second at the most.
    init(
        folder: String, on disk: any FileSystem = SystemFiles(), limits: Limits = Limits(), boot: UInt64,
        wallMilliseconds: @escaping @Sendable () -> Int64 = { SystemTime().wallMilliseconds },
        housekeeper: (any WorkQueue)? = nil, diagnostics: Diagnostics
    ) throws {
        self.disk = disk
        files = LogFiles(folder: folder)
        (self.diagnostics, messages) = diagnostics.deferring()
        self.limits = limits
        self.boot = boot
        self.wallMilliseconds = wallMilliseconds
        self.housekeeper = housekeeper
        try disk.makeFolder(folder)
        ownership = try Self.ownership(of: files, on: disk, self.diagnostics)
        let isOwner = ownership?.isHeld ?? false
        var opening: LogOpening
        do {
            opening = try LogOpening(files, on: disk, isOwner: isOwner, self.diagnostics)
            // The owner may have moved state from the log to the checkpoint while this guest read them.
            for _ in 1...3 where !isOwner && opening.isOutdated {
                opening = try LogOpening(files, on: disk, isOwner: false, self.diagnostics)
            }
        } catch {
            messages.deliver()
            throw error
        }
        reader = Locked(Reader(base: opening.base, acknowledgements: opening.acknowledgements))
        var known = Known(opening, isOwner: isOwner)
        if !isOwner { known.index.letGoOfOthers(keeping: []) }
        self.known = Locked(known)
        if !isOwner, ownership != nil {
            self.diagnostics.log(
                .info, "Another instance uses \(folder): it uploads what this one stores, and owns the identity")
        }
        messages.deliver()
    }

    private static func ownership(
        of files: LogFiles, on disk: any FileSystem, _ diagnostics: Diagnostics
    ) throws -> FolderOwnership? {
        do {
            return try FolderOwnership(of: files, on: disk)
        } catch let failure as FileFailure where failure.saysThatThereAreNoLocks {
            diagnostics.error(
                "The file system has no locks, so nothing is stored: what is not delivered ends with the process",
                failure)
            return nil
        }
    }

    deinit { close() }

    // MARK: EventStore

    var isDurable: Bool { ownership != nil }

    /// A forked child has a copy of what its parent goes on using.
    var isInherited: Bool { birth != ForkedChild.generation }

    var isOwned: Bool { known.withLock { $0.isOwner } }

    /// Whether the owner's lock keeps others out: its file may have been removed, and the folder with it.
    var isInPlace: Bool { !isOwned || ownership?.isInPlace ?? true }

    var ownRun: Int { known.withLock { $0.index.ownRun } }

    var counts: EventCounts { known.withLock { $0.index.counts } }

    var countsAndOwn: (counts: EventCounts, own: Int) { known.withLock { ($0.index.counts, $0.index.ownCount) } }

    var lastAppend: (run: Int, number: UInt64) { writer.withLock { $0.lastAppend } }

    func prepareToClose() { ownership?.prepareToClose() }

    func whenWanted(_ action: @escaping @Sendable () -> Void) { ownership?.whenWanted(action) }

    /// Writes nothing: what was stored is there, and the next opening finds its state.
    func close() {
        if isInherited { return }
        defer { messages.deliver() }
        writer.withLock { writer in
            dropPendingCheckpoint()
            writer.isClosed = true
            writer.appender.take()?.close()
            writer.run.take()?.unlock()
        }
        reader.withLock { $0.isClosed = true }
        let signal = handlers.withLock { handlers in
            defer { handlers = Handlers() }
            return handlers.signal
        }
        signal?.cancel()
        ownership?.close()
    }

    // MARK: State

    func load(_ key: String) -> Stored {
        defer { messages.deliver() }
        readAgain()
        guard case .objects(let objects) = known.withLock({ $0.contents }) else { return .unreadable }
        guard let value = objects[key] else { return .absent }
        return value.object.map(Stored.value) ?? .unreadable
    }

    func save(_ changes: [StateChange]) throws {
        guard isOwned else { return }
        if let failure = append([StoreRecord(event: nil, changes: changes)]).failure { throw failure }
    }

    /// Reads the checkpoint, if it could not be read before.
    func readAgain() {
        guard case .unreadable = known.withLock({ $0.contents }),
            let checkpoint = LogOpening.readCheckpoint(files, on: disk, diagnostics)
        else { return }
        known.withLock { known in
            // What was saved meanwhile is newer than what was read.
            guard case .unreadable(let changes) = known.contents else { return }
            known.checkpoint = checkpoint
            known.contents = .objects(changes.applied(to: checkpoint.objects))
        }
    }
}

extension EventLog.Known {
    init(_ opening: LogOpening, isOwner: Bool) {
        self.init(
            index: opening.index, contents: opening.contents, checkpoint: opening.checkpoint,
            changeCount: opening.changeCount, isOwner: isOwner, highestRun: opening.highestRun)
    }
}

extension FileFailure {
    /// Not even a lock that is free can be had.
    fileprivate var saysThatThereAreNoLocks: Bool {
        if case .system("lock", _, _) = self { true } else { false }
    }
}

extension [StateChange] {
    func applied(to objects: JSONObject) -> JSONObject {
        var objects = objects
        for change in self { objects[change.key] = .object(change.applied(to: objects[change.key]?.object ?? [:])) }
        return objects
    }
}

/// The SDK's own store on a folder, for TillerTesting.
package func openEventLog(folder: String, logger: any Logger) throws -> any EventStore {
    try EventLog(folder: folder, boot: 0, diagnostics: Diagnostics(logger: logger, level: .error))
}
