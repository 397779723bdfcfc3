import Foundation
import Tiller

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
