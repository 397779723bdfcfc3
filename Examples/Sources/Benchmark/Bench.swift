import Foundation
import Tiller

/// An instance as a service has it, on a folder of its own.
struct Bench: Sendable {
    let analytics: Analytics
    let folder: Folder

    /// By default nothing is delivered: no flush policy, no network.
    ///
    /// - Parameters:
    ///   - folder: Where it stores; by default a new folder.
    ///   - isCollecting: Whether it has the plugins of identity and session.
    ///   - plugins: Beside the built-in ones.
    ///   - change: What else is configured.
    init(
        in folder: Folder? = nil, isCollecting: Bool = true, plugins: [any Plugin] = [],
        _ change: (inout Configuration) -> Void = { _ in }
    ) throws {
        self.folder = try folder ?? Folder()
        var configuration = Configuration(
            writeKey: "benchmark", dataPlaneUrl: "http://127.0.0.1:9", flushPolicies: [], logLevel: .none,
            storage: .folder(self.folder.url), transport: Offline(), application: Self.application,
            // Room for all events, so that none is given up.
            limits: Limits(storageBytes: 20_000_000_000))
        change(&configuration)
        let builtIn = Analytics.builtInPlugins(for: configuration)
        analytics = Analytics(
            configuration: configuration,
            builtIn: isCollecting
                ? builtIn : builtIn.filter { !($0 is IdentityPlugin) && !($0 is SessionTrackingPlugin) },
            plugins: plugins)
    }

    private static let application = ApplicationInfo(
        name: "Benchmark", version: "1.0", build: "1", namespace: "com.example.benchmark")

    /// Delivers to a sink as events come.
    static func delivering(
        to port: UInt16, in folder: Folder? = nil, _ change: (inout Configuration) -> Void = { _ in }
    ) throws -> Bench {
        try Bench(in: folder) { configuration in
            configuration.dataPlaneUrl = "http://127.0.0.1:\(port)"
            configuration.transport = URLSessionTransport()
            configuration.flushPolicies = [StartupFlushPolicy(), FrequencyFlushPolicy(), CountFlushPolicy()]
            change(&configuration)
        }
    }

    /// One call with a literal of typed values.
    @inline(__always)
    func track(_ number: Int) { SampleEvent[number].trackTyped(analytics) }

    /// As `track`, with values of any type.
    @inline(__always)
    func trackUntyped(_ number: Int) { SampleEvent[number].trackUntyped(analytics) }

    /// As `track`, of another person in each event.
    func trackPerson(_ number: Int) {
        let person = analytics.scoped(userId: "user-\(number)")
        person.track(name: SampleEvent.name, properties: SampleEvent[number].typed)
    }

    /// Calls from one thread as fast as the bounded intake lets them: what may wait in memory is bounded, and a call beyond
    /// that is refused.
    func record(_ numbers: Range<Int>, _ call: (Int) -> Void) async {
        var marks: [Task<Void, Never>] = []
        for number in numbers {
            call(number)
            guard number % 2_000 == 1_999 else { continue }
            marks.append(Task.detached { [analytics] in _ = await analytics.stored() })
            if marks.count > 3 { await marks.removeFirst().value }
        }
        for mark in marks { await mark.value }
        await analytics.stored()
    }

    /// Waits until everything has been delivered, and nothing more than that.
    func deliverAll(expecting count: Int) async throws {
        let result = await analytics.flushed()
        let account = analytics.status.account
        try check(
            account.recorded == count && account.store?.delivered == count,
            "\(account.store?.delivered ?? 0) of \(count) events were delivered: \(result), \(account)")
    }

    /// Ends the instance and removes its folder.
    ///
    /// - Parameter count: How many events were recorded.
    /// - Returns: How many bytes are stored.
    /// - Throws: If not every one of them is stored, and no others.
    @discardableResult
    func end(expecting count: Int) async throws -> Int {
        defer { folder.remove() }
        try check(await analytics.stored() == .stored, "The events were not stored")
        let account = analytics.status.account
        try check(
            account.recorded == count && account.stored == count && account.store?.stored == count,
            "\(account.stored) of \(count) events were stored: \(account)")
        let bytes = try folder.bytes()
        await analytics.shutdownAndWait(timeout: .seconds(60))
        return bytes
    }
}

/// The way to a data plane that is out of reach: an instance that ends tries it once.
private struct Offline: Transport {
    func post(_ request: TransportRequest) async throws -> TransportResponse {
        throw Workload.Failure(description: "offline")
    }
}
