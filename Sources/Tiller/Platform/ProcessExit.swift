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

/// Lets instances store what is on its way when the process calls `exit()` or returns from `main`.
enum ProcessExit {
    /// Given an action to run when the instance has stored everything.
    typealias Drain = @Sendable (@escaping @Sendable () -> Void) -> Void

    private struct State: Sendable {
        var drains: [UInt64: Drain] = [:]
        var lastId: UInt64 = 0
        var isRegistered = false
    }

    /// How long an exit waits, at the most, for all instances together.
    private static let bound = DispatchTimeInterval.milliseconds(100)
    private static let state = Locked(State())

    /// - Returns: Ends the registration when cancelled or released.
    static func register(_ drain: @escaping Drain) -> CancellationToken {
        let (id, isFirst) = state.withLock { state in
            state.lastId += 1
            state.drains[state.lastId] = drain
            defer { state.isRegistered = true }
            return (state.lastId, !state.isRegistered)
        }
        if isFirst { atexit { ProcessExit.run() } }
        return CancellationToken { state.withLock { $0.drains[id] = nil } }
    }

    /// On a thread of its own: the one that exits may hold a lock that a drain needs.
    private static func run() {
        let drains = state.withLock { $0.drains.values.map { $0 } }
        guard !drains.isEmpty else { return }
        let left = DispatchGroup()
        for _ in drains { left.enter() }
        DispatchQueue.global().async {
            for drain in drains { drain { left.leave() } }
        }
        _ = left.wait(timeout: .now() + bound)
    }
}
