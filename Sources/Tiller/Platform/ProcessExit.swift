import Dispatch

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Android)
import Android
#endif

/// Lets instances store what is on its way when the process calls `exit()` or returns from `main`, and sees to it that no
/// request is in the hands of the system's network libraries when their own exit handlers run: those free what a request
/// under way still uses.
enum ProcessExit {
    /// Given an action to run when the instance has done it.
    typealias Drain = @Sendable (@escaping @Sendable () -> Void) -> Void

    private struct Instance: Sendable {
        let id: Int
        let store: Drain
        let upload: Drain
        let isLate: @Sendable () -> Void
        /// The process that it is of.
        let birth = ForkedChild.generation
    }

    private struct State: Sendable {
        /// A list: to make the first dictionary of its kind takes a tenth of an instance's beginning.
        var instances: [Instance] = []
        /// Requests under way, and how to break them off.
        var requests: [Int: (@Sendable () -> Void)?] = [:]
        /// The process that they are of.
        var requestsBirth = ForkedChild.generation
        var lastId = 0
        var isRegistered = false
        var isExiting = false

        /// Those of a parent that forked this process end there.
        mutating func forgetParentsRequests() {
            guard requestsBirth != ForkedChild.generation else { return }
            requestsBirth = ForkedChild.generation
            requests = [:]
        }
    }

    /// How long an exit waits, at the most, for all instances together. Tests on a busy machine wait longer.
    static let bound = Locked(DispatchTimeInterval.milliseconds(100))
    /// How long it waits then for requests that were broken off. They end at once; only the first of a process, which sets
    /// up the libraries, can't be broken off, and takes so long on a machine that is busy.
    private static let requestBound = DispatchTimeInterval.seconds(1)
    private static let state = Locked(State())
    /// Signalled when a request ends during an exit.
    private static let requestEnded = DispatchSemaphore(value: 0)

    /// - Parameters:
    ///   - store: Stores everything; run when the process ends.
    ///   - upload: Tries once to deliver what waits; run when a signal that is observed ends the process.
    ///   - isLate: Run if not all was stored in time.
    /// - Returns: Ends the registration when cancelled or released.
    static func register(
        store: @escaping Drain, upload: @escaping Drain, isLate: @escaping @Sendable () -> Void
    ) -> CancellationToken {
        let (id, isFirst) = state.withLock { state in
            state.lastId += 1
            state.instances.append(Instance(id: state.lastId, store: store, upload: upload, isLate: isLate))
            defer { state.isRegistered = true }
            return (state.lastId, !state.isRegistered)
        }
        if isFirst {
            SystemNetworking.registerExitHandler()
            atexit { ProcessExit.run() }
        }
        return CancellationToken { state.withLock { $0.instances.removeAll { $0.id == id } } }
    }

    /// Whether an exit has begun.
    static var hasBegun: Bool { state.withLock { $0.isExiting } }

    private static func run() {
        state.withLock { state in
            state.isExiting = true
            state.forgetParentsRequests()
        }
        let deadline = DispatchTime.now() + bound.withLock { $0 }
        drain(until: deadline, saysWhatIsLost: true)
        endRequests(until: deadline)
    }

    /// Has all instances store what was recorded. On a thread of its own: the one that exits may hold a lock that this needs.
    ///
    /// - Returns: Whether all was stored in time.
    @discardableResult
    static func drain(until deadline: DispatchTime, saysWhatIsLost: Bool) -> Bool {
        // What a forked child has of its parent's instances has no threads there.
        let instances = state.withLock { $0.instances.filter { $0.birth == ForkedChild.generation } }
        guard !instances.isEmpty else { return true }
        let left = DispatchGroup()
        let late = Locked(Set(instances.indices))
        for _ in instances { left.enter() }
        DispatchQueue.global().async {
            for (index, instance) in instances.enumerated() {
                instance.store {
                    late.withLock { _ = $0.remove(index) }
                    left.leave()
                }
            }
        }
        guard left.wait(timeout: deadline) == .timedOut else { return true }
        if saysWhatIsLost { for index in late.withLock({ $0 }).sorted() { instances[index].isLate() } }
        return false
    }

    /// Has all instances try once to deliver what waits, and waits for that.
    ///
    /// - Parameter end: When it is reached, nobody waits any longer.
    static func upload(for bound: DispatchTimeInterval, until end: Milestone) {
        let uploads = state.withLock { $0.instances.map(\.upload) }
        guard !uploads.isEmpty else { return }
        let over = DispatchSemaphore(value: 0)
        end.whenReached { over.signal() }
        let left = Locked(uploads.count)
        for upload in uploads {
            upload {
                let isLast = left.withLock { left in
                    left -= 1
                    return left == 0
                }
                if isLast { over.signal() }
            }
        }
        _ = over.wait(timeout: .now() + bound)
    }

    /// What is nearly done may end by itself; the rest is broken off.
    private static func endRequests(until deadline: DispatchTime) {
        wait(until: deadline)
        for cancel in state.withLock({ $0.requests.values.compactMap { $0 } }) { cancel() }
        wait(until: .now() + requestBound)
    }

    private static func wait(until deadline: DispatchTime) {
        while state.withLock({ !$0.requests.isEmpty }) {
            if requestEnded.wait(timeout: deadline) == .timedOut { return }
        }
    }
}

// MARK: - Requests

extension ProcessExit {
    /// - Returns: Names the request that begins; `nil` if the process is ending, and none may begin.
    static func beginRequest() -> Int? {
        state.withLock { state in
            guard !state.isExiting else { return nil }
            state.forgetParentsRequests()
            state.lastId += 1
            state.requests[state.lastId] = .some(nil)
            return state.lastId
        }
    }

    static func setCancel(of request: Int, _ cancel: @escaping @Sendable () -> Void) {
        state.withLock { state in
            if state.requests[request] != nil { state.requests[request] = cancel }
        }
    }

    static func endRequest(_ request: Int) {
        let isExiting = state.withLock { state in
            state.requests[request] = nil
            return state.isExiting
        }
        if isExiting { requestEnded.signal() }
    }
}
