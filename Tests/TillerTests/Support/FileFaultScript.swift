import Testing
import TillerTesting

@testable import Tiller

/// What is done with a store, step by step over several lives, and which operations of its disk fail at that.
///
/// A step that needs the store opens it; what then fails is the step's too. Printed it is the code of a test.
struct FileFaultScript: Sendable {
    enum Action: Sendable, Hashable {
        /// So many events, each with a change of state.
        case append(Int)
        /// Batches of so many events, as long as there are any.
        case deliver(Int)
        /// One batch that arrives, and whose answer does not.
        case loseAnswer(Int)
        /// Two batches that are settled together, and between their arrival and that another event comes.
        case deliverLate(Int)
        case sync
        /// What was left for later is done, where there is such a thing.
        case keepHouse
        /// An orderly end.
        case end
        case kill
    }

    struct Step: Sendable, Hashable {
        var action: Action
        /// By the operation's number within the step.
        var faults: [Int: FaultyFiles.Fault] = [:]
        /// Nothing that needs room succeeds.
        var isFull = false
    }

    var steps: [Step]
    /// Whether checkpoints are written by somebody who is told when.
    let keepsHouseLater: Bool

    init(_ steps: [Step], keepsHouseLater: Bool = false) {
        self.steps = steps
        self.keepsHouseLater = keepsHouseLater
    }

    /// A script of chance.
    init(seed: UInt64) {
        var generator = IdentifierGenerator.seeded(seed)
        func number(_ bound: Int) -> Int { Int(generator.nextWord() % UInt64(bound)) }
        keepsHouseLater = seed.isMultiple(of: 2)
        steps = (0..<4 + number(10)).map { _ in
            let action: Action
            switch number(seed.isMultiple(of: 2) ? 17 : 14) {
            case 0..<5: action = .append(1 + number(5))
            case 5..<7: action = .deliver(1 + number(4))
            case 7: action = .loseAnswer(1 + number(4))
            case 8..<10: action = .deliverLate(1 + number(3))
            case 10: action = .sync
            case 11: action = .end
            case 14...: action = .keepHouse
            default: action = .kill
            }
            var step = Step(action: action)
            switch number(6) {
            case 0..<2: break
            case 2: step.isFull = true
            default:
                for _ in 0...number(3) {
                    step.faults[number(14)] = FaultyFiles.Fault.allCases[number(FaultyFiles.Fault.allCases.count)]
                }
            }
            return step
        }
    }
}

// MARK: - What comes of it

extension FileFaultScript {
    /// What happened to the events of a script.
    fileprivate struct Ledger {
        var recorded = 0
        /// Handed over, and not stored yet.
        var unwritten: [String] = []
        /// Reported to be stored.
        var stored: Set<String> = []
        /// Settled without having been stored.
        var fromMemory = 0
        /// In the order of arrival.
        var arrived: [String] = []
        /// How often each may have been sent again.
        var mayComeAgain: [String: Int] = [:]
        var lastState: Int64 = 0
        /// The last state that was reported to be stored.
        var storedState: Int64 = 0
    }

    /// Runs it, then opens the store once more on a disk that works, and delivers what waits.
    ///
    /// - Returns: What went wrong, one line for each thing.
    func violations(on base: any FileSystem = MemoryFiles(), folder: String = "/memory/log") -> [String] {
        let disk = FaultyFiles(base)
        var ledger = Ledger()
        var open: Life?
        for step in steps {
            disk.fail { operation, _, index in
                if let fault = step.faults[index] { return fault }
                let takesRoom = operation == .overwrite || FaultyFiles.Operation.takesRoom.contains(operation)
                return step.isFull && takesRoom ? .noSpace : nil
            }
            if open == nil, step.action != .kill, step.action != .end { open = try? life(folder, on: disk) }
            guard let life = open else {
                if case .append(let count) = step.action { ledger.recorded += count }  // memory's, where nothing opens
                continue
            }
            life.run(step.action, &ledger)
            if step.action == .end || step.action == .kill { open = nil }
        }
        open?.log.close()
        disk.fail(nil)
        return verdict(disk, folder, &ledger)
    }

    private func life(_ folder: String, on disk: any FileSystem) throws -> Life {
        try Life(folder, on: disk, keepsHouseLater ? HeldQueue() : nil)
    }

    /// Fails a test with a script as short as it can be made.
    func check(on base: @autoclosure () -> any FileSystem = MemoryFiles(), folder: String = "/memory/log") {
        let violations = violations(on: base(), folder: folder)
        if violations.isEmpty { return }
        let shortest = shrunk()
        Issue.record("\(violations)\nshortest: \(shortest.violations())\n\(shortest)")
    }

    private func verdict(_ disk: any FileSystem, _ folder: String, _ ledger: inout Ledger) -> [String] {
        var violations: [String] = []
        do {
            let life = try life(folder, on: disk)
            let log = life.log
            let state = log.load("A").object?["n"]?.int ?? 0
            if state < ledger.storedState || state > Int64(ledger.recorded) {
                violations.append("the state is of e\(state), that of e\(ledger.storedState) was stored")
            }
            life.run(.deliver(3), &ledger)
            if log.counts.waiting != 0 { violations.append("\(log.counts.waiting) wait for ever") }
            let distinct = Set(ledger.arrived)
            let lost = ledger.stored.subtracting(distinct).sorted()
            if !lost.isEmpty { violations.append("stored and lost: \(lost)") }
            // What a failed write left may be delivered too, and what was in memory at a kill arrived without being stored.
            let delivered = Int(log.sums.delivered)
            if delivered < ledger.stored.count || delivered > distinct.count - ledger.fromMemory
                || log.sums != LogIndex.Sums(delivered: log.sums.delivered)
            {
                violations.append(
                    "\(log.sums), \(ledger.stored.count) stored, \(distinct.count) arrived, \(ledger.fromMemory) of them from memory"
                )
            }
            log.endWriting()
            log.close()
        } catch {
            violations.append("it can't be opened any more: \(error)")
        }
        return violations + ledger.disorder
    }
}

/// One life of the store.
private struct Life {
    let log: EventLog
    private let store: OverflowingStore
    private let housekeeper: HeldQueue?
    /// How many events went from memory since it was asked for.
    private let gone = Locked(0)

    init(_ folder: String, on disk: any FileSystem, _ housekeeper: HeldQueue?) throws {
        self.housekeeper = housekeeper
        // Segments of two kilobytes, and no eviction.
        log = try EventLog(
            folder: folder, on: disk, limits: Limits(storageBytes: 16_000), boot: 1,
            housekeeper: housekeeper, diagnostics: Diagnostics(logger: RecordingLogger(), level: .none))
        store = OverflowingStore(log)
        store.whenGone { [gone] count, _, _ in gone.withLock { $0 += count } }
    }

    func run(_ action: FileFaultScript.Action, _ ledger: inout FileFaultScript.Ledger) {
        switch action {
        case .append(let count): append(count, &ledger)
        case .deliver(let count):
            while let batch = try? store.nextBatch(.count(count), after: nil) {
                ledger.arrived += batch.names
                settle([batch], &ledger)
            }
        case .loseAnswer(let count):
            guard let batch = try? store.nextBatch(.count(count), after: nil) else { return }
            ledger.arrived += batch.names
            for name in batch.names { ledger.mayComeAgain[name, default: 0] += 1 }
        case .deliverLate(let count):
            var batches: [StoredBatch] = []
            while batches.count < 2, let batch = try? store.nextBatch(.count(count), after: batches.last) {
                ledger.arrived += batch.names
                batches.append(batch)
            }
            append(1, &ledger)
            settle(batches, &ledger)
        case .sync: store.sync()
        case .keepHouse: housekeeper?.run()
        case .end:
            append(0, &ledger)
            store.endWriting()
            ledger.close(store)
        case .kill: ledger.close(store)
        }
    }

    private func append(_ count: Int, _ ledger: inout FileFaultScript.Ledger) {
        var records: [StoreRecord] = []
        for _ in 0..<count {
            ledger.recorded += 1
            let number = ledger.recorded
            let name = "e\(number)"
            let padding = number * 37 % 300
            // As plugins do: what can't be read is left alone.
            if case .unreadable = store.load("A") {
                records.append(.event(name, padding: padding))
            } else {
                let changes = [StateChange(key: "A", changes: ["n": .int(Int64(number))])]
                records.append(.event(name, padding: padding, changes: changes))
                ledger.lastState = Int64(number)
            }
            ledger.unwritten.append(name)
        }
        let taken = store.take(records)
        ledger.stored.formUnion(ledger.unwritten.prefix(taken.storedCount))
        ledger.unwritten.removeFirst(taken.storedCount)
        if store.hasStoredAll { ledger.storedState = ledger.lastState }
    }

    private func settle(_ batches: [StoredBatch], _ ledger: inout FileFaultScript.Ledger) {
        let isDone = (try? store.acknowledge(batches.map { SettledBatch(batch: $0, outcome: .delivered) })) != nil
        // What went from memory is gone, whatever became of the rest.
        let count = gone.withLock { gone in
            defer { gone = 0 }
            return gone
        }
        let fromMemory = ledger.unwritten.prefix(count)
        ledger.fromMemory += count
        if !isDone {
            for name in batches.flatMap(\.names) where !fromMemory.contains(name) {
                ledger.mayComeAgain[name, default: 0] += 1
            }
        }
        ledger.unwritten.removeFirst(count)
    }
}

extension FileFaultScript.Ledger {
    /// Which writes nothing.
    fileprivate mutating func close(_ store: OverflowingStore) {
        store.close()
        unwritten = []
        lastState = storedState
    }

    /// What arrived too often, or before what is older.
    fileprivate var disorder: [String] {
        var found: [String] = []
        var times: [String: Int] = [:]
        var last = 0
        for name in arrived {
            times[name, default: 0] += 1
            if times[name] == 1 {
                let number = Int(name.dropFirst()) ?? 0
                if number < last { found.append("\(name) came after e\(last)") }
                last = max(last, number)
            }
        }
        for (name, count) in times where count > 1 + (mayComeAgain[name] ?? 0) {
            found.append("\(name) came \(count) times")
        }
        return found.sorted()
    }
}

// MARK: - The shortest one

extension FileFaultScript {
    /// The script without whatever it can do without and still fail.
    func shrunk() -> FileFaultScript {
        var shortest = self
        while let shorter = shortest.shorter.first(where: { !$0.violations().isEmpty }) { shortest = shorter }
        return shortest
    }

    /// One thing less.
    private var shorter: [FileFaultScript] {
        var scripts: [FileFaultScript] = []
        for index in steps.indices {
            var script = self
            script.steps.remove(at: index)
            scripts.append(script)
        }
        for index in steps.indices {
            for key in steps[index].faults.keys.sorted() {
                var script = self
                script.steps[index].faults[key] = nil
                scripts.append(script)
            }
            if steps[index].isFull {
                var script = self
                script.steps[index].isFull = false
                scripts.append(script)
            }
            if let smaller = steps[index].action.smaller {
                var script = self
                script.steps[index].action = smaller
                scripts.append(script)
            }
        }
        return scripts
    }
}

extension FileFaultScript.Action {
    fileprivate var smaller: Self? {
        switch self {
        case .append(let count) where count > 1: .append(count - 1)
        case .deliver(let count) where count > 1: .deliver(count - 1)
        case .loseAnswer(let count) where count > 1: .loseAnswer(count - 1)
        case .deliverLate(let count) where count > 1: .deliverLate(count - 1)
        default: nil
        }
    }
}

extension FileFaultScript: CustomStringConvertible {
    var description: String {
        let lines = steps.map { step in
            let faults = step.faults.sorted { $0.key < $1.key }.map { "\($0.key): .\($0.value)" }
            return "    .init(action: .\(step.action)"
                + (faults.isEmpty ? "" : ", faults: [\(faults.joined(separator: ", "))]")
                + (step.isFull ? ", isFull: true" : "") + "),"
        }
        let end = keepsHouseLater ? "], keepsHouseLater: true).check()" : "]).check()"
        return "FileFaultScript([\n" + lines.joined(separator: "\n") + "\n" + end
    }
}
