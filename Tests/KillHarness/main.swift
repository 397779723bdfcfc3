// Kills a process that records events, over and over, and checks that what it reported as stored arrives, once but for
// what a kill explains, in order, with one start mark a session:
//
//     swift run -c release kill-harness [--kills N] [--seed S]

import Foundation

guard let options = HarnessOptions(Array(CommandLine.arguments.dropFirst())) else {
    FileHandle.standardError.write(Data((HarnessOptions.usage + "\n").utf8))
    exit(64)
}
if let child = options.child {
    var child = Child(child, seed: options.seed, trustsMemory: options.trustsMemory)
    exit(await child.run())
}
var parent = try Parent(options)
exit(try parent.run())
