import Foundation

/// Turns values of any type into JSON. A value that has no JSON form becomes `null` and is noted.
struct JSONConversion {
    /// A value that became `null`.
    struct Problem: Sendable, Hashable {
        /// What it was: a type's name, or a reason.
        let reason: String
    }

    private(set) var problems: [Problem] = []

    mutating func object(_ values: [String: Any]) -> JSONObject {
        JSONObject(distinct: values.sorted { $0.key < $1.key }.map { ($0.key, value($0.value)) })
    }

    mutating func value(_ value: Any) -> JSONValue {
        problems.append(Problem(reason: "\(type(of: value))"))
        return .null
    }
}

extension JSONObject {
    /// An object of values of any type, its keys sorted; see `JSONValue.init(any:)`.
    ///
    /// - Parameter values: What has no JSON form becomes `null`.
    public init(_ values: [String: Any]) {
        var conversion = JSONConversion()
        self = conversion.object(values)
    }
}

extension JSONValue {
    /// A value of any type as JSON.
    ///
    /// - Parameter value: What has no JSON form becomes `null`.
    public init(any value: Any) {
        var conversion = JSONConversion()
        self = conversion.value(value)
    }
}
