import Dispatch
import Tiller

/// Dispatch, whose queues can be held: what they are given waits until they are let go.
///
/// How often a pipeline that keeps up with its caller goes to sleep and is woken depends on the machine, and so would the
/// counts. While it is held it finds a whole burst, in every run the same.
final class HeldExecutors: Executors {
    private let system = SystemExecutors()
    private let queues = Locked<[any WorkQueue]>([])
    private let gate = DispatchSemaphore(value: 0)

    func makeQueue(_ label: String) -> any WorkQueue {
        let queue = system.makeQueue(label)
        queues.withLock { $0.append(queue) }
        return queue
    }

    func start(_ work: @escaping @Sendable () async -> Void) -> Task<Void, Never> { system.start(work) }

    func wait(atMost bound: Duration, for begin: (_ done: @escaping @Sendable () -> Void) -> Void) {
        system.wait(atMost: bound, for: begin)
    }

    /// Holds the queues made so far while something is done.
    func whileHeld(_ work: () -> Void) {
        let held = queues.withLock { $0 }
        let isHeld = DispatchSemaphore(value: 0)
        for queue in held {
            queue.async { [gate] in
                isHeld.signal()
                gate.wait()
            }
        }
        for _ in held { isHeld.wait() }  // what they were doing is done
        work()
        for _ in held { gate.signal() }
    }
}
