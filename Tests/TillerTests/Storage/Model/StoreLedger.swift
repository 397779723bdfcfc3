/// What truly happened over all lives, and what must hold of it. It knows nothing of the protocol's files but their account.
struct StoreLedger: Sendable {
    typealias Disk = ModelDisk
    typealias Stop = ModelDisk.Interruption

    private enum Fate: Sendable {
        case waiting, delivered, damaged, evicted
    }

    private struct Stored: Sendable {
        let record: Disk.Record
        let place: Disk.Place
        var isDamaged = false
        var isChangeLost = false
        /// What was written down of it.
        var fate = Fate.waiting
    }

    private var stored: [Stored] = []
    /// How often the data plane has each event.
    private var copies: [Int: Int] = [:]
    /// Delivered, and not yet acknowledged.
    private var mayComeAgain: Set<Int> = []
    private var lastFirstDelivery: [StoreModel.Process: (run: Int, number: Int)] = [:]
    private var positions: [Int: Int] = [:]
    /// Whose they are.
    private var runs: [Int: StoreModel.Process] = [:]
    private var lastOwnersRun = 0
    private var travellers: [(change: Disk.Change?, event: Int)] = []

    /// A segment that is begun takes back what an interrupted write left beyond its first event.
    mutating func absorb(_ written: [Disk.Written]) {
        for item in written {
            switch item {
            case .record(let record, let place): stored.append(Stored(record: record, place: place))
            case .begun(let run, let first):
                stored.removeAll {
                    let isBeyond = $0.record.event == nil ? $0.record.number > first : $0.record.number >= first
                    return $0.place.run == run && isBeyond
                }
            }
        }
    }

    mutating func travels(_ change: Disk.Change?, with record: Disk.Record) {
        if let event = record.event { travellers.append((change, event)) }
    }

    mutating func began(_ run: Int, by process: StoreModel.Process, asOwner: Bool) throws(Stop) {
        if runs[run] != nil { throw .broken("run \(run) was there before") }
        runs[run] = process
        guard asOwner else { return }
        if run < lastOwnersRun { throw .broken("run \(run) comes after \(lastOwnersRun)") }
        lastOwnersRun = run
    }

    mutating func received(_ batch: [Disk.Record], of run: Int) throws(Stop) {
        for record in batch {
            guard let event = record.event, stored.contains(where: { $0.record.event == event }) else {
                throw .broken("\(record) is sent and was not stored")
            }
            if copies[event] == nil, let process = runs[run] {
                guard (run, record.number) > lastFirstDelivery[process] ?? (0, -1) else {
                    throw .broken("\(record) is out of order")
                }
                lastFirstDelivery[process] = (run, record.number)
            } else if mayComeAgain.remove(event) == nil {
                throw .broken("\(record) is sent again without a reason")
            }
            copies[event, default: 0] += 1
        }
        mayComeAgain.formUnion(batch.compactMap(\.event))
    }

    mutating func acknowledged(_ batch: [Disk.Record], of run: Int, position: Int) throws(Stop) {
        mayComeAgain.subtract(batch.compactMap(\.event))
        let sent = Set(batch.compactMap(\.event))
        for index in indices(of: run, from: positions[run] ?? 0, to: position) {
            let isSent = sent.contains(stored[index].record.event ?? 0)
            guard isSent || stored[index].isDamaged else { throw .broken("\(stored[index].record) is passed over") }
            stored[index].fate = isSent ? .delivered : .damaged
        }
        positions[run] = position
    }

    mutating func evicted(_ numbers: Range<Int>, of run: Int) throws(Stop) {
        for index in indices(of: run, from: positions[run] ?? 0, to: numbers.upperBound) {
            let isBefore = stored[index].record.number < numbers.lowerBound
            guard !isBefore || stored[index].isDamaged else { throw .broken("\(stored[index].record) is passed over") }
            stored[index].fate = isBefore ? .damaged : .evicted
        }
        positions[run] = numbers.upperBound
    }

    mutating func damaged(_ record: Disk.Record, at place: Disk.Place, covered: Disk.Place?) {
        for index in stored.indices where stored[index].place == place {
            stored[index].isDamaged = true
            stored[index].isChangeLost = covered.map { place >= $0 } ?? true
        }
    }

    /// What was not synced is gone: records at a segment's end, and the last positions.
    mutating func powerWasCut(_ log: ModelLog) {
        for run in log.runs where run.number != log.base?.takenIn {
            let position = run.ack?.position ?? 0
            for index in indices(of: run.number, from: position, to: positions[run.number] ?? 0) {
                stored[index].fate = .waiting
                if let event = stored[index].record.event, copies[event] != nil { mayComeAgain.insert(event) }
            }
            positions[run.number] = min(position, positions[run.number] ?? 0)
            for segment in run.segments { loseRecords(from: segment.lastPlace, told: run.end) }
        }
    }

    /// A later segment still tells of those before `told`.
    private mutating func loseRecords(from end: Disk.Place, told: Int) {
        func isLost(_ item: Stored) -> Bool {
            item.place.run == end.run && item.place.segment == end.segment && item.place >= end
        }
        stored.removeAll { isLost($0) && ($0.record.event == nil || $0.fate == .waiting && $0.record.number >= told) }
        for index in stored.indices where isLost(stored[index]) {
            stored[index].isDamaged = true
            stored[index].isChangeLost = true
        }
    }

    private func indices(of run: Int, from: Int, to end: Int = .max) -> [Int] {
        stored.indices.filter {
            let record = stored[$0].record
            return stored[$0].place.run == run && record.event != nil && record.number >= from && record.number < end
        }
    }
}

// MARK: - What must hold

extension StoreLedger {
    /// After every step; `state` is what the owner holds, if there is one.
    func check(_ log: ModelLog, state: [Int: Int]?) throws(Stop) {
        let account = log.account
        let sums = Disk.Sums(
            delivered: count(.delivered), damaged: count(.damaged), evicted: count(.evicted))
        guard account.sums == sums else { throw .broken("counted: \(account.sums), true: \(sums)") }
        let untold = try untoldDamage(log)
        let events = stored.count { $0.record.event != nil }
        let counted = sums.delivered + sums.damaged + sums.evicted + account.waiting + untold
        guard counted == events else {
            throw .broken("\(events) stored, \(counted) counted: \(account), untold \(untold)")
        }
        if let state {
            guard state == trueState else { throw .broken("state \(state), true: \(trueState)") }
        }
    }

    private func count(_ fate: Fate) -> Int {
        stored.count { $0.fate == fate && $0.record.event != nil }
    }

    /// Damage at the very end of a run is told by nothing.
    private func untoldDamage(_ log: ModelLog) throws(Stop) -> Int {
        var untold = 0
        for run in runs.keys {
            let found = log.runs.first { $0.number == run && $0.number != log.base?.takenIn }
            for index in indices(of: run, from: max(found?.end ?? 0, positions[run] ?? 0)) {
                guard stored[index].isDamaged else { throw .broken("\(stored[index].record) of run \(run) is gone") }
                untold += 1
            }
        }
        return untold
    }

    private var trueState: [Int: Int] {
        var state: [Int: Int] = [:]
        for item in stored where !item.isChangeLost {
            let travelling = travellers.first { $0.event == item.record.event }?.change
            if let change = item.record.change ?? travelling { state[change.key] = change.value }
        }
        return state
    }

    /// After everything is delivered, and one opening and shutdown more.
    func checkEnd(_ disk: Disk, _ log: ModelLog) throws(Stop) {
        for item in stored {
            guard let event = item.record.event, !item.isDamaged, item.fate != .evicted else { continue }
            if copies[event] == nil { throw .broken("\(item.record) of run \(item.place.run) was never delivered") }
        }
        for file in disk.files.keys where ![.ownerLock, .base, .checkpoint].contains(file) {
            throw .broken("\(file) is left")
        }
    }
}
