import Foundation

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Android)
import Android
#endif

// Which module declares `timeval`, `timespec` and `stat` varies from build to build on Linux (SwiftGlibc or this one), and
// MemberImportVisibility insists on the right one.
#if canImport(SwiftOverlayShims)
import SwiftOverlayShims
#endif

/// The system's files: the few calls that the store needs, with errors that say what failed where.
package struct SystemFiles: FileSystem {
    package init() {}

    package func contents(of path: String) throws -> [UInt8]? {
        guard let descriptor = try Self.openForReading(path) else { return nil }
        defer { Self.release(descriptor) }
        guard let bytes = Self.bytes(from: descriptor, atMost: .max) else { throw Self.failure("read", path) }
        return bytes
    }

    /// The first bytes of a file of the system's, links followed; `nil` if it can't be read. Whatever lies there, it
    /// waits for nobody.
    static func beginning(of path: String, count: Int) -> [UInt8]? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { return nil }
        defer { release(descriptor) }
        return bytes(from: descriptor, atMost: count)
    }

    /// Whatever lies there, it waits for nobody.
    ///
    /// - Returns: `nil` if there is no such file.
    private static func openForReading(_ path: String) throws -> Int32? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard descriptor < 0 else { return descriptor }
        if errno == ENOENT { return nil }
        throw failure("open", path)
    }

    /// What follows, to the end or so many bytes; `nil`, and `errno` tells why, if it can't be read.
    private static func bytes(from descriptor: Int32, atMost limit: Int) -> [UInt8]? {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: min(limit, 65_536))
        while bytes.count < limit {
            let count = read(descriptor, &buffer, min(buffer.count, limit - bytes.count))
            if count > 0 {
                bytes += buffer[..<count]
            } else if count == 0 {
                break
            } else if errno != EINTR {
                return nil
            }
        }
        return bytes
    }

    package func store(_ bytes: [UInt8], at path: String) throws {
        try Self.withFile(path, O_WRONLY | O_CREAT | O_TRUNC) { descriptor in
            try Self.write(bytes[...], to: descriptor, path)
            guard fdatasync(descriptor) == 0 else { throw Self.failure("sync", path) }
        }
    }

    package func overwrite(_ bytes: [UInt8], at path: String, offset: Int) throws {
        try Self.withFile(path, O_WRONLY | O_CREAT) { descriptor in
            guard lseek(descriptor, off_t(offset), SEEK_SET) >= 0 else { throw Self.failure("seek", path) }
            try Self.write(bytes[...], to: descriptor, path)
        }
    }

    package func sync(_ path: String) throws {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else { throw Self.failure("open", path) }
        defer { Self.release(descriptor) }
        guard fsync(descriptor) == 0 else { throw Self.failure("sync", path) }
    }

    private static func withFile(_ path: String, _ flags: Int32, _ body: (Int32) throws -> Void) throws {
        let descriptor = open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw failure("open", path) }
        do {
            try body(descriptor)
        } catch {
            release(descriptor)
            throw error
        }
        guard close(descriptor) == 0 else { throw failure("close", path) }
    }

    private static func write(_ bytes: ArraySlice<UInt8>, to descriptor: Int32, _ path: String) throws {
        try bytes.withUnsafeBytes { buffer in
            var offset = 0
            while offset < buffer.count {
                let rest = UnsafeRawBufferPointer(rebasing: buffer[offset...])
                let count = systemWrite(descriptor, rest.baseAddress, rest.count)
                if count > 0 {
                    offset += count
                } else if errno != EINTR {
                    throw failure("write", path)
                }
            }
        }
    }

    package func contents(of path: String, from offset: Int, count: Int) throws -> [UInt8]? {
        guard let descriptor = try Self.openForReading(path) else { return nil }
        defer { Self.release(descriptor) }
        // Made without room, an array writes its count where all empty ones have theirs.
        if count <= 0 { return [] }
        var failed: FileFailure?
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
            while filled < count {
                let rest = UnsafeMutableRawBufferPointer(rebasing: UnsafeMutableRawBufferPointer(buffer)[filled...])
                let got = pread(descriptor, rest.baseAddress, rest.count, off_t(offset + filled))
                if got > 0 {
                    filled += got
                } else if got == 0 {
                    return
                } else if errno != EINTR {
                    failed = Self.failure("read", path)
                    return
                }
            }
        }
        if let failed { throw failed }
        return bytes
    }

    package func visitNames(
        in folder: String, _ visit: (_ name: UnsafeBufferPointer<UInt8>) throws -> Void
    ) throws {
        try Self.visitEntries(of: folder) { name, _, _ in try visit(name) }
    }

    package func list(_ folder: String) throws -> [FileEntry] { try list(folder) { _ in true } }

    package func list(
        _ folder: String, where isWanted: (_ name: UnsafeBufferPointer<UInt8>) -> Bool
    ) throws -> [FileEntry] {
        var found: [FileEntry] = []
        try Self.visitEntries(of: folder) { text, cString, directory in
            guard isWanted(text) else { return }
            let name = String(decoding: text, as: UTF8.self)
            // It may have gone meanwhile.
            guard let entry = try Self.entry(name, cString, in: directory, of: folder) else { return }
            found.append(entry)
        }
        return found
    }

    package func entry(at path: String) throws -> FileEntry? {
        let slash = path.lastIndex(of: "/")
        return try Self.entry(
            String(slash.map { path[$0...].dropFirst() } ?? path[...]), path, in: AT_FDCWD,
            of: String(slash.map { path[..<$0] } ?? ""))
    }

    private static func entry(
        _ name: String, _ path: UnsafePointer<CChar>, in directory: Int32, of folder: String
    ) throws -> FileEntry? {
        var status = stat()
        guard fstatat(directory, path, &status, AT_SYMLINK_NOFOLLOW) == 0 else {
            if errno == ENOENT { return nil }
            throw failure("stat", folder + "/" + name)
        }
        return FileEntry(name: name, size: Int(status.st_size), isFile: status.st_mode & S_IFMT == S_IFREG)
    }

    /// - Parameter visit: Given each name, twice, and the folder's descriptor.
    private static func visitEntries(
        of folder: String, _ visit: (UnsafeBufferPointer<UInt8>, UnsafePointer<CChar>, Int32) throws -> Void
    ) throws {
        guard let directory = opendir(folder) else { throw failure("open", folder) }
        defer { closedir(directory) }
        let descriptor = dirfd(directory)
        while true {
            errno = 0
            guard let entry = readdir(directory) else {
                if errno != 0 { throw failure("read", folder) }
                return
            }
            try withUnsafePointer(to: &entry.pointee.d_name) { name in
                let size = MemoryLayout.size(ofValue: name.pointee)
                try name.withMemoryRebound(to: CChar.self, capacity: size) { cString in
                    let count = strnlen(cString, size)
                    try cString.withMemoryRebound(to: UInt8.self, capacity: count) {
                        try visit(UnsafeBufferPointer(start: $0, count: count), cString, descriptor)
                    }
                }
            }
        }
    }

    package func remove(_ path: String) throws {
        guard unlink(path) == 0 || errno == ENOENT else { throw Self.failure("remove", path) }
    }

    package func move(_ path: String, to newPath: String) throws {
        guard rename(path, newPath) != 0 else { return }
        throw errno == ENOENT ? FileFailure.missing(path: path) : Self.failure("rename", path)
    }

    #if !canImport(Darwin)
    /// Not on Apple's systems, where `fsync` leaves it to the drive in which order it writes: a file that has had a name a
    /// moment ago may have it again after a power cut.
    package func addName(_ newPath: String, to path: String) throws {
        guard link(path, newPath) != 0 else { return }
        throw errno == EEXIST ? FileFailure.exists(path: newPath) : Self.failure("link", newPath)
    }
    #endif

    package func makeFolder(_ path: String) throws {
        if mkdir(path, 0o700) != 0, errno != EEXIST {
            let parent = path.split(separator: "/").dropLast().joined(separator: "/")
            guard errno == ENOENT, !parent.isEmpty else { throw Self.failure("make", path) }
            try makeFolder((path.hasPrefix("/") ? "/" : "") + parent)
            guard mkdir(path, 0o700) == 0 || errno == EEXIST else { throw Self.failure("make", path) }
        }
        var status = stat()
        guard stat(path, &status) == 0 else { throw Self.failure("stat", path) }
        guard status.st_mode & S_IFMT == S_IFDIR else {
            throw FileFailure.system(operation: "make", path: path, code: ENOTDIR)
        }
        guard status.st_uid == geteuid() else { throw FileFailure.foreignOwner(path: path) }
    }

    package func lock(_ path: String) throws -> (any FileLock)? {
        let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw Self.failure("open", path) }
        if flock(descriptor, LOCK_EX | LOCK_NB) == 0 { return Lock(path, descriptor) }
        let reason = errno
        Self.release(descriptor)
        if reason == EWOULDBLOCK { return nil }
        throw FileFailure.system(operation: "lock", path: path, code: reason)
    }

    package func makeLock(_ path: String, by temporary: String, mayBeSeenUnlocked: Bool) throws -> any FileLock {
        let descriptor = open(temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw Self.failure("make", temporary) }
        defer { unlink(temporary) }
        guard Self.lockNewFile(descriptor) else {
            defer { Self.release(descriptor) }
            throw Self.failure("lock", temporary)
        }
        if link(temporary, path) == 0 { return Lock(path, descriptor) }
        let reason = errno
        Self.release(descriptor)
        switch reason {
        case EEXIST: throw FileFailure.exists(path: path)
        case ENOENT: throw FileFailure.missing(path: temporary)
        // A file has one name only, on some file systems and for apps on Android.
        default:
            guard mayBeSeenUnlocked, [EPERM, EACCES, ENOTSUP, EOPNOTSUPP, ENOSYS, EMLINK].contains(reason) else {
                throw FileFailure.system(operation: "link", path: path, code: reason)
            }
            return try createLock(path)
        }
    }

    private func createLock(_ path: String) throws -> any FileLock {
        let descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else {
            throw errno == EEXIST ? FileFailure.exists(path: path) : Self.failure("make", path)
        }
        if Self.lockNewFile(descriptor) { return Lock(path, descriptor) }
        defer { Self.release(descriptor) }
        throw Self.failure("lock", path)
    }

    /// Waits for who looks just now whether the file is locked (`isLocked`), and for nobody else: the file is new.
    private static func lockNewFile(_ descriptor: Int32) -> Bool {
        while flock(descriptor, LOCK_EX) != 0 {
            guard errno == EINTR else { return false }
        }
        return true
    }

    package func isLocked(_ path: String) throws -> Bool {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard descriptor >= 0 else {
            if errno == ENOENT { return false }
            throw Self.failure("open", path)
        }
        defer { Self.release(descriptor) }
        if flock(descriptor, LOCK_SH | LOCK_NB) == 0 {
            // Closing alone would not do while a child process that was just forked has the descriptor too.
            _ = flock(descriptor, LOCK_UN)
            return false
        }
        if errno == EWOULDBLOCK { return true }
        throw Self.failure("lock", path)
    }

    package func createAppender(_ path: String) throws -> any FileAppender {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else {
            throw errno == EEXIST ? FileFailure.exists(path: path) : Self.failure("make", path)
        }
        return Appender(name: FileName(path, of: descriptor), descriptor: descriptor)
    }

    static func release(_ descriptor: Int32) { _ = close(descriptor) }

    /// Here because a method of the same name hides the system's.
    static func systemWrite(_ descriptor: Int32, _ bytes: UnsafeRawPointer?, _ count: Int) -> Int {
        #if canImport(Darwin)
        Darwin.write(descriptor, bytes, count)
        #elseif canImport(Glibc)
        Glibc.write(descriptor, bytes, count)
        #elseif canImport(Musl)
        Musl.write(descriptor, bytes, count)
        #elseif canImport(Android)
        Android.write(descriptor, bytes, count)
        #endif
    }

    #if canImport(Darwin)
    /// `fcntl(F_FULLFSYNC)` waits for the drive itself and takes tens of milliseconds; this waits for the transfer.
    private static func fdatasync(_ descriptor: Int32) -> Int32 { fsync(descriptor) }
    #endif

    private static func failure(_ operation: String, _ path: String) -> FileFailure {
        .system(operation: operation, path: path, code: errno)
    }
}

extension SystemFiles {
    /// An open file and where it was found: somebody may remove it, or give it, or a folder above it, another name.
    private struct FileName {
        let path: String
        private let device: UInt64
        private let number: UInt64

        init(_ path: String, of descriptor: Int32) {
            self.path = path
            var status = stat()
            _ = fstat(descriptor, &status)  // of an open file
            device = UInt64(truncatingIfNeeded: status.st_dev)
            number = UInt64(truncatingIfNeeded: status.st_ino)
        }

        /// What can't be found out is no reason to begin anew.
        var isPresent: Bool {
            var status = stat()
            guard lstat(path, &status) == 0 else { return errno != ENOENT && errno != ENOTDIR }
            return UInt64(truncatingIfNeeded: status.st_dev) == device
                && UInt64(truncatingIfNeeded: status.st_ino) == number
        }
    }

    private struct Appender: FileAppender {
        let name: FileName
        let descriptor: Int32

        var hasName: Bool { name.isPresent }

        func append(_ bytes: ArraySlice<UInt8>) throws { try SystemFiles.write(bytes, to: descriptor, name.path) }

        func truncate(to size: Int) throws {
            guard ftruncate(descriptor, off_t(size)) == 0 else { throw failure("cut", name.path) }
        }

        func sync() throws {
            guard fdatasync(descriptor) == 0 else { throw failure("sync", name.path) }
        }

        func close() { release(descriptor) }
    }

    /// A forked child inherits the lock with the descriptor: `ForkedChild` closes it there, and the parent keeps its lock.
    private struct Lock: FileLock {
        let name: FileName
        let descriptor: Int32
        private let birth = ForkedChild.generation

        init(_ path: String, _ descriptor: Int32) {
            name = FileName(path, of: descriptor)
            self.descriptor = descriptor
            ForkedChild.closes(descriptor)
        }

        var hasName: Bool { name.isPresent }

        /// Closing alone would not do while a child process that was just forked has the descriptor too.
        func unlock() {
            guard birth == ForkedChild.generation else { return }
            _ = flock(descriptor, LOCK_UN)
            ForkedChild.closesNoMore(descriptor)
            release(descriptor)
        }
    }
}

extension FileFailure {
    /// Whether it would have succeeded on a disk with more room.
    var isNoSpace: Bool {
        guard case .system(_, _, let code) = self else { return false }
        return code == ENOSPC || code == EDQUOT
    }
}

extension FileFailure: CustomStringConvertible {
    /// For people.
    package var description: String {
        switch self {
        case .system(let operation, let path, let code): "\(operation) \(path): \(String(cString: strerror(code)))"
        case .foreignOwner(let path): "\(path) belongs to another user"
        case .missing(let path): "\(path) is not there"
        case .exists(let path): "\(path) is there already"
        }
    }
}
