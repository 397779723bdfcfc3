import Tiller
import TillerTesting

/// What happened in a scenario, for people.
struct SessionTable {
    private let scenario: SessionScenario
    private let outcome: SessionScenario.Outcome

    init(_ scenario: SessionScenario, _ outcome: SessionScenario.Outcome) {
        self.scenario = scenario
        self.outcome = outcome
    }

    var text: String {
        let settings = scenario.settings
        var lines = [
            scenario.name,
            "  automatic \(settings.isAutomatic ? "on" : "off"), timeout \(duration(settings.timeout)), "
                + "background \(settings.background.rawValue)",
        ]
        let width = max(24, outcome.rows.map { $0.text.count }.max() ?? 0)
        lines.append("  " + padded("time", 12) + padded("what happens", width + 2) + "session")
        for row in outcome.rows { lines.append(line(row, width)) }
        if let failure = outcome.failure { lines.append("  stopped: \(failure.step): \(failure.seen)") }
        for (label, id) in outcome.sessions { lines.append("  \(label) is \(id)") }
        return lines.joined(separator: "\n") + "\n"
    }

    private func line(_ row: SessionScenario.Row, _ width: Int) -> String {
        let time = row.isEmission ? "" : "+" + duration(UInt64(row.time.components.seconds) * 1_000 + milliseconds(row))
        let text = row.isEmission ? "  " + row.text : withoutTime(row.text)
        var line = "  " + padded(time, 12) + padded(text, width + 2)
        if let seen = row.seen { line += words(for: seen) }
        while line.last == " " { line.removeLast() }
        return line
    }

    private func words(for seen: SessionScenario.Expectation) -> String {
        switch seen {
        case .none: "no session"
        case .dropped: "does not arrive"
        case .carries(let session, let starts): session + (starts ? ", its first event" : "")
        }
    }

    /// Steps of a file begin with their time, which has a column of its own.
    private func withoutTime(_ text: String) -> String {
        guard text.hasPrefix("+") else { return text }
        return String(text.drop { $0 != " " }.drop { $0 == " " })
    }

    private func milliseconds(_ row: SessionScenario.Row) -> UInt64 {
        UInt64(row.time.components.attoseconds / 1_000_000_000_000_000)
    }

    /// As scenarios write it: `5m11s`.
    private func duration(_ milliseconds: UInt64) -> String {
        var rest = milliseconds
        var text = ""
        for (unit, scale) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)]
            as [(String, UInt64)]
        {
            if rest >= scale { text += "\(rest / scale)\(unit)" }
            rest %= scale
        }
        return text.isEmpty ? "0s" : text
    }

    private func padded(_ text: String, _ width: Int) -> String {
        text + String(repeating: " ", count: max(1, width - text.count))
    }
}
