import Foundation
import Tiller
import TillerTesting

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// The process that is killed: records at full speed, and reports what is stored.
struct Child {
    private let options: ChildOptions
    private let trustsMemory: Bool
    private let lifecycle = ManualLifecycleSource(isInForeground: true)
    private let analytics: Analytics
    private var random: SeededRandom
    private var number: Int

    init(_ options: ChildOptions, seed: UInt64, trustsMemory: Bool) {
        self.options = options
        self.trustsMemory = trustsMemory
        random = SeededRandom(seed: seed, stream: options.life + 1)
        number = options.first
        analytics = Analytics(
            configuration: Configuration(
                // Failed uploads are what it is all about.
                writeKey: "kill-harness", dataPlaneUrl: options.url, logLevel: .none,
                storage: .folder(URL(fileURLWithPath: options.folder)),
                lifecycleSource: lifecycle, time: options.time, transport: NumberedTransport(life: options.life),
                application: ApplicationInfo(name: "kill-harness", version: "1.0", build: "1"),
                // What waits while the data plane fails is not to be evicted.
                limits: Limits(storageBytes: 2_000_000_000)))
    }

    /// - Returns: The exit status; not before the end of the world unless this is the last child.
    mutating func run() async -> Int32 {
        Self.endWithParent()
        if options.isLast {
            await analytics.flushed()
            // A minute.
            Self.tell(.waiting(await analytics.shutdownAndWait(timeout: .seconds(60) * HarnessTime.speed)))
            return 0
        }
        while true {
            let last = number + Int.random(in: 0..<40, using: &random)
            Self.tell(.records(upTo: last))
            while number <= last {
                disturb()
                analytics.track(
                    name: "Step", properties: ["number": .int(Int64(number)), "life": .int(Int64(options.life))])
                number += 1
            }
            let result = await analytics.stored()
            if result == .stored || trustsMemory { Self.tell(.stored(upTo: last)) }
            if random.happens(onceIn: 2) { await flush(upTo: last) }
        }
    }

    /// Waits until everything is delivered, or can't be now.
    private func flush(upTo last: Int) async {
        switch await analytics.flushed() {
        // What this process has delivered says nothing of what another one of the folder has stored before.
        case .delivered, .nothingWaiting: if options.processes == 1 { Self.tell(.delivered(upTo: last)) }
        case .waiting, .stopped: break
        }
    }

    /// Now and then something else than a track event, so that identity and session change.
    private mutating func disturb() {
        if random.happens(onceIn: 100) {
            let user = Int.random(in: 0..<5, using: &random)
            analytics.identify(userId: "user-\(user)", traits: ["number": .int(Int64(number))])
        }
        if random.happens(onceIn: 300) { analytics.reset() }
        if random.happens(onceIn: 300) { analytics.startSession() }
        if random.happens(onceIn: 600) { analytics.endSession() }
        if random.happens(onceIn: 300) {
            lifecycle.background()
            lifecycle.foreground()
        }
    }

    /// At once: what waits in a buffer would be unknown to the parent after the kill.
    private static func tell(_ report: Report) {
        let bytes = Array(report.line.utf8)
        guard write(STDOUT_FILENO, bytes, bytes.count) == bytes.count else { exit(1) }  // the parent is gone
    }

    /// The parent holds the other end of standard input, which closes when it ends, however it ends.
    private static func endWithParent() {
        let thread = Thread {
            var byte: UInt8 = 0
            while read(STDIN_FILENO, &byte, 1) > 0 {}
            exit(1)
        }
        thread.start()
    }
}

/// Marks each request with its sender, in the header that the local data plane keeps with every event.
private struct NumberedTransport: Transport {
    let life: Int
    private let system = URLSessionTransport()
    private let count = Locked(0)

    init(life: Int) { self.life = life }

    func post(_ request: TransportRequest) async throws -> TransportResponse {
        let number = count.withLock { count in
            defer { count += 1 }
            return count
        }
        var headers = request.headers
        headers["AnonymousId"] = Sender(life: life, request: number).description
        return try await system.post(
            TransportRequest(url: request.url, headers: headers, body: request.body, timeout: request.timeout))
    }
}

/// Which request of which child.
struct Sender: Equatable, CustomStringConvertible {
    let life: Int
    let request: Int

    var description: String { "\(life).\(request)" }

    init(life: Int, request: Int) {
        self.life = life
        self.request = request
    }

    /// `nil`: it is none.
    init?(_ text: String) {
        let numbers = text.split(separator: ".").compactMap { Int($0) }
        guard numbers.count == 2 else { return nil }
        self.init(life: numbers[0], request: numbers[1])
    }
}
