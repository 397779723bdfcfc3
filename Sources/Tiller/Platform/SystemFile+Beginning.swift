#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Android)
import Android
#endif

extension SystemFile {
    /// The first bytes of a file of the system's, links followed; `nil` if it can't be read. Whatever lies there, it
    /// waits for nobody.
    static func beginning(of path: String, count: Int) -> [UInt8]? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { return nil }
        defer { release(descriptor) }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: min(count, 4_096))
        while bytes.count < count {
            let got = read(descriptor, &buffer, min(buffer.count, count - bytes.count))
            if got > 0 {
                bytes += buffer[..<got]
            } else if got == 0 {
                break
            } else if errno != EINTR {
                return nil
            }
        }
        return bytes
    }
}
