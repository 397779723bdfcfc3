import Foundation
import Tiller
import TillerTesting

/// What is known of the processes of one folder and of what has arrived from them. From any thread.
final class Ledger: Sendable {
    private struct State: Sendable {
        var evidence = Verdict.Evidence()
        /// The first number that no process of a series can have given.
        var next: [Int: Int] = [:]
        var lives = 0
        var faults: [String] = []
        var exchanges = 0
    }

    private let state = Locked(State())
    private let processes: Int

    /// So many numbers a series has at the most.
    private static let seriesSize = 1_000_000_000

    /// - Parameter processes: How many use the folder at the same time.
    init(processes: Int) { self.processes = processes }

    /// What the verdict is about.
    var evidence: Verdict.Evidence { state.withLock { $0.evidence } }

    /// What went wrong beside it.
    var faults: [String] { state.withLock { $0.faults } }

    func note(fault: String) { state.withLock { $0.faults.append(fault) } }

    // MARK: Processes

    /// A process of a series is about to start.
    ///
    /// - Returns: Which it is of all, and the first number that it gives.
    func begin(series: Int) -> (life: Int, first: Int) {
        state.withLock { state in
            defer { state.lives += 1 }
            return (state.lives, state.next[series] ?? series * Self.seriesSize + 1)
        }
    }

    func note(_ reports: [Report], life: Int, series: Int, first: Int) {
        state.withLock { state in
            for report in reports {
                switch report {
                case .records(let last): state.next[series] = last + 1
                case .stored(let last): state.evidence.stored[life] = first...last
                case .delivered(let last):
                    let known = series * Self.seriesSize...last
                    state.evidence.acknowledged.append(
                        .init(life: life, numbers: known, arrivals: state.evidence.arrivals.count))
                case .waiting(let count):
                    if count > 0 { state.faults.append("\(count) events are still waiting at the end") }
                }
            }
        }
    }

    func noteKill(life: Int) { state.withLock { _ = $0.evidence.killed.insert(life) } }

    // MARK: What arrives

    /// A request has been judged.
    func note(_ exchange: LocalDataPlane.Exchange) {
        guard let sender = exchange.request?.headers["AnonymousId"].flatMap({ Sender($0) }) else { return }
        let events = exchange.events.map { event in
            var json = event.json
            json["sentAt"] = nil
            return (event, JSONValue.object(json).description.hashValue)
        }
        let isHidden = exchange.fault?.hidesStoring ?? false
        state.withLock { state in
            state.exchanges += 1
            if exchange.fault != nil { state.evidence.faultCount += 1 }
            let last = state.evidence.lastRequests[sender.life] ?? 0
            state.evidence.lastRequests[sender.life] = max(last, sender.request)
            state.evidence.arrivals += events.map { event, hash in
                Verdict.Arrival(
                    life: sender.life, request: sender.request, exchange: state.exchanges, isHidden: isHidden,
                    number: event.properties["number"]?.int.map { Int($0) },
                    writer: processes == 1 ? 0 : event.properties["life"]?.int.map { Int($0) } ?? 0,
                    messageId: event.messageId ?? "", contents: hash, sessionId: event.sessionId,
                    isSessionStart: event.isSessionStart)
            }
        }
    }
}
