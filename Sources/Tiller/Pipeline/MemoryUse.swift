/// How much may wait between a call and the data plane.
struct MemoryUse: Sendable {
    private(set) var count = 0
    private(set) var bytes = 0
    let limits: Limits

    /// - Parameter times: 2 for what must find room.
    func hasRoom(for cost: Int, times: Int = 1) -> Bool {
        count < limits.memoryEvents.multipliedClamped(by: times)
            && bytes + cost <= limits.memoryBytes.multipliedClamped(by: times)
    }

    mutating func take(_ cost: Int) {
        count += 1
        bytes += cost
    }

    mutating func release(count: Int, bytes: Int) {
        self.count -= count
        self.bytes -= bytes
    }

    /// The true size of events is known once they are encoded.
    mutating func correct(by bytes: Int) { self.bytes += bytes }
}

extension Int {
    fileprivate func multipliedClamped(by factor: Int) -> Int {
        let (product, overflows) = multipliedReportingOverflow(by: factor)
        return overflows ? .max : product
    }
}
