import Foundation
import Tiller

/// What it costs to know, at each call, who the user is and which session it is: calls with the two plugins, less calls
/// without.
///
/// Without them an event has no id, and the instance drops it behind the call, so another plugin gives it one there.
extension Workload {
    static let session = Workload(name: "session") { scale in
        let count = scale.count(400_000)
        let floor = Floors.lockAndClock(times: count).nanoseconds
        return try await Figure.medians(ofRuns: scale.runs(5)) {
            let with = try await SessionRun(isCollecting: true, count)
            let without = try await SessionRun(isCollecting: false, count)
            return [
                Figure(
                    "session", "identity and session, in the call", with.call - without.call, "ns/event", floor: floor),
                Figure("session", "identity and session, in all", with.inAll - without.inAll, "ns/event", floor: floor),
            ]
        }
    }
}

private struct SessionRun {
    /// The middle burst's mean, in nanoseconds a call.
    let call: Double
    /// Processor time of all threads, in nanoseconds an event.
    let inAll: Double

    init(isCollecting: Bool, _ count: Int) async throws {
        let plugins: [any Plugin] = isCollecting ? [] : [NamingPlugin()]
        let bench = try Bench(isCollecting: isCollecting, plugins: plugins) { configuration in
            configuration.sessionConfiguration = SessionConfiguration(automaticSessionTracking: true)
        }
        let burst = 4_000
        var calls: [Double] = []
        let start = OwnProcess.processorTime
        for first in stride(from: 0, to: count, by: burst) {
            let time = duration { for number in first..<first + burst { bench.track(number) } }
            calls.append(time.nanoseconds / Double(burst))
            await bench.analytics.stored()
        }
        inAll = (OwnProcess.processorTime - start).nanoseconds / Double(count)
        call = calls.median
        try check((bench.analytics.sessionId != nil) == isCollecting, "There should be a session with the plugin only")
        try await bench.end(expecting: calls.count * burst)
    }
}

private final class NamingPlugin: Plugin {
    let stage = Stage.before
    private let anonymousId = UUID().uuidString.lowercased()

    func process(_ event: Event) -> Event? {
        var event = event
        event.anonymousId = anonymousId
        return event
    }
}
