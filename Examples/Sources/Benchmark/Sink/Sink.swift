import Foundation

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#endif

/// A data plane that takes everything and does next to nothing: what is measured against it is the sender.
///
/// One thread has all its state. It is asked over its port, as it is when it lives in another process.
struct Sink: Sendable {
    /// What has arrived since it was asked last.
    struct Account: Codable {
        /// The sizes of the bodies, in order, as they were sent.
        var sizes: [Int] = []
        /// Events in bodies that were not compressed.
        var plainEvents = 0
    }

    let port: UInt16

    /// One in this process.
    ///
    /// - Parameter isStuck: Whether it reads everything and answers nothing.
    init(isStuck: Bool = false) throws {
        let listener = try LoopbackSocket(listening: ())
        port = listener.port
        Thread { SinkThread(listener, isStuck: isStuck).run() }.start()
    }

    /// One that is in another process.
    init(port: UInt16) { self.port = port }

    /// What has arrived since this was asked last.
    func takeAccount() throws -> Account {
        try JSONDecoder().decode(Account.self, from: Data(ask("/account")))
    }

    /// Ends it.
    func end() throws { _ = try ask("/end") }

    private func ask(_ path: String) throws -> ArraySlice<UInt8> {
        let socket = try LoopbackSocket(connectingTo: port)
        defer { socket.closeDescriptor() }
        var answers = HTTPMessages()
        return try socket.exchange("GET", path, reading: &answers)
    }
}

// MARK: - In a process of its own

extension Sink {
    static let role = "sink"

    /// A sink, until the parent has no more use for it.
    ///
    /// - Parameter arguments: `stuck`, or nothing.
    static func serve(_ arguments: [String]) throws {
        Child.say("\(try Sink(isStuck: arguments == ["stuck"]).port)")
        Child.waitForEnd()
    }

    /// Runs a body with a sink in another process.
    static func withProcess<Result>(
        isStuck: Bool = false, _ body: (Sink) async throws -> Result
    ) async throws -> Result {
        let child = try Child(role, isStuck ? ["stuck"] : [])
        let sink = Sink(port: UInt16(try child.line()) ?? 0)
        let result = try await body(sink)
        try child.end()
        return result
    }

    /// Runs a body with a sink in this process.
    static func withThread<Result>(_ body: (Sink) async throws -> Result) async throws -> Result {
        let sink = try Sink()
        let result = try await body(sink)
        try sink.end()
        return result
    }
}

// MARK: - The thread

private struct SinkThread: ~Copyable {
    private let listener: LoopbackSocket
    private let isStuck: Bool
    private var account = Sink.Account()
    private var connections: [Int32: HTTPMessages] = [:]
    private var isEnding = false

    init(_ listener: LoopbackSocket, isStuck: Bool) {
        self.listener = listener
        self.isStuck = isStuck
    }

    consuming func run() {
        while !isEnding {
            var watched = ([listener.descriptor] + connections.keys).map {
                pollfd(fd: $0, events: Int16(POLLIN), revents: 0)
            }
            guard poll(&watched, nfds_t(watched.count), -1) > 0 else { continue }
            for ready in watched where ready.revents != 0 {
                if ready.fd == listener.descriptor { accept() } else { serve(LoopbackSocket(descriptor: ready.fd)) }
            }
        }
        for descriptor in connections.keys { close(descriptor) }
        listener.closeDescriptor()
    }

    private mutating func accept() {
        #if canImport(Darwin)
        let descriptor = Darwin.accept(listener.descriptor, nil, nil)
        #else
        let descriptor = Glibc.accept(listener.descriptor, nil, nil)
        #endif
        guard descriptor >= 0 else { return }
        LoopbackSocket(descriptor: descriptor).sendAtOnce()
        connections[descriptor] = HTTPMessages()
    }

    private mutating func serve(_ socket: LoopbackSocket) {
        // Taken out, so that the buffer is changed in place.
        guard var messages = connections.removeValue(forKey: socket.descriptor) else { return }
        guard messages.receive(from: socket) else { return socket.closeDescriptor() }
        while let message = messages.next() {
            let answer = answer(to: message)
            if let answer, !socket.send(answer) { return socket.closeDescriptor() }
        }
        if messages.takeExpectation() { _ = socket.send("HTTP/1.1 100 Continue\r\n\r\n".utf8) }
        connections[socket.descriptor] = messages
    }

    private mutating func answer(to message: HTTPMessages.Message) -> [UInt8]? {
        switch message.startLine.split(separator: " ").dropFirst().first {
        case "/v1/batch":
            account.sizes.append(message.body.count)
            if !message.isCompressed { account.plainEvents += Self.countEvents(in: message.body) }
            return isStuck ? nil : Self.answer("OK".utf8)
        case "/account":
            defer { account = Sink.Account() }
            return Self.answer((try? JSONEncoder().encode(account)) ?? Data())
        case "/end":
            isEnding = true
            return Self.answer([])
        default:
            return Array("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".utf8)
        }
    }

    private static func answer(_ body: some Collection<UInt8>) -> [UInt8] {
        Array("HTTP/1.1 200 OK\r\nContent-Length: \(body.count)\r\n\r\n".utf8) + body
    }

    /// By the key that every event has once. Its capital is rare, and so the search is as fast as a search can be.
    private static func countEvents(in body: ArraySlice<UInt8>) -> Int {
        let (before, after) = (Array("\"message".utf8), Array("d\":".utf8))
        return body.withUnsafeBytes { body in
            guard var rest = body.baseAddress else { return 0 }
            let end = rest + body.count
            var count = 0
            while let found = memchr(rest, Int32(UInt8(ascii: "I")), end - rest).map(UnsafeRawPointer.init) {
                if found - before.count >= rest, found + after.count < end,
                    memcmp(found - before.count, before, before.count) == 0, memcmp(found + 1, after, after.count) == 0
                {
                    count += 1
                }
                rest = found + 1
            }
            return count
        }
    }
}
