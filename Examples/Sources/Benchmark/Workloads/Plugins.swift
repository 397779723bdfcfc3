import Tiller

/// What one more plugin costs an event, as processor time of all threads: with ten of a kind, less without any.
extension Workload {
    static let plugins = Workload(name: "plugins") { scale in
        let count = scale.count(400_000)
        let floors = (Floors.lockAndClock(times: count), Floors.copying(900, times: count))
        return try await Figure.medians(ofRuns: scale.runs(5)) {
            let none = try await time(of: [], count)
            let passing = try await time(of: (0..<kindCount).map { _ in PassingPlugin() }, count)
            let changing = try await time(of: (0..<kindCount).map(ChangingPlugin.init), count)
            return [
                Figure(
                    "plugins", "one that does nothing; floor: a lock and a clock", (passing - none) / Double(kindCount),
                    "ns/event", floor: floors.0.nanoseconds),
                Figure(
                    "plugins", "one that changes the context; floor: copying the event",
                    (changing - none) / Double(kindCount),
                    "ns/event", floor: floors.1.nanoseconds),
            ]
        }
    }

    private static let kindCount = 10

    /// In nanoseconds an event.
    private static func time(of plugins: [any Plugin], _ count: Int) async throws -> Double {
        let bench = try Bench(plugins: plugins)
        let start = OwnProcess.processorTime
        await bench.record(0..<count, bench.track)
        let time = OwnProcess.processorTime - start
        try await bench.end(expecting: count)
        return time.nanoseconds / Double(count)
    }
}

private final class PassingPlugin: Plugin {
    let stage = Stage.enrichment

    func process(_ event: Event) -> Event? { event }
}

/// Replaces a key of its own.
private final class ChangingPlugin: Plugin {
    let stage = Stage.enrichment
    private let key: String

    init(_ number: Int) { key = "plugin\(number)" }

    func process(_ event: Event) -> Event? {
        var event = event
        event.context[key] = .int(Int64(event.sequence & 0xFF))
        return event
    }
}
