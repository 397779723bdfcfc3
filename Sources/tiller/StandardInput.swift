import Dispatch

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// Standard input, read on a thread of its own: its writer may take its time, and uploads go on meanwhile.
final class StandardInput: Sendable {
    private let queue = DispatchQueue(label: "tiller.input")

    /// Why it can't be read.
    struct Failure: Error, CustomStringConvertible {
        let code: Int32

        var description: String { String(cString: strerror(code)) }
    }

    /// The next piece as soon as there is one; empty at the end.
    func next() async throws -> [UInt8] {
        try await withCheckedThrowingContinuation { done in
            queue.async { done.resume(with: Self.read()) }
        }
    }

    private static func read() -> Result<[UInt8], any Error> {
        var code: Int32 = 0
        let piece = [UInt8](unsafeUninitializedCapacity: 65_536) { buffer, count in
            while true {
                let got = systemRead(STDIN_FILENO, buffer.baseAddress, buffer.count)
                if got >= 0 {
                    count = got
                    return
                }
                switch errno {
                case EINTR: continue
                case EAGAIN:  // someone who shares the terminal has made it so
                    var input = pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0)
                    poll(&input, 1, -1)
                default:
                    code = errno
                    return
                }
            }
        }
        return code == 0 ? .success(piece) : .failure(Failure(code: code))
    }
}

private func systemRead(_ descriptor: Int32, _ buffer: UnsafeMutableRawPointer?, _ count: Int) -> Int {
    read(descriptor, buffer, count)
}
