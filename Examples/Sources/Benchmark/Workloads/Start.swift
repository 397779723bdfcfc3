import Foundation
import Tiller

/// How long an app waits for its instance, and how soon its first event is safe: in new processes, as an app starts, and for
/// further instances of one process.
extension Workload {
    static let start = Workload(
        name: "start",
        measure: { scale in
            let inProcesses = try (0..<scale.count(400)).map { _ in try Child.numbers(from: "start") }
            var instances: [[String: Double]] = []
            for _ in 0..<scale.count(1_000) { instances.append(try await started()) }
            // Room for the variance of a file system: the median of as many.
            let floors = try (0..<scale.count(1_000)).map { _ in try Floors.storingOne(900).microseconds }
            return [("a new process", inProcesses), ("a further instance", instances)].flatMap { name, runs in
                [
                    Figure("start", "\(name), constructor", runs.compactMap { $0["constructor"] }.median, "us"),
                    Figure(
                        "start", "\(name), constructor to the first event stored",
                        runs.compactMap { $0["stored"] }.median,
                        "us", floor: floors.median),
                ]
            }
        },
        roles: ["start": { _ in try Child.say(try await started()) }])

    private static func started() async throws -> [String: Double] {
        let folder = try Folder()
        let clock = ContinuousClock.now
        let bench = try Bench(in: folder) { $0.transport = URLSessionTransport() }
        let constructed = clock.duration(to: .now)
        bench.track(0)
        await bench.analytics.stored()
        let stored = clock.duration(to: .now)
        try await bench.end(expecting: 1)
        return ["constructor": constructed.microseconds, "stored": stored.microseconds]
    }
}
