/// What the command line asks for.
struct Options {
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    static let usage =
        "usage: Benchmark [\(Workload.all.map(\.name).joined(separator: "] ["))] [--json] [--quick]"

    private(set) var workloads: [Workload] = []
    private(set) var isJSON = false
    private(set) var scale = Scale(isQuick: false)

    init(_ arguments: some Sequence<String>) throws(Failure) {
        for argument in arguments {
            switch argument {
            case "--json": isJSON = true
            case "--quick": scale = Scale(isQuick: true)
            default:
                guard let workload = Workload.all.first(where: { $0.name == argument }) else {
                    throw Failure(description: "Benchmark: unknown: \(argument)\n\(Self.usage)")
                }
                workloads.append(workload)
            }
        }
        if workloads.isEmpty { workloads = Workload.all }
    }
}

/// How much is done: the counts of the documentation, or few enough for a continuous integration.
struct Scale: Sendable {
    let isQuick: Bool

    /// A twentieth of a count.
    func count(_ full: Int) -> Int { isQuick ? full / 20 : full }

    /// How often a workload is run; each figure is the median.
    func runs(_ full: Int) -> Int { isQuick ? min(full, 3) : full }

    /// As above, for what takes long even so.
    func longRuns(_ full: Int) -> Int { isQuick ? 1 : full }
}
