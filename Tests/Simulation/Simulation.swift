import Dispatch
import Tiller

/// Runs seeds, as many at once as there are cores: they have nothing in common.
struct Simulation: Sendable {
    struct Result: Sendable, Equatable {
        var seeds = 0
        var events = 0
        var failed: [UInt64] = []

        var description: String { "\(seeds) seeds, \(events) events, \(failed.count) failed" }
    }

    let options: SimulationOptions
    /// Gets what is to be printed, a line or more at a time; from any thread.
    let output: @Sendable (String) -> Void

    func run(threads: Int) -> Result {
        let next = Locked(0)
        let result = Locked(Result())
        DispatchQueue.concurrentPerform(iterations: max(1, threads)) { _ in
            while let index = next.withLock({ next -> Int? in
                defer { next += 1 }
                return next < options.seeds ? next : nil
            }) {
                let outcome = World(seed: options.first &+ UInt64(index)).run()
                report(outcome)
                result.withLock { result in
                    result.seeds += 1
                    result.events += outcome.events
                    if !outcome.faults.isEmpty { result.failed.append(outcome.seed) }
                }
            }
        }
        return result.withLock { $0 }
    }

    private func report(_ outcome: World.Outcome) {
        if options.isSingle {
            output(outcome.trace.joined(separator: "\n"))
        } else if !outcome.faults.isEmpty {
            let lines = ["seed \(outcome.seed): \(outcome.faults[0])"] + outcome.trace.suffix(25).map { "    " + $0 }
            output(lines.joined(separator: "\n"))
        }
    }
}
