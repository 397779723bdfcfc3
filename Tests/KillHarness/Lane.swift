import Foundation
import Tiller
import TillerTesting

/// One folder and one data plane: starts processes, kills them, starts the next, and judges what has arrived.
final class Lane: Sendable {
    private let number: Int
    private let options: HarnessOptions
    private let time: HarnessTime
    private let ledger: Ledger
    private let dataPlane: LocalDataPlane
    private let folder: URL
    /// Those of the processes that live, by their numbers.
    private let switches: Locked<[Int: KillSwitch]>

    /// - Throws: If there is no port or no folder to be had.
    init(_ number: Int, _ options: HarnessOptions, _ time: HarnessTime) throws {
        self.number = number
        self.options = options
        self.time = time
        let ledger = Ledger(processes: options.processes)
        let switches = Locked<[Int: KillSwitch]>([:])
        var rules = LocalDataPlane.Rules()
        rules.retention = .nothing  // the ledger has what is needed of it
        dataPlane = try LocalDataPlane(port: 0, rules: rules, timeSource: time) { exchange in
            ledger.note(exchange)
            guard let sender = exchange.request?.headers["AnonymousId"].flatMap({ Sender($0) }) else { return }
            switches.withLock { $0[sender.life] }?.noteRequest()
        }
        self.ledger = ledger
        self.switches = switches
        folder = URL(fileURLWithPath: ".build/kill-harness/\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    }

    /// Blocks until everything is judged.
    ///
    /// - Returns: The verdict, how many requests met a fault, and what went wrong beside them.
    func run(kills: Int) -> (verdict: Verdict, faultCount: Int, faults: [String]) {
        let group = DispatchGroup()
        for series in 0..<options.processes {
            let count = kills / options.processes + (series < kills % options.processes ? 1 : 0)
            group.enter()
            Thread.detachNewThread {
                self.runSeries(series, kills: count)
                group.leave()
            }
        }
        group.wait()
        dataPlane.rules.faults = nil
        do {
            try runLastChild()
        } catch {
            ledger.note(fault: "the last process: \(error)")
        }
        dataPlane.stop()
        var evidence = ledger.evidence
        evidence.account = storedAccount()
        let verdict = Verdict(evidence, isOneAtATime: options.processes == 1)
        var faults = ledger.faults
        if verdict.isGood && faults.isEmpty {
            try? FileManager.default.removeItem(at: folder)
        } else {
            faults.append("lane \(number): what is stored is left in \(folder.path)")
        }
        return (verdict, evidence.faultCount, faults)
    }

    private func storedAccount() -> Verdict.Account? {
        guard let name = try? FileManager.default.contentsOfDirectory(atPath: folder.path).first,
            let account = try? StoredAccount(folder: folder.appendingPathComponent(name).path)
        else { return nil }
        return Verdict.Account(
            delivered: account.delivered, waiting: account.waiting, refused: account.refused,
            evicted: account.evicted, damaged: account.damaged)
    }

    // MARK: The lives

    private func runSeries(_ series: Int, kills: Int) {
        // Apart from those of the children, which count from 1 on.
        var random = SeededRandom(
            seed: options.seed, stream: -1 - number * options.processes - series)
        for index in 0..<kills where ledger.faults.isEmpty {
            if series == 0 { chooseFaults(index, &random) }
            do {
                try killChild(series, &random)
            } catch {
                ledger.note(fault: "\(error)")
            }
        }
    }

    /// Another script now and then. Between two processes it may be a proxy that refuses everything for as long as the
    /// next one lives: nothing is erased by that.
    private func chooseFaults(_ index: Int, _ random: inout SeededRandom) {
        let isHostile = options.processes == 1 && random.happens(onceIn: 8)
        if isHostile {
            let answers: [FaultScript.Fault] =
                [400, 400, 401, 403, 404, 413, 422, 500].map { .status($0, "no\n") } + [.page()]
            guard let answer = answers.randomElement(using: &random) else { return }
            dataPlane.rules.faults = FaultScript([.init(.always, answer)])
        } else if index % 20 == 0 || dataPlane.rules.faults?.rules.count == 1 {
            dataPlane.rules.faults = .random(seed: random.next())
        }
    }

    private func killChild(_ series: Int, _ random: inout SeededRandom) throws {
        let moment = KillMoment.random(&random)
        let killsAll = random.happens(onceIn: 6)
        let (life, first) = ledger.begin(series: series)
        let child = try start(life, first: first)
        let killSwitch = KillSwitch(child: child.identifier, requests: moment.request, turns: moment.turns)
        switches.withLock { $0[life] = killSwitch }
        var isEnded = false
        do {
            var count = 0
            while count < moment.reports {
                guard let reports = try child.nextReports() else {
                    isEnded = true
                    break
                }
                count += reports.count
                ledger.note(reports, life: life, series: series, first: first)
            }
            if !isEnded, moment.request == nil, let turns = moment.turns {
                // Later moments depend on the work, so that none of it is optimized away.
                random = SeededRandom(seed: random.next() ^ SeededRandom.spin(turns), stream: 0)
            }
            let others = killsAll ? switches.withLock { Array($0.values) } : []
            for other in others + [killSwitch] { other.pull() }
            // What it said before it died counts.
            while let reports = try child.nextReports() {
                ledger.note(reports, life: life, series: series, first: first)
            }
        } catch is ChildProcess.Hung {
            ledger.note(fault: "process \(life) said nothing for a minute")
        }
        killSwitch.disarm()
        switches.withLock { $0[life] = nil }
        child.kill()
        let end = child.waitForEnd()
        ledger.noteKill(life: life)
        if !end.isKill { ledger.note(fault: "process \(life) ended by itself: \(end)") }
    }

    private func runLastChild() throws {
        let (life, first) = ledger.begin(series: 0)
        let child = try start(life, first: first, isLast: true)
        defer { child.kill() }
        do {
            while let reports = try child.nextReports() {
                ledger.note(reports, life: life, series: 0, first: first)
            }
        } catch is ChildProcess.Hung {
            ledger.note(fault: "the last process said nothing for a minute")
            child.kill()
        }
        let end = child.waitForEnd()
        if end.isSignal || end.code != 0 { ledger.note(fault: "the last process failed: \(end)") }
    }

    private func start(_ life: Int, first: Int, isLast: Bool = false) throws -> ChildProcess {
        let child = ChildOptions(
            folder: folder.path, url: dataPlane.url, life: life, first: first, processes: options.processes,
            isLast: isLast, time: time)
        return try ChildProcess(
            child, seed: options.seed &+ UInt64(number) &* 0x9E37_79B9_7F4A_7C15, trustsMemory: options.trustsMemory)
    }
}
