/// What has to hold after the kills: nothing stored is lost, nothing arrives twice but for what a kill explains, order
/// and sessions are right. A value: it knows nothing of processes and servers.
struct Verdict: Equatable, CustomStringConvertible {
    /// An event as it arrived at the data plane.
    struct Arrival {
        /// Which child sent it, from 0 on; a kill lies between two.
        let life: Int
        /// Which request of that child, from 0 on.
        let request: Int
        /// The harness's own number; `nil` on the SDK's own events, on identify and the like.
        let number: Int?
        let messageId: String
        /// All of it but `sentAt`.
        let text: String
        let sessionId: UInt64?
        let isSessionStart: Bool
    }

    let kills: Int
    /// How many numbers were reported as stored.
    private(set) var stored = 0
    /// Reported as stored and never arrived.
    private(set) var lost: [Int] = []
    /// How many copies came beside the first ones, explained or not.
    private(set) var copies = 0
    /// Copies that no kill explains, or that are no copies.
    private(set) var unexplained: [String] = []
    /// Numbers that arrived for the first time after a larger one.
    private(set) var outOfOrder: [Int] = []
    /// Sessions with another number of start marks than one.
    private(set) var sessions: [String] = []

    /// - Parameters:
    ///   - kills: How many there were.
    ///   - stored: The numbers that the children reported as stored.
    ///   - arrivals: In the order of arrival.
    init(kills: Int, stored: [ClosedRange<Int>], arrivals: [Arrival]) {
        self.kills = kills
        countLost(stored, arrivals)
        judgeCopies(arrivals)
        judgeOrder(arrivals)
        judgeSessions(arrivals)
    }

    /// A run in which nothing was stored shows nothing.
    var isGood: Bool {
        stored > 0 && lost.isEmpty && unexplained.isEmpty && outOfOrder.isEmpty && sessions.isEmpty
    }

    var description: String {
        "\(kills) kills, \(stored) stored, \(lost.count) lost, \(unexplained.count) unexplained, "
            + "\(outOfOrder.count) out of order"
    }

    /// What is wrong, for people: the first of each kind.
    var details: [String] {
        var details = unexplained.prefix(10) + sessions.prefix(10)
        if !lost.isEmpty { details.append("lost: \(list(lost))") }
        if !outOfOrder.isEmpty { details.append("out of order: \(list(outOfOrder))") }
        if stored == 0 { details.append("nothing was stored") }
        return Array(details)
    }

    private func list(_ numbers: [Int]) -> String {
        numbers.prefix(10).map { "\($0)" }.joined(separator: ", ") + (numbers.count > 10 ? ", …" : "")
    }
}

// MARK: - The rules

extension Verdict {
    private mutating func countLost(_ ranges: [ClosedRange<Int>], _ arrivals: [Arrival]) {
        let arrived = Set(arrivals.compactMap(\.number))
        for range in ranges {
            stored += range.count
            lost += range.filter { !arrived.contains($0) }
        }
    }

    /// A process that is killed has one request under way at the most, so the next one sends one request again. In the
    /// order of sending, for an old request may be read after the next process has sent its own.
    private mutating func judgeCopies(_ arrivals: [Arrival]) {
        var firsts: [String: Arrival] = [:]
        var idsOfNumbers: [Int: String] = [:]
        var resends: [Int: Set<Int>] = [:]
        let sent = arrivals.enumerated().sorted {
            ($0.element.life, $0.element.request, $0.offset) < ($1.element.life, $1.element.request, $1.offset)
        }
        for arrival in sent.map(\.element) {
            if let number = arrival.number, idsOfNumbers.updateValue(arrival.messageId, forKey: number) != nil,
                firsts[arrival.messageId]?.number != number
            {
                unexplained.append("number \(number) has come with two ids")
            }
            guard let first = firsts[arrival.messageId] else {
                firsts[arrival.messageId] = arrival
                continue
            }
            copies += 1
            let name = "\(arrival.messageId) (number \(arrival.number.map { "\($0)" } ?? "none"))"
            if first.text != arrival.text { unexplained.append("\(name) has come with two contents") }
            if first.life == arrival.life {
                unexplained.append("\(name) was sent twice by process \(arrival.life)")
                continue
            }
            resends[arrival.life, default: []].insert(arrival.request)
            if resends[arrival.life]?.count ?? 0 > 1 {
                unexplained.append("\(name) was in a second request that process \(arrival.life) sent again")
            }
        }
    }

    private mutating func judgeOrder(_ arrivals: [Arrival]) {
        var known: Set<Int> = []
        var largest = Int.min
        for number in arrivals.compactMap(\.number) where known.insert(number).inserted {
            if number < largest { outOfOrder.append(number) }
            largest = max(largest, number)
        }
    }

    private mutating func judgeSessions(_ arrivals: [Arrival]) {
        var known: Set<String> = []
        var starts: [UInt64: Int] = [:]
        for arrival in arrivals where known.insert(arrival.messageId).inserted {
            guard let session = arrival.sessionId else { continue }
            starts[session, default: 0] += arrival.isSessionStart ? 1 : 0
        }
        for (session, count) in starts.sorted(by: { $0.key < $1.key }) where count != 1 {
            sessions.append("session \(session) has \(count) start marks")
        }
    }
}
