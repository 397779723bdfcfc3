/// What the harness is asked for: by people without `--child`, by the parent with it.
struct HarnessOptions {
    var kills = 50
    var seed: UInt64 = 1
    /// Counts what is in memory only as stored: shows that a loss would be noticed.
    var trustsMemory = false
    var child: ChildOptions?

    static let usage = "usage: kill-harness [--kills N] [--seed S] [--trust-memory]"

    /// `nil`: they can't be understood.
    init?(_ arguments: [String]) {
        var values: [String: String] = [:]
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            if ["--trust-memory", "--child", "--last"].contains(argument) {
                values[argument] = ""
            } else if let value = rest.popFirst() {
                values[argument] = value
            } else {
                return nil
            }
        }
        trustsMemory = values.removeValue(forKey: "--trust-memory") != nil
        if let text = values.removeValue(forKey: "--seed") {
            guard let number = UInt64(text) else { return nil }
            seed = number
        }
        if values.removeValue(forKey: "--child") != nil {
            child = ChildOptions(&values)
            if child == nil { return nil }
        } else if let text = values.removeValue(forKey: "--kills") {
            guard let number = Int(text), number >= 0 else { return nil }
            kills = number
        }
        if !values.isEmpty { return nil }
    }
}

/// What a child is told.
struct ChildOptions {
    let folder: String
    let url: String
    /// Which child it is, from 0 on.
    let life: Int
    /// The first number that it gives.
    let first: Int
    /// Delivers what waits and ends, instead of recording.
    let isLast: Bool

    fileprivate init?(_ values: inout [String: String]) {
        guard let folder = values.removeValue(forKey: "--folder"), let url = values.removeValue(forKey: "--url"),
            let life = values.removeValue(forKey: "--life").flatMap({ Int($0) }),
            let first = values.removeValue(forKey: "--first").flatMap({ Int($0) })
        else { return nil }
        self.folder = folder
        self.url = url
        self.life = life
        self.first = first
        isLast = values.removeValue(forKey: "--last") != nil
    }

    init(folder: String, url: String, life: Int, first: Int, isLast: Bool) {
        self.folder = folder
        self.url = url
        self.life = life
        self.first = first
        self.isLast = isLast
    }

    var arguments: [String] {
        ["--child", "--folder", folder, "--url", url, "--life", "\(life)", "--first", "\(first)"]
            + (isLast ? ["--last"] : [])
    }
}
