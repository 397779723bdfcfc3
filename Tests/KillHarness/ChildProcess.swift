import Foundation

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// A running child, from the parent's side. Whoever starts one ends it with `kill()` or `waitForEnd()`.
final class ChildProcess {
    private let process = Process()
    private let output = Pipe()
    /// Held open for as long as the child may live.
    private let input = Pipe()
    private var begun: [UInt8] = []

    /// The longest silence of a child at work.
    private static let patience: Int32 = 60_000

    /// The child said nothing for a minute.
    struct Hung: Error {}

    init(_ options: ChildOptions, seed: UInt64, trustsMemory: Bool) throws {
        process.executableURL = Bundle.main.executableURL ?? URL(fileURLWithPath: CommandLine.arguments[0])
        process.arguments = options.arguments + ["--seed", "\(seed)"] + (trustsMemory ? ["--trust-memory"] : [])
        process.standardInput = input
        process.standardOutput = output
        try process.run()
        // The end of its output is seen only when nobody else can write there.
        try? output.fileHandleForWriting.close()
        try? input.fileHandleForReading.close()
    }

    /// What it reported since the last call; `nil` at the end of its output.
    func nextReports() throws -> [Report]? {
        let descriptor = output.fileHandleForReading.fileDescriptor
        var ready = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        guard poll(&ready, 1, Self.patience) != 0 else { throw Hung() }
        // A few lines at a time: the moment of a kill is counted in them.
        var bytes = [UInt8](repeating: 0, count: 64)
        let count = read(descriptor, &bytes, bytes.count)
        guard count > 0 else { return count < 0 && errno == EINTR ? [] : nil }
        begun += bytes[..<count]
        var lines = begun.split(separator: 0x0A, omittingEmptySubsequences: false)
        begun = Array(lines.removeLast())
        return lines.compactMap { Report(line: String(decoding: $0, as: UTF8.self)) }
    }

    var identifier: Int32 { process.processIdentifier }

    /// Ends it wherever it is. Nothing happens if it has ended already.
    func kill() {
        if process.isRunning { ChildProcess.kill(process.processIdentifier) }
    }

    /// Ends a process that is known to be there.
    static func kill(_ identifier: Int32) { signal(identifier, SIGKILL) }

    /// How it ended.
    struct End {
        let isSignal: Bool
        /// The status or the signal's number.
        let code: Int32

        var isKill: Bool { isSignal && code == SIGKILL }
    }

    func waitForEnd() -> End {
        process.waitUntilExit()
        return End(isSignal: process.terminationReason == .uncaughtSignal, code: process.terminationStatus)
    }
}

private func signal(_ process: Int32, _ number: Int32) {
    #if canImport(Darwin)
    Darwin.kill(process, number)
    #elseif canImport(Glibc)
    Glibc.kill(process, number)
    #elseif canImport(Musl)
    Musl.kill(process, number)
    #endif
}
