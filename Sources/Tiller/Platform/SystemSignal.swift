@preconcurrency import Dispatch

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Android)
import Android
#endif

#if canImport(SwiftOverlayShims)
import SwiftOverlayShims
#endif

/// One process wakes another through a FIFO: nothing runs while nothing is written to it.
extension SystemFiles {
    package func makeSignal(_ path: String, _ action: @escaping @Sendable () -> Void) -> CancellationToken? {
        guard mkfifo(path, 0o600) == 0 || errno == EEXIST, let descriptor = Self.openSignal(path) else { return nil }
        let source = DispatchSource.makeReadSource(fileDescriptor: descriptor, queue: .global(qos: .utility))
        source.setEventHandler {
            var bytes = [UInt8](repeating: 0, count: 64)
            while read(descriptor, &bytes, bytes.count) > 0 {}
            action()
        }
        source.setCancelHandler { Self.release(descriptor) }
        source.resume()
        return CancellationToken { source.cancel() }
    }

    package func signal(_ path: String) {
        guard let descriptor = Self.openSignal(path) else { return }
        defer { Self.release(descriptor) }
        // Where nobody reads, the byte is gone with the last descriptor.
        _ = Self.systemWrite(descriptor, [1], 1)
    }

    /// For reading and writing, also by who does only one of them: a reader does not see an end whenever a writer goes, and
    /// a writer is never without a reader, which would be a signal that ends the process.
    private static func openSignal(_ path: String) -> Int32? {
        let descriptor = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else { return nil }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFIFO, status.st_uid == geteuid() else {
            release(descriptor)
            return nil
        }
        return descriptor
    }
}
