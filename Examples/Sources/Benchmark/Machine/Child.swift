import Foundation

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#endif

/// A process of the benchmark's own: for what must begin clean, or must not share a process with what is measured.
///
/// It says what it has to say in lines, and ends when its standard input does, or before.
final class Child {
    typealias Role = @Sendable ([String]) async throws -> Void

    /// Before the name of a role on the command line: not for people.
    private static let mark = "--as"

    private let process = Process()
    private let input = Pipe()
    private let output = Pipe()
    private var unread: [UInt8] = []

    var processId: Int32 { process.processIdentifier }
    var outputDescriptor: Int32 { output.fileHandleForReading.fileDescriptor }

    /// What this process is to do if it is such a child.
    static func role(in arguments: [String]) throws -> (Role, [String])? {
        guard arguments.count > 2, arguments[1] == mark else { return nil }
        guard let role = Workload.all.compactMap({ $0.roles[arguments[2]] }).first else {
            throw Options.Failure(description: Options.usage)
        }
        return (role, Array(arguments.dropFirst(3)))
    }

    /// Starts a process.
    ///
    /// - Parameters:
    ///   - role: What it does.
    ///   - arguments: What the role is told.
    ///   - isPinned: Whether it has one processor only; see `canPin`.
    init(_ role: String, _ arguments: [String] = [], isPinned: Bool = false) throws {
        let program = Bundle.main.executablePath ?? CommandLine.arguments[0]
        let command = (isPinned ? [Self.pinning, "-c", "0"] : []) + [program, Self.mark, role] + arguments
        process.executableURL = URL(fileURLWithPath: command[0])
        process.arguments = Array(command.dropFirst())
        process.standardInput = input
        process.standardOutput = output
        try process.run()
    }

    private static let pinning = "/usr/bin/taskset"

    /// Whether a process can be bound to one processor here.
    static var canPin: Bool { FileManager.default.isExecutableFile(atPath: pinning) }

    /// The next line that it says.
    func line() throws -> String {
        var chunk = [UInt8](repeating: 0, count: 4_096)
        while true {
            if let end = unread.firstIndex(of: UInt8(ascii: "\n")) {
                defer { unread.removeFirst(end + 1) }
                return String(decoding: unread[..<end], as: UTF8.self)
            }
            let count = read(outputDescriptor, &chunk, chunk.count)
            try check(count > 0, "A process of the benchmark's own ended without a word")
            unread += chunk[..<count]
        }
    }

    /// Lets it end.
    func end() throws {
        try? input.fileHandleForWriting.close()
        process.waitUntilExit()
        try check(process.terminationStatus == 0, "A process of the benchmark's own failed")
    }

    /// Starts a process, and returns the numbers that it says before it ends.
    static func numbers(
        from role: String, _ arguments: [String] = [], isPinned: Bool = false
    ) throws -> [String: Double] {
        let child = try Child(role, arguments, isPinned: isPinned)
        let line = try child.line()
        try child.end()
        return try JSONDecoder().decode([String: Double].self, from: Data(line.utf8))
    }
}

// MARK: - In the child

extension Child {
    /// Says a line.
    static func say(_ text: String) {
        FileHandle.standardOutput.write(Data((text + "\n").utf8))
    }

    /// Says numbers.
    static func say(_ numbers: [String: Double]) throws {
        say(String(decoding: try JSONEncoder().encode(numbers), as: UTF8.self))
    }

    /// Blocks, without a single wake-up, until the parent has no more use for this process.
    static func waitForEnd() {
        var byte: UInt8 = 0
        while read(STDIN_FILENO, &byte, 1) > 0 {}
    }
}
