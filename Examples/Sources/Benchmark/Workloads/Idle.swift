import Foundation
import Tiller

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#endif

/// What a process does for its analytics while there is nothing to do: everything was delivered, and nobody calls.
///
/// Each is a process of its own, in which the benchmark waits without a wake-up; the system counts. The floor is a process
/// without the SDK: on Linux Dispatch looks after its pools of threads once a second, whoever uses it.
extension Workload {
    static let idle = Workload(
        name: "idle",
        measure: { scale in
            try await Sink.withProcess { sink in
                let children = try kinds.map { try Child("idle", [$0, "\(sink.port)"]) }
                for child in children { try check(try child.line() == "idle", "An instance did not come to rest") }
                // Threads of the system's pools end some seconds after their last work.
                try wait(seconds: scale.isQuick ? 6 : 10, watching: children)
                let before = activities(of: children)
                let seconds = scale.isQuick ? 5 : 60
                try wait(seconds: seconds, watching: children)
                let after = activities(of: children)
                for child in children { try child.end() }
                guard let before, let after else { return [] }
                let spent = zip(before, after).map { $1.since($0) }
                return zip(kinds, spent).dropFirst().flatMap { figures($0, $1, bare: spent[0], seconds) }
            }
        },
        roles: ["idle": { try await rest($0) }])

    private static let kinds = ["bare", "service", "app in the foreground", "app in the background"]

    /// - Returns: `nil` where the system does not count.
    private static func activities(of children: [Child]) -> [Activity]? {
        let all = children.compactMap { Activity(of: $0.processId) }
        return all.count == children.count ? all : nil
    }

    private static func figures(_ kind: String, _ spent: Activity, bare: Activity, _ seconds: Int) -> [Figure] {
        [
            Figure(
                "idle", "\(kind), wake-ups in \(seconds) s; floor: without the SDK", spent.switches, "switches",
                floor: bare.switches),
            Figure(
                "idle", "\(kind), processor time in \(seconds) s", spent.processorTime / 1e6, "ms",
                floor: bare.processorTime / 1e6),
        ]
    }

    /// Waits in the system, and fails if one of the processes has something to say: it should rest.
    private static func wait(seconds: Int, watching children: [Child]) throws {
        var watched = children.map { pollfd(fd: $0.outputDescriptor, events: Int16(POLLIN), revents: 0) }
        let count = poll(&watched, nfds_t(watched.count), Int32(seconds) * 1_000)
        try check(count == 0, "An idle process ended")
    }

    /// In a process of its own: one of `kinds`, and the sink's port.
    private static func rest(_ arguments: [String]) async throws {
        if arguments[0] == kinds[0] {
            Child.say("idle")
            return Child.waitForEnd()
        }
        let isApp = arguments[0] != kinds[1]
        let source = ManualLifecycleSource(isInForeground: true, isApp: isApp)
        let bench = try Bench.delivering(to: UInt16(arguments[1]) ?? 0) { $0.lifecycleSource = source }
        await bench.record(0..<1_000, bench.track)
        if arguments[0] == kinds[3] { source.background() }
        // Lifecycle events may come in beside the thousand.
        _ = await bench.analytics.flushed()
        let account = bench.analytics.status.account
        try check(account.store?.waiting == 0 && account.stored >= 1_000, "Events wait: \(account)")
        Child.say("idle")
        Child.waitForEnd()
        try await bench.end(expecting: bench.analytics.status.account.recorded)
    }
}
