import Tiller
import TillerTesting

/// Runs everything on the thread that asks for it, one thing at a time, in an order that the random numbers draw: each
/// queue in its own order, and what runs on different ones in any.
final class SimulatedExecutors: Executors {
    fileprivate struct State: Sendable {
        /// In the order of their coming; those of one lane are run in that order.
        var ready: [(lane: Int, run: @Sendable () -> Void)] = []
        /// What is being run, and what waits for it in turn.
        var running: [Int] = []
        var lastLane = 0
        var count = 0
        var random: SeededRandom

        mutating func add(to lane: Int?, _ run: @escaping @Sendable () -> Void) {
            ready.append((lane ?? newLane(), run))
        }

        mutating func newLane() -> Int {
            lastLane += 1
            return lastLane
        }

        mutating func takeNext() -> (lane: Int, run: @Sendable () -> Void)? {
            var seen = Set(running)
            let heads = ready.indices.filter { seen.insert(ready[$0].lane).inserted }
            guard let index = heads.randomElement(using: &random) else { return nil }
            count += 1
            running.append(ready[index].lane)
            return ready.remove(at: index)
        }
    }

    private let state: Locked<State>

    init(random: SeededRandom) { state = Locked(State(random: random)) }

    /// How much has been run so far.
    var count: Int { state.withLock { $0.count } }

    var isQuiet: Bool { state.withLock { $0.ready.isEmpty } }

    /// Runs one thing.
    ///
    /// - Returns: Whether there was one.
    func runNext() -> Bool {
        guard let next = state.withLock({ $0.takeNext() }) else { return false }
        next.run()
        state.withLock { _ = $0.running.removeLast() }
        return true
    }

    // MARK: Executors

    func makeQueue(_ label: String) -> any WorkQueue { Queue(state: state, lane: state.withLock { $0.newLane() }) }

    func start(_ work: @escaping @Sendable () async -> Void) -> Task<Void, Never> {
        guard #available(macOS 15, iOS 18, tvOS 18, watchOS 11, visionOS 2, *) else {
            preconditionFailure("The simulation needs a system whose tasks can be given an executor")
        }
        return Task(executorPreference: Jobs(state: state)) { await work() }
    }

    /// Time does not pass meanwhile: it waits as long as there is something to run.
    func wait(atMost bound: Duration, for begin: (_ done: @escaping @Sendable () -> Void) -> Void) {
        let isDone = Locked(false)
        begin { isDone.withLock { $0 = true } }
        while !isDone.withLock({ $0 }), runNext() {}
    }

    private struct Queue: WorkQueue {
        let state: Locked<State>
        let lane: Int

        func async(_ work: @escaping @Sendable () -> Void) { state.withLock { $0.add(to: lane, work) } }

        var isCurrent: Bool { state.withLock { $0.running.last == lane } }
    }
}

/// The parts of tasks between their waits.
@available(macOS 15, iOS 18, tvOS 18, watchOS 11, visionOS 2, *)
private final class Jobs: TaskExecutor {
    private let state: Locked<SimulatedExecutors.State>

    init(state: Locked<SimulatedExecutors.State>) { self.state = state }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        state.withLock { $0.add(to: nil) { job.runSynchronously(on: self.asUnownedTaskExecutor()) } }
    }
}
