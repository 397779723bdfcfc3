import Foundation

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#endif

/// A TCP socket on 127.0.0.1, and nothing around it.
struct LoopbackSocket {
    let descriptor: Int32

    init(descriptor: Int32) { self.descriptor = descriptor }

    /// One that listens, on a free port.
    init(listening: Void) throws {
        self.init(descriptor: try Self.make())
        var address = Self.address(port: 0)
        let size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, size) == 0 }
        }
        try check(isBound && listen(descriptor, 64) == 0, "No port to listen on: errno \(errno)")
    }

    /// One that is connected.
    init(connectingTo port: UInt16) throws {
        self.init(descriptor: try Self.make())
        var address = Self.address(port: port)
        let size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isConnected = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(descriptor, $0, size) == 0 }
        }
        try check(isConnected, "No connection to port \(port): errno \(errno)")
        sendAtOnce()
    }

    private static func make() throws -> Int32 {
        #if canImport(Darwin)
        let descriptor = socket(AF_INET, SOCK_STREAM, 0)
        #else
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        #endif
        try check(descriptor >= 0, "No socket: errno \(errno)")
        return descriptor
    }

    private static func address(port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return address
    }

    /// Its own port.
    var port: UInt16 {
        var address = sockaddr_in()
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        _ = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &size) }
        }
        return UInt16(bigEndian: address.sin_port)
    }

    /// Without waiting for more to send.
    func sendAtOnce() {
        var yes: Int32 = 1
        setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &yes, socklen_t(MemoryLayout<Int32>.size))
    }

    func closeDescriptor() { close(descriptor) }
}

// MARK: - Bytes

extension LoopbackSocket {
    /// - Returns: Whether all was sent.
    func send(_ bytes: some Collection<UInt8>) -> Bool {
        let isSent = bytes.withContiguousStorageIfAvailable { bytes in
            var sent = 0
            while sent < bytes.count, let start = bytes.baseAddress {
                let count = write(descriptor, start + sent, bytes.count - sent)
                guard count > 0 else { return false }
                sent += count
            }
            return true
        }
        return isSent ?? send(Array(bytes))
    }

    /// Sends a request, and waits for the answer.
    ///
    /// - Parameter answers: What is received here; the same for all requests of a connection.
    /// - Returns: The answer's body.
    func exchange(
        _ method: String, _ path: String, _ body: ArraySlice<UInt8> = [], isCompressed: Bool = false,
        reading answers: inout HTTPMessages
    ) throws -> ArraySlice<UInt8> {
        var head = "\(method) \(path) HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: \(body.count)\r\n"
        if isCompressed { head += "Content-Encoding: gzip\r\n" }
        try check(send(Array((head + "\r\n").utf8)) && send(body), "The sink has closed the connection")
        while true {
            if let answer = answers.next() { return answer.body }
            try check(answers.receive(from: self), "The sink has closed the connection")
        }
    }
}
