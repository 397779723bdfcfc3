import Foundation
import Testing
import TillerTesting

@testable import Tiller

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#endif

/// Signals that an instance is asked to observe: what is stored and told before they take their course, and that they take
/// it. Each test is a process of its own.
@Suite(.serialized, .timeLimit(.minutes(5))) struct ProcessSignalTests {
    // MARK: Where there was no handler

    @Test func theProcessIsKilledByTheSignalAndAllIsStoredAndTold() async throws {
        let folder = TestFolder(name: "signal-stored")
        try? FileManager.default.removeItem(at: folder.url)
        await #expect(processExitsWith: .signal(SIGTERM)) {
            Calls.prepare()
            let analytics = signalled(
                on: TestFolder(name: "signal-stored").url, transport: StubTransport(.status(503)), [LastWords()])
            for number in 0..<1_000 { analytics.track(name: "\(number)") }
            kill(getpid(), SIGTERM)
            waitForSignals()
        }
        let transport = StubTransport()
        let next = signalled([], on: folder.url, transport: transport)
        #expect(await next.flushed() == .delivered)
        #expect(transport.events.compactMap { $0["event"]?.string } == (0..<1_000).map { "\($0)" } + ["last words"])
    }

    @Test func anUploadIsTriedBeforeTheEnd() async throws {
        let folder = TestFolder(name: "signal-upload")
        try? FileManager.default.removeItem(at: folder.url)
        await #expect(processExitsWith: .signal(SIGINT)) {
            Calls.prepare()
            let folder = TestFolder(name: "signal-upload").url
            let transport = NotingTransport(folder.appendingPathComponent("sent"))
            let analytics = signalled(on: folder.appendingPathComponent("store"), transport: transport, [LastWords()])
            analytics.track(name: "A")
            kill(getpid(), SIGINT)
            waitForSignals()
        }
        let sent = try String(contentsOf: folder.url.appendingPathComponent("sent"), encoding: .utf8)
        #expect(sent == "A,last words")
    }

    /// A second signal is meant: the upload is not waited for any longer.
    @Test func aSecondSignalEndsTheWaitForAnUpload() async {
        await #expect(processExitsWith: .signal(SIGTERM)) {
            Calls.prepare()
            let transport = SignallingTransport()
            let analytics = signalled(on: nil, transport: transport)
            analytics.track(name: "A")
            kill(getpid(), SIGTERM)
            waitForSignals()
        }
    }

    @Test func aStuckPluginAndAStuckObserverKeepNobodyFromEnding() async {
        await #expect(processExitsWith: .signal(SIGTERM)) {
            Calls.prepare()
            let stuck = StuckPlugin()
            let analytics = signalled(on: nil, transport: StubTransport(), [stuck, StuckObserver()])
            analytics.track(name: "A")
            stuck.waitForArrival()
            kill(getpid(), SIGTERM)
            waitForSignals()
        }
    }

    @Test func aSignalDuringTheShutdownWaitsForWhatIsOnItsWay() async throws {
        let folder = TestFolder(name: "signal-shutdown")
        try? FileManager.default.removeItem(at: folder.url)
        await #expect(processExitsWith: .signal(SIGTERM)) {
            Calls.prepare()
            let stuck = StuckPlugin()
            let analytics = signalled(
                on: TestFolder(name: "signal-shutdown").url, transport: StubTransport(.status(503)), [stuck])
            analytics.track(name: "A")
            stuck.waitForArrival()
            analytics.shutdown()
            kill(getpid(), SIGTERM)
            stuck.open()  // not reached if the signal is fatal already
            waitForSignals()
        }
        let transport = StubTransport()
        let next = signalled([], on: folder.url, transport: transport)
        #expect(await next.flushed() == .delivered)
        #expect(transport.events.count == 1)
    }

    // MARK: The handler before

    /// It is called where the system calls it without us: a program that waits there for it wakes up.
    @Test func theHandlerBeforeIsCalledAfterwardsOnTheThreadThatTheSystemChooses() async {
        await #expect(processExitsWith: .exitCode(7)) {
            Calls.prepare()
            signal(SIGTERM) { _ in Calls.add("\(pthread_self())") }
            kill(getpid(), SIGTERM)
            Calls.wait(for: 1)
            let analytics = signalled(on: nil, transport: StubTransport(), [NotingObserver()])
            kill(getpid(), SIGTERM)
            Calls.wait(for: 3)
            exit(Calls.all == [Calls.all[0], "T", Calls.all[0]] && analytics.anonymousId != nil ? 7 : 1)
        }
    }

    @Test func aHandlerThatTakesInfoGetsWhatTheSystemSaidAtFirst() async {
        await #expect(processExitsWith: .exitCode(7)) {
            Calls.prepare()
            var action = sigaction()
            #if canImport(Darwin)
            action.__sigaction_u.__sa_sigaction = { _, info, _ in Calls.add("\(info?.pointee.si_code ?? 0)") }
            #else
            action.__sigaction_handler.sa_sigaction = { _, info, _ in Calls.add("\(info?.pointee.si_code ?? 0)") }
            #endif
            action.sa_flags = SA_SIGINFO
            sigaction(SIGTERM, &action, nil)
            let analytics = signalled(on: nil, transport: StubTransport())
            // From one thread to itself, which has another code than what we send.
            raiseHere(SIGTERM)
            Calls.wait(for: 1)
            exit(Calls.all == ["\(ownThreadCode)"] && analytics.anonymousId != nil ? 7 : 1)
        }
    }

    @Test func everySignalIsToldAndPassedOn() async {
        await #expect(processExitsWith: .exitCode(7)) {
            Calls.prepare()
            signal(SIGTERM) { _ in Calls.add("H") }
            signal(SIGINT) { _ in Calls.add("I") }
            let analytics = signalled(on: nil, transport: StubTransport(), [NotingObserver()])
            for (count, number) in [(2, SIGTERM), (4, SIGINT), (6, SIGTERM)] {
                kill(getpid(), number)
                Calls.wait(for: count)
            }
            exit(Calls.all == ["T", "H", "T", "I", "T", "H"] && analytics.anonymousId != nil ? 7 : 1)
        }
    }

    /// As `signal` has it on some systems: once, and then there is none.
    @Test func aHandlerForOnceIsCalledOnce() async {
        await #expect(processExitsWith: .signal(SIGTERM)) {
            Calls.prepare()
            var action = sigaction()
            #if canImport(Darwin)
            action.__sigaction_u.__sa_handler = { _ in Calls.add("H") }
            #else
            action.__sigaction_handler.sa_handler = { _ in Calls.add("H") }
            #endif
            action.sa_flags = Int32(truncatingIfNeeded: UInt32(truncatingIfNeeded: SA_RESETHAND))
            sigaction(SIGTERM, &action, nil)
            let analytics = signalled(on: nil, transport: StubTransport())
            kill(getpid(), SIGTERM)
            Calls.wait(for: 1)
            kill(getpid(), SIGTERM)
            withExtendedLifetime(analytics) { waitForSignals() }
        }
    }

    // MARK: Coming and going

    @Test func whatIsIgnoredStaysIgnored() async {
        await #expect(processExitsWith: .exitCode(7)) {
            Calls.prepare()
            signal(SIGTERM, SIG_IGN)
            signal(SIGINT) { _ in Calls.add("I") }
            let analytics = signalled(on: nil, transport: StubTransport(), [NotingObserver()])
            kill(getpid(), SIGTERM)
            kill(getpid(), SIGINT)
            Calls.wait(for: 2)
            let isIgnored = SignalAction(of: SIGTERM).isIgnored
            exit(Calls.all == ["T", "I"] && isIgnored && analytics.anonymousId != nil ? 7 : 1)
        }
    }

    @Test func nothingIsTouchedUnlessAskedAndAllIsPutBackAtTheEnd() async {
        await #expect(processExitsWith: .exitCode(7)) {
            Calls.prepare()
            signal(SIGTERM) { _ in }
            let before = allHandlers()
            let plain = Analytics(configuration: .forSignals(ProcessLifecycleSource(), nil, StubTransport()))
            guard allHandlers() == before else { exit(1) }
            await plain.shutdownAndWait()
            for _ in 0..<3 {
                let first = signalled([.terminate], on: nil, transport: StubTransport())
                let second = signalled([.terminate, .interrupt], on: nil, transport: StubTransport())
                let changed = zip(allHandlers(), before).enumerated().filter { $0.element.0 != $0.element.1 }
                guard changed.map({ Int32($0.offset) }) == [SIGINT, SIGTERM] else { exit(2) }
                await second.shutdownAndWait()
                guard allHandlers()[Int(SIGTERM)] != before[Int(SIGTERM)],
                    allHandlers()[Int(SIGINT)] == before[Int(SIGINT)]
                else { exit(3) }
                await first.shutdownAndWait()
                guard allHandlers() == before else { exit(4) }
            }
            exit(7)
        }
    }

    @Test func twoSourcesAreBothToldOnce() async {
        await #expect(processExitsWith: .exitCode(7)) {
            Calls.prepare()
            signal(SIGTERM) { _ in Calls.add("H") }
            let instances = (0..<2).map { _ in signalled(on: nil, transport: StubTransport(), [NotingObserver()]) }
            kill(getpid(), SIGTERM)
            Calls.wait(for: 3)
            guard Calls.all == ["T", "T", "H"] else { exit(1) }
            await instances[0].shutdownAndWait()
            kill(getpid(), SIGTERM)
            Calls.wait(for: 5)
            exit(Calls.all == ["T", "T", "H", "T", "H"] && instances[1].anonymousId != nil ? 7 : 2)
        }
    }

    /// The host's own handler came later and calls the one before, as is the custom: each is called once.
    @Test func aHandlerOfTheHostsThatCallsTheOneBeforeIsCalledOnce() async {
        await #expect(processExitsWith: .exitCode(7)) {
            Calls.prepare()
            signal(SIGTERM) { _ in Calls.add("H") }
            let analytics = signalled(on: nil, transport: StubTransport(), [NotingObserver()])
            Chain.before = SignalAction(of: SIGTERM)
            signal(SIGTERM) { number in
                Calls.add("C")
                Chain.before?.call(number, nil, nil)
            }
            kill(getpid(), SIGTERM)
            Calls.wait(for: 3)
            guard Calls.all == ["C", "T", "H"] else { exit(1) }
            // It stays when the instance ends, and what it calls still passes the signal on.
            await analytics.shutdownAndWait()
            kill(getpid(), SIGTERM)
            Calls.wait(for: 5)
            exit(Calls.all == ["C", "T", "H", "C", "H"] ? 7 : 2)
        }
        await #expect(processExitsWith: .signal(SIGTERM)) {
            Calls.prepare()
            let analytics = signalled(on: nil, transport: StubTransport())
            Chain.before = SignalAction(of: SIGTERM)
            signal(SIGTERM) { number in Chain.before?.call(number, nil, nil) }
            kill(getpid(), SIGTERM)
            withExtendedLifetime(analytics) { waitForSignals() }
        }
    }

    /// One that does not call the one before has taken the signal over.
    @Test func aHandlerOfTheHostsThatTakesOverIsLeftAlone() async {
        await #expect(processExitsWith: .exitCode(7)) {
            Calls.prepare()
            let analytics = signalled(on: nil, transport: StubTransport(), [NotingObserver()])
            signal(SIGTERM) { _ in Calls.add("C") }
            let handlers = allHandlers()
            kill(getpid(), SIGTERM)
            Calls.wait(for: 1)
            await analytics.shutdownAndWait()
            exit(Calls.all == ["C"] && allHandlers()[Int(SIGTERM)] == handlers[Int(SIGTERM)] ? 7 : 1)
        }
    }

    /// A forked child has the handler, and the sockets of its parent, which must not take the child's signals for its own.
    @Test(.disabled(if: isUnderThreadSanitizer)) func aForkedChildIsKilledAndTheParentHearsNothing() async {
        await #expect(processExitsWith: .exitCode(7)) {
            Calls.prepare()
            let analytics = signalled(on: nil, transport: StubTransport(), [NotingObserver()])
            typealias Fork = @convention(c) () -> pid_t
            guard let symbol = dlsym(dlopen(nil, RTLD_NOW), "fork") else { exit(1) }
            let child = unsafeBitCast(symbol, to: Fork.self)()
            if child == 0 {
                raiseHere(SIGTERM)
                _exit(0)
            }
            var status: Int32 = 0
            waitpid(child, &status, 0)
            guard status & 0x7F == SIGTERM else { exit(2) }
            // The parent's own signal comes later than anything that the child's could have caused.
            let source = ProcessLifecycleSource(signals: [.interrupt]).observe { _ in
                exit(Calls.all == ["T"] && analytics.anonymousId != nil ? 7 : 3)
            }
            kill(getpid(), SIGINT)
            withExtendedLifetime(source) { waitForSignals() }
        }
    }
}

// MARK: - Steps

/// What `raise` gives as the signal's code.
private var ownThreadCode: Int32 {
    #if canImport(Darwin)
    Int32(SI_USER)
    #else
    -6  // SI_TKILL
    #endif
}

/// On a thread that takes signals, as Dispatch's don't.
private func raiseHere(_ number: Int32) {
    var all = sigset_t()
    sigfillset(&all)
    pthread_sigmask(SIG_UNBLOCK, &all, nil)
    raise(number)
}

private func waitForSignals() -> Never { while true { pause() } }

private func allHandlers() -> [Int] { (0..<32).map { $0 == 0 ? 0 : SignalAction(of: $0).handler } }

private func signalled(
    _ signals: [ProcessSignal] = [.terminate, .interrupt], on folder: URL?, transport: any Transport,
    _ plugins: [any Plugin] = []
) -> Analytics {
    Analytics(configuration: .forSignals(ProcessLifecycleSource(signals: signals), folder, transport), plugins: plugins)
}

extension Configuration {
    fileprivate static func forSignals(
        _ source: ProcessLifecycleSource, _ folder: URL?, _ transport: any Transport
    ) -> Configuration {
        Configuration(
            writeKey: "key", dataPlaneUrl: "http://127.0.0.1", gzipEnabled: false, flushPolicies: [],
            logger: RecordingLogger(), storage: folder.map { .folder($0) } ?? .memory, lifecycleSource: source,
            transport: transport)
    }
}

/// What handlers and observers have noted. A handler can't take a lock; a pipe is a list that it may add to.
private enum Calls {
    private static let ends: [Int32] = {
        var ends: [Int32] = [0, 0]
        pipe(&ends)
        _ = fcntl(ends[0], F_SETFL, O_NONBLOCK)
        return ends
    }()
    private static let noted = Locked<[String]>([])

    /// Before any signal: what is made at its first use must not be made by a handler. A child that hangs all the same is
    /// ended by the system.
    static func prepare() {
        _ = all
        alarm(60)
    }

    /// A line.
    static func add(_ text: String) { _ = (text + "\n").withCString { write(ends[1], $0, strlen($0)) } }

    static var all: [String] {
        noted.withLock { noted in
            var bytes = [UInt8](repeating: 0, count: 256)
            let count = max(0, read(ends[0], &bytes, bytes.count))
            noted += String(decoding: bytes.prefix(count), as: UTF8.self).split(separator: "\n").map(String.init)
            return noted
        }
    }

    static func wait(for count: Int) {
        while all.count < count {
            var pending = pollfd(fd: ends[0], events: Int16(POLLIN), revents: 0)
            poll(&pending, 1, -1)
        }
    }
}

/// The handler that a host found.
private enum Chain {
    private static let found = Locked<SignalAction?>(nil)

    static var before: SignalAction? {
        get { found.withLock { $0 } }
        set { found.withLock { $0 = newValue } }
    }
}

private final class NotingObserver: Plugin, LifecycleObserver {
    let stage = Stage.before

    func handle(_ event: LifecycleEvent, in analytics: Analytics) {
        if event == .terminate { Calls.add("T") }
    }
}

private final class LastWords: Plugin, LifecycleObserver {
    let stage = Stage.before

    func handle(_ event: LifecycleEvent, in analytics: Analytics) {
        if event == .terminate { analytics.track(name: "last words") }
    }
}

private final class StuckObserver: Plugin, LifecycleObserver {
    let stage = Stage.before

    func handle(_ event: LifecycleEvent, in analytics: Analytics) {
        if event == .terminate { waitForSignals() }
    }
}

/// Writes down the names of what it was given.
private struct NotingTransport: Transport {
    let file: URL

    init(_ file: URL) { self.file = file }

    func post(_ request: TransportRequest) async throws -> TransportResponse {
        let names = request.events.compactMap { $0["event"]?.string }.joined(separator: ",")
        try Data(names.utf8).write(to: file)
        return TransportResponse(status: 200)
    }
}

/// Never answers, and has the next signal come.
private struct SignallingTransport: Transport {
    func post(_ request: TransportRequest) async throws -> TransportResponse {
        kill(getpid(), SIGTERM)
        try await withCheckedThrowingContinuation { (_: CheckedContinuation<Void, any Error>) in }
        return TransportResponse(status: 200)
    }
}
