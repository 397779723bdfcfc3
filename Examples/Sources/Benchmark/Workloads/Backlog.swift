import Foundation
import Tiller

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// A process that finds 1 000 000 events of an earlier one: how soon it is ready, how fast they are delivered, and how much
/// memory it takes. Each relaunch has a process of its own and a fresh copy of the folder.
extension Workload {
    static let backlog = Workload(
        name: "backlog",
        measure: { scale in
            let count = scale.count(1_000_000)
            let folder = try Folder()
            defer { folder.remove() }
            _ = try Child.numbers(from: "fill", [folder.url.path, "\(count)"])
            return try await Sink.withProcess { sink in
                var figures: [Figure] = []
                for isCompressed in [true, false] {
                    figures += try await Figure.medians(ofRuns: scale.longRuns(3)) {
                        try relaunch(folder, count, isCompressed, sink)
                    }
                }
                return figures
            }
        },
        roles: [
            "fill": { arguments in
                let count = Int(arguments[1]) ?? 0
                let bench = try Bench(in: Folder(path: arguments[0]))
                await bench.record(0..<count, bench.track)
                let waiting = await bench.analytics.shutdownAndWait(timeout: .seconds(60))
                try check(waiting == count, "\(waiting) of \(count) events were stored")
                try Child.say(["waiting": Double(waiting)])
            },
            "relaunch": { try Child.say(try await relaunched($0)) },
            "bare-client": { try await postBodies($0) },
        ])

    private static func relaunch(
        _ folder: Folder, _ count: Int, _ isCompressed: Bool, _ sink: Sink
    ) throws -> [Figure] {
        let copy = try folder.copy()
        defer { copy.remove() }
        let mode = isCompressed ? "gzip" : "plain"
        let numbers = try Child.numbers(from: "relaunch", [copy.url.path, "\(count)", "\(sink.port)", mode])
        let account = try sink.takeAccount()
        try check(
            account.plainEvents == (isCompressed ? 0 : count) && !account.sizes.isEmpty,
            "\(account.plainEvents) of \(count) events have arrived")
        let floor = try Floors.sending(account.sizes, isCompressed: isCompressed, to: sink.port)
        let largest = account.sizes.max() ?? 0
        let bare = try Child.numbers(from: "bare-client", ["\(sink.port)", "\(largest)", "\(account.sizes.count)"])
        _ = try sink.takeAccount()
        let (time, events) = (numbers["delivered"] ?? 0, Double(count))
        return [
            Figure("backlog", "\(mode), constructor to ready", numbers["ready"] ?? 0, "ms"),
            Figure("backlog", "\(mode), constructor to all delivered", time, "s", floor: floor.seconds),
            Figure("backlog", "\(mode), delivered", events / time, "events/s", floor: events / floor.seconds),
            Figure(
                "backlog", "\(mode), peak memory; floor: a bare URL session", numbers["peak"] ?? 0, "MB",
                floor: bare["peak"]),
            Figure(
                "backlog", "\(mode), peak above a bare URL session", (numbers["peak"] ?? 0) - (bare["peak"] ?? 0), "MB"),
            Figure("backlog", "\(mode), requests", Double(account.sizes.count), "requests"),
        ]
    }

    /// In a process of its own: the folder, how many events it has, the sink's port, `gzip` or `plain`.
    private static func relaunched(_ arguments: [String]) async throws -> [String: Double] {
        let count = Int(arguments[1]) ?? 0
        let start = ContinuousClock.now
        let bench = try Bench(in: Folder(path: arguments[0])) { configuration in
            configuration.dataPlaneUrl = "http://127.0.0.1:\(arguments[2])"
            configuration.transport = URLSessionTransport()
            configuration.gzipEnabled = arguments[3] == "gzip"
        }
        // Ready: it knows what waits, and a call is stored at once.
        await bench.analytics.stored()
        let waiting = bench.analytics.status.account.store?.waiting
        let ready = start.duration(to: .now)
        try check(waiting == count, "\(waiting ?? 0) of \(count) events wait after the relaunch")
        let result = await bench.analytics.flushed()
        let delivered = start.duration(to: .now)
        try check(
            result == .delivered && bench.analytics.status.account.store?.delivered == count,
            "Not all events were delivered: \(result), \(bench.analytics.status)")
        let peak = OwnProcess.peakBytes
        await bench.analytics.shutdownAndWait()
        return ["ready": ready.seconds * 1_000, "delivered": delivered.seconds, "peak": peak / 1e6]
    }

    /// In a process of its own, a program that has nothing but a URL session: the sink's port, the size of a body, how many.
    private static func postBodies(_ arguments: [String]) async throws {
        var request = URLRequest(url: URL(fileURLWithPath: "/"))
        request.url = URL(string: "http://127.0.0.1:\(arguments[0])/v1/batch")
        request.httpMethod = "POST"
        let body = Data(repeating: UInt8(ascii: "a"), count: Int(arguments[1]) ?? 0)
        let session = URLSession(configuration: .ephemeral)
        for _ in 0..<(Int(arguments[2]) ?? 0) {
            let (_, response) = try await session.upload(for: request, from: body)
            try check((response as? HTTPURLResponse)?.statusCode == 200, "A body was not taken")
        }
        try Child.say(["peak": OwnProcess.peakBytes / 1e6])
    }
}
