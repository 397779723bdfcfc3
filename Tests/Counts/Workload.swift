import Dispatch
import Foundation
import Tiller

/// An instance as an app has it: default plugins, a folder on the disk, the system's clocks (but see `StandingClock`).
struct Workload {
    /// What is recorded in one go: less than what may wait in memory, enough that the pipeline is under load.
    private static let burst = 4_000

    private let options: CountsOptions
    private let orders = Order.prepared
    private let transport = CountingTransport()
    private let executors = HeldExecutors()
    private let analytics: Analytics

    init(_ options: CountsOptions) {
        self.options = options
        var configuration = Configuration(
            writeKey: "counts", dataPlaneUrl: options.url, flushPolicies: [], storage: .folder(options.folder),
            transport: transport,
            application: ApplicationInfo(name: "Counts", version: "1.0", build: "1", namespace: "com.example.counts"))
        if options.isHeld { configuration.executors = executors }
        if options.kind == .deliver { configuration.time = StandingClock() }
        analytics = Analytics(configuration: configuration)
    }

    /// - Returns: The exit status.
    func run() -> Int32 {
        for first in stride(from: 0, to: options.events, by: Self.burst) {
            let burst = first..<min(first + Self.burst, options.events)
            if options.isHeld { executors.whileHeld { record(burst) } } else { record(burst) }
            guard wait({ [analytics] in await analytics.stored() }) == .stored else { return fail("not stored") }
        }
        let account = analytics.status.account
        guard account.stored >= options.events, account.dropped.isEmpty else { return fail("\(account)") }
        print("stored \(account.stored) events")
        guard options.kind == .deliver else { return 0 }
        guard wait({ [analytics] in await analytics.flushed() }) == .delivered else { return fail("not delivered") }
        print("sent \(transport.count) requests")
        return 0
    }

    private func record(_ numbers: Range<Int>) {
        let count = orders.count
        switch options.kind {
        case .typed, .deliver: for number in numbers { recordTyped(orders[number % count]) }
        case .any: for number in numbers { recordAny(orders[number % count]) }
        case .nested: for number in numbers { recordNested(orders[number % count]) }
        }
    }

    private func fail(_ reason: String) -> Int32 {
        FileHandle.standardError.write(Data("counts: \(reason)\n".utf8))
        return 1
    }

    /// Blocks this thread.
    private func wait<Result: Sendable>(_ work: @escaping @Sendable () async -> Result) -> Result? {
        let result = Locked<Result?>(nil)
        let isDone = DispatchSemaphore(value: 0)
        Task.detached {
            let value = await work()
            result.withLock { $0 = value }
            isDone.signal()
        }
        isDone.wait()
        return result.withLock { $0 }
    }
}

// MARK: - The calls, each a function of its own so that profiles name them

extension Workload {
    /// A literal of typed values.
    @inline(never)
    private func recordTyped(_ order: Order) {
        analytics.track(
            name: "Order Completed",
            properties: [
                "order_id": .string(order.id),
                "product": .string(order.product),
                "category": .string(order.category),
                "currency": .string(order.currency),
                "quantity": .int(order.quantity),
                "total": .double(order.total),
                "discount": .double(order.discount),
                "is_first_order": .bool(order.isFirst),
            ])
    }

    /// The same in a dictionary, whose values are of any type.
    @inline(never)
    private func recordAny(_ order: Order) {
        let properties: [String: Any] = [
            "order_id": order.id,
            "product": order.product,
            "category": order.category,
            "currency": order.currency,
            "quantity": order.quantity,
            "total": order.total,
            "discount": order.discount,
            "is_first_order": order.isFirst,
        ]
        analytics.track(name: "Order Completed", properties: properties)
    }

    /// With an array and an object among the values.
    @inline(never)
    private func recordNested(_ order: Order) {
        analytics.track(
            name: "Order Completed",
            properties: [
                "order_id": .string(order.id),
                "product": .string(order.product),
                "quantity": .int(order.quantity),
                "total": .double(order.total),
                "discount": 0.15,
                "is_first_order": false,
                "categories": ["kitchen", "coffee", "sale", "gifts for two"],
                "shipping": ["method": "express", "country": "NL", "city": "Rotterdam", "days": 2],
            ])
    }
}

/// Counts the requests.
private final class CountingTransport: Transport {
    private let system = URLSessionTransport()
    private let number = Locked(0)

    var count: Int { number.withLock { $0 } }
    var preferredBodyBytes: Int? { system.preferredBodyBytes }

    func post(_ request: TransportRequest) async throws -> TransportResponse {
        number.withLock { $0 += 1 }
        return try await system.post(request)
    }
}
