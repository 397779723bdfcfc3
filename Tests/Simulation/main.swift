// Runs the whole SDK in simulated worlds, one for each seed, and checks the rules in all of them:
//
//     swift run -c release simulate [--seeds N] [--seed S]

import Foundation

guard let options = SimulationOptions(Array(CommandLine.arguments.dropFirst())) else {
    FileHandle.standardError.write(Data((SimulationOptions.usage + "\n").utf8))
    exit(64)
}
if options.wantsHelp {
    print(SimulationOptions.help)
    exit(0)
}
let result = Simulation(options: options) { print($0) }.run(threads: ProcessInfo.processInfo.activeProcessorCount)
if !result.failed.isEmpty {
    print("failed seeds: \(result.failed.sorted().prefix(50).map { "\($0)" }.joined(separator: " "))")
}
print(result.description)
exit(result.failed.isEmpty ? 0 : 1)
