import Tiller
import TillerTesting

/// What a data plane received, session by session, with what was happening.
struct Timeline {
    private var reasons: [String] = []

    /// Says why the next session begins.
    mutating func note(_ reason: String) { reasons.append(reason) }

    func text(of events: [LocalDataPlane.ReceivedEvent]) -> String {
        var lines: [String] = []
        var reasons = reasons[...]
        var session: UInt64?
        for (index, event) in events.enumerated() {
            if index == 0 || event.sessionId != session {
                session = event.sessionId
                let name = session.map { "session \($0)" } ?? "no session"
                lines.append("\(name): \(reasons.popFirst() ?? "")")
            }
            lines.append(line(event))
        }
        lines.append("\(events.count) events in \(Set(events.compactMap(\.sessionId)).count) sessions\n")
        if let event = events.first { lines.append("the first one as it was sent: \(event.json)\n") }
        return lines.joined(separator: "\n")
    }

    private func line(_ event: LocalDataPlane.ReceivedEvent) -> String {
        let time = event.json["originalTimestamp"]?.string?.dropFirst(11).dropLast() ?? ""
        let user = event.userId ?? "anonymous"
        let mark = event.isSessionStart ? "▶" : " "
        return "  \(mark) \(time)  \(padded(event.type ?? "", 9))\(padded(event.name ?? "", 26))\(user)"
    }

    private func padded(_ text: String, _ width: Int) -> String {
        text + String(repeating: " ", count: max(1, width - text.count))
    }
}
