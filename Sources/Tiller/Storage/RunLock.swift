/// The lock of a run: it is held as long as the run may grow, and nobody has its number as long as it is there.
struct RunLock: Sendable {
    /// What a store says that finds no number.
    struct NoNumber: Error, CustomStringConvertible {
        var description: String { "no number for a run was found" }
    }

    let number: Int
    private let lock: any FileLock

    /// Chooses a number: one more than the highest that is known after the files have been listed; one that is taken since
    /// is passed over.
    ///
    /// - Parameter isOwner: Only an owner looks at others' locks, so that it can do without a name that comes late.
    init(
        _ files: LogFiles, on disk: any FileSystem, isOwner: Bool, after covered: LogPlace,
        random: () -> UInt32 = { .random(in: 1 ... .max) }
    ) throws {
        for _ in 1...100 {
            let highest = try Self.highestNumber(files, on: disk, covered)
            for number in highest + 1...highest + 100 {
                let path = files.runLock(of: number)
                guard
                    let lock = try Self.lock(path, by: files.newLock(random()), on: disk, mayBeSeenUnlocked: isOwner)
                else { continue }
                // The number may have been another's, whose files went after the list was made: the base tells.
                if try Self.numberInBase(files, on: disk) < number {
                    self.number = number
                    self.lock = lock
                    return
                }
                try disk.remove(path)
                lock.unlock()
                break
            }
        }
        throw NoNumber()
    }

    /// Whether the lock says something to others: its file may have been removed.
    var isInPlace: Bool { lock.hasName }

    /// The run is over; the file stays until the run has been taken into the base.
    func unlock() { lock.unlock() }

    /// - Returns: `nil` if the number is taken.
    private static func lock(
        _ path: String, by temporary: String, on disk: any FileSystem, mayBeSeenUnlocked: Bool
    ) throws -> (any FileLock)? {
        do {
            return try disk.makeLock(path, by: temporary, mayBeSeenUnlocked: mayBeSeenUnlocked)
        } catch FileFailure.exists {
            return nil
        } catch FileFailure.missing {
            // An owner that tidies up took it for one of a process that is gone.
            return try disk.makeLock(path, by: temporary, mayBeSeenUnlocked: mayBeSeenUnlocked)
        }
    }

    private static func highestNumber(_ files: LogFiles, on disk: any FileSystem, _ covered: LogPlace) throws -> Int {
        var listed = 0
        try disk.visitNames(in: files.folder) { listed = max(listed, LogFiles.kind(of: $0).run ?? 0) }
        // A place before a run's first segment is nobody's yet.
        let place = covered.segment > 0 || covered.offset > 0 ? covered.run : max(covered.run, 1) - 1
        return min(max(listed, try numberInBase(files, on: disk), place), Int.max / 2 - 200)
    }

    private static func numberInBase(_ files: LogFiles, on disk: any FileSystem) throws -> Int {
        do {
            let values = try SlotFile(reading: files.base, on: disk).values
            return Int(clamping: max(values[0], values[1]))
        } catch is SlotFile.Damage {
            return 0  // said at the opening
        }
    }
}

extension LogFiles.Kind {
    /// Whose a file is.
    var run: Int? {
        switch self {
        case .segment(let run, _, _), .acknowledgement(let run), .newerSegment(let run), .runLock(let run): run
        case .newLock, .other: nil
        }
    }
}
