// What Tiller costs on this machine, in figures, each beside what the machine itself takes for the least that must be done.
// Nothing here passes or fails by a figure; a workload whose events are not all there at its end fails.
//
//     swift run -c release --package-path Examples Benchmark [workload…] [--json] [--quick]

import Foundation

// A server that closes a connection must not end the benchmark.
signal(SIGPIPE, SIG_IGN)

// Not on the main actor: on Linux that ends the main thread in a way that valgrind does not survive.
Task.detached { exit(await run(CommandLine.arguments)) }
DispatchSemaphore(value: 0).wait()

/// - Returns: The exit status.
func run(_ arguments: [String]) async -> Int32 {
    do {
        if let (role, roleArguments) = try Child.role(in: arguments) {
            try await role(roleArguments)
            return 0
        }
        let options = try Options(arguments.dropFirst())
        Folder.shareWithChildren()
        defer { Folder.removeAll() }
        var figures: [Figure] = []
        for workload in options.workloads {
            complain("\(workload.name) …")
            figures += try await workload.measure(options.scale)
        }
        print(options.isJSON ? try Figure.json(figures) : Figure.table(figures))
        return 0
    } catch let error as Options.Failure {
        complain(error.description)
        return 64
    } catch {
        complain("Benchmark: \(error)")
        return 1
    }
}

/// Standard output is for figures alone.
func complain(_ text: String) { FileHandle.standardError.write(Data((text + "\n").utf8)) }
