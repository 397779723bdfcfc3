import Dispatch
import Foundation
import Tiller

extension LocalDataPlane {
    /// The part of a local data plane that its threads hold, so that they don't keep the data plane itself alive.
    ///
    /// One thread accepts, one more serves each connection. They block in
    /// system calls and end when `stop()` shuts their sockets down.
    final class Server: Sendable {
        private static let maximumConnections = 128
        /// In bytes. 512 levels of JSON take 1.5 MB in a debug build under the thread sanitizer.
        private static let stackSize = 4 << 20

        let port: UInt16
        private let listener: Socket
        /// Connected to `stopSender`; has input when the accepting thread shall end. Linux would wake the thread if the
        /// listener itself were shut down, but POSIX promises that only for connected sockets.
        private let stopReceiver: Socket
        private let stopSender: Socket
        private let rules: GatewayRules
        private let state = Locked(State())
        /// The threads that run.
        private let threads = DispatchGroup()

        init(port: UInt16, rules: GatewayRules) throws(Socket.Failure) {
            listener = try Socket.listening(port: port)
            (stopReceiver, stopSender) = try Socket.pair()
            self.port = listener.port
            self.rules = rules
        }

        private struct State: Sendable {
            var events: [ReceivedEvent] = []
            var requests: [Request] = []
            /// The answers to the next batch requests.
            var script: [Reply] = []
            /// One per answer that is held; its thread waits on it.
            var held: [DispatchSemaphore] = []
            var waiters: [Int: Waiter] = [:]
            var connections: [Int: Socket] = [:]
            var isStopped = false
            private var lastId = 0

            mutating func nextId() -> Int {
                lastId += 1
                return lastId
            }

            func isReached(_ goal: Goal) -> Bool {
                switch goal {
                case .events(let count): events.count >= count
                case .requests(let count): requests.count >= count
                }
            }
        }

        /// What a task waits for: so many or more.
        enum Goal {
            case events(Int)
            case requests(Int)
        }

        private struct Waiter {
            let goal: Goal
            let continuation: CheckedContinuation<Void, any Error>
        }
    }
}

// MARK: - For users' threads

extension LocalDataPlane.Server {
    var events: [LocalDataPlane.ReceivedEvent] { state.withLock { $0.events } }

    var requests: [LocalDataPlane.Request] { state.withLock { $0.requests } }

    func script(_ replies: [LocalDataPlane.Reply]) { state.withLock { $0.script += replies } }

    func releaseHeld() {
        let held = state.withLock { state in
            defer { state.held = [] }
            return state.held
        }
        for semaphore in held { semaphore.signal() }
    }

    /// Returns when the goal is reached; throws `CancellationError` or `StoppedError`.
    func wait(for goal: Goal) async throws {
        let id = state.withLock { $0.nextId() }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let waiter = Waiter(goal: goal, continuation: continuation)
                if let result = register(waiter, id: id) { continuation.resume(with: result) }
            }
        } onCancel: {
            let waiter = state.withLock { $0.waiters.removeValue(forKey: id) }
            waiter?.continuation.resume(throwing: CancellationError())
        }
    }

    /// Registers a waiter, or says how its waiting ends already.
    private func register(_ waiter: Waiter, id: Int) -> Result<Void, any Error>? {
        state.withLock { state in
            if state.isReached(waiter.goal) { return .success(()) }
            if state.isStopped { return .failure(LocalDataPlane.StoppedError()) }
            // A cancellation up to here found no waiter to remove. A later one waits for this lock.
            if Task.isCancelled { return .failure(CancellationError()) }
            state.waiters[id] = waiter
            return nil
        }
    }

    func start() {
        run { server in server.acceptConnections() }
    }

    func stop() {
        let (connections, held, waiters) = state.withLock { state in
            defer {
                state.isStopped = true
                state.held = []
                state.waiters = [:]
            }
            return (state.connections.values, state.held, state.waiters.values)
        }
        stopSender.shutDown()
        for connection in connections { connection.shutDown() }
        for semaphore in held { semaphore.signal() }
        for waiter in waiters { waiter.continuation.resume(throwing: LocalDataPlane.StoppedError()) }
        threads.wait()
        stopSender.closeDescriptor()
    }
}

// MARK: - The threads

extension LocalDataPlane.Server {
    private func run(_ body: @escaping @Sendable (LocalDataPlane.Server) -> Void) {
        threads.enter()
        let thread = Thread {
            body(self)
            self.threads.leave()
        }
        thread.name = "LocalDataPlane"
        thread.stackSize = Self.stackSize
        thread.start()
    }

    private func acceptConnections() {
        while !listener.waitForInput(orOn: stopReceiver) {
            do {
                if let connection = try listener.accepted() { begin(connection) }
            } catch {
                // Out of descriptors: the client waits in the backlog until there are some, or until the stop.
                _ = stopReceiver.waitForInput(orOn: stopReceiver, atMostMilliseconds: 100)
            }
        }
        listener.closeDescriptor()
        stopReceiver.closeDescriptor()
    }

    private func begin(_ connection: Socket) {
        let id: Int? = state.withLock { state in
            guard !state.isStopped, state.connections.count < Self.maximumConnections else { return nil }
            let id = state.nextId()
            state.connections[id] = connection
            return id
        }
        guard let id else { return connection.closeDescriptor() }
        run { server in
            server.serve(connection)
            server.state.withLock { $0.connections[id] = nil }
            connection.closeDescriptor()
        }
    }

    private func serve(_ connection: Socket) {
        connection.limitSending(toSeconds: 30)
        var reader = LocalDataPlane.RequestReader(connection)
        while exchange(&reader, on: connection) {}
    }

    /// Reads a request and answers it.
    ///
    /// - Returns: Whether another can follow.
    private func exchange(_ reader: inout LocalDataPlane.RequestReader, on connection: Socket) -> Bool {
        var route: LocalDataPlane.GatewayRules.Route?
        do {
            let head = try reader.readHead()
            var request = head.request
            let known = rules.route(request)
            route = known
            if head.expectsContinue {
                // The body is not sent unless we ask for it, and a refusal is as good before as after it.
                if case .refused = known {
                    return answer(request, routedTo: known, on: connection, isLast: true)
                }
                guard connection.transmit(Array("HTTP/1.1 100 Continue\r\n\r\n".utf8)) else { return false }
            }
            request.body = try reader.readBody(head.framing)
            return answer(request, routedTo: known, on: connection, isLast: head.isLast)
        } catch .refused(var reply) {
            if case .refused(let earlier) = route { reply = earlier }
            refuse(reply, on: connection)
            return false
        } catch {
            return false
        }
    }
}

// MARK: - The answers

extension LocalDataPlane.Server {
    /// Judges and answers a request.
    ///
    /// - Returns: Whether another request can follow.
    private func answer(
        _ request: LocalDataPlane.Request, routedTo route: LocalDataPlane.GatewayRules.Route, on connection: Socket,
        isLast: Bool
    ) -> Bool {
        let (reply, hold) = settle(request, rules.verdict(on: request, route: route))
        hold?.wait()
        guard !reply.isLost, connection.transmit(reply.message(to: request, isLast: isLast)) else { return false }
        if isLast { drain(connection) }
        return !isLast
    }

    /// Writes down what a request brought, and takes its scripted answer if there is one.
    private func settle(
        _ request: LocalDataPlane.Request, _ verdict: LocalDataPlane.GatewayRules.Verdict
    ) -> (LocalDataPlane.Reply, hold: DispatchSemaphore?) {
        let (reply, hold, waiters) = state.withLock { state in
            var reply = verdict.reply
            if rules.isBatch(request), !state.script.isEmpty { reply = state.script.removeFirst() }
            state.requests.append(request)
            if reply.status == 200 { state.events += verdict.events }
            var hold: DispatchSemaphore?
            if reply.isHeld, !state.isStopped {
                let semaphore = DispatchSemaphore(value: 0)
                state.held.append(semaphore)
                hold = semaphore
            }
            let reached = state.waiters.filter { state.isReached($0.value.goal) }
            for id in reached.keys { state.waiters[id] = nil }
            return (reply, hold, reached.values)
        }
        for waiter in waiters { waiter.continuation.resume() }
        return (reply, hold)
    }

    /// Answers what could not be read as a request.
    private func refuse(_ reply: LocalDataPlane.Reply, on connection: Socket) {
        if connection.transmit(reply.message(to: nil, isLast: true)) { drain(connection) }
    }

    /// Receives what the client still sends, up to 64 MiB, before the connection closes: closing with bytes unread
    /// makes a reset of it, and that can overtake the answer.
    private func drain(_ connection: Socket) {
        connection.endTransmission()
        var scrap = [UInt8](repeating: 0, count: 65_536)
        for _ in 0..<1_024 where connection.receive(into: &scrap) == 0 { return }
    }
}
