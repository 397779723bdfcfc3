import Tiller
import TillerTesting

extension Ledger {
    /// The account balances at every moment at which nothing is being done.
    ///
    /// - Parameter faults: The disk's count of failures.
    mutating func judge(_ account: Account, _ stored: StoredAccount?, of life: Int, faults: Int) {
        noteRefused(account, of: life)
        if let stored { note(stored) }
        let now = lives[life]
        let isWell = faults == now.faultsBefore
        if account.inMemory < 0 { complain("\(account.inMemory) events are in memory") }
        if account.dropped[.plugin("WitnessPlugin"), default: 0] != now.dropped {
            complain("the account has other drops than \(now.dropped) by the plugin: \(account.dropped)")
        }
        if account.dropped[.tooLarge, default: 0] != now.tooLarge {
            complain("the account has other drops than \(now.tooLarge) for their size: \(account.dropped)")
        }
        let gone = now.dropped + now.tooLarge + account.dropped[.queueFull, default: 0]
        if account.recorded - gone != now.survivors.count {
            complain("\(account.recorded) were recorded, \(gone) are gone, \(now.survivors.count) have passed")
        }
        if now.isDurable, isWell, !now.isShutDown, account.stored != now.survivors.count {
            complain("\(account.stored) of \(now.survivors.count) events are stored, and the disk is well")
        }
        if let stored, let opening = now.opening, !now.isShutDown {
            judge(account, stored, since: opening, of: now, isWell: isWell)
        }
        settle(faults: faults)
    }

    private mutating func judge(
        _ account: Account, _ stored: StoredAccount, since opening: StoredAccount, of life: Life, isWell: Bool
    ) {
        // What could not be read at the opening comes to it later.
        if isWell, stored.stored != opening.stored + account.stored {
            complain("\(stored) does not come of \(opening) and \(account.stored) more")
        }
        let delivered = stored.delivered - opening.delivered + account.delivered
        let evicted = stored.evicted - opening.evicted
        if delivered > life.answered || delivered < life.answered - evicted {
            complain("\(delivered) were delivered by the account, \(life.answered) were answered, \(evicted) evicted")
        }
    }

    /// How many events are gone by the account: the store's, and what was refused before the disk had it.
    mutating func givenUp(_ account: Account, of life: Int) -> Int {
        noteRefused(account, of: life)
        return (account.store.map { $0.evicted + $0.damaged + $0.refused } ?? 0) + refusedInMemory
    }

    private mutating func noteRefused(_ account: Account, of life: Int) {
        change(life) { $0.refusedInMemory = account.dropped[.refused, default: 0] }
    }

    /// A request is what it should be, and no storm of them breaks out.
    mutating func judgeRequest(
        _ posted: SimulatedDataPlane.Posted, body: [UInt8], events: PostedEvents, limits: Limits, at now: Duration
    ) {
        let events = events.events
        if events.isEmpty { complain("a request without events was posted") }
        if events.count > 1, body.count > limits.batchBytes {
            complain("a body of \(body.count) bytes was posted")
        }
        let isGood = posted.course.answer.map { (200..<300).contains($0.status) } ?? false
        guard !isGood else { return }
        failedAt.removeAll { $0 <= now - .seconds(3_600) }
        failedAt.append(now)
        let instant = failedAt.reversed().prefix { $0 == now }.count
        // A refused batch is halved until its culprits are found.
        if instant > 40 + 2 * events.count { complain("\(instant) requests failed at one instant") }
        if failedAt.count > 600 { complain("\(failedAt.count) requests failed within an hour") }
    }

    /// A live process is told what came of its request.
    mutating func answer(_ posted: SimulatedDataPlane.Posted, faults: Int) {
        let isTaken = posted.course.arrives && posted.course.answer?.status == 200
        guard isTaken else { return change(posted.life) { $0.failures += 1 } }
        answer(PostedEvents(in: posted.request.plainBody).numbers, of: posted.life, faults: faults)
    }
}

extension Account {
    /// Events of a process with the disk that a kill takes nothing from.
    var safe: Int { stored + delivered + dropped[.refused, default: 0] }
}
