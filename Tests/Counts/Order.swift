/// What an event tells, made before anything is counted. All texts are longer than what a `String` holds without memory of
/// its own, but for the currency. A class: a copy of its texts would be counted as the call's.
final class Order: Sendable {
    let id: String
    let product: String
    let category: String
    let currency: String
    let quantity: Int64
    let total: Double
    let discount: Double
    let isFirst: Bool

    private init(_ number: Int) {
        id = "order-2026-\(1_000_000 + number)"
        product = "Espresso machine, model \(100 + number % 900), two cups, stainless steel"
        category = "kitchen and household, shelf \(10 + number % 90)"
        currency = number % 2 == 0 ? "EUR" : "USD"
        quantity = Int64(number % 7 + 1)
        total = Double(quantity) * 129.5
        discount = Double(number % 20) / 100
        isFirst = number % 3 == 0
    }

    /// In every run as many, however many events are recorded: what it takes to make them must not differ.
    static let prepared = (0..<1_000).map { Order($0) }
}
