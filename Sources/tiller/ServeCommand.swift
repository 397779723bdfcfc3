import Dispatch
import Foundation
import Tiller
import TillerTesting

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#endif

/// `tiller serve`: a data plane to develop against.
struct ServeCommand {
    /// RudderStack's own server listens there too, so that the app's URL need not change.
    private var port: UInt16 = 8_080
    private var rules = LocalDataPlane.Rules()
    private var faults: String?

    /// What `--help` tells beside the help of all commands.
    private static let faultsHelp = """

        A script of faults has a line for each rule: WHEN: FAULT. Requests to POST /v1/batch are counted from 1; the first
        rule that applies to one decides alone. seed N sets what chances are drawn from, # begins a comment.

          at 3: refuse
          chance 0.1 from 10 to 500: cut after-storing
          every 25 for 3: status 503 "Service Unavailable\\n" retry-after 2s

        WHEN is always, at N, every N, chance P (0 to 1) or from A to B; from A and to B may follow the others, and for K
        makes the rule go on for K requests each time. FAULT is one of these, or delay D, or delay D then one of these:

          refuse                   the connection is reset as soon as it is made
          cut POINT, reset POINT   no answer: before-reading, in-body, before-storing or after-storing
          status N "BODY" header NAME "VALUE" retry-after D stored
                                   that answer; all but N can be left out, retry-after-date D is the header's other form,
                                   and with stored the events are stored all the same
          page "HTML"              200 and a page; like garbage's, its text can be left out
          redirect N LOCATION      301, 302, 303, 307 or 308, to a path or to http://127.0.0.1
          garbage "TEXT"           what is no HTTP
          trickle D                the true answer byte by byte, with a pause after each, which can be left out
          truncate                 the true answer, half of its body
          length N                 the true answer with this Content-Length, then the connection closes
          chunked                  the true answer in chunks of one byte
          close                    the true answer, then the connection closes without notice

        Texts are JSON strings. What was done to a request is told on standard error.
        """

    private static let running = Locked<LocalDataPlane?>(nil)

    static func run(_ arguments: [String]) async -> Int32 {
        if arguments.contains("--help") || arguments.contains("-h") {
            print(TillerCommand.help + "\n" + faultsHelp)
            return 0
        }
        var command = ServeCommand()
        command.rules.retention = .storedEvents
        if let problem = command.read(arguments) {
            TillerCommand.complain(problem + "\n" + TillerCommand.help)
            return TillerCommand.usage
        }
        if let problem = command.readFaults() {
            TillerCommand.complain(problem)
            return TillerCommand.usage
        }
        return await command.serve()
    }

    /// - Returns: What is wrong with the arguments; `nil`: nothing.
    private mutating func read(_ arguments: [String]) -> String? {
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            switch argument {
            case "--strict": rules.isStrict = true
            case "--forget": rules.retention = .nothing
            case "--port":
                guard let value = rest.popFirst() else { return "--port needs a value" }
                guard let port = UInt16(value) else { return "--port is a number up to 65535, not '\(value)'" }
                self.port = port
            case "--write-key":
                guard let value = rest.popFirst() else { return "--write-key needs a value" }
                guard !value.isEmpty else { return "--write-key can't be empty" }
                rules.writeKeys = (rules.writeKeys ?? []).union([value])
            case "--faults":
                guard let value = rest.popFirst() else { return "--faults needs a value" }
                guard faults == nil else { return "--faults is given twice" }
                faults = value
            default: return "\(argument) is not an option"
            }
        }
        return nil
    }

    /// - Returns: What is wrong with the script; `nil`: nothing, or there is none.
    private mutating func readFaults() -> String? {
        guard let faults else { return nil }
        do {
            let data = try Data(contentsOf: URL(fileURLWithPath: faults))
            guard let text = String(bytes: data, encoding: .utf8) else { return "\(faults): it is not UTF-8" }
            rules.faults = try FaultScript.read(text, file: faults)
            return nil
        } catch let error as FaultScript.ReadingError {
            return "\(error)"
        } catch {
            return "\(faults): can't be read"
        }
    }

    private func serve() async -> Int32 {
        let (endings, ending) = AsyncStream<Void>.makeStream()
        // Before anyone can know the URL.
        let signals = [SIGINT, SIGTERM].map { number in
            signal(number, SIG_IGN)  // the source alone decides
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler { ending.yield() }
            source.activate()
            return source
        }
        signal(SIGPIPE, SIG_IGN)  // a reader that has gone is an error of `write`
        // Whoever read the lines has gone: there is no one to serve for.
        let output = ServeOutput { ending.yield() }
        let plane: LocalDataPlane
        do {
            plane = try LocalDataPlane(port: port, rules: rules, timeSource: SystemTime()) { output.tell($0) }
        } catch {
            TillerCommand.complain("\(error)")
            return 1
        }
        output.print("listening on \(plane.url)\n")
        // Held until the process's end, which frees the port: stopping the server would wait for a reader of the lines that
        // reads no more.
        Self.running.withLock { $0 = plane }
        for await _ in endings { break }
        for source in signals { source.cancel() }
        exit(0)
    }
}

/// What `tiller serve` prints: each request's lines in one piece, at once.
private final class ServeOutput: Sendable {
    private let isOpen = Locked(true)
    private let onReaderGone: @Sendable () -> Void

    init(onReaderGone: @escaping @Sendable () -> Void) { self.onReaderGone = onReaderGone }

    func tell(_ exchange: LocalDataPlane.Exchange) {
        if exchange.fault != nil {
            TillerCommand.complain(ServeLine.fault(exchange))
        } else if exchange.reply.status >= 400 {
            TillerCommand.complain(ServeLine.refusal(exchange))
        }
        if !exchange.events.isEmpty {
            print(exchange.events.map { ServeLine.event($0, at: exchange.milliseconds) + "\n" }.joined())
        }
    }

    func print(_ text: String) {
        let failed = isOpen.withLock { isOpen in
            guard isOpen else { return false }
            do {
                try FileHandle.standardOutput.write(contentsOf: Data(text.utf8))
            } catch {
                isOpen = false
            }
            return !isOpen
        }
        if failed { onReaderGone() }
    }
}
