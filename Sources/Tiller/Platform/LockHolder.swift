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

/// Who has the lock of a file, found out without taking it: a lock that is tried, and be it for a microsecond, makes a guest
/// of the instance that opens the folder just then.
package enum LockHolder: Sendable, Hashable {
    /// Somebody; which process, where the system tells.
    case held(by: Int?)
    case free
    /// Nobody in sight. From a container the processes outside of it can't be seen.
    case noneInSight
    /// The system doesn't tell.
    case unknown

    /// - Parameter path: The file that is locked with `flock`; one that is not there is not locked.
    package init(of path: String) {
        #if canImport(Darwin)
        self = Self.asked(path)
        #else
        self = Self.listed(path)
        #endif
    }

    #if canImport(Darwin)
    /// There the question for a record lock is answered by `flock` too.
    private static func asked(_ path: String) -> LockHolder {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard descriptor >= 0 else { return errno == ENOENT ? .free : .unknown }
        defer { close(descriptor) }
        var lock = Darwin.flock()
        lock.l_type = Int16(F_WRLCK)
        lock.l_whence = Int16(SEEK_SET)
        guard fcntl(descriptor, F_GETLK, &lock) == 0 else { return .unknown }
        if lock.l_type == Int16(F_UNLCK) { return .free }
        return .held(by: lock.l_pid > 0 ? Int(lock.l_pid) : nil)
    }
    #else
    /// The kernel's own list.
    private static func listed(_ path: String) -> LockHolder {
        var status = stat()
        guard lstat(path, &status) == 0 else { return errno == ENOENT ? .free : .unknown }
        guard let list = SystemFiles.beginning(of: "/proc/locks", count: 1 << 22) else { return .unknown }
        let device = UInt64(status.st_dev)
        let file = Listed(
            major: (device >> 8 & 0xFFF) | (device >> 32 & ~0xFFF), minor: (device & 0xFF) | (device >> 12 & ~0xFF),
            inode: UInt64(status.st_ino))
        return find(file, in: String(decoding: list, as: UTF8.self), seesAll: seesAllProcesses)
    }

    /// Whether this process sees those outside of its container, if it is in one.
    private static var seesAllProcesses: Bool {
        var name = [CChar](repeating: 0, count: 64)
        let count = readlink("/proc/self/ns/pid", &name, name.count)
        let text = String(decoding: name.prefix(max(0, count)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
        // The number of the first namespace of all is a constant of the kernel.
        return text == "pid:[4026531836]"
    }
    #endif

    /// A file as `/proc/locks` names it.
    struct Listed: Equatable {
        let major: UInt64
        let minor: UInt64
        let inode: UInt64
    }

    /// Finds a file in the text of `/proc/locks`: `1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF`.
    static func find(_ file: Listed, in list: String, seesAll: Bool) -> LockHolder {
        for line in list.split(separator: "\n") {
            let words = line.split(separator: " ")
            // Who waits for a lock has an arrow for its second word.
            guard words.count >= 6, words[1] == "FLOCK" else { continue }
            let parts = words[5].split(separator: ":")
            guard parts.count == 3, let major = UInt64(parts[0], radix: 16), let minor = UInt64(parts[1], radix: 16),
                UInt64(parts[2]) == file.inode
            else { continue }
            // Layered and pooled file systems have one device for `stat` and another one here, both without a driver.
            guard (major, minor) == (file.major, file.minor) || major == 0 && file.major == 0 else { continue }
            return .held(by: Int(words[4]).flatMap { $0 > 0 ? $0 : nil })
        }
        return seesAll ? .free : .noneInSight
    }
}
