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

        /// The gateway gives a client up when it could not be answered for so long.
        static let writeTimeout = Duration.seconds(10)

        let port: UInt16
        private let listener: Socket
        /// Connected to `stopSender`; has input when the accepting thread shall end. Linux would wake the thread if the
        /// listener itself were shut down, but POSIX promises that only for connected sockets.
        private let stopReceiver: Socket
        private let stopSender: Socket
        let timeSource: any TimeSource
        let onExchange: (@Sendable (Exchange) -> Void)?
        let state: Locked<State>
        /// The threads that run.
        private let threads = DispatchGroup()

        init(
            port: UInt16, rules: Rules, timeSource: any TimeSource, onExchange: (@Sendable (Exchange) -> Void)?
        ) throws(Socket.Failure) {
            listener = try Socket.listening(port: port)
            (stopReceiver, stopSender) = try Socket.pair()
            self.port = listener.port
            self.timeSource = timeSource
            self.onExchange = onExchange
            state = Locked(State(rules: rules))
        }

        struct State: Sendable {
            var rules: Rules
            var events: [ReceivedEvent] = []
            var requests: [Request] = []
            /// Of all that came, kept or not.
            var eventCount = 0
            var requestCount = 0
            /// How many requests have been begun and not yet answered.
            var underWay = 0
            /// When a request last began or was about to be answered, by the continuous clock.
            var lastActivity = Duration.zero
            /// The answers to the next batch requests.
            var script: [Reply] = []
            /// One per answer that is held; its thread waits on it.
            var held: [DispatchSemaphore] = []
            /// How many requests the faults' script has counted, and what it did to them.
            var faultedRequests = 0
            var appliedFaults: [AppliedFault] = []
            /// One per request that is stored or answered slowly; its thread waits on it.
            var storing: [Int: DispatchSemaphore] = [:]
            var waiters: [Int: Waiter] = [:]
            /// They look again whether it is quiet, each at its time by the continuous clock.
            var quietTimers: [Duration: CancellationToken] = [:]
            /// When the first of them is due.
            var quietDue: Duration?
            var connections: [Int: Socket] = [:]
            var isStopped = false
            private var lastId = 0

            init(rules: Rules) { self.rules = rules }

            mutating func nextId() -> Int {
                lastId += 1
                return lastId
            }
        }
    }
}

// MARK: - For users' threads

extension LocalDataPlane.Server {
    var events: [LocalDataPlane.ReceivedEvent] { state.withLock { $0.events } }

    var requests: [LocalDataPlane.Request] { state.withLock { $0.requests } }

    var appliedFaults: [LocalDataPlane.AppliedFault] { state.withLock { $0.appliedFaults } }

    var rules: LocalDataPlane.Rules {
        get { state.withLock { $0.rules } }
        set {
            state.withLock { state in
                if state.rules.faults != newValue.faults { state.faultedRequests = 0 }
                state.rules = newValue
            }
        }
    }

    func script(_ replies: [LocalDataPlane.Reply]) { state.withLock { $0.script += replies } }

    func releaseHeld() {
        let held = state.withLock { state in
            defer { state.held = [] }
            return state.held
        }
        for semaphore in held { semaphore.signal() }
    }

    func start() {
        run { server in server.acceptConnections() }
    }

    func stop() {
        let (connections, semaphores, waiters, timers) = state.withLock { state in
            defer {
                state.isStopped = true
                state.held = []
                state.waiters = [:]
                state.quietTimers = [:]
            }
            return (
                state.connections.values, state.held + state.storing.values, state.waiters.values,
                state.quietTimers.values
            )
        }
        for timer in timers { timer.cancel() }
        stopSender.shutDown()
        for connection in connections { connection.shutDown() }
        for semaphore in semaphores { semaphore.signal() }
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
        if refuses(connection) { return }
        var reader = LocalDataPlane.RequestReader(connection)
        while exchange(&reader, on: connection) {}
    }
}
