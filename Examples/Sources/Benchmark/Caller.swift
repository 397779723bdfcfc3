import Tiller

/// How long `track` takes, and so for how long it keeps the thread that calls it: 100 000 calls from one thread.
///
/// The properties are made in the call, as an app does. Reading the clock is in the times too, and shown beside them.
func measureCaller() async throws -> [Figure] {
    try await Figure.medians(ofRuns: 5) {
        let bench = try Bench()
        let count = 100_000
        var calls: [Duration] = []
        // Between two bursts the pipeline catches up: calls that are refused for want of room would be quick ones.
        for first in stride(from: 0, to: count, by: 5_000) {
            for number in first..<first + 5_000 {
                let (order, product) = Bench.names(of: number)
                calls.append(duration { bench.track(order: order, product: product, number) })
            }
            await bench.analytics.stored()
        }
        let bytes = try await bench.end(expecting: count)
        let clock = (0..<count).map { _ in duration {} }
        return [
            Figure("caller", "track, p50", calls.percentile(50), "us"),
            Figure("caller", "track, p99", calls.percentile(99), "us"),
            Figure("caller", "track, max", calls.percentile(100), "us"),
            Figure("caller", "the clock's part of these, p50", clock.percentile(50), "us"),
            Figure("caller", "stored, the record's head included", Double(bytes) / Double(count), "bytes/event"),
        ]
    }
}

private func duration(of body: () -> Void) -> Duration {
    let start = ContinuousClock.now
    body()
    return start.duration(to: .now)
}

extension [Duration] {
    /// In microseconds.
    fileprivate func percentile(_ percent: Int) -> Double { sorted()[(count - 1) * percent / 100] / .microseconds(1) }
}
