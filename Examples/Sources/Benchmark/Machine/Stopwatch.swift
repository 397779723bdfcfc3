/// How long something takes, by the clock.
@inline(__always)
func duration(of body: () throws -> Void) rethrows -> Duration {
    let start = ContinuousClock.now
    try body()
    return start.duration(to: .now)
}

/// How long something takes, by the clock.
func duration(of body: () async throws -> Void) async rethrows -> Duration {
    let start = ContinuousClock.now
    try await body()
    return start.duration(to: .now)
}

extension Duration {
    var seconds: Double { self / .seconds(1) }
    var microseconds: Double { self / .microseconds(1) }
    var nanoseconds: Double { self / .nanoseconds(1) }
}

extension [Duration] {
    /// In microseconds.
    ///
    /// - Parameter percents: Which; 100 is the longest.
    func percentiles(_ percents: [Int]) -> [Double] {
        let sorted = sorted()
        return percents.map { sorted[(count - 1) * $0 / 100].microseconds }
    }
}
