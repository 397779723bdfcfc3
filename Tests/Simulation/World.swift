import Tiller
import TillerTesting

/// One seed's run: a disk, a data plane, clocks, and one process after the other, all on the caller's thread.
final class World {
    let seed: UInt64
    let plan: Plan
    let trace = Trace()
    let time = VirtualTime()
    let ledger = Locked(Ledger())
    let executors: SimulatedExecutors
    let disk: SimulatedDisk
    let plane: SimulatedDataPlane
    var random: SeededRandom
    var process: Process?
    /// What the store held at the end of the last life, and how many events may be there beside.
    var lastStored: (count: Int, more: Int) = (0, 0)
    /// A power cut has taken some of it, or a file was damaged.
    var mayBeLess = false

    init(seed: UInt64) {
        self.seed = seed
        random = SeededRandom(seed: seed, stream: 0)
        plan = Plan(&random)
        executors = SimulatedExecutors(random: SeededRandom(seed: seed, stream: 1))
        disk = SimulatedDisk(random: SeededRandom(seed: seed, stream: 2))
        plane = SimulatedDataPlane(
            random: SeededRandom(seed: seed, stream: 3), time: time,
            didPost: { [ledger, time, trace, plan, disk] posted in
                let body = posted.request.plainBody
                let events = PostedEvents(in: body)
                trace.note("    posts \(posted.id): \(events.numbers), \(posted.course.summary)")
                let faults = disk.faultCount
                ledger.withLock { ledger in
                    // Before it sends another, a process writes down what it was told.
                    ledger.settle(faults: faults)
                    ledger.judgeRequest(posted, body: body, events: events, limits: plan.limits, at: time.now)
                    ledger.noteDisk(faults: faults, of: posted.life)
                    if posted.course.arrives { ledger.arrive(events, from: posted.life, at: time.instant) }
                    ledger.noteAttempt(events)
                }
            },
            didAnswer: { [ledger, trace, disk] posted in
                let faults = disk.faultCount
                trace.note("    is told of \(posted.id)")
                ledger.withLock { $0.answer(posted, faults: faults) }
            })
    }

    /// What came of it.
    struct Outcome: Sendable {
        let seed: UInt64
        let faults: [String]
        let events: Int
        let copies: Int
        let trace: [String]
    }

    func run() -> Outcome {
        trace.note("seed \(seed): \(plan.summary)")
        for life in 0..<plan.lives where isGood { runLife(isLast: life == plan.lives - 1) }
        if isGood { heal() }
        if process != nil { kill() }
        let (faults, events, copies) = ledger.withLock { ($0.faults, $0.entries.count, $0.copies) }
        for fault in faults { trace.note("BROKEN: \(fault)") }
        return Outcome(seed: seed, faults: faults, events: events, copies: copies, trace: trace.lines)
    }

    var isGood: Bool { ledger.withLock { $0.faults.isEmpty } }

    func complain(_ fault: String) {
        trace.note("broken: \(fault)")
        ledger.withLock { $0.complain(fault) }
    }
}

// MARK: - One thing after the other

extension World {
    var isAlive: Bool { process?.disk.map { disk.isAlive($0.id) } ?? false }

    /// Runs what there is to run, and answers what is to be answered now.
    ///
    /// - Parameter limit: No more than so much.
    /// - Returns: Whether nothing is left.
    @discardableResult func work(atMost limit: Int = .max) -> Bool {
        let bound = 200_000
        for count in 0..<min(limit, bound) {
            if process != nil, !isAlive { break }
            if count % 64 == 63, !isGood { break }
            if count % 64 == 63 || executors.isQuiet, plane.answerNext() { continue }
            if !executors.runNext() {
                atQuiet()
                return true
            }
        }
        if limit >= bound, isGood, process == nil || isAlive {
            complain("it never comes to rest")
        }
        return false
    }

    /// Lets time pass, and everything happen that falls into it.
    func advance(by duration: Duration) {
        let end = time.now + duration
        var (instant, rounds) = (time.now, 0)
        while isAlive, isGood {
            work()
            guard isAlive, isGood else { return }
            (instant, rounds) = (time.now, instant == time.now ? rounds + 1 : 0)
            if rounds > 1_000 { return complain("a thousand timers ended at one instant") }
            let answer = plane.nextAnswer.map { min($0, end) } ?? end
            if !time.runNextTimer(upTo: answer) {
                time.advance(to: answer)
                if answer == end, plane.nextAnswer.map({ $0 > end }) ?? true { break }
            }
        }
        work()
    }

    /// What holds whenever nothing is being done.
    private func atQuiet() {
        guard let process, isAlive, let analytics = process.analytics else { return }
        let account = analytics.account
        let stored = analytics.account.store
        let faults = disk.faultCount
        ledger.withLock { ledger in
            if stored != nil { ledger.noteStored(account.safe, of: process.life) }
            ledger.judge(account, stored, of: process.life, faults: faults)
        }
        for fault in ledger.withLock({ $0.faults }) { trace.note("broken: \(fault)") }
    }
}

// MARK: - Processes

extension World {
    /// - Parameter dyingAfter: After so many operations of the disk.
    func begin(isInForeground: Bool, dyingAfter: Int? = nil) {
        let life = ledger.withLock { $0.beginLife() }
        trace.note("\(time.now): life \(life) begins, \(isInForeground ? "in the foreground" : "in the background")")
        let faults = disk.faultCount
        let present = StoredRecords.numbers(in: disk.files(synced: false))
        process = Process(life, in: self, isInForeground: isInForeground, dyingAfter: dyingAfter)
        guard isAlive, let analytics = process?.analytics else { return }
        let account = analytics.account.store
        trace.note("    finds \(account.map { "\($0)" } ?? "no disk")")
        let read = disk.faultCount == faults
        ledger.withLock { ledger in
            ledger.change(life) { life in
                life.isDurable = account != nil
                life.opening = account
                life.faultsBefore = faults
                life.hasReadAll = read
            }
        }
        if account == nil, disk.faultCount == faults { complain("the disk is there and is not used") }
        if let account { judgeOpening(account, present: present, faults: disk.faultCount - faults) }
        work()
    }

    /// What the life before has left is there, whatever ended it.
    private func judgeOpening(_ account: StoredAccount, present: Set<Int>, faults: Int) {
        let (count, more) = lastStored
        if account.stored > count + more {
            complain("\(account.stored) events are stored, \(count) to \(count + more) were")
        }
        if account.stored < count, !mayBeLess, faults == 0 {
            complain("\(account.stored) events are stored, \(count) were")
        }
        guard faults == 0 else { return }
        if !mayBeLess { ledger.withLock { $0.noteFound(account.stored - count, among: present) } }
        mayBeLess = false
    }

    /// The process is gone from one moment to the next.
    func kill() {
        guard let process else { return }
        trace.note("\(time.now): life \(process.life) is killed")
        end()
    }

    /// After its death the objects are still there: they must do no harm, and go when they are let go of.
    func end() {
        guard let process else { return }
        ledger.withLock { $0.forgetUnsettled() }
        if let disk = process.disk { self.disk.kill(disk.id) }
        noteRest(of: process)
        process.time.end()
        plane.end(process.life)
        process.analytics?.shutdown()
        process.release()
        self.process = nil
        var count = 0
        while executors.runNext(), count < 100_000 { count += 1 }
        time.removeTimers()
        if process.weakWitness != nil || process.weakDisk != nil { complain("life \(process.life) is not let go of") }
    }

    private func noteRest(of process: Process) {
        guard let analytics = process.analytics else { return }
        let account = analytics.account
        ledger.withLock { ledger in
            let life = ledger.lives[process.life]
            guard life.isDurable, let opening = life.opening else { return }
            ledger.noteStored(account.safe, of: process.life)
            if let stored = account.store { ledger.note(stored) }
            // What could not be read at the opening has come to it since.
            let count = max(opening.stored + account.stored, analytics.account.store?.stored ?? 0)
            let before = life.hasReadAll ? opening.stored : max(opening.stored, lastStored.count + lastStored.more)
            // Records that a disk which fails neither took whole nor gave back may be there, though their events went from
            // memory.
            let leftovers = disk.faultCount == life.faultsBefore ? 0 : account.delivered
            ledger.change(process.life) { $0.leftovers = leftovers }
            lastStored = (count, before + life.survivors.count - account.delivered - count + leftovers)
        }
    }

    func cutPower() {
        guard let process else { return }
        let loss = SimulatedDisk.Loss.allCases[random.below(SimulatedDisk.Loss.allCases.count)]
        trace.note("\(time.now): the power is cut, \(loss) is lost")
        if let disk = process.disk { self.disk.kill(disk.id) }
        noteRest(of: process)
        let synced = StoredRecords.numbers(in: disk.files(synced: true))
        let present = StoredRecords.numbers(in: disk.files(synced: false))
        ledger.withLock { $0.cutPower(synced: synced, present: present, in: process.life) }
        mayBeLess = true
        end()
        disk.cutPower(loss)
        let left = StoredRecords.numbers(in: disk.files(synced: false))
        ledger.withLock { $0.noteLeft(left) }
        time.advance(by: .seconds(5 + random.below(100)))
        time.reboot()
    }
}
