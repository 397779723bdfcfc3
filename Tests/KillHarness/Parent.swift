import Foundation
import Tiller
import TillerTesting

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// Starts a child, kills it, starts the next on the same folder, and judges what has arrived.
struct Parent {
    private let options: HarnessOptions
    private let dataPlane: LocalDataPlane
    private let folder: URL
    private var random: SeededRandom
    /// The first number that no child can have given.
    private var next = 1
    private var stored: [ClosedRange<Int>] = []
    private var kills = 0
    /// What went wrong beside the verdict.
    private var faults: [String] = []

    init(_ options: HarnessOptions) throws {
        self.options = options
        dataPlane = try LocalDataPlane()
        folder = URL(fileURLWithPath: ".build/kill-harness/\(UUID().uuidString)")
        random = SeededRandom(seed: options.seed, stream: 0)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    }

    /// - Returns: The exit status.
    mutating func run() throws -> Int32 {
        for life in 0..<options.kills where faults.isEmpty { try killChild(life) }
        try runLastChild()
        let verdict = Verdict(kills: kills, stored: stored, arrivals: arrivals)
        let isGood = verdict.isGood && faults.isEmpty
        if isGood {
            try? FileManager.default.removeItem(at: folder)
        } else {
            print("seed \(options.seed); what is stored is left in \(folder.path)")
        }
        for detail in faults + verdict.details { print(detail) }
        print("\(dataPlane.events.count) events have arrived, \(verdict.copies) of them copies")
        print(verdict)
        return isGood ? 0 : 1
    }

    // MARK: One life

    /// The moment is a number of reports, and a random number of turns after them; without a report, the turns reach into
    /// the time in which a process starts and reads what the one before has left.
    private mutating func killChild(_ life: Int) throws {
        let reports = Int.random(in: 0..<30, using: &random)
        let turns = Int.random(in: 0..<(reports == 0 ? 60_000_000 : 3_000_000), using: &random)
        let child = try start(life)
        defer { child.kill() }
        let first = next
        var count = 0
        do {
            while count < reports {
                guard let new = try child.nextReports() else { break }
                count += new.count
                note(new, from: first)
            }
            spin(turns)
            child.kill()
            // What it said before it died counts.
            while let new = try child.nextReports() { note(new, from: first) }
        } catch is ChildProcess.Hung {
            faults.append("process \(life) said nothing for a minute")
            child.kill()
        }
        let end = child.waitForEnd()
        kills += 1
        if !end.isSignal || end.code != SIGKILL { faults.append("process \(life) ended by itself: \(end)") }
    }

    private mutating func runLastChild() throws {
        let child = try start(options.kills, isLast: true)
        defer { child.kill() }
        do {
            while let reports = try child.nextReports() {
                for case .waiting(let count) in reports where count > 0 {
                    faults.append("\(count) events are still waiting at the end")
                }
            }
        } catch is ChildProcess.Hung {
            faults.append("the last process said nothing for a minute")
            child.kill()
        }
        let end = child.waitForEnd()
        if end.isSignal || end.code != 0 { faults.append("the last process failed: \(end)") }
    }

    private func start(_ life: Int, isLast: Bool = false) throws -> ChildProcess {
        let child = ChildOptions(
            folder: folder.path, url: dataPlane.url, life: life, first: next, isLast: isLast)
        return try ChildProcess(child, seed: options.seed, trustsMemory: options.trustsMemory)
    }

    private mutating func note(_ reports: [Report], from first: Int) {
        for report in reports {
            switch report {
            case .records(let last): next = last + 1
            case .stored(let last):
                if stored.last?.lowerBound == first { stored.removeLast() }
                stored.append(first...last)
            case .waiting: break
            }
        }
    }

    /// Keeps a core busy, so that no clock decides the moment. Each turn needs the one before, and the last is drawn from
    /// later on: nothing here can be optimized away.
    private mutating func spin(_ turns: Int) {
        for _ in 0..<turns { random = SeededRandom(seed: random.next(), stream: 0) }
    }

    // MARK: What has arrived

    private var arrivals: [Verdict.Arrival] {
        dataPlane.events.map { event in
            var json = event.json
            json["sentAt"] = nil
            let sender = event.anonymousIdHeader.flatMap { Sender($0) }
            return Verdict.Arrival(
                life: sender?.life ?? 0, request: sender?.request ?? 0,
                number: event.properties["number"]?.int.map { Int($0) }, messageId: event.messageId ?? "",
                text: JSONValue.object(json).description, sessionId: event.sessionId,
                isSessionStart: event.isSessionStart)
        }
    }
}
