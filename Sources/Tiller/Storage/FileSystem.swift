/// The few things that the store asks of a file system. `SystemFiles` is the real one; tests have one that fails, and one
/// that forgets what was not synced.
///
/// All from any thread. Whatever fails says what and where: `FileFailure`.
package protocol FileSystem: Sendable {
    /// A file's bytes; `nil` if there is no such file.
    func contents(of path: String) throws -> [UInt8]?

    /// Part of a file: fewer bytes than asked for at its end; `nil` if there is no such file.
    func contents(of path: String, from offset: Int, count: Int) throws -> [UInt8]?

    /// Makes a file, or empties it, and writes it whole, onto the disk itself; readable for its owner only.
    func store(_ bytes: [UInt8], at path: String) throws

    /// Replaces bytes in a file, which is made if it is not there.
    func overwrite(_ bytes: [UInt8], at path: String, offset: Int) throws

    /// Makes a file that is only appended to.
    ///
    /// - Throws: `FileFailure.exists` if there is a file of that name.
    func createAppender(_ path: String) throws -> any FileAppender

    /// Brings a file or a folder to the disk itself.
    func sync(_ path: String) throws

    /// Looks at the names of what is in a folder, which may be thousands: no texts are made of them.
    ///
    /// - Parameter visit: Given a name's bytes.
    func visitNames(in folder: String, _ visit: (_ name: UnsafeBufferPointer<UInt8>) throws -> Void) throws

    /// What is under a path, by the last part of which it is named; `nil` if there is nothing.
    func entry(at path: String) throws -> FileEntry?

    /// What is in a folder.
    func list(_ folder: String) throws -> [FileEntry]

    /// What is in a folder under names that are wanted: to look at a file takes longer than to read its name.
    func list(
        _ folder: String, where isWanted: (_ name: UnsafeBufferPointer<UInt8>) -> Bool
    ) throws -> [FileEntry]

    /// Removes a file; one that is not there is no failure.
    func remove(_ path: String) throws

    /// Gives a file another name; what had that name goes.
    ///
    /// - Throws: `FileFailure.missing` if there is no such file.
    func move(_ path: String, to newPath: String) throws

    /// Gives a file a further name.
    ///
    /// - Throws: Also where a file has one name only.
    func addName(_ newPath: String, to path: String) throws

    /// A folder for its owner only, made with what is missing above it; one of another user is refused.
    func makeFolder(_ path: String) throws

    /// The lock of a file, which is made if it is not there; `nil` if another one, of this process or another, has it.
    func lock(_ path: String) throws -> (any FileLock)?

    /// Makes a file and locks it before it has its name, so that nobody sees it unlocked.
    ///
    /// - Parameters:
    ///   - temporary: Its path until then.
    ///   - mayBeSeenUnlocked: Where a file system can't do that, a moment between name and lock is better than none.
    /// - Throws: `FileFailure.exists` if the name is taken.
    func makeLock(_ path: String, by temporary: String, mayBeSeenUnlocked: Bool) throws -> any FileLock

    /// Whether somebody has a file's lock. One that is not there nobody has.
    func isLocked(_ path: String) throws -> Bool

    /// Runs an action when another process calls `signal` with the same path; `nil` where there is no such thing.
    func makeSignal(_ path: String, _ action: @escaping @Sendable () -> Void) -> CancellationToken?

    /// Wakes who has made a signal, if there is somebody.
    func signal(_ path: String)
}

/// What a file system without names for one file and without signals has: good enough for one process.
extension FileSystem {
    package func makeLock(_ path: String, by temporary: String, mayBeSeenUnlocked: Bool) throws -> any FileLock {
        guard let lock = try lock(path) else { throw FileFailure.exists(path: path) }
        return lock
    }

    package func list(
        _ folder: String, where isWanted: (_ name: UnsafeBufferPointer<UInt8>) -> Bool
    ) throws -> [FileEntry] {
        try list(folder).filter { entry in
            var name = entry.name
            return name.withUTF8(isWanted)
        }
    }

    package func entry(at path: String) throws -> FileEntry? {
        guard let slash = path.lastIndex(of: "/") else { return nil }
        return try list(String(path[..<slash])).first { $0.name == path[slash...].dropFirst() }
    }

    package func visitNames(
        in folder: String, _ visit: (_ name: UnsafeBufferPointer<UInt8>) throws -> Void
    ) throws {
        for entry in try list(folder) {
            var name = entry.name
            try name.withUTF8(visit)
        }
    }

    package func addName(_ newPath: String, to path: String) throws { throw FileFailure.exists(path: newPath) }

    package func isLocked(_ path: String) throws -> Bool {
        guard let lock = try lock(path) else { return true }
        lock.unlock()
        return false
    }

    package func makeSignal(_ path: String, _ action: @escaping @Sendable () -> Void) -> CancellationToken? { nil }
    package func signal(_ path: String) {}
}

/// A file that is only appended to.
package protocol FileAppender: Sendable {
    /// Whether the file has a name yet: one that was removed can be written, and is never found again.
    var hasName: Bool { get }

    func append(_ bytes: ArraySlice<UInt8>) throws
    func truncate(to size: Int) throws
    func sync() throws
    func close()
}

/// A lock that is held until it is given up, or the process ends.
package protocol FileLock: Sendable {
    /// Whether the file has a name yet: one that was removed keeps nobody out.
    var hasName: Bool { get }

    func unlock()
}

extension FileAppender {
    package var hasName: Bool { true }
}

extension FileLock {
    package var hasName: Bool { true }
}

/// Something in a folder.
package struct FileEntry: Sendable {
    package let name: String
    /// In bytes.
    package let size: Int
    /// Whether it is a plain file.
    package let isFile: Bool

    package init(name: String, size: Int, isFile: Bool) {
        self.name = name
        self.size = size
        self.isFile = isFile
    }
}

/// Why a file can't be used.
package enum FileFailure: Error, Sendable {
    /// The system refused an operation, `code` says why (`errno`).
    case system(operation: String, path: String, code: Int32)
    case foreignOwner(path: String)
    /// There is no such file.
    case missing(path: String)
    /// There is one already.
    case exists(path: String)
}
