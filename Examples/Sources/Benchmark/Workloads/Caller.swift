import Foundation
import Tiller

/// How long `track` takes, and so for how long it keeps the thread that calls it.
///
/// The properties are made in the call, as an app does, but for the dictionaries "at hand", which show what the call itself
/// takes. What it takes to read the clock before and after a call is taken off
/// the times and their floors, and printed: the median of as many readings around a call of nothing, in the same run. In the
/// calls a second it still is.
extension Workload {
    static let caller = Workload(
        name: "caller",
        measure: { scale in
            try await Figure.medians(ofRuns: scale.runs(5)) {
                var figures: [Figure] = []
                for threads in [1, 4] {
                    let calls = scale.count(100_000)
                    let readings = await CallerRun.readings(threads: threads, calls: calls)
                    let floor = await CallerRun.floor(threads: threads, calls: calls)
                    let label = "\(threads) thread\(threads == 1 ? "" : "s")"
                    for form in Form.allCases {
                        let run = try await CallerRun(threads: threads, calls: calls, form)
                        figures += run.figures("\(label), \(form.rawValue)", floor: floor, readings: readings)
                    }
                    figures.append(Figure("caller", "\(label), reading the clock, taken off", readings.median, "us"))
                }
                return figures + [try await storedForm()]
            }
        },
        // For valgrind: so many calls, and nothing else.
        roles: [
            "calls": { arguments in
                let bench = try Bench()
                let count = Int(arguments[1]) ?? 0
                await bench.record(0..<count, arguments[0] == "typed" ? bench.track : bench.trackUntyped)
                try await bench.end(expecting: count)
            }
        ])

    /// What one event takes on the disk.
    private static func storedForm() async throws -> Figure {
        let bench = try Bench()
        let count = 10_000
        await bench.record(0..<count, bench.track)
        let bytes = Double(try await bench.end(expecting: count)) / Double(count)
        return Figure("caller", "stored, the record's head included", bytes, "bytes/event")
    }
}

/// What the properties are given as.
private enum Form: String, CaseIterable {
    case typed
    case untyped = "[String: Any]"
    /// Made before the call, and kept beyond it.
    case atHand = "[String: Any] at hand"
}

/// Many calls in bursts, each from all threads at once.
private struct CallerRun {
    /// So few that none is refused for want of room: that would be a quick one.
    private static let burst = 4_000

    private var calls: [Duration] = []
    private var time = Duration.zero

    init(threads: Int, calls count: Int, _ form: Form) async throws {
        let bench = try Bench()
        for first in stride(from: 0, to: count, by: Self.burst) {
            switch form {
            case .typed: await add(threads, first) { bench.track($0) }
            case .untyped: await add(threads, first) { bench.trackUntyped($0) }
            case .atHand:
                await add(threads, first) {
                    SampleEvent[$0].untyped
                } call: {
                    SampleEvent.track($0, bench.analytics)
                }
            }
            // The pipeline catches up.
            await bench.analytics.stored()
        }
        try await bench.end(expecting: calls.count)
    }

    private init(threads: Int, calls count: Int, _ call: @escaping @Sendable (Int) -> Void) async {
        for first in stride(from: 0, to: count, by: Self.burst) { await add(threads, first, call) }
    }

    /// The clock around nothing.
    static func readings(threads: Int, calls count: Int) async -> CallerRun {
        await CallerRun(threads: threads, calls: count) { _ in }
    }

    static func floor(threads: Int, calls count: Int) async -> CallerRun {
        let lock = NSLock()
        return await CallerRun(threads: threads, calls: count) { _ in Floors.lockAndClock(lock) }
    }

    private mutating func add(_ threads: Int, _ first: Int, _ call: @escaping @Sendable (Int) -> Void) async {
        await add(threads, first, preparing: { $0 }, call: call)
    }

    /// Adds a burst.
    ///
    /// - Parameter prepare: Makes what a call is given, before the first of the burst.
    private mutating func add<Given>(
        _ threads: Int, _ first: Int, preparing prepare: @escaping @Sendable (Int) -> Given,
        call: @escaping @Sendable (Given) -> Void
    ) async {
        let share = Self.burst / threads
        let bursts = await onThreads(threads) { thread in
            let given = (0..<share).map { prepare(first + thread * share + $0) }
            let start = ContinuousClock.now
            var calls: [Duration] = []
            calls.reserveCapacity(share)
            for given in given { calls.append(duration { call(given) }) }
            return (calls, start, ContinuousClock.now)
        }
        for (calls, _, _) in bursts { self.calls += calls }
        guard let start = bursts.map(\.1).min(), let end = bursts.map(\.2).max() else { return }
        time += start.duration(to: end)
    }

    private var perSecond: Double { Double(calls.count) / time.seconds }

    /// In microseconds.
    var median: Double { calls.percentiles([50])[0] }

    func figures(_ label: String, floor: CallerRun, readings: CallerRun) -> [Figure] {
        let percents = [50, 99, 100]
        let values = zip(calls.percentiles(percents), floor.calls.percentiles(percents))
        return zip(["p50", "p99", "max"], values).map { name, values in
            Figure(
                "caller", "\(label), \(name)", values.0 - readings.median, "us",
                floor: values.1 - readings.median)
        } + [Figure("caller", "\(label), calls", perSecond, "calls/s", floor: floor.perSecond)]
    }
}
