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

    private static let running = Locked<LocalDataPlane?>(nil)

    static func run(_ arguments: [String]) async -> Int32 {
        if arguments.contains("--help") || arguments.contains("-h") {
            print(TillerCommand.help)
            return 0
        }
        var command = ServeCommand()
        command.rules.retention = .storedEvents
        if let problem = command.read(arguments) {
            TillerCommand.complain(problem + "\n" + TillerCommand.help)
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
            default: return "\(argument) is not an option"
            }
        }
        return nil
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
        if exchange.reply.status >= 400 {
            TillerCommand.complain(ServeLine.refusal(exchange))
        } else if !exchange.events.isEmpty {
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
