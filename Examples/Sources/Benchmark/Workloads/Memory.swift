import Foundation
import Tiller

/// How memory grows: while 10 000 000 events are recorded and delivered, all of them twenty times on the way, and while
/// they can't be delivered, or not even processed. Each in a process of its own.
extension Workload {
    static let memory = Workload(
        name: "memory",
        measure: { scale in
            let count = scale.isQuick ? 200_000 : 10_000_000
            let delivering = try await Sink.withProcess { try run("delivering", count, to: $0.port) }
            let taken = try run("delivering without a URL session", count, to: 0)
            let plane = try await Sink.withProcess(isStuck: true) {
                try run("stuck data plane", scale.count(2_000_000), to: $0.port)
            }
            let plugin = try run("stuck plugin", scale.count(2_000_000), to: 0)
            return figures("delivering", delivering) + figures("delivering without a URL session", taken)
                + figures("stuck data plane", plane)
                + [Figure("memory", "stuck data plane, on disk; bound: 100 MB", plane["disk"] ?? 0, "MB")]
                + figures("stuck plugin", plugin)
                + [Figure("memory", "stuck plugin, events taken", plugin["taken"] ?? 0, "events")]
        },
        roles: ["memory": { try Child.say(try await MemoryRun($0).numbers) }])

    private static func run(_ trouble: String, _ count: Int, to port: UInt16) throws -> [String: Double] {
        let folder = try Folder()
        defer { folder.remove() }
        return try Child.numbers(from: "memory", [trouble, "\(count)", "\(port)", folder.url.path])
    }

    private static func figures(_ label: String, _ numbers: [String: Double]) -> [Figure] {
        [
            Figure("memory", "\(label), growth from the second quarter to the last", numbers["growth"] ?? 0, "MB"),
            Figure(
                "memory", "\(label), peak; floor: before the first call", numbers["peak"] ?? 0, "MB",
                floor: numbers["before"]),
        ]
    }
}

/// In a process of its own: which trouble there is, how many events, the sink's port, the folder.
private struct MemoryRun {
    private(set) var numbers: [String: Double] = [:]

    init(_ arguments: [String]) async throws {
        let count = Int(arguments[1]) ?? 0
        let gate = StuckPlugin()
        let isStuckPlugin = arguments[0] == "stuck plugin"
        let isStuckPlane = arguments[0] == "stuck data plane"
        let folder = Folder(path: arguments[3])
        let bench = try Bench.delivering(to: UInt16(arguments[2]) ?? 0, in: folder) { configuration in
            if isStuckPlane { configuration.limits = Limits() }
            if arguments[0] == "delivering without a URL session" { configuration.transport = TakingTransport() }
        }
        if isStuckPlugin { bench.analytics.add(plugin: gate) }
        numbers["before"] = Self.resident
        // In twentieths; at rest where there is any: what is resident goes up and down with what is under way.
        var resident: [Double] = []
        for part in 1...20 {
            await record((part - 1) * (count / 20)..<part * (count / 20), in: bench, isStuckPlugin)
            if !isStuckPlugin, !isStuckPlane { try await bench.deliverAll(expecting: part * (count / 20)) }
            resident.append(Self.resident)
        }
        // By the second quarter all that is reserved for good has been reserved.
        numbers["growth"] = Array(resident[15..<20]).median - Array(resident[5..<10]).median
        numbers["peak"] = OwnProcess.peakBytes / 1e6
        numbers["disk"] = Double(try bench.folder.bytes()) / 1e6
        if isStuckPlugin {
            try await endStuckPlugin(bench, gate, count)
        } else {
            try await end(bench, count, isStuckPlane)
        }
    }

    private func record(_ numbers: Range<Int>, in bench: Bench, _ isStuckPlugin: Bool) async {
        if isStuckPlugin {
            for number in numbers { bench.track(number) }
        } else {
            await bench.record(numbers, bench.track)
        }
    }

    private func end(_ bench: Bench, _ count: Int, _ isStuckPlane: Bool) async throws {
        guard isStuckPlane else {
            try await bench.end(expecting: count)
            return
        }
        let account = bench.analytics.status.account
        try check(
            account.stored == count && account.store?.delivered == 0, "The data plane is not stuck: \(account)")
    }

    private mutating func endStuckPlugin(_ bench: Bench, _ plugin: StuckPlugin, _ count: Int) async throws {
        let account = bench.analytics.status.account
        let refused = account.dropped[.queueFull] ?? 0
        try check(
            account.recorded == count && account.inMemory + refused == count && refused > 0,
            "The plugin is not stuck, or memory is not bounded: \(account)")
        numbers["taken"] = Double(account.inMemory)
        plugin.letGo()
        await bench.analytics.stored()
        try check(
            bench.analytics.status.account.stored == count - refused, "Events are missing: \(bench.analytics.status)")
        await bench.analytics.shutdownAndWait()
    }

    /// In megabytes; where it is not known, the most that there was so far.
    private static var resident: Double { (OwnProcess.residentBytes ?? OwnProcess.peakBytes) / 1e6 }
}

/// What grows without the system's client does not grow in it.
private struct TakingTransport: Transport {
    func post(_ request: TransportRequest) async throws -> TransportResponse { TransportResponse(status: 200) }
}

/// Holds up the first event until it is let go.
private final class StuckPlugin: Plugin {
    let stage = Stage.before
    private let gate = DispatchSemaphore(value: 0)

    func process(_ event: Event) -> Event? {
        gate.wait()
        gate.signal()
        return event
    }

    func letGo() { gate.signal() }
}
