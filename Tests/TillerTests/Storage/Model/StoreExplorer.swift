/// Runs schedules of actions and kills through the model until one breaks a rule.
struct StoreExplorer: Sendable {
    typealias Action = StoreModel.Action
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
    /// All schedules of `depth` actions, each with no kill and with a kill at every step, `kills` of them at most.
    /// After a kill and a shutdown comes an opening, or what befalls a folder in between.
    mutating func exhaust(depth: Int, kills: Int, actions: [Action]) {
        var model = StoreModel(mutation: mutation)
        do throws(Stop) { try model.perform(.open) } catch { return note(error) }
        exhaust(model, depth: depth, kills: kills, actions)
    }

    private mutating func exhaust(_ model: StoreModel, depth: Int, kills: Int, _ actions: [Action]) {
        guard finding == nil else { return }
        guard depth > 0 else { return finish(model) }
        let possible = model.instance == nil ? actions.filter(model.allows) + [.open] : actions.filter(model.allows)
        if kills > 0 { kill(model, depth: depth, kills: kills, actions) }
        for action in possible {
            path.append("\(action)")
            var next = model
            // An opening costs no depth, or a kill would leave no room for what shows its harm.
            let left = action == .open ? depth : depth - 1
            if perform(action, on: &next) { exhaust(next, depth: left, kills: kills, actions) }
            if kills > 0 { killInEveryStep(of: action, model, depth: left, kills: kills - 1, actions) }
            path.removeLast()
            if finding != nil { return }
        }
    }

    /// Between two actions. It costs no depth.
    private mutating func kill(_ model: StoreModel, depth: Int, kills: Int, _ actions: [Action]) {
        guard model.instance != nil, finding == nil else { return }
        var next = model
        path.append("killed")
        if crash(&next, .killed) { exhaust(next, depth: depth, kills: kills - 1, actions) }
        path.removeLast()
    }

    private mutating func killInEveryStep(
        of action: Action, _ model: StoreModel, depth: Int, kills: Int, _ actions: [Action]
    ) {
        // Before the first step is the same for all actions: `kill`.
        var kill = ModelDisk.Kill(step: 0, way: 1)
        while finding == nil {
            var next = model
            next.disk.arm(kill)
            do throws(Stop) {
                try next.perform(action)
                return
            } catch {
                guard case .noSuchWay = error else {
                    path.append("killed at step \(kill.step) way \(kill.way)")
                    if crash(&next, error) { exhaust(next, depth: depth, kills: kills, actions) }
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
    /// Schedules of `length` actions, about one in `killEvery` of them killed at some step.
    mutating func wander(
        schedules count: Int, length: Int, killEvery: Int, seed: UInt64, actions: [Action]
    ) {
        var random = SplitMix(state: seed)
        for _ in 0..<count where finding == nil {
            path = []
            wander(length: length, killEvery: killEvery, actions, &random)
        }
    }

    private mutating func wander(length: Int, killEvery: Int, _ actions: [Action], _ random: inout SplitMix) {
        var model = StoreModel(mutation: mutation)
        for _ in 0..<length where finding == nil {
            var action = random.pick(actions)
            if !model.allows(action) {
                guard model.instance == nil else { continue }
                action = .open
            }
            if model.instance != nil, random.next(below: 2 * killEvery) == 0 {
                path.append("killed")
                guard crash(&model, .killed) else { return }
                continue
            }
            path.append("\(action)")
            guard random.next(below: killEvery) == 0 else {
                guard perform(action, on: &model) else { return }
                continue
            }
            let kill = ModelDisk.Kill(step: random.next(below: 7), way: random.next(below: 3))
            var next = model
            next.disk.arm(kill)
            do throws(Stop) { try next.perform(action) } catch {
                if case .noSuchWay = error { continue }
                path.append("killed at step \(kill.step) way \(kill.way)")
                guard crash(&next, error) else { return }
            }
            model = next
        }
        if finding == nil { finish(model) }
    }
}

// MARK: - One action

extension StoreExplorer {
    private mutating func perform(_ action: Action, on model: inout StoreModel) -> Bool {
        model.disk.arm(nil)
        do throws(Stop) {
            try model.perform(action)
            return true
        } catch {
            note(error)
            return false
        }
    }

    private mutating func crash(_ model: inout StoreModel, _ reason: Stop) -> Bool {
        do throws(Stop) {
            guard case .killed = reason else { throw reason }
            try model.crash()
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
            if model.instance == nil { try model.perform(.open) }
            while model.log.account.waiting > 0 { try model.perform(.deliver(.accepted)) }
            for action in [Action.shutdown, .open, .shutdown] { try model.perform(action) }
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
