import Tiller
import TillerTesting

/// What a data plane received, session by session.
struct Timeline {
    private let events: [LocalDataPlane.ReceivedEvent]

    init(_ events: [LocalDataPlane.ReceivedEvent]) { self.events = events }

    var text: String {
        var lines: [String] = []
        var session: UInt64?
        for (index, event) in events.enumerated() {
            if index == 0 || event.sessionId != session {
                session = event.sessionId
                lines.append(session.map { "session \($0)" } ?? "no session")
            }
            lines.append(line(event))
        }
        lines.append("\(events.count) events in \(Set(events.compactMap(\.sessionId)).count) sessions")
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
