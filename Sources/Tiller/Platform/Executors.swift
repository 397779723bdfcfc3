import Dispatch

/// Where an instance does what it does not do on its callers' threads.
///
/// One injected dependency, so that a simulation can run everything on one thread, in an order of its choice.
package protocol Executors: Sendable {
    /// A queue of its own, which does one thing at a time, in order.
    ///
    /// - Parameter label: For people who debug.
    func makeQueue(_ label: String) -> any WorkQueue

    /// Starts work that waits for others, a server for instance.
    func start(_ work: @escaping @Sendable () async -> Void) -> Task<Void, Never>

    /// Begins something, and blocks the caller's thread until it calls back or time is up.
    ///
    /// - Parameter begin: Gets what it is to call when it is done; from any thread.
    func wait(atMost bound: Duration, for begin: (_ done: @escaping @Sendable () -> Void) -> Void)
}

/// Does one thing at a time, in order.
package protocol WorkQueue: Sendable {
    /// Does something later; returns at once.
    func async(_ work: @escaping @Sendable () -> Void)

    /// Whether the caller is being run by this queue.
    var isCurrent: Bool { get }
}

/// Dispatch and the language's own threads.
package struct SystemExecutors: Executors {
    package init() {}

    package func makeQueue(_ label: String) -> any WorkQueue { Queue(label) }

    package func start(_ work: @escaping @Sendable () async -> Void) -> Task<Void, Never> { Task { await work() } }

    package func wait(atMost bound: Duration, for begin: (_ done: @escaping @Sendable () -> Void) -> Void) {
        let isDone = DispatchSemaphore(value: 0)
        begin { isDone.signal() }
        _ = isDone.wait(timeout: .now() + .milliseconds(Int(clamping: bound.wholeMilliseconds)))
    }

    private final class Queue: WorkQueue {
        private static let key = DispatchSpecificKey<ObjectIdentifier>()
        private let queue: DispatchQueue

        init(_ label: String) {
            queue = DispatchQueue(label: label)
            queue.setSpecific(key: Self.key, value: ObjectIdentifier(queue))
        }

        func async(_ work: @escaping @Sendable () -> Void) { queue.async(execute: work) }

        var isCurrent: Bool { DispatchQueue.getSpecific(key: Self.key) == ObjectIdentifier(queue) }
    }
}
