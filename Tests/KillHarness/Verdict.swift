/// What has to hold after the kills: nothing stored is lost, nothing arrives twice but for what a kill or a lost answer
/// explains, order and sessions are right, the account balances. A value: it knows nothing of processes and servers.
struct Verdict: Equatable, CustomStringConvertible {
    /// An event as it arrived at the data plane.
    struct Arrival: Sendable {
        /// Which process sent it, from 0 on.
        let life: Int
        /// Which request of that process, from 0 on.
        let request: Int
        /// Which request of all at the data plane: the system's client may send one again by itself.
        let exchange: Int
        /// Whether the answer was lost, though the event was stored.
        var isHidden = false
        /// The harness's own number; `nil` on the SDK's own events, on identify and the like.
        let number: Int?
        /// Whose order it belongs to.
        var writer = 0
        let messageId: String
        /// Stands for all of it but `sentAt`.
        let contents: Int
        let sessionId: UInt64?
        let isSessionStart: Bool
    }

    /// What a process said: these are delivered, and that is written down.
    struct Acknowledged: Sendable {
        let life: Int
        let numbers: ClosedRange<Int>
        /// How many events had arrived until then.
        let arrivals: Int
    }

    /// What the store says at the end.
    struct Account: Sendable, Equatable {
        var delivered = 0
        var waiting = 0
        var refused = 0
        var evicted = 0
        var damaged = 0
    }

    /// All that is judged.
    struct Evidence: Sendable {
        /// The processes that were killed.
        var killed: Set<Int> = []
        /// The numbers that each process reported as stored.
        var stored: [Int: ClosedRange<Int>] = [:]
        var acknowledged: [Acknowledged] = []
        /// In the order of arrival.
        var arrivals: [Arrival] = []
        /// The last request of each process, stored or not.
        var lastRequests: [Int: Int] = [:]
        /// How many requests met a fault.
        var faultCount = 0
        /// `nil`: it could not be read.
        var account: Account?
    }

    private(set) var kills = 0
    /// How many numbers were reported as stored.
    private(set) var stored = 0
    /// Reported as stored and never arrived.
    private(set) var lost: [Int] = []
    /// How many copies came beside the first ones, explained or not.
    private(set) var copies = 0
    /// Copies that nothing explains, or that are no copies.
    private(set) var unexplained: [String] = []
    /// Numbers that arrived for the first time after a larger one of the same writer.
    private(set) var outOfOrder: [Int] = []
    /// Sessions with another number of start marks than one.
    private(set) var sessions: [String] = []
    /// What is wrong with the account.
    private(set) var account: [String] = []

    /// A verdict on nothing, to add others to.
    init() {}

    /// - Parameter isOneAtATime: No two processes of the folder lived at the same time.
    init(_ evidence: Evidence, isOneAtATime: Bool = true) {
        kills = evidence.killed.count
        countLost(evidence)
        judgeCopies(evidence, isOneAtATime)
        judgeOrder(evidence.arrivals)
        judgeSessions(evidence.arrivals)
        judgeAccount(evidence)
    }

    /// A run in which nothing was stored shows nothing.
    var isGood: Bool {
        stored > 0 && lost.isEmpty && unexplained.isEmpty && outOfOrder.isEmpty && sessions.isEmpty && account.isEmpty
    }

    var description: String {
        "\(kills) kills, \(stored) stored, \(lost.count) lost, \(unexplained.count) unexplained, "
            + "\(outOfOrder.count) out of order"
    }

    /// What is wrong, for people: the first of each kind.
    var details: [String] {
        var details = unexplained.prefix(10) + sessions.prefix(10) + account
        if !lost.isEmpty { details.append("lost: \(list(lost))") }
        if !outOfOrder.isEmpty { details.append("out of order: \(list(outOfOrder))") }
        if stored == 0 { details.append("nothing was stored") }
        return Array(details)
    }

    private func list(_ numbers: [Int]) -> String {
        numbers.prefix(10).map { "\($0)" }.joined(separator: ", ") + (numbers.count > 10 ? ", …" : "")
    }

    /// Adds what was found elsewhere.
    mutating func add(_ other: Verdict) {
        kills += other.kills
        stored += other.stored
        lost += other.lost
        copies += other.copies
        unexplained += other.unexplained
        outOfOrder += other.outOfOrder
        sessions += other.sessions
        account += other.account
    }
}

// MARK: - The rules

extension Verdict {
    private mutating func countLost(_ evidence: Evidence) {
        let arrived = Set(evidence.arrivals.compactMap(\.number))
        for (_, range) in evidence.stored.sorted(by: { $0.key < $1.key }) {
            stored += range.count
            lost += range.filter { !arrived.contains($0) }
        }
    }

    /// A request is sent again only if its sender can't know that it was stored: the answer was lost, or it is the last
    /// one of a process that was killed. Of those that brought an event, that holds for all but the last.
    private mutating func judgeCopies(_ evidence: Evidence, _ isOneAtATime: Bool) {
        var bringers: [String: [(offset: Int, arrival: Arrival)]] = [:]
        var idsOfNumbers: [Int: String] = [:]
        for (offset, arrival) in evidence.arrivals.enumerated() {
            bringers[arrival.messageId, default: []].append((offset, arrival))
            guard let number = arrival.number else { continue }
            if let known = idsOfNumbers.updateValue(arrival.messageId, forKey: number), known != arrival.messageId {
                unexplained.append("number \(number) has come with two ids")
            }
        }
        for arrivals in bringers.values where arrivals.count > 1 {
            copies += arrivals.count - 1
            // Of one process after the other the order of sending is known: an old request may be read after the next
            // process has sent its own.
            let sent =
                isOneAtATime ? arrivals.sorted { $0.arrival.isBefore($1.arrival, $0.offset < $1.offset) } : arrivals
            judge(sent, evidence)
        }
        unexplained.sort()
    }

    private mutating func judge(_ sent: [(offset: Int, arrival: Arrival)], _ evidence: Evidence) {
        let first = sent[0].arrival
        let name = "\(first.messageId) (number \(first.number.map { "\($0)" } ?? "none"))"
        if sent.contains(where: { $0.arrival.contents != first.contents || $0.arrival.number != first.number }) {
            unexplained.append("\(name) has come with two contents")
        }
        for (earlier, later) in zip(sent, sent.dropFirst()) {
            let sender = earlier.arrival
            if sender.exchange == later.arrival.exchange {
                unexplained.append("\(name) was twice in one request of process \(sender.life)")
            } else if !evidence.canNotKnow(sender) {
                unexplained.append(
                    "\(name) was sent again by process \(later.arrival.life), "
                        + "though process \(sender.life) had its answer to request \(sender.request)")
            }
            guard let number = first.number else { continue }
            let heard = evidence.acknowledged.first { acknowledged in
                acknowledged.life < later.arrival.life && acknowledged.arrivals <= later.offset
                    && acknowledged.numbers.contains(number)
            }
            if let heard {
                unexplained.append(
                    "\(name) was sent again by process \(later.arrival.life), "
                        + "though process \(heard.life) had written down that it was delivered")
            }
        }
    }

    private mutating func judgeOrder(_ arrivals: [Arrival]) {
        var known: Set<Int> = []
        var largest: [Int: Int] = [:]
        for arrival in arrivals {
            guard let number = arrival.number, known.insert(number).inserted else { continue }
            let before = largest[arrival.writer] ?? .min
            if number < before { outOfOrder.append(number) }
            largest[arrival.writer] = max(before, number)
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

    /// Everything that was ever stored has arrived and was counted as delivered, once.
    private mutating func judgeAccount(_ evidence: Evidence) {
        guard let found = evidence.account else {
            account.append("the account could not be read")
            return
        }
        let right = Account(delivered: Set(evidence.arrivals.map(\.messageId)).count)
        if found != right {
            account.append(
                "the account says \(found.delivered) delivered, \(found.waiting) waiting, \(found.refused) refused, "
                    + "\(found.evicted) evicted, \(found.damaged) damaged; \(right.delivered) have arrived")
        }
    }
}

extension Verdict.Arrival {
    /// - Parameter breaksTie: For two that the sender gave the same number.
    fileprivate func isBefore(_ other: Self, _ breaksTie: Bool) -> Bool {
        (life, request) == (other.life, other.request) ? breaksTie : (life, request) < (other.life, other.request)
    }
}

extension Verdict.Evidence {
    /// Whether the sender of an event can't know that it was stored.
    fileprivate func canNotKnow(_ arrival: Verdict.Arrival) -> Bool {
        if arrival.isHidden { return true }
        return killed.contains(arrival.life) && arrival.request >= lastRequests[arrival.life] ?? 0
    }
}
