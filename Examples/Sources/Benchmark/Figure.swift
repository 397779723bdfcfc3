import Foundation

/// One number of a workload.
struct Figure: Encodable {
    let workload: String
    let metric: String
    var value: Double
    let unit: String

    init(_ workload: String, _ metric: String, _ value: Double, _ unit: String) {
        self.workload = workload
        self.metric = metric
        self.value = value
        self.unit = unit
    }

    /// Runs a workload so many times: each figure is the median of its values.
    static func medians(ofRuns count: Int, _ run: () async throws -> [Figure]) async rethrows -> [Figure] {
        var runs: [[Figure]] = []
        for _ in 0..<count { runs.append(try await run()) }
        return runs[0].indices.map { index in
            var median = runs[0][index]
            median.value = runs.map { $0[index].value }.sorted()[count / 2]
            return median
        }
    }

    /// `[{"metric":…,"unit":…,"value":…,"workload":…}]`
    static func json(_ figures: [Figure]) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        return String(decoding: try encoder.encode(figures), as: UTF8.self)
    }

    /// Lines of columns.
    static func table(_ figures: [Figure]) -> String {
        let rows =
            [["workload", "metric", "value", "unit"]]
            + figures.map { figure in
                let digits = figure.value < 100 ? 3 : 0
                return [figure.workload, figure.metric, String(format: "%.\(digits)f", figure.value), figure.unit]
            }
        let widths = (0..<4).map { column in rows.map { $0[column].count }.max() ?? 0 }
        return rows.map { row in
            let columns = zip(row, widths).enumerated().map { column, cell in
                let padding = String(repeating: " ", count: cell.1 - cell.0.count)
                return column == 2 ? padding + cell.0 : column == 3 ? cell.0 : cell.0 + padding
            }
            return columns.joined(separator: "  ")
        }.joined(separator: "\n")
    }
}
