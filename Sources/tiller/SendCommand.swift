import Foundation
import Tiller

/// `tiller send`: events from standard input to a data plane.
struct SendCommand {
    static let help = """
        usage: tiller send --data-plane-url URL --write-key KEY [--store FOLDER] < EVENTS

        Records the events that it reads from standard input, one JSON object a line, and delivers them in that order.

          {"type":"track","name":"Order Completed","properties":{"total":12.5}}
          {"type":"screen","name":"Basket","category":"Shop","properties":{}}
          {"type":"identify","userId":"alice","traits":{"plan":"pro"}}
          {"type":"group","groupId":"acme","traits":{}}
          {"type":"alias","userId":"alice@example.com","previousId":"alice"}

        name may be called event, as it is on the wire. Every line may have anonymousId, context (members of the event's
        context; what the SDK puts there itself wins) and integrations; track, screen and group also userId. Other members
        are ignored, and so are blank lines.

        Who it was: track, screen and group lines with userId or anonymousId, and identify and alias lines with
        anonymousId, are about that person alone. Other identify and alias lines change the user of the lines after them
        that name nobody, as in an app. With --store that user is remembered for the next run.

        Without --store events are in memory until they are delivered, and when the data plane fails, reading stops.
        With it they are stored in FOLDER first, and what can't be delivered waits there for the next run with the same
        write key, also one with nothing to read. Reading stops when 30 MB or so wait.

        A bad line is told on standard error, and the others are sent.
        Exit status: 0 all delivered; 1 some lines were bad, the others are delivered; 2 not all is delivered, or not all
        could be read; 64 usage.
        """

    private let options: SendOptions
    private let analytics: Analytics
    private let input = StandardInput()
    private var pace = SendPace()
    private var recorded = 0
    private var badLines = 0
    private var isOnDisk = false
    /// Why the last attempt to deliver failed.
    private var failure: String?
    /// There is no room for another event.
    private var isFull = false
    /// Why no more is read.
    private var stop: String?

    static func run(_ arguments: [String]) async -> Int32 {
        if arguments.contains("--help") || arguments.contains("-h") {
            print(help)
            return 0
        }
        do {
            var command = SendCommand(try SendOptions(arguments))
            await command.sendInput()
            return await command.finish()
        } catch {
            TillerCommand.complain("\(error.reason) (see tiller send --help)")
            return TillerCommand.usage
        }
    }

    private init(_ options: SendOptions) {
        self.options = options
        analytics = Analytics(
            configuration: Configuration(
                writeKey: options.writeKey, dataPlaneUrl: options.dataPlaneUrl, logger: StandardErrorLogger(),
                logLevel: .warn, storage: options.store.map { .folder(URL(fileURLWithPath: $0)) } ?? .memory,
                limits: SendPace.limits),
            plugins: [DroppedLines()])
    }

    // MARK: Reading

    private mutating func sendInput() async {
        var lines = InputLines()
        while stop == nil {
            do {
                let piece = try await input.next()
                guard !piece.isEmpty else { break }
                for line in lines.take(piece) where stop == nil { await take(line) }
            } catch {
                stop = "standard input can't be read: \(error)"
            }
        }
        if stop == nil, let line = lines.end() { await take(line) }
    }

    private mutating func take(_ line: InputLines.Line) async {
        if line.isBlank { return }
        if isFull, let failure {
            stop = "reading stopped before line \(line.number): \(failure)"
            return
        }
        do {
            guard let bytes = line.bytes else {
                throw EventLine.Problem(reason: "it is longer than \(InputLines.longestLine) bytes")
            }
            let event = try EventLine(bytes)
            analytics.perform(DroppedLines.Begin(line: line.number))
            event.record(in: analytics)
            recorded += 1
            pace.record(bytes: bytes.count)
        } catch let problem as EventLine.Problem {
            report(line.number, problem.reason)
        } catch {
            report(line.number, "\(error)")
        }
        guard pace.isDue else { return }
        await settle()
        guard pace.needsDelivery(isOnDisk: isOnDisk) else { return }
        await deliver()
        // Once more, for a connection may break.
        if failure != nil { await deliver() }
        isFull = failure != nil
    }

    private mutating func report(_ line: Int, _ reason: String) {
        TillerCommand.complain("line \(line): \(reason)")
        badLines += 1
    }

    // MARK: Waiting

    /// Waits until everything has passed the pipeline, and reports what came out of it no more.
    private mutating func settle() async {
        isOnDisk = await analytics.stored() == .stored
        pace.didStore()
        for line in DroppedLines.take(from: analytics) {
            recorded -= 1
            report(line, "the SDK dropped the event, for the reason that it has given above")
        }
    }

    private mutating func deliver() async {
        switch await analytics.flushed() {
        case .delivered, .nothingWaiting:
            failure = nil
            pace.didDeliver()
        case .waiting(_, let reason), .stopped(let reason): failure = reason
        }
    }

    // MARK: The end

    private mutating func finish() async -> Int32 {
        await settle()
        if failure == nil { await deliver() }
        // It tries what waits once more.
        let waiting = await analytics.shutdownAndWait()
        // The oldest are delivered first, so that what waits are the last, and maybe more than this run's.
        let sent = max(0, recorded - waiting)
        if let stop { TillerCommand.complain(stop) }
        if waiting > 0 { TillerCommand.complain(fate(of: waiting)) }
        var summary = "sent \(Self.count(sent, "event"))"
        if waiting > 0 { summary += ", \(waiting) not delivered" }
        if waiting == 0, isOnDisk, let store = options.store { summary += ", nothing waits in \(store)" }
        if badLines > 0 { summary += ", \(Self.count(badLines, "bad line"))" }
        TillerCommand.complain(summary)
        if waiting > 0 || stop != nil { return 2 }
        return badLines > 0 ? 1 : 0
    }

    private func fate(of waiting: Int) -> String {
        let fate =
            if let store = options.store {
                isOnDisk ? "they wait in \(store) for the next run" : "nothing could be stored"
            } else {
                "there is no --store"
            }
        return "not delivered: \(Self.count(waiting, "event")); \(fate); \(failure ?? "time was up")"
    }

    private static func count(_ count: Int, _ noun: String) -> String { "\(count) \(noun)\(count == 1 ? "" : "s")" }
}

/// The SDK's messages on standard error on every platform.
private struct StandardErrorLogger: Logger {
    func warn(log: String) { TillerCommand.complain("tiller: \(log)") }

    func error(log: String, error: (any Error)?) {
        TillerCommand.complain("tiller: \(log)\(error.map { ": \($0)" } ?? "")")
    }
}
