import Foundation

/// The subcommands.
enum TillerCommand {
    /// The exit status of a call that can't be understood, and of an unreadable file (sysexits.h).
    static let usage: Int32 = 64

    static let help = """
        usage: tiller sessions [--background carry|exclude|include] [--timeout D] [--automatic on|off] FILE...
               tiller send --data-plane-url URL --write-key KEY [--store FOLDER] < EVENTS

          sessions   runs session scenarios with the real SDK under a virtual clock. With an option, the
                     scenarios' headers are overridden, nothing is checked, and a table tells what would happen.
          send       records the events that it reads, one JSON object a line; see tiller send --help.

        D is a duration: 250ms, 1.5s, 5m, 1h, 2d, or a sum of them.
        Exit status of sessions: 0 all pass, 1 some fail, 64 usage or an unreadable file.
        """

    static func run(_ arguments: [String]) async -> Int32 {
        switch arguments.first {
        case "sessions": return await SessionsCommand.run(Array(arguments.dropFirst()))
        case "send": return await SendCommand.run(Array(arguments.dropFirst()))
        case "--help", "-h", "help":
            print(help)
            return 0
        default:
            complain(arguments.first.map { "'\($0)' is not a command\n" + help } ?? help)
            return usage
        }
    }

    /// On standard error.
    static func complain(_ text: String) { FileHandle.standardError.write(Data((text + "\n").utf8)) }
}
