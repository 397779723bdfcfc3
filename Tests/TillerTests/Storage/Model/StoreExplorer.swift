/// Runs schedules of actions and kills through the model until one breaks a rule.
struct StoreExplorer: Sendable {
    typealias Process = StoreModel.Process
    typealias Turn = StoreModel.Turn
    typealias Stop = ModelDisk.Interruption

    /// A schedule and what it breaks.
    struct Finding: Sendable, CustomStringConvertible {
        let schedule: [String]
        let broken: String

        var description: String { "\(schedule.joined(separator: ", ")): \(broken)" }
    }

    let mutation: StoreModel.Mutation?
    private(set) var schedules = 0
    private(set) var finding: Finding?
    private var path: [String] = []

    init(mutation: StoreModel.Mutation? = nil) {
        self.mutation = mutation
    }
}

// MARK: - All schedules

extension StoreExplorer {
    /// All schedules of `depth` turns, each with no kill and with a kill at every step, `kills` of them at most.
    /// After a kill and a shutdown comes an opening, or what befalls a folder in between.
    mutating func exhaust(depth: Int, kills: Int, turns: [Turn]) {
        var model = StoreModel(mutation: mutation)
        for process in turns.processes {
            do throws(Stop) { try model.perform(Turn(process: process, action: .open)) } catch { return note(error) }
        }
        exhaust(model, depth: depth, kills: kills, turns)
    }

    private mutating func exhaust(_ model: StoreModel, depth: Int, kills: Int, _ turns: [Turn]) {
        guard finding == nil else { return }
        guard depth > 0 else { return finish(model) }
        if kills > 0 {
            for process in turns.processes { kill(process, model, depth: depth, kills: kills, turns) }
        }
        let openings = turns.processes.map { Turn(process: $0, action: .open) }
        for turn in (turns + openings).filter(model.allows) {
            path.append("\(turn)")
            var next = model
            // An opening costs no depth, or a kill would leave no room for what shows its harm.
            let left = turn.action == .open ? depth : depth - 1
            if perform(turn, on: &next) { exhaust(next, depth: left, kills: kills, turns) }
            if kills > 0 { killInEveryStep(of: turn, model, depth: left, kills: kills - 1, turns) }
            path.removeLast()
            if finding != nil { return }
        }
    }

    /// Between two actions. It costs no depth.
    private mutating func kill(_ process: Process, _ model: StoreModel, depth: Int, kills: Int, _ turns: [Turn]) {
        guard model.instances[process] != nil, finding == nil else { return }
        var next = model
        path.append(process == .a ? "killed" : "B: killed")
        if crash(process, &next, .killed) { exhaust(next, depth: depth, kills: kills - 1, turns) }
        path.removeLast()
    }

    private mutating func killInEveryStep(
        of turn: Turn, _ model: StoreModel, depth: Int, kills: Int, _ turns: [Turn]
    ) {
        // Before the first step is the same for all actions: `kill`.
        var kill = ModelDisk.Kill(step: 0, way: 1)
        while finding == nil {
            var next = model
            next.disk.arm(kill)
            do throws(Stop) {
                try next.perform(turn)
                return
            } catch {
                guard case .noSuchWay = error else {
                    path.append("killed at step \(kill.step) way \(kill.way)")
                    if crash(turn.process, &next, error) { exhaust(next, depth: depth, kills: kills, turns) }
                    path.removeLast()
                    kill.way += 1
                    continue
                }
                kill = ModelDisk.Kill(step: kill.step + 1, way: 0)
            }
        }
    }
}

// MARK: - Random schedules

extension StoreExplorer {
    /// Schedules of `length` turns, about one in `killEvery` of them killed at some step.
    mutating func wander(schedules count: Int, length: Int, killEvery: Int, seed: UInt64, turns: [Turn]) {
        var random = SplitMix(state: seed)
        for _ in 0..<count where finding == nil {
            path = []
            wander(length: length, killEvery: killEvery, turns, &random)
        }
    }

    private mutating func wander(length: Int, killEvery: Int, _ turns: [Turn], _ random: inout SplitMix) {
        var model = StoreModel(mutation: mutation)
        for _ in 0..<length where finding == nil {
            var turn = random.pick(turns)
            if !model.allows(turn) {
                guard model.instances[turn.process] == nil else { continue }
                turn = Turn(process: turn.process, action: .open)
            }
            if model.instances[turn.process] != nil, random.next(below: 2 * killEvery) == 0 {
                path.append(turn.process == .a ? "killed" : "B: killed")
                guard crash(turn.process, &model, .killed) else { return }
                continue
            }
            path.append("\(turn)")
            guard random.next(below: killEvery) == 0 else {
                guard perform(turn, on: &model) else { return }
                continue
            }
            let kill = ModelDisk.Kill(step: random.next(below: 14), way: random.next(below: 3))
            var next = model
            next.disk.arm(kill)
            do throws(Stop) { try next.perform(turn) } catch {
                if case .noSuchWay = error { continue }
                path.append("killed at step \(kill.step) way \(kill.way)")
                guard crash(turn.process, &next, error) else { return }
            }
            model = next
        }
        if finding == nil { finish(model) }
    }
}

// MARK: - One action

extension StoreExplorer {
    private mutating func perform(_ turn: Turn, on model: inout StoreModel) -> Bool {
        model.disk.arm(nil)
        do throws(Stop) {
            try model.perform(turn)
            return true
        } catch {
            note(error)
            return false
        }
    }

    private mutating func crash(_ process: Process, _ model: inout StoreModel, _ reason: Stop) -> Bool {
        do throws(Stop) {
            guard case .killed = reason else { throw reason }
            try model.crash(process)
            return true
        } catch {
            note(error)
            return false
        }
    }

    /// A last life without a kill delivers everything; one more leaves nothing behind.
    private mutating func finish(_ model: StoreModel) {
        schedules += 1
        var model = model
        model.disk.arm(nil)
        do throws(Stop) {
            func perform(_ actions: StoreModel.Action...) throws(Stop) {
                for action in actions { try model.perform(Turn(process: .a, action: action)) }
            }
            if model.instances[.b] != nil { try model.perform(Turn(process: .b, action: .shutdown)) }
            if model.instances[.a] == nil { try perform(.open) }
            if model.instances[.a]?.isOwner == false { try perform(.takeOver) }
            if model.instances[.a]?.inFlight != nil { try perform(.answer) }
            try perform(.look)
            while model.log.account.waiting > 0 { try perform(.deliver(.accepted)) }
            try perform(.shutdown, .open, .shutdown)
            try model.ledger.checkEnd(model.disk, model.log)
        } catch {
            path.append("end")
            note(error)
            path.removeLast()
        }
    }

    private mutating func note(_ stop: Stop) {
        guard finding == nil else { return }
        let broken = if case .broken(let text) = stop { text } else { "\(stop)" }
        finding = Finding(schedule: path, broken: broken)
    }
}

extension [StoreModel.Turn] {
    /// Whose turns they are.
    fileprivate var processes: [StoreModel.Process] {
        StoreModel.Process.allCases.filter { process in contains { $0.process == process } }
    }
}

/// The same numbers for the same seed, everywhere.
private struct SplitMix {
    var state: UInt64

    mutating func next(below bound: Int) -> Int {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return Int((mixed ^ (mixed >> 31)) % UInt64(bound))
    }

    mutating func pick<Element>(_ elements: [Element]) -> Element {
        elements[next(below: elements.count)]
    }
}
