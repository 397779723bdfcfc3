import Tiller

/// A queue that does nothing until it is told to.
final class HeldQueue: WorkQueue {
    private let waiting = Locked<[@Sendable () -> Void]>([])

    var isCurrent: Bool { false }

    /// How much waits.
    var count: Int { waiting.withLock { $0.count } }

    func async(_ work: @escaping @Sendable () -> Void) { waiting.withLock { $0.append(work) } }

    /// Does what waits, and what comes of it.
    func run() {
        while let work = waiting.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) { work() }
    }
}
