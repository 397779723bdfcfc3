import Foundation
import Tiller

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#endif

/// Runs a body on real threads, and waits for their end without blocking the caller's executor.
func onThreads(_ count: Int, _ body: @escaping @Sendable (Int) -> Void) async {
    let left = Locked(count)
    await withCheckedContinuation { done in
        for index in 0..<count {
            Thread.detachNewThread {
                body(index)
                let isLast = left.withLock { left in
                    left -= 1
                    return left == 0
                }
                if isLast { done.resume() }
            }
        }
    }
}

/// Runs what computes for seconds, on a thread of its own that lets all others go first, two such at a time: tests with
/// real sockets and processes, which give up after a while, are not kept waiting.
func computing<Result: Sendable>(_ body: @escaping @Sendable () -> Result) async -> Result {
    await withCheckedContinuation { done in
        let thread = Thread {
            letOthersGoFirst()
            places.wait()
            let result = body()
            places.signal()
            done.resume(returning: result)
        }
        thread.qualityOfService = .background  // enough on Apple's systems
        thread.start()
    }
}

private let places = DispatchSemaphore(value: 2)

/// The thread that calls it gets what others leave, for good. For threads of one's own.
func letOthersGoFirst() {
    #if canImport(Glibc)
    // Of this thread alone, on Linux.
    _ = setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, 15)
    #endif
}
