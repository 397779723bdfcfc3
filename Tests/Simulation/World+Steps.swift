import Tiller
import TillerTesting

extension World {
    /// A life from its beginning to its end, whatever that is.
    ///
    /// - Parameter isLast: It may go on into the time in which everything works.
    func runLife(isLast: Bool) {
        if random.happens(onceIn: 2) { disk.setFaults(SimulatedDisk.Faults()) }
        let death = random.happens(onceIn: 5) ? random.below(30) : nil
        begin(isInForeground: !plan.isApp || random.happens(onceIn: 2), dyingAfter: death)
        for _ in 0..<plan.stepsPerLife where isAlive && isGood { step() }
        guard isGood else { return }
        if isAlive, isLast, random.happens(onceIn: 2) { return }
        if isAlive { endLife() } else { bury() }
        guard isGood else { return }
        if plan.hasDamage { damageSomething() }
        // Nobody is there while it passes.
        let pause = random.happens(onceIn: 2) ? random.below(3) : random.below(2_000)
        time.advance(by: .milliseconds(pause * pause))
    }

    func bury() {
        guard let process else { return }
        trace.note("\(time.now): life \(process.life) died in the middle of what it did")
        end()
    }

    private func endLife() {
        if plan.hasPowerCuts, random.happens(onceIn: 3) {
            if random.happens(onceIn: 2) { work(atMost: random.below(20)) }
            cutPower()
        } else if random.happens(onceIn: 2) {
            shutDown()
        } else {
            if random.happens(onceIn: 2) { burst() }
            kill()
        }
    }

    private func step() {
        switch random.below(100) {
        case 0..<30: call()
        case 30..<34: burst()
        case 34..<42: changeIdentity()
        case 42..<50: ask()
        case 50..<56: changeLifecycle()
        case 56..<82: letTimePass()
        case 82..<90: changeWeather()
        case 90..<95: changeDisk()
        case 95..<96: dieSoon()
        case 96..<97: return endByShutdown()
        default: process?.analytics?.flush()
        }
        // Now and then the next thing comes before everything has been done.
        if random.happens(onceIn: 8) { work(atMost: random.below(12)) } else { work() }
    }

    // MARK: Calls

    private func call() {
        guard let analytics = process?.analytics else { return }
        let filling = fillingForOne()
        trace.note("\(time.now): an event with \(filling) bytes")
        let properties: JSONObject = ["filling": .string(String(repeating: "x", count: filling))]
        switch random.below(8) {
        case 0: analytics.screen(screenName: "Screen", properties: properties)
        case 1: analytics.group(groupId: "group")
        case 2: analytics.scoped(anonymousId: "person-\(random.below(3))").track(name: "Scoped", properties: properties)
        default: analytics.track(name: "Step", properties: properties)
        }
    }

    private func fillingForOne() -> Int {
        if random.happens(onceIn: 50) { return plan.limits.eventBytes + 1 }
        return random.below(min(plan.filling, plan.limits.eventBytes - 2_000) + 1)
    }

    /// Many at once, before the pipeline has come to any.
    private func burst() {
        guard let analytics = process?.analytics else { return }
        let count = 1 + random.below(30)
        trace.note("\(time.now): \(count) events at once")
        for _ in 0..<count { analytics.track(name: "Burst") }
    }

    private func changeIdentity() {
        guard let analytics = process?.analytics else { return }
        let kind = random.below(8)
        trace.note("\(time.now): identity \(kind)")
        switch kind {
        case 0, 1: analytics.identify(userId: "user-\(random.below(3))", traits: ["age": .int(Int64(random.below(90)))])
        case 2: analytics.identify(traits: ["colour": "blue"])
        case 3: analytics.alias(newId: "user-\(random.below(3))")
        case 4: analytics.startSession()
        case 5: analytics.endSession()
        default: analytics.reset()
        }
    }

    // MARK: The world

    private func changeLifecycle() {
        guard let process else { return }
        let kind = random.below(5)
        trace.note("\(time.now): lifecycle \(kind)")
        let faults = disk.faultCount
        let isNews = kind > 3 || process.isInForeground != (kind < 2)
        switch kind {
        case 0, 1: process.foreground()
        case 2, 3: process.background()
        default: process.lifecycle.terminate()
        }
        if kind >= 2, isNews, isAlive, disk.faultCount == faults, random.happens(onceIn: 3) { checkSynced(process) }
    }

    /// What was stored is on the disk itself when a notice has been handled.
    private func checkSynced(_ process: Process) {
        work()
        guard isAlive, isGood else { return }
        let synced = StoredRecords.numbers(in: disk.files(synced: true))
        let present = StoredRecords.numbers(in: disk.files(synced: false))
        ledger.withLock { ledger in
            guard
                let number = ledger.lives[process.life].survivors.first(where: {
                    present.contains($0) && !synced.contains($0) && ledger.entries[$0].isStored
                })
            else { return }
            ledger.complain("\(ledger.name(number)) is not synced after a notice")
        }
    }

    private func letTimePass() {
        // What has been called for happens at its own time.
        work()
        guard isAlive else { return }
        let milliseconds =
            switch random.below(20) {
            case 0..<6: random.below(50)
            case 6..<12: random.below(20_000)
            case 12..<16: random.below(400_000)
            case 16..<18: random.below(4_000_000)
            case 18: random.below(30) == 0 ? 86_400_000 + random.below(86_400_000) : 5
            default: 0
            }
        if milliseconds == 0 {
            let step = Duration.milliseconds(random.below(20_000_000) - 10_000_000)
            trace.note("\(time.now): the wall clock is set by \(step)")
            return time.setWallClock(by: step)
        }
        trace.note("\(time.now): \(milliseconds) ms pass")
        advance(by: .milliseconds(milliseconds))
    }

    private func changeWeather() {
        guard plan.hasBadNetwork else { return }
        let all = SimulatedDataPlane.Weather.allCases
        let weather = random.happens(onceIn: 3) ? .good : all[random.below(all.count)]
        trace.note("\(time.now): the network is \(weather)")
        plane.setWeather(weather)
    }

    private func changeDisk() {
        guard plan.hasBadDisk else { return }
        var faults = SimulatedDisk.Faults()
        switch random.below(6) {
        case 0: faults.isFull = true
        case 1: faults.failingWrites = 1 + random.below(10)
        case 2: faults.failingSyncs = 1 + random.below(5)
        case 3: faults.failingReads = 1 + random.below(8)
        default: break
        }
        trace.note("\(time.now): the disk has \(faults)")
        disk.setFaults(faults)
    }

    private func dieSoon() {
        guard let disk = process?.disk else { return }
        let count = random.below(15)
        trace.note("\(time.now): it will die after \(count) operations of the disk")
        self.disk.kill(disk.id, after: count)
    }

    /// Some lives end by themselves early.
    private func endByShutdown() {
        guard random.happens(onceIn: 3) else { return }
        shutDown()
    }
}
