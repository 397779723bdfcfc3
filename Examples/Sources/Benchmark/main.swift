// What a call and an event cost on this machine, in figures; nothing here passes or fails by them.
//
//     swift run -c release --package-path Examples Benchmark [caller] [pipeline] [--json]
//
// "caller" is how long `track` keeps its caller, "pipeline" is how many events a second go from the call to the disk.

import Foundation

let workloads = ["caller": measureCaller, "pipeline": measurePipeline]
let asJSON = CommandLine.arguments.contains("--json")
let asked = CommandLine.arguments.dropFirst().filter { $0 != "--json" }
let names = asked.isEmpty ? workloads.keys.sorted() : Array(asked)

guard names.allSatisfy(workloads.keys.contains) else {
    complain("usage: Benchmark [\(workloads.keys.sorted().joined(separator: "] ["))] [--json]")
    exit(64)
}
do {
    var figures: [Figure] = []
    for name in names { figures += try await workloads[name]?() ?? [] }
    print(asJSON ? try Figure.json(figures) : Figure.table(figures))
} catch {
    complain("Benchmark: \(error)")
    exit(1)
}

func complain(_ text: String) { FileHandle.standardError.write(Data((text + "\n").utf8)) }
