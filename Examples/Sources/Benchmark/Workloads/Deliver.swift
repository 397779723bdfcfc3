import Tiller
import TillerTesting

/// How fast events reach a data plane while they are recorded: from the first call until the last one is acknowledged.
///
/// Floor: bodies of the same sizes, sent over one bare socket to the same sink.
extension Workload {
    static let deliver = Workload(
        name: "deliver",
        measure: { scale in
            var figures = [try await sentForm()]
            let count = scale.count(200_000)
            figures += try await Figure.medians(ofRuns: scale.longRuns(3)) {
                try await Sink.withThread { try await DeliverRun.all(to: $0, "in process", count) }
                    + Sink.withProcess { try await DeliverRun.all(to: $0, "to another process", count) }
            }
            return figures
        },
        roles: [Sink.role: { try Sink.serve($0) }])

    /// What one event is, as a data plane that judges it gets it.
    ///
    /// - Throws: If not every one arrives, in order, or they are not of the size that all figures are about.
    private static func sentForm() async throws -> Figure {
        let plane = try LocalDataPlane()
        let bench = try Bench.delivering(to: UInt16(plane.url.split(separator: ":").last ?? "") ?? 0)
        let count = 1_000
        await bench.record(0..<count, bench.track)
        try await bench.deliverAll(expecting: count)
        let numbers = plane.events.compactMap { $0.properties["order_id"]?.string }
        try check(numbers == (0..<count).map { SampleEvent[$0].order }, "Events did not arrive, or in another order")
        try await bench.end(expecting: count)
        let frames = plane.requests.count * #"{"batch":[]}"#.utf8.count
        let sent = plane.requests.map(\.body.count).reduce(0, +) - frames + plane.requests.count
        let perEvent = #","sentAt":"2026-11-30T12:00:00.000Z","#.utf8.count
        let size = Double(sent) / Double(count) - Double(perEvent)
        try check((800...900).contains(size), "The event is one of \(size) bytes")
        return Figure("deliver", "the event's JSON, as it is stored", size, "bytes/event")
    }
}

private struct DeliverRun {
    private let label: String
    private let isCompressed: Bool
    private let isOfManyPeople: Bool
    private let batching: Batching

    static func all(to sink: Sink, _ place: String, _ count: Int) async throws -> [Figure] {
        var figures: [Figure] = []
        for isCompressed in [true, false] {
            for (isOfManyPeople, batching) in [(false, Batching.perIdentity), (false, .mixed), (true, .mixed)] {
                let run = DeliverRun(
                    label: "\(place), \(isCompressed ? "gzip" : "plain"), "
                        + (isOfManyPeople ? "a person each" : "one person")
                        + (batching == .mixed ? ", mixed" : ", per identity"),
                    isCompressed: isCompressed, isOfManyPeople: isOfManyPeople, batching: batching)
                figures += try await run.figures(sink, count)
            }
        }
        return figures
    }

    private func figures(_ sink: Sink, _ count: Int) async throws -> [Figure] {
        let bench = try Bench.delivering(to: sink.port) { configuration in
            configuration.gzipEnabled = isCompressed
            configuration.batching = batching
        }
        let processorStart = OwnProcess.processorTime
        let time = try await duration {
            await bench.record(0..<count, isOfManyPeople ? bench.trackPerson : bench.track)
            try await bench.deliverAll(expecting: count)
        }
        let processorTime = OwnProcess.processorTime - processorStart
        try await bench.end(expecting: count)
        let account = try sink.takeAccount()
        try check(
            account.plainEvents == (isCompressed ? 0 : count) && !account.sizes.isEmpty,
            "\(account.plainEvents) of \(count) events have arrived")
        let floor = try Floors.sending(account.sizes, isCompressed: isCompressed, to: sink.port)
        _ = try sink.takeAccount()
        let events = Double(count)
        return [
            Figure("deliver", label, events / time.seconds, "events/s", floor: events / floor.seconds),
            Figure("deliver", label + ", requests", Double(account.sizes.count), "requests"),
            Figure("deliver", label + ", processor time", processorTime.microseconds / events, "us/event"),
        ]
    }
}
