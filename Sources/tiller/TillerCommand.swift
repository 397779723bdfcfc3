import Foundation

/// The subcommands.
enum TillerCommand {
    /// The exit status of a call that can't be understood, and of an unreadable file (sysexits.h).
    static let usage: Int32 = 64

    static let help = """
        usage: tiller sessions [--background carry|exclude|include] [--timeout D] [--automatic on|off] FILE...
               tiller send --data-plane-url URL --write-key KEY [--store FOLDER] < EVENTS
               tiller store [--check] [--json] [--bundle FILE] FOLDER
               tiller serve [--port N] [--write-key K]... [--strict] [--forget] [--faults SCRIPT]

          sessions   runs session scenarios with the real SDK under a virtual clock. With an option, the
                     scenarios' headers are overridden, nothing is checked, and a table tells what would happen.
                     D is a duration: 250ms, 1.5s, 5m, 1h, 2d, or a sum of them.
          send       records the events that it reads, one JSON object a line; see tiller send --help.
          store      what waits in a store; checks it, and makes a report for support; see tiller store --help.
          serve      a data plane on 127.0.0.1 that answers as RudderStack's gateway does. Prints its URL, then a
                     line for each event: time (UTC), kind, name, session, user; refusals on standard error.
                     GET /tiller/events shows all events as JSON. Ends on SIGINT or SIGTERM.
                     --port N       8080 by default, 0 for a free one
                     --write-key K  a key that is known, once for each; without it any key is
                     --strict       the hosted service's limits too: 32 KB an event, 4 MB a batch, 200 levels
                     --forget       keeps no event, for long runs: /tiller/events stays empty
                     --faults FILE  refuses, delays, cuts, spoils answers; see tiller serve --help

        Exit status of sessions: 0 all pass, 1 some fail, 64 usage or an unreadable file. Of serve: 0 ended by a
        signal, 1 the port can't be had, 64 usage.
        """

    static func run(_ arguments: [String]) async -> Int32 {
        switch arguments.first {
        case "sessions": return await SessionsCommand.run(Array(arguments.dropFirst()))
        case "send": return await SendCommand.run(Array(arguments.dropFirst()))
        case "store": return await StoreCommand.run(Array(arguments.dropFirst()))
        case "serve": return await ServeCommand.run(Array(arguments.dropFirst()))
        case "--help", "-h", "help":
            print(help)
            return 0
        default:
            complain(arguments.first.map { "'\($0)' is not a command\n" + help } ?? help)
            return usage
        }
    }

    /// On standard error. Where that can't be written to there is no one to tell; the other way of writing traps then.
    static func complain(_ text: String) {
        try? FileHandle.standardError.write(contentsOf: Data((text + "\n").utf8))
    }
}
