import Tiller

/// How many events a second come through: from the first call of 200 000, on one thread, until the last one is stored.
func measurePipeline() async throws -> [Figure] {
    try await Figure.medians(ofRuns: 5) {
        let bench = try Bench()
        let count = 200_000
        let start = ContinuousClock.now
        for number in 0..<count {
            let (order, product) = Bench.names(of: number)
            bench.track(order: order, product: product, number)
            // Faster than the disk for long, and calls are refused: what may wait in memory is bounded.
            if number % 5_000 == 4_999 { await bench.analytics.stored() }
        }
        await bench.analytics.stored()
        let seconds = start.duration(to: .now) / .seconds(1)
        let bytes = try await bench.end(expecting: count)
        return [
            Figure("pipeline", "events, call to disk", Double(count) / seconds, "events/s"),
            Figure("pipeline", "bytes, call to disk", Double(bytes) / 1e6 / seconds, "MB/s"),
        ]
    }
}
