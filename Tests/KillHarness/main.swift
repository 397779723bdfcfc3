// Kills processes that record events, over and over, against a data plane that fails in every way, and checks that what
// they reported as stored arrives, once but for what a kill or a lost answer explains, in order, with one start mark a
// session, and that the store's account says the same:
//
//     swift run -c release kill-harness [--kills N] [--seed S] [--lanes N] [--processes N]

import Foundation
import Tiller

guard let options = HarnessOptions(Array(CommandLine.arguments.dropFirst())) else {
    FileHandle.standardError.write(Data((HarnessOptions.usage + "\n").utf8))
    exit(64)
}
if let child = options.child {
    var child = Child(child, seed: options.seed, trustsMemory: options.trustsMemory)
    exit(await child.run())
}
exit(try await Harness(options).run())
