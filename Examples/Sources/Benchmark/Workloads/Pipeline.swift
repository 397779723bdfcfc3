import Tiller

/// How fast events come through: from the first call of 1 000 000, on one thread, until the last one is stored.
extension Workload {
    static let pipeline = Workload(
        name: "pipeline",
        measure: { scale in
            let count = scale.count(1_000_000)
            var figures = try await Figure.medians(ofRuns: scale.runs(3)) {
                try await PipelineRun(count).figures
            }
            if Child.canPin {
                figures += try await Figure.medians(ofRuns: scale.runs(3)) {
                    let numbers = try Child.numbers(from: "pipeline", ["\(count)"], isPinned: true)
                    return [
                        Figure(
                            "pipeline", "events, call to disk, on one processor", numbers["rate"] ?? 0, "events/s",
                            floor: numbers["floor"])
                    ]
                }
            }
            return figures
        },
        roles: [
            "pipeline": { arguments in
                let run = try await PipelineRun(Int(arguments[0]) ?? 0)
                try Child.say(["rate": run.rate, "floor": run.floorRate])
            }
        ])
}

private struct PipelineRun {
    private let count: Int
    private let time: Duration
    private let processorTime: Duration
    private let bytes: Int
    private let writeCalls: Double?
    private let floor: Duration

    init(_ count: Int) async throws {
        let bench = try Bench()
        _ = SampleEvent.samples
        let (processorStart, writesBefore) = (OwnProcess.processorTime, OwnProcess.writeCalls)
        time = await duration { await bench.record(0..<count, bench.track) }
        processorTime = OwnProcess.processorTime - processorStart
        if let writesBefore, let writes = OwnProcess.writeCalls {
            writeCalls = writes - writesBefore
        } else {
            writeCalls = nil
        }
        self.count = count
        bytes = try await bench.end(expecting: count)
        let perWrite = if let writeCalls { bytes / Int(writeCalls) } else { 65_536 }
        floor = try Floors.appending(bytes, perWrite: perWrite)
    }

    var rate: Double { Double(count) / time.seconds }
    var floorRate: Double { Double(count) / floor.seconds }

    var figures: [Figure] {
        let events = Double(count)
        let copy = Floors.copying(bytes / count, times: count)
        var figures = [
            Figure("pipeline", "events, call to disk", rate, "events/s", floor: floorRate),
            Figure(
                "pipeline", "time, call to disk; floor: appending the same bytes", time.nanoseconds / events,
                "ns/event",
                floor: floor.nanoseconds / events),
            Figure(
                "pipeline", "processor time of all threads; floor: copying the same bytes once",
                processorTime.nanoseconds / events, "ns/event", floor: copy.nanoseconds),
        ]
        if let writeCalls {
            figures.append(Figure("pipeline", "calls of write, of any kind", writeCalls / events, "calls/event"))
        }
        return figures
    }
}
