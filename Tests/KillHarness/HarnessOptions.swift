/// What the harness is asked for: by people without `--child`, by the parent with it.
struct HarnessOptions: Equatable {
    var kills = 50
    var seed: UInt64 = 1
    /// How many run side by side, each with a folder and a data plane of its own.
    var lanes = 3
    /// How many processes use a folder at the same time.
    var processes = 1
    /// Counts what is in memory only as stored: shows that a loss would be noticed.
    var trustsMemory = false
    var child: ChildOptions?

    static let usage = "usage: kill-harness [--kills N] [--seed S] [--lanes N] [--processes N] [--trust-memory]"

    /// `nil`: they can't be understood.
    init?(_ arguments: [String]) {
        var values: [String: String] = [:]
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            let value: String
            if ["--trust-memory", "--child", "--last"].contains(argument) {
                value = ""
            } else if let next = rest.popFirst() {
                value = next
            } else {
                return nil
            }
            guard values.updateValue(value, forKey: argument) == nil else { return nil }
        }
        trustsMemory = values.removeValue(forKey: "--trust-memory") != nil
        if values.removeValue(forKey: "--child") != nil {
            child = ChildOptions(&values)
            if child == nil { return nil }
        } else {
            for (name, number) in [("--kills", \Self.kills), ("--lanes", \.lanes), ("--processes", \.processes)] {
                guard let text = values.removeValue(forKey: name) else { continue }
                guard let value = Int(text), value >= (name == "--kills" ? 0 : 1), value <= 1_000_000 else {
                    return nil
                }
                self[keyPath: number] = value
            }
        }
        if let text = values.removeValue(forKey: "--seed") {
            guard let number = UInt64(text) else { return nil }
            seed = number
        }
        if !values.isEmpty { return nil }
    }
}

/// What a child is told.
struct ChildOptions: Equatable {
    let folder: String
    let url: String
    /// Which process of its folder it is, from 0 on.
    let life: Int
    /// The first number that it gives.
    let first: Int
    /// How many processes use the folder at the same time.
    let processes: Int
    /// Delivers what waits and ends, instead of recording.
    let isLast: Bool
    let time: HarnessTime

    init(
        folder: String, url: String, life: Int, first: Int, processes: Int = 1, isLast: Bool = false,
        time: HarnessTime
    ) {
        self.folder = folder
        self.url = url
        self.life = life
        self.first = first
        self.processes = processes
        self.isLast = isLast
        self.time = time
    }

    fileprivate init?(_ values: inout [String: String]) {
        func number(_ name: String) -> Int? { values.removeValue(forKey: name).flatMap { Int($0) } }
        guard let folder = values.removeValue(forKey: "--folder"), let url = values.removeValue(forKey: "--url"),
            let life = number("--life"), let first = number("--first"), let processes = number("--processes"),
            let time = values.removeValue(forKey: "--time").flatMap({ HarnessTime($0) })
        else { return nil }
        self.init(
            folder: folder, url: url, life: life, first: first, processes: processes,
            isLast: values.removeValue(forKey: "--last") != nil, time: time)
    }

    var arguments: [String] {
        [
            "--child", "--folder", folder, "--url", url, "--life", "\(life)", "--first", "\(first)", "--processes",
            "\(processes)", "--time", time.description,
        ] + (isLast ? ["--last"] : [])
    }
}
