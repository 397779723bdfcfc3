import Tiller

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

// What keeps SIGPIPE away differs: an option of the socket on Darwin, a flag of each `send` elsewhere.
#if canImport(Darwin)
private let noSignalOption: Int32? = SO_NOSIGPIPE
private let sendFlags: Int32 = 0
#else
private let noSignalOption: Int32? = nil
private let sendFlags = Int32(MSG_NOSIGNAL)
#endif

/// A stream socket. One thread, its owner, reads, writes and closes it; any thread may shut it down.
///
/// No call raises SIGPIPE, and a call that a signal interrupts goes on.
final class Socket: Sendable {
    private let descriptor: Int32
    /// Under a lock, so that no one shuts down a descriptor that was closed and belongs to someone else by now.
    private let isOpen = Locked(true)

    private init(descriptor: Int32) {
        self.descriptor = descriptor
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        if let noSignalOption { setOption(noSignalOption, to: Int32(1)) }
    }

    deinit { closeDescriptor() }

    /// A failed system call.
    struct Failure: Error {
        /// `errno` after it.
        let code: Int32

        /// Of the call just made.
        static var last: Failure { Failure(code: errno) }

        var description: String { String(cString: strerror(code)) }
    }
}

// MARK: - Making sockets

extension Socket {
    /// A socket that listens on 127.0.0.1, on a free port if `port` is 0, and never blocks in `accepted()`.
    static func listening(port: UInt16) throws(Failure) -> Socket {
        let descriptor = socket(AF_INET, number(SOCK_STREAM), 0)
        guard descriptor >= 0 else { throw .last }
        let listener = Socket(descriptor: descriptor)
        // A port whose last connections are still winding down (TIME_WAIT) can be had again at once.
        listener.setOption(SO_REUSEADDR, to: Int32(1))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let bound = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard bound == 0, listen(descriptor, SOMAXCONN) == 0, fcntl(descriptor, F_SETFL, O_NONBLOCK) == 0 else {
            throw .last
        }
        return listener
    }

    /// Two sockets that are connected to each other.
    static func pair() throws(Failure) -> (Socket, Socket) {
        var descriptors: [Int32] = [-1, -1]
        guard socketpair(AF_UNIX, number(SOCK_STREAM), 0, &descriptors) == 0 else { throw .last }
        return (Socket(descriptor: descriptors[0]), Socket(descriptor: descriptors[1]))
    }

    /// The next connection of a listening socket; `nil` if it is gone already.
    ///
    /// - Throws: `Failure`, if the process or the system is out of descriptors or memory.
    func accepted() throws(Failure) -> Socket? {
        let accepted = accept(descriptor, nil, nil)
        guard accepted >= 0 else {
            let failure = Failure.last
            if [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(failure.code) { throw failure }
            return nil
        }
        _ = fcntl(accepted, F_SETFL, 0)  // Darwin hands the listener's O_NONBLOCK on
        let connection = Socket(descriptor: accepted)
        // An answer must not wait until the client has acknowledged the one before.
        connection.setOption(TCP_NODELAY, level: Int32(IPPROTO_TCP), to: Int32(1))
        return connection
    }

    /// The port of a listening socket.
    var port: UInt16 {
        var address = sockaddr_in()
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        _ = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &length) }
        }
        return UInt16(bigEndian: address.sin_port)
    }
}

// MARK: - Reading and writing

extension Socket {
    /// Limits how long one `receive` waits for a byte, in seconds.
    func limitReceiving(toSeconds seconds: Int) { setOption(SO_RCVTIMEO, to: Self.time(seconds)) }

    private static func time(_ seconds: Int) -> timeval {
        var time = timeval()
        time.tv_sec = seconds
        return time
    }

    /// Limits how long one `send` waits for room, in seconds.
    func limitSending(toSeconds seconds: Int) { setOption(SO_SNDTIMEO, to: Self.time(seconds)) }

    /// Waits for bytes and puts them at the front of a buffer.
    ///
    /// - Returns: How many they are; 0 after the end, a failure or the time limit.
    func receive(into buffer: inout [UInt8]) -> Int {
        while true {
            let count = buffer.withUnsafeMutableBytes { recv(descriptor, $0.baseAddress, $0.count, 0) }
            if count < 0, errno == EINTR { continue }
            return max(count, 0)
        }
    }

    /// Sends all bytes.
    ///
    /// - Returns: Whether the system took them all.
    func transmit(_ bytes: [UInt8]) -> Bool {
        var sent = 0
        while sent < bytes.count {
            let count = bytes.withUnsafeBytes { bytes in
                let rest = UnsafeRawBufferPointer(rebasing: bytes[sent...])
                return send(descriptor, rest.baseAddress, rest.count, sendFlags)
            }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return false }
            sent += count
        }
        return true
    }

    /// Waits until there is something to receive or to accept, or the end.
    ///
    /// - Parameters:
    ///   - other: A second socket that ends the wait.
    ///   - milliseconds: The longest wait; -1 for no limit.
    /// - Returns: Whether `other` ended it, with or without this one.
    func waitForInput(orOn other: Socket, atMostMilliseconds milliseconds: Int32 = -1) -> Bool {
        var polled = [
            pollfd(fd: other.descriptor, events: Int16(POLLIN), revents: 0),
            pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0),
        ]
        while poll(&polled, nfds_t(polled.count), milliseconds) < 0, errno == EINTR {}
        return polled[0].revents != 0
    }
}

// MARK: - Ending

extension Socket {
    /// Ends both directions: blocked calls of the owner, and of the peer, return. From any thread, any number of times.
    func shutDown() {
        isOpen.withLock { if $0 { _ = shutdown(descriptor, Int32(SHUT_RDWR)) } }
    }

    /// Tells the peer that nothing more will come, and goes on receiving.
    func endTransmission() {
        _ = shutdown(descriptor, Int32(SHUT_WR))
    }

    /// Makes the closing of the connection a reset.
    func resetWhenClosed() {
        setOption(SO_LINGER, to: linger(l_onoff: 1, l_linger: 0))
    }

    /// Gives the descriptor back. By the owner, any number of times.
    func closeDescriptor() {
        isOpen.withLock {
            if $0 { _ = close(descriptor) }
            $0 = false
        }
    }

    private func setOption<Value>(_ option: Int32, level: Int32 = SOL_SOCKET, to value: Value) {
        _ = withUnsafeBytes(of: value) { bytes in
            setsockopt(descriptor, level, option, bytes.baseAddress, socklen_t(bytes.count))
        }
    }
}

/// `SOCK_STREAM` is a number on Darwin and Musl, an enumeration with Glibc.
private func number(_ type: Int32) -> Int32 { type }
private func number(_ type: some RawRepresentable<UInt32>) -> Int32 { Int32(type.rawValue) }
