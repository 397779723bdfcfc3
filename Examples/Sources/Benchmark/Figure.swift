import Foundation

/// One number of a workload.
struct Figure: Encodable {
    let workload: String
    let metric: String
    var value: Double
    let unit: String
    /// What the machine takes for the least that must be done, in the same unit, measured in the same run; `nil` where there is
    /// no such thing.
    var floor: Double?

    init(_ workload: String, _ metric: String, _ value: Double, _ unit: String, floor: Double? = nil) {
        self.workload = workload
        self.metric = metric
        self.value = value
        self.unit = unit
        self.floor = floor
    }

    private enum CodingKeys: CodingKey { case workload, metric, value, unit, floor }

    /// A floor that is missing is `null`, not left out.
    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(workload, forKey: .workload)
        try container.encode(metric, forKey: .metric)
        try container.encode(value, forKey: .value)
        try container.encode(unit, forKey: .unit)
        try container.encode(floor, forKey: .floor)
    }
}

// MARK: - Several runs

extension Figure {
    /// Runs a workload so many times: each figure, and each floor, is the median of its values.
    static func medians(ofRuns count: Int, _ run: () async throws -> [Figure]) async rethrows -> [Figure] {
        var runs: [[Figure]] = []
        for _ in 0..<count { runs.append(try await run()) }
        return runs[0].indices.map { index in
            var median = runs[0][index]
            median.value = runs.map { $0[index].value }.median
            let floors = runs.compactMap { $0[index].floor }
            median.floor = floors.isEmpty ? nil : floors.median
            return median
        }
    }
}

extension [Double] {
    var median: Double {
        let sorted = sorted()
        return (sorted[(count - 1) / 2] + sorted[count / 2]) / 2
    }
}

// MARK: - Text

extension Figure {
    /// `[{"floor":…,"metric":…,"unit":…,"value":…,"workload":…}]`
    static func json(_ figures: [Figure]) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        return String(decoding: try encoder.encode(figures), as: UTF8.self)
    }

    /// Lines of columns; the last one is the value as a multiple of the floor.
    static func table(_ figures: [Figure]) -> String {
        let rows = [["workload", "metric", "value", "unit", "floor", "multiple"]] + figures.map(\.row)
        let widths = rows[0].indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
        let numbers: Set = [2, 4, 5]
        return rows.map { row in
            let cells = zip(row, widths).enumerated().map { column, cell in
                let padding = String(repeating: " ", count: cell.1 - cell.0.count)
                return numbers.contains(column) ? padding + cell.0 : cell.0 + padding
            }
            return cells.joined(separator: "  ")
        }.joined(separator: "\n")
    }

    private var row: [String] {
        let multiple = floor.map { $0 == 0 ? "" : "x " + Self.text(value / $0) } ?? ""
        return [workload, metric, Self.text(value), unit, floor.map(Self.text) ?? "", multiple]
    }

    private static func text(_ value: Double) -> String {
        String(format: "%.\(abs(value) < 10 ? 3 : abs(value) < 100 ? 2 : 0)f", value)
    }
}
