import Foundation
import Tiller

/// An instance as an app has it, on a folder of its own, whose events stay there: no flush policy, no network.
struct Bench {
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    let analytics: Analytics
    /// Beside the executable, and so below `.build`.
    private let folder = Bundle.main.bundleURL.appendingPathComponent("benchmark-\(UUID().uuidString)")

    init() throws {
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        analytics = Analytics(
            configuration: Configuration(
                writeKey: "benchmark", dataPlaneUrl: "https://data.example.com", flushPolicies: [], logLevel: .none,
                storage: .folder(folder), transport: Offline(),
                application: ApplicationInfo(
                    name: "Benchmark", version: "1.0", build: "1", namespace: "com.example.benchmark"),
                // Room for all events, so that none is given up.
                limits: Limits(storageBytes: 1_000_000_000)))
    }

    /// Two texts of an event that are known at run time only.
    static func names(of number: Int) -> (order: String, product: String) {
        let order = "order-2026-\(1_000_000 + number)"
        let product = "Espresso machine, model \(number % 1_000), two cups, stainless steel"
        return (order, product)
    }

    /// An event of eight properties, 800 to 900 bytes of JSON with the context.
    func track(order: String, product: String, _ number: Int) {
        let quantity = Int64(number % 7 + 1)
        let total = Double(quantity) * 129.5
        analytics.track(
            name: "Order Completed",
            properties: [
                "order_id": .string(order),
                "product": .string(product),
                "quantity": .int(quantity),
                "total": .double(total),
                "discount": 0.15,
                "is_first_order": false,
                "categories": ["kitchen", "coffee", "sale", "gifts for two"],
                "shipping": ["method": "express", "country": "NL", "city": "Rotterdam", "days": 2],
            ])
    }

    /// Ends the instance and removes its folder.
    ///
    /// - Parameter count: How many events were recorded.
    /// - Returns: How many bytes are stored.
    /// - Throws: If not every one of them is stored, and no others.
    func end(expecting count: Int) async throws -> Int {
        defer { try? FileManager.default.removeItem(at: folder) }
        guard await analytics.stored() == .stored else { throw Failure(description: "The events were not stored") }
        let bytes = try storedBytes()
        let waiting = await analytics.shutdownAndWait()
        guard waiting == count else { throw Failure(description: "\(waiting) of \(count) events were stored") }
        return bytes
    }

    private func storedBytes() throws -> Int {
        try FileManager.default.subpathsOfDirectory(atPath: folder.path).reduce(0) { sum, path in
            let attributes = try FileManager.default.attributesOfItem(atPath: folder.path + "/" + path)
            guard attributes[.type] as? FileAttributeType == .typeRegular else { return sum }
            return sum + (attributes[.size] as? Int ?? 0)
        }
    }
}

/// The way to a data plane that is out of reach: an instance that ends tries it once.
private struct Offline: Transport {
    func post(_ request: TransportRequest) async throws -> TransportResponse {
        throw Bench.Failure(description: "offline")
    }
}
