import Foundation

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#endif

/// Requests or answers, taken off a connection one after the other: what the URL session and the sink say to one another, and
/// no more of HTTP than that.
struct HTTPMessages {
    struct Message {
        /// Such as `POST /v1/batch HTTP/1.1`.
        let startLine: String
        let isCompressed: Bool
        /// Valid until the next bytes are received.
        let body: ArraySlice<UInt8>
    }

    private struct Head {
        var startLine = ""
        var bodySize = 0
        var isCompressed = false
        var end = 0
        var expectsContinue = false
    }

    private var buffer = [UInt8](repeating: 0, count: 1 << 16)
    private var filled = 0
    /// The head of the message that is being received.
    private var head: Head?
    /// Up to where the buffer is used up.
    private var consumed = 0

    /// Receives once.
    ///
    /// - Returns: Whether there was anything.
    mutating func receive(from socket: LoopbackSocket) -> Bool {
        if consumed > 0 {
            buffer.withUnsafeMutableBytes { bytes in
                guard let start = bytes.baseAddress else { return }
                memmove(start, start + consumed, filled - consumed)
            }
            filled -= consumed
            consumed = 0
        }
        if filled == buffer.count { buffer += [UInt8](repeating: 0, count: buffer.count) }
        let count = buffer.withUnsafeMutableBytes { bytes in
            bytes.baseAddress.map { read(socket.descriptor, $0 + filled, bytes.count - filled) } ?? 0
        }
        filled += max(0, count)
        return count > 0
    }

    /// The next message that is there in full.
    mutating func next() -> Message? {
        if head == nil { head = readHead() }
        guard let head, filled - head.end >= head.bodySize else { return nil }
        self.head = nil
        consumed = head.end + head.bodySize
        return Message(
            startLine: head.startLine, isCompressed: head.isCompressed, body: buffer[head.end..<consumed])
    }

    /// Whether the sender waits to be asked for the body, which is true once.
    mutating func takeExpectation() -> Bool {
        defer { head?.expectsContinue = false }
        return head?.expectsContinue ?? false
    }

    private func readHead() -> Head? {
        guard let end = endOfHead() else { return nil }
        let lines = String(decoding: buffer[consumed..<end], as: UTF8.self).split(separator: "\r\n")
        var head = Head()
        head.startLine = String(lines.first ?? "")
        head.end = end
        for line in lines.dropFirst() {
            let parts = line.lowercased().split(separator: ":", maxSplits: 1)
            let value = parts.last?.drop { $0 == " " } ?? ""
            switch parts.first {
            case "content-length": head.bodySize = Int(value) ?? 0
            case "content-encoding": head.isCompressed = value == "gzip"
            case "expect": head.expectsContinue = value == "100-continue"
            default: break
            }
        }
        return head
    }

    /// Behind the blank line.
    private func endOfHead() -> Int? {
        buffer.withUnsafeBufferPointer { bytes in
            var index = consumed + 3
            while index < filled {
                if bytes[index] == 0x0A, bytes[index - 1] == 0x0D, bytes[index - 2] == 0x0A { return index + 1 }
                index += 1
            }
            return nil
        }
    }
}
