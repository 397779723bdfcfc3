import Tiller
import TillerTesting

extension World {
    func ask() {
        if random.happens(onceIn: 2) { askStored() } else { askFlushed() }
    }

    private func askStored() {
        guard let process, let analytics = process.analytics else { return }
        trace.note("\(time.now): stored()?")
        let number = ledger.withLock { $0.entries.count }
        let answer = makeAnswer(for: process, upTo: number)
        _ = executors.start {
            let result = await analytics.stored()
            answer("stored: \(result)") { ledger, life, faults in
                ledger.judge(result, upTo: number, of: life, analytics.account, faults: faults)
            }
        }
    }

    func askFlushed() {
        guard let process, let analytics = process.analytics else { return }
        trace.note("\(time.now): flushed()?")
        let number = ledger.withLock { $0.entries.count }
        let answer = makeAnswer(for: process, upTo: number)
        _ = executors.start {
            let result = await analytics.flushed()
            answer("flushed: \(result)") { ledger, life, faults in
                ledger.judge(result, upTo: number, of: life, analytics.account, faults: faults)
            }
        }
    }

    private typealias Judgement = (_ ledger: inout Ledger, _ life: Int, _ faults: Int) -> Void

    /// What a dead process says counts for nothing.
    private func makeAnswer(
        for process: Process, upTo number: Int
    ) -> @Sendable (_ text: String, _ judge: Judgement) -> Void {
        let (ledger, trace, disk, life) = (ledger, trace, disk, process.life)
        let id = process.disk?.id ?? 0
        return { text, judge in
            guard disk.isAlive(id) else { return }
            trace.note("    \(text)")
            let faults = disk.faultCount
            ledger.withLock { judge(&$0, life, faults) }
        }
    }

    /// An orderly end.
    func shutDown() {
        guard let process, isAlive else { return }
        trace.note("\(time.now): life \(process.life) is shut down")
        work()
        guard isAlive, isGood else { return end() }
        checkDestination(of: process)
        let left = askForEnd(process)
        work()
        for _ in 0..<250 where left.withLock({ $0 }) == nil && isAlive && isGood { advance(by: .seconds(1)) }
        if left.withLock({ $0 }) == nil, isAlive, isGood { complain("life \(process.life) does not come to its end") }
        end()
    }

    /// - Returns: How many events were not delivered, once it is known.
    private func askForEnd(_ process: Process) -> Locked<Int?> {
        let left = Locked<Int?>(nil)
        guard let analytics = process.analytics else { return left }
        ledger.withLock { $0.change(process.life) { $0.isShutDown = true } }
        let number = ledger.withLock { $0.entries.count }
        let answer = makeAnswer(for: process, upTo: number)
        _ = executors.start {
            let count = await analytics.shutdownAndWait(timeout: .seconds(200))
            answer("\(count) are left") { ledger, life, faults in
                ledger.judgeLeft(count, of: life, analytics.account)
            }
            left.withLock { $0 = count }
        }
        return left
    }

    /// What goes elsewhere gets everything too, in order.
    private func checkDestination(of process: Process) {
        guard let events = process.destination?.events else { return }
        let numbers = events.compactMap { $0.context[Ledger.key]?.string }
            .compactMap { Int($0.dropFirst().dropLast()) }
        let survivors = ledger.withLock { $0.lives[process.life].survivors }
        let dropped = process.analytics?.account.droppedByDestination.values.reduce(0, +) ?? 0
        if numbers.count + dropped != survivors.count || numbers != numbers.sorted() {
            complain("the other destination of life \(process.life) has \(numbers.count) of \(survivors.count) events")
        }
    }

    // MARK: The end

    /// Network and disk work from now on: whatever waits is delivered.
    func heal() {
        trace.note("\(time.now): everything works from now on")
        plane.setWeather(.good)
        disk.setFaults(SimulatedDisk.Faults())
        if isAlive, process?.analytics?.account.store != nil { drain() }
        if isAlive, isGood { shutDown() } else if isGood { bury() }
        guard isGood else { return }
        begin(isInForeground: true)
        guard isGood else { return }
        recordLast()
        drain()
        guard isGood else { return }
        askFlushed()
        work()
        let account = process?.analytics?.account.store
        if isGood { shutDown() }
        guard isGood, let account else { return }
        ledger.withLock { $0.judgeEnd(account) }
        checkTidy()
    }

    /// An event that no plugin drops: what is finished is removed when something is delivered.
    private func recordLast() {
        let count = ledger.withLock { $0.entries.count }
        while isGood, isAlive, ledger.withLock({ $0.entries.count }) == count {
            process?.analytics?.track(name: "Last")
            work()
        }
    }

    private func drain() {
        guard let analytics = process?.analytics else { return }
        for _ in 0..<200 where isGood && isAlive {
            analytics.flush()
            work()
            if analytics.account.store?.waiting == 0, analytics.account.inMemory == 0 { return }
            advance(by: .seconds(60))
        }
        if isGood, isAlive { complain("three hours after everything was well again events still wait") }
    }

    /// Nothing that is finished stays on the disk.
    private func checkTidy() {
        let files = disk.files(synced: false).map(\.path)
        let segments = files.filter { $0.hasSuffix(".log") }
        if segments.count > 2 || files.count > 7 { complain("too many files are left: \(files)") }
    }
}

extension Ledger {
    mutating func judge(_ result: StoringResult, upTo number: Int, of life: Int, _ account: Account, faults: Int) {
        let now = lives[life]
        let count = now.survivors.count { $0 < number }
        switch result {
        case .stored:
            if !now.isDurable { complain("stored() says stored where there is no disk") }
            if account.safe < count { complain("stored() says stored, and \(account.safe) of \(count) are") }
        case .inMemory:
            if now.isDurable, faults == now.faultsBefore { complain("stored() says in memory, and the disk is well") }
        }
    }

    mutating func judge(
        _ result: FlushResult, upTo number: Int, of life: Int, _ account: Account, faults: Int
    ) {
        let isWell = faults == lives[life].faultsBefore
        let lost = givenUp(account, of: life)
        switch result {
        case .delivered, .nothingWaiting:
            let missing = entries[..<number].indices.filter { index in
                let entry = entries[index]
                guard !entry.isAnswered, !entry.isTooLarge, entry.excuse == nil else { return false }
                // What could not be read at the opening is not known to it.
                return isWell && (entry.life == life || entry.isStored && lives[life].isDurable)
            }
            if missing.count > lost { complain("flushed() says \(result), and \(name(missing[0])) is missing") }
        case .waiting:
            if lives[life].failures == 0, isWell { complain("flushed() says \(result), and nothing has failed") }
        case .stopped:
            if !lives[life].isShutDown, lost == 0, lives[life].failures == 0 {
                complain("flushed() says \(result) for no reason")
            }
        }
    }

    mutating func judgeLeft(_ count: Int, of life: Int, _ account: Account) {
        let missing = lives[life].survivors.filter { !entries[$0].isAnswered }
        let lost = givenUp(account, of: life)
        if count == 0, missing.count > lost {
            complain("shutdownAndWait() says that nothing is left, and \(name(missing[0])) is missing")
        }
        let waiting = account.store?.waiting ?? 0
        if count < waiting {
            complain("shutdownAndWait() says that \(count) are left, and \(waiting) wait")
        }
    }
}
