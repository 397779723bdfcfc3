import Foundation

/// The subcommands.
enum TillerCommand {
    /// The exit status of a call that can't be understood, and of an unreadable file (sysexits.h).
    static let usage: Int32 = 64

    static let help = """
        usage: tiller sessions [--background carry|exclude|include] [--timeout D] [--automatic on|off] FILE...

          sessions   runs session scenarios with the real SDK under a virtual clock. With an option, the
                     scenarios' headers are overridden, nothing is checked, and a table tells what would happen.

        D is a duration: 250ms, 1.5s, 5m, 1h, 2d, or a sum of them.
        Exit status: 0 all pass, 1 some fail, 64 usage or an unreadable file.
        """

    static func run(_ arguments: [String]) async -> Int32 {
        switch arguments.first {
        case "sessions": return await SessionsCommand.run(Array(arguments.dropFirst()))
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
