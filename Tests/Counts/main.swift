// Records a number of events, as an app does, and ends: the counts of two runs, whose numbers differ, give the counts of an
// event. `.ci/counts` runs it below the tools that count.
//
//     counts [--held] WORKLOAD EVENTS FOLDER [URL]
//
// WORKLOAD is "typed", "any" (a `[String: Any]`), "nested" (typed, with an array and an object) or "deliver": typed, and
// what is stored is sent to the data plane at URL. With "--held" the pipeline waits while events are recorded, see
// `HeldExecutors`. What was done is printed: "stored 2000 events", "sent 4 requests".

import Foundation

guard let options = CountsOptions(Array(CommandLine.arguments.dropFirst())) else {
    FileHandle.standardError.write(Data((CountsOptions.usage + "\n").utf8))
    exit(64)
}
// It lives until the process has ended: one that is released tries to deliver what waits, as an instance does.
let workload = Workload(options)
// No `await` here: it would move the calls to another thread, and the first one is the caller whose work is counted. What
// is left of the first thread then is also what valgrind 3.19 crashes on.
exit(workload.run())
