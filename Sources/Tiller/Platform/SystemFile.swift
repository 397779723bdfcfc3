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

/// The few system calls that files need, with errors that say what failed where.
enum SystemFile {
    /// Why a file can't be used.
    enum Failure: Error, CustomStringConvertible {
        case system(operation: String, path: String, code: Int32)
        case folder(path: String, reason: String)
        case foreignOwner(path: String)

        var description: String {
            switch self {
            case .system(let operation, let path, let code): "\(operation) \(path): \(String(cString: strerror(code)))"
            case .folder(let path, let reason): "make \(path): \(reason)"
            case .foreignOwner(let path): "\(path) belongs to another user"
            }
        }
    }

    /// A file's bytes; `nil` if there is no such file.
    static func contents(of path: String) throws -> [UInt8]? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else {
            if errno == ENOENT { return nil }
            throw failure("open", path)
        }
        defer { release(descriptor) }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = read(descriptor, &buffer, buffer.count)
            if count > 0 {
                bytes += buffer[..<count]
            } else if count == 0 {
                return bytes
            } else if errno != EINTR {
                throw failure("read", path)
            }
        }
    }

    /// Makes a file, or empties it, and writes it whole; readable for its owner only.
    static func store(_ bytes: [UInt8], at path: String) throws {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw failure("open", path) }
        do {
            try bytes.withUnsafeBytes { buffer in
                var offset = 0
                while offset < buffer.count {
                    let rest = UnsafeRawBufferPointer(rebasing: buffer[offset...])
                    let count = write(descriptor, rest.baseAddress, rest.count)
                    if count > 0 {
                        offset += count
                    } else if errno != EINTR {
                        throw failure("write", path)
                    }
                }
            }
        } catch {
            release(descriptor)
            throw error
        }
        guard close(descriptor) == 0 else { throw failure("close", path) }
    }

    static func move(_ path: String, to newPath: String) throws {
        guard rename(path, newPath) == 0 else { throw failure("rename", path) }
    }

    /// A folder for its owner only, made with what is missing above it; one of another user is refused.
    static func makeFolder(_ path: String) throws {
        do {
            try FileManager.default.createDirectory(
                atPath: path, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        } catch {
            throw Failure.folder(path: path, reason: (error as NSError).localizedDescription)
        }
        var status = stat()
        guard stat(path, &status) == 0 else { throw failure("stat", path) }
        guard status.st_uid == geteuid() else { throw Failure.foreignOwner(path: path) }
    }

    /// A descriptor that holds the lock of a file, or `nil` if another one, of this process or another, has it.
    static func lock(_ path: String) throws -> Int32? {
        let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw failure("open", path) }
        if flock(descriptor, LOCK_EX | LOCK_NB) == 0 { return descriptor }
        let reason = errno
        release(descriptor)
        if reason == EWOULDBLOCK { return nil }
        throw Failure.system(operation: "lock", path: path, code: reason)
    }

    /// Gives a lock up. Closing alone would not while a child process that was just forked has the descriptor too.
    static func unlock(_ descriptor: Int32) {
        _ = flock(descriptor, LOCK_UN)
        release(descriptor)
    }

    static func release(_ descriptor: Int32) { _ = close(descriptor) }

    private static func failure(_ operation: String, _ path: String) -> Failure {
        .system(operation: operation, path: path, code: errno)
    }
}
