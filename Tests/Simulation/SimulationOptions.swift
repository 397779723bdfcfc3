/// What the simulation is asked for.
struct SimulationOptions: Equatable {
    var seeds = 10_000
    /// The first seed, or the only one.
    var first: UInt64 = 1
    /// Runs that one only, and prints all that happens in it.
    var isSingle = false
    var wantsHelp = false

    static let usage = "usage: simulate [--seeds N] [--seed S]"
    static let help = """
        \(usage)

        Runs the SDK in a world of which a seed draws everything: clock, disk, network, lifecycle, calls, kills.

          --seeds N  how many seeds, from 1 on; 10000 by default
          --seed S   this seed alone, with all that happens in it; with --seeds: the first one

        Exits with 1 if a seed breaks a rule; it is printed with the end of its trace.
        """

    /// `nil`: they can't be understood.
    init?(_ arguments: [String]) {
        var rest = arguments[...]
        var hasCount = false
        while let argument = rest.popFirst() {
            switch argument {
            case "--help", "-h": wantsHelp = true
            case "--seeds":
                guard let count = rest.popFirst().flatMap({ Int($0) }), count > 0 else { return nil }
                seeds = count
                hasCount = true
            case "--seed":
                guard let seed = rest.popFirst().flatMap({ UInt64($0) }) else { return nil }
                first = seed
                isSingle = true
            default: return nil
            }
        }
        if hasCount { isSingle = false } else if isSingle { seeds = 1 }
    }
}
