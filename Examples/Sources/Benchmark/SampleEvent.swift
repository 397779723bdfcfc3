import Tiller

/// The event that is measured with: eight mixed properties, 800 to 900 bytes of JSON with its context.
struct SampleEvent: Sendable {
    static let name = "Order Completed"

    /// Two texts that are known at run time only.
    let order: String
    let product: String
    let number: Int

    init(_ number: Int) {
        self.number = number
        order = "order-2026-\(1_000_000 + number)"
        product = "Espresso machine, model \(number), two cups, stainless steel"
    }

    /// Made before anything is measured; the events of one request all differ.
    static let samples = (0..<1_000).map(SampleEvent.init)

    static subscript(_ number: Int) -> SampleEvent { samples[number % samples.count] }

    /// A literal of typed values.
    @inline(__always)
    var typed: JSONObject {
        let quantity = Int64(number % 7 + 1)
        return [
            "order_id": .string(order),
            "product": .string(product),
            "quantity": .int(quantity),
            "total": .double(Double(quantity) * 129.5),
            "discount": 0.15,
            "is_first_order": false,
            "categories": ["kitchen", "coffee", "sale", "gifts for two"],
            "shipping": ["method": "express", "country": "NL", "city": "Rotterdam", "days": 2],
        ]
    }

    /// The same, of values of any type.
    @inline(__always)
    var untyped: [String: Any] {
        let quantity = number % 7 + 1
        return [
            "order_id": order,
            "product": product,
            "quantity": quantity,
            "total": Double(quantity) * 129.5,
            "discount": 0.15,
            "is_first_order": false,
            "categories": ["kitchen", "coffee", "sale", "gifts for two"],
            "shipping": ["method": "express", "country": "NL", "city": "Rotterdam", "days": 2] as [String: Any],
        ]
    }
}

// MARK: - The call

/// Not inlined: what happens in these, and only there, is the caller's, and can be counted by its name.
extension SampleEvent {
    /// One call with a literal of typed values.
    @inline(never)
    func trackTyped(_ analytics: Analytics) { analytics.track(name: Self.name, properties: typed) }

    /// One call with values of any type.
    @inline(never)
    func trackUntyped(_ analytics: Analytics) { analytics.track(name: Self.name, properties: untyped) }

    /// As `trackUntyped`, with a dictionary that there was before.
    @inline(never)
    static func track(_ values: [String: Any], _ analytics: Analytics) {
        analytics.track(name: name, properties: values)
    }
}
