import Foundation

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#endif

/// What this machine takes for the least that must be done, whatever the SDK.
enum Floors {
    /// Bytes that look like stored events.
    private static func text(_ count: Int) -> [UInt8] {
        let event = Array(SampleEvent[1].typed.description.utf8)
        return Array(repeatElement(event, count: count / event.count + 1).joined().prefix(count))
    }

    /// Appends so many bytes to a file, so many with each call of `write`.
    static func appending(_ bytes: Int, perWrite size: Int) throws -> Duration {
        let folder = try Folder()
        defer { folder.remove() }
        let chunk = text(size)
        let file = open(folder.url.path + "/appended", O_WRONLY | O_CREAT | O_APPEND, 0o600)
        try check(file >= 0, "No file to append to: errno \(errno)")
        defer { close(file) }
        return try duration {
            var rest = bytes
            while rest > 0 {
                let written = write(file, chunk, min(rest, chunk.count))
                try check(written > 0, "A write failed: errno \(errno)")
                rest -= written
            }
        }
    }

    /// Makes a file with so many bytes in it: once.
    static func storingOne(_ bytes: Int) throws -> Duration {
        let folder = try Folder()
        defer { folder.remove() }
        let path = folder.url.path + "/event"
        let event = text(bytes)
        return try duration {
            let file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0o600)
            try check(file >= 0 && write(file, event, bytes) == bytes, "A write failed: errno \(errno)")
            close(file)
        }
    }

    /// Copies so many bytes once, so many at a time.
    ///
    /// - Returns: For one of these copies.
    static func copying(_ bytes: Int, times: Int) -> Duration {
        let source = text(bytes)
        // Larger than the nearest caches, as a buffer of events is.
        let room = 1 << 20
        var target = [UInt8](repeating: 0, count: room + bytes)
        let whole = duration {
            target.withUnsafeMutableBytes { target in
                source.withUnsafeBytes { source in
                    guard let to = target.baseAddress, let from = source.baseAddress else { return }
                    var offset = 0
                    for _ in 0..<times {
                        memcpy(to + offset, from, bytes)
                        offset = (offset + bytes) % room
                    }
                }
            }
        }
        return whole / times
    }

    /// Takes one lock and reads one clock.
    @inline(__always)
    static func lockAndClock(_ lock: NSLock) {
        lock.lock()
        withExtendedLifetime(ContinuousClock.now) {}
        lock.unlock()
    }

    /// The mean of many.
    static func lockAndClock(times: Int) -> Duration {
        let lock = NSLock()
        return duration { for _ in 0..<times { lockAndClock(lock) } } / times
    }

    /// Sends bodies of these sizes to a sink, one after the other, over one socket.
    static func sending(_ sizes: [Int], isCompressed: Bool, to port: UInt16) throws -> Duration {
        let socket = try LoopbackSocket(connectingTo: port)
        defer { socket.closeDescriptor() }
        let bodies = text(sizes.max() ?? 0)
        var answers = HTTPMessages()
        return try duration {
            for size in sizes {
                _ = try socket.exchange(
                    "POST", "/v1/batch", bodies[..<size], isCompressed: isCompressed, reading: &answers)
            }
        }
    }
}
