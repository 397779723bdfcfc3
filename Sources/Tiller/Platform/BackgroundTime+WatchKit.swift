// The flag stands for a build against stub modules.
#if os(watchOS) || TILLER_APPLE_STUBS
import Dispatch
import Foundation
import WatchKit

/// An activity of the process's, which lasts for as long as its block runs, on a thread of the system's.
struct ExpiringActivity: BackgroundTime {
    func begin(_ isUp: @escaping @Sendable () -> Void) -> CancellationToken? {
        let isOver = DispatchSemaphore(value: 0)
        ProcessInfo.processInfo.performExpiringActivity(withReason: "Tiller uploads events") { isExpired in
            if isExpired { isUp() } else { isOver.wait() }
        }
        return CancellationToken { isOver.signal() }
    }
}
#endif
