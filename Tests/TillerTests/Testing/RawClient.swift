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

/// A blocking HTTP client that sends whatever it is told to. No wait is longer than four minutes.
final class RawClient {
    private let descriptor: Int32
    private var unread: [UInt8] = []
    /// Whether the connection was reset, and did not end in order.
    private(set) var wasReset = false

    struct Failure: Error, Equatable {
        let reason: String
        var code: Int32 = 0
    }

    struct Answer {
        let status: Int
        let headers: [String: String]
        let body: String
    }

    /// Runs a body with a connection on a thread of its own, which may block as one of the cooperative pool may not.
    static func run<Result: Sendable>(
        _ url: String, _ body: @escaping @Sendable (RawClient) throws -> Result
    ) async throws -> Result {
        try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread {
                // Sending to a server that has closed is an error here, not the end of the process.
                var signals = sigset_t()
                sigemptyset(&signals)
                sigaddset(&signals, SIGPIPE)
                pthread_sigmask(SIG_BLOCK, &signals, nil)
                continuation.resume(with: Swift.Result { try body(RawClient(url)) })
            }
        }
    }

    init(_ url: String) throws {
        guard let port = URL(string: url)?.port.flatMap(UInt16.init(exactly:)) else {
            throw Failure(reason: "no port in \(url)")
        }
        descriptor = socket(AF_INET, number(SOCK_STREAM), 0)
        guard descriptor >= 0 else { throw Failure(reason: "socket", code: errno) }
        var limit = timeval()
        limit.tv_sec = 240
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let connected = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard connected == 0 else { throw Failure(reason: "connect", code: errno) }
    }

    deinit { close(descriptor) }

    /// Sends a text.
    func send(_ text: String) throws { try send(Array(text.utf8)) }

    /// Sends bytes.
    func send(_ bytes: [UInt8]) throws {
        var bytes = bytes[...]
        while !bytes.isEmpty {
            let count = bytes.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else {
                wasReset = errno == ECONNRESET || errno == EPIPE
                throw Failure(reason: "write", code: errno)
            }
            bytes = bytes.dropFirst(count)
        }
    }

    /// Sends blanks until the server has closed; false if it took so many bytes.
    func isCutOffWhileSending(atMost limit: Int) -> Bool {
        let piece = [UInt8](repeating: 0x20, count: 65_536)
        for _ in 0..<limit / piece.count { do { try send(piece) } catch { return true } }
        return false
    }

    /// Closes the sending side only.
    func endSending() { _ = shutdown(descriptor, Int32(SHUT_WR)) }

    /// Makes the closing of the connection a reset.
    func resetWhenClosed() {
        var option = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
    }

    /// Reads the next answer, with its body unless it answers HEAD.
    func answer(toHead: Bool = false) throws -> Answer {
        let end = Array("\r\n\r\n".utf8)
        var headEnd: Int?
        while headEnd == nil {
            headEnd = unread.indices.first { unread[$0...].starts(with: end) }
            if headEnd == nil, try !receive() { throw Failure(reason: "no answer") }
        }
        let head = String(decoding: unread[..<(headEnd ?? 0)], as: UTF8.self)
        unread.removeFirst((headEnd ?? 0) + end.count)
        var lines = head.components(separatedBy: "\r\n")
        guard let status = lines.removeFirst().split(separator: " ").dropFirst().first.flatMap({ Int($0) }) else {
            throw Failure(reason: "no status in \(head)")
        }
        let headers = Dictionary(
            lines.map { line in
                let parts = line.components(separatedBy: ": ")
                return (parts[0], parts.dropFirst().joined(separator: ": "))
            }, uniquingKeysWith: { $0 + ", " + $1 })
        let length = toHead ? 0 : headers["Content-Length"].flatMap { Int($0) } ?? 0
        while unread.count < length { guard try receive() else { throw Failure(reason: "half an answer") } }
        let body = String(decoding: unread[..<length], as: UTF8.self)
        unread.removeFirst(length)
        return Answer(status: status, headers: headers, body: body)
    }

    /// Reads until the server closes the connection, in order or by a reset.
    func rest() throws -> String {
        while try receive() {}
        defer { unread = [] }
        return String(decoding: unread, as: UTF8.self)
    }

    /// Whether there was anything before the end.
    private func receive() throws -> Bool {
        var chunk = [UInt8](repeating: 0, count: 65_536)
        var count: Int
        repeat { count = recv(descriptor, &chunk, chunk.count, 0) } while count < 0 && errno == EINTR
        if count < 0 {
            guard errno == ECONNRESET else { throw Failure(reason: "recv", code: errno) }
            wasReset = true
        }
        unread += chunk[..<max(count, 0)]
        return count > 0
    }
}

/// `SOCK_STREAM` is a number on Darwin and Musl, an enumeration with Glibc.
private func number(_ type: Int32) -> Int32 { type }
private func number(_ type: some RawRepresentable<UInt32>) -> Int32 { Int32(type.rawValue) }
