import Foundation
import Testing
import TillerTesting

@testable import Tiller

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// Public bug reports on stores, in their words.
@Suite(.timeLimit(.minutes(5))) struct BugCasesStorageTests {
    private let folder = TestFolder()
    private let logger = RecordingLogger()
    private let transport = StubTransport()
    private let time = VirtualTime()

    private func start(seed: UInt64 = 1, on disk: any FileSystem = SystemFiles(), storageBytes: Int = 1 << 20)
        -> Analytics
    {
        var configuration = Configuration.test(
            time: time, storage: .folder(folder.url), transport: transport, logger: logger,
            limits: Limits(storageBytes: storageBytes))
        configuration.fileSystem = disk
        configuration.identifiers = .seeded(seed)
        return Analytics(configuration: configuration)
    }

    private var sent: [String] { transport.events.compactMap { $0["event"]?.string } }

    private func stateFolder() throws -> LogFolder {
        let name = try #require(try FileManager.default.contentsOfDirectory(atPath: folder.path).first)
        return LogFolder(path: folder.path + "/" + name)
    }

    private func errors(_ text: String = "") -> Int {
        logger.texts(.error).filter { text.isEmpty || $0.contains(text) }.count
    }

    // MARK: Bodies

    @Test func b40_twoRunsMakeOneValidBodyEach() async throws {
        transport.answerAlways(.status(503))
        let killed = start()
        for number in 1...3 { killed.track(name: "e\(number)") }
        await killed.stored()
        let copy = LogFolder()
        try FileManager.default.copyItem(atPath: folder.path, toPath: copy.path)
        transport.answerAlways(.status(200))
        var configuration = Configuration.test(
            storage: .folder(URL(fileURLWithPath: copy.path)), transport: transport, logger: logger)
        configuration.identifiers = .seeded(2)
        let next = Analytics(configuration: configuration)
        for number in 4...5 { next.track(name: "e\(number)") }
        await next.flushed()
        #expect(sent == .events(1...5))
        for request in transport.requests { #expect(try JSONValue(parsing: request.plainBody)["batch"]?.array != nil) }
        await next.shutdownAndWait()
        await killed.shutdownAndWait()
    }

    /// Something follows the last whole record of a file that is never written again.
    @Test(arguments: ["]}", "{\"batch\":[", "\n", "\u{0}\u{0}"])
    func b41_whatFollowsTheLastEventOfAFinishedFileIsNotSent(
        _ tail: String
    ) async throws {
        transport.answerAlways(.status(503))
        let first = start()
        first.track(name: "a")
        await first.shutdownAndWait()
        let state = try stateFolder()
        let file = try #require(try state.names(".log").last)
        try state.put(try state.contents(file) + Array(tail.utf8), file)
        transport.answerAlways(.status(200))
        let next = start(seed: 2)
        next.track(name: "x")
        await next.flushed()
        #expect(sent.suffix(2) == ["a", "x"])
        for request in transport.requests { #expect(try JSONValue(parsing: request.plainBody)["batch"]?.array != nil) }
        await next.shutdownAndWait()
    }

    @Test func b43_fourThreadsTwoKillsAndEveryBodyParses() async throws {
        transport.answerAlways(.status(503))
        var place = LogFolder(folder)
        var kept: [Analytics] = []
        for life in 0..<3 as Range<UInt64> {
            var configuration = Configuration.test(
                storage: .folder(URL(fileURLWithPath: place.path)), transport: transport, logger: logger)
            configuration.identifiers = .seeded(life + 1)
            let analytics = Analytics(configuration: configuration)
            if life == 2 { transport.answerAlways(.status(200)) }
            await onThreads(4) { thread in
                for number in 0..<167 {
                    analytics.track(name: "\(life)-\(thread)-\(number)")
                    if number % 40 == thread { analytics.flush() }
                }
            }
            await analytics.stored()
            if life < 2 { place = try place.afterKill() }
            kept.append(analytics)
        }
        let before = transport.requests.count
        await kept[2].flushed()
        var ids: Set<String> = []
        for request in transport.requests {
            let batch = try #require(try JSONValue(parsing: request.plainBody)["batch"]?.array)
            ids.formUnion(batch.compactMap { $0["messageId"]?.string })
        }
        #expect(before >= 0 && ids.count == 3 * 4 * 167)
        for analytics in kept { await analytics.shutdownAndWait() }
    }

    /// (a) Nothing is stored, (b) what is stored can't be used, (c) a file holds nothing.
    @Test(arguments: ["nothing", "unusable", "empty"]) func b44_noBodyIsPostedWithoutEvents(_ what: String) async throws
    {
        if what != "nothing" {
            transport.answerAlways(.status(503))
            let first = start()
            first.track(name: "a")
            await first.shutdownAndWait()
            transport.answerAlways(.status(200))
            let state = try stateFolder()
            for name in try state.names(".log") {
                if what == "empty" {
                    try state.put([], name)
                } else {
                    var bytes = try state.contents(name)
                    for index in bytes.indices where bytes[index] == UInt8(ascii: "{") { bytes[index] ^= 1 }
                    try state.put(bytes, name)
                }
            }
        }
        let before = transport.requests.count
        for life in 2...3 as ClosedRange<UInt64> {
            let analytics = start(seed: life)
            _ = await analytics.flushed()
            await analytics.shutdownAndWait()
            #expect(transport.requests.count == before)
        }
        // What can't be used does not come back: two lives later nothing is left of a run.
        let other = start(seed: 4)
        await other.shutdownAndWait()
        #expect(try stateFolder().names().filter { $0.hasPrefix("00000001") }.isEmpty)
    }

    // MARK: Files that can't be opened

    /// (a) What can't be read is neither deleted nor passed over, for it may be readable soon: later events wait for it.
    @Test func b45_anUnreadableFileStaysAndWhatFollowsWaitsForIt() async throws {
        transport.answerAlways(.status(503))
        for life in 1...2 as ClosedRange<UInt64> {
            let analytics = start(seed: life)
            analytics.track(name: "e\(life)")
            await analytics.shutdownAndWait()
        }
        transport.answerAlways(.status(200))
        let state = try stateFolder()
        let file = try #require(try state.names(".log").first)
        let before = transport.requests.count
        let errorsBefore = errors()
        try state.makeUnreadable(file)
        let analytics = start(seed: 3)
        for _ in 0..<3 {
            #expect(await analytics.flushed().wait != nil)
            time.advance(by: .seconds(400))
        }
        #expect(transport.requests.count == before)
        #expect(errors() == errorsBefore + 2)  // at the opening, and at the first upload
        try state.makeReadable(file)
        time.advance(by: .seconds(400))
        // The first one finds out how many there are, and the upload goes on with them by itself.
        #expect(await analytics.flushed() == .delivered)
        #expect([.delivered, .nothingWaiting].contains(await analytics.flushed()))
        #expect(
            transport.requests.dropFirst(before).flatMap(\.events).compactMap { $0["event"]?.string } == ["e1", "e2"])
        await analytics.shutdownAndWait()
    }

    /// (b) The file that would be written can't be opened: the events wait and are in the next one.
    @Test func b45_whereAFileCannotBeOpenedForWritingTheEventsAreInAnotherOne() async throws {
        let disk = FaultyFiles()
        let analytics = start(on: disk)
        await analytics.stored()
        let creations = Locked(0)
        disk.fail { operation, _, _ in
            guard operation == .create else { return operation == .append ? .permission : nil }
            return creations.withLock { creations in
                creations += 1
                return creations < 3 ? .permission : nil
            }
        }
        analytics.track(name: "x")
        analytics.track(name: "y")
        #expect(await analytics.stored() == .inMemory)
        disk.fail(nil)
        time.advance(by: .seconds(5))
        #expect(await analytics.stored() == .stored)
        #expect(await analytics.flushed().leavesNothing)
        #expect(sent == ["x", "y"])
        #expect(errors() == 1)
        await analytics.shutdownAndWait()
    }

    // MARK: State and foreign files

    @Test func b47_removingOneKeyLeavesTheOthers() throws {
        let log = LogFolder(folder)
        let store = try log.open()
        let keys = ["anonymousId", "userId", "traits", "session", "config"]
        try store.save(keys.map { StateChange(key: "S", changes: [$0: .string($0)]) })
        try store.save([StateChange(key: "S", changes: ["session": nil])])
        try store.save([StateChange(key: "S", changes: ["never": nil])])
        var expected = JSONObject()
        for key in keys where key != "session" { expected[key] = .string(key) }
        #expect(store.load("S").object == expected)
        store.close()
        #expect(try log.open().load("S").object == expected)
    }

    @Test func b48_nothingOfOthersGoesWithWhatIsDelivered() async throws {
        var configuration = Configuration.test(
            storage: .folder(folder.url), transport: StubTransport(.status(503)), logger: logger)
        configuration.instanceName = "other"
        let other = Analytics(configuration: configuration)
        other.track(name: "others")
        await other.shutdownAndWait()
        try FileManager.default.createDirectory(atPath: folder.path + "/sub/folder", withIntermediateDirectories: true)
        try Data("x".utf8).write(to: folder.url.appendingPathComponent("foreign"))
        let before = try FileManager.default.subpathsOfDirectory(atPath: folder.path).sorted()
        let analytics = start()
        for _ in 0..<3 {
            analytics.track(name: "a")
            analytics.reset()
            await analytics.flushed()
        }
        await analytics.shutdownAndWait()
        #expect(Set(before).isSubset(of: try FileManager.default.subpathsOfDirectory(atPath: folder.path)))
    }

    @Test func b56_filesOfUnknownNamesAreIgnoredAndStay() async throws {
        transport.answerAlways(.status(503))
        let first = start()
        first.track(name: "a")
        await first.shutdownAndWait()
        transport.answerAlways(.status(200))
        let state = try stateFolder()
        let names = [
            "7E1A6C1C-2B58-4F6B-9F1E-3F8C2B9F0C11", ".hidden", "12 copy", "00000001-000001-000000000000.log copy",
            "99999999999999999999.ack", "-1-1-1.log", "00000009.ack.bak",
        ]
        for name in names { try state.put("foreign", name) }
        try state.block("empty")
        try state.block("00000003-000001-x.log")
        let next = start(seed: 2)
        next.track(name: "b")
        #expect(await next.flushed() == .delivered)
        #expect(sent.suffix(2) == ["a", "b"])
        await next.shutdownAndWait()
        for name in names { #expect(try state.contents(name) == Array("foreign".utf8)) }
        #expect(try state.names().contains("empty"))
    }

    // MARK: Where to store

    @Test func b57_aFolderThatCannotBeMadeMeansMemoryWithOneWarning() async throws {
        let disk = FaultyFiles(MemoryFiles())
        disk.fail { operation, _, _ in operation == .makeFolder ? .readOnly : nil }
        let analytics = start(on: disk)
        analytics.track(name: "a")
        #expect(await analytics.stored() == .inMemory)
        #expect(await analytics.flushed().leavesNothing)
        #expect(sent == ["a"])
        #expect(errors() == 1)
        await analytics.shutdownAndWait()
    }

    /// As in a container that runs with any user id: no entry in the user database, a home of somebody else's.
    @Test(.enabled(if: geteuid() == 0, "only root can become another user"), arguments: ["home", "missing", "given"])
    func aUserWithoutAnEntryStoresWhereItMayAndElseInMemory(_ place: String) async {
        await #expect(processExitsWith: .success) { [place] in
            try await Self.liveAsNobody(place)
        }
    }

    private static func liveAsNobody(_ place: String) async throws {
        let folder = TestFolder()
        try FileManager.default.createDirectory(at: folder.url, withIntermediateDirectories: true)
        // The folder above it may have been made by an instance, for its owner only.
        for path in [folder.path, folder.url.deletingLastPathComponent().path] {
            guard chmod(path, 0o755) == 0 else { throw CancellationError() }
        }
        let own = folder.path + "/own"
        guard mkdir(own, 0o700) == 0, chown(own, 54_321, 54_321) == 0 else { throw CancellationError() }
        unsetenv("STATE_DIRECTORY")
        unsetenv("XDG_STATE_HOME")
        setenv("HOME", place == "missing" ? folder.path + "/none" : folder.path, 1)  // which is root's
        guard setgid(54_321) == 0, setuid(54_321) == 0 else { throw CancellationError() }
        let logger = RecordingLogger()
        let transport = StubTransport()
        let analytics = Analytics(
            configuration: .test(
                storage: place == "given" ? .folder(URL(fileURLWithPath: own)) : .automatic, transport: transport,
                logger: logger))
        analytics.identify(userId: "alice")
        let stored = await analytics.stored()
        let flushed = await analytics.flushed()
        guard stored == (place == "given" ? .stored : .inMemory), flushed.leavesNothing, transport.events.count == 1,
            logger.texts(.error).count == (place == "given" ? 0 : 1)
        else { throw CancellationError() }
        await analytics.shutdownAndWait()
    }

    @Test(.enabled(if: geteuid() == 0, "only root can give a folder away"))
    func aFolderOfAnotherUsersIsRefused() async throws {
        let first = start()
        await first.shutdownAndWait()
        let state = try stateFolder()
        #expect(chown(state.path, 54_321, 54_321) == 0)
        let analytics = start(seed: 2)
        analytics.track(name: "a")
        #expect(await analytics.stored() == .inMemory)
        #expect(await analytics.flushed().leavesNothing)
        #expect(errors() == 1)
        #expect(logger.messages.contains { "\($0)".contains("belongs to another user") })
        await analytics.shutdownAndWait()
    }

    // MARK: What is left

    @Test func b61_nothingWaitsForAConsumerThatDoesNotExist() async throws {
        var configuration = Configuration.test(storage: .folder(folder.url), transport: transport, logger: logger)
        let stuck = Analytics(configuration: configuration, builtIn: [IdentityPlugin()])
        for number in 0..<200 { stuck.track(name: "\(number)") }
        await stuck.shutdownAndWait()
        #expect(try bytesOfEvents() == 0)
        configuration.identifiers = .seeded(2)
        let analytics = Analytics(configuration: configuration)
        for number in 0..<1_000 { analytics.track(name: "\(number)") }
        #expect(await analytics.flushed() == .delivered)
        #expect(await analytics.shutdownAndWait() == 0)
        #expect(transport.events.count == 1_000)
        let next = start(seed: 3)
        #expect(await next.flushed() == .nothingWaiting)
        next.track(name: "last")
        await next.flushed()
        await next.shutdownAndWait()
        // Of what was delivered earlier nothing is left.
        #expect(try bytesOfEvents() < 1_000)
    }

    /// What the folder's segments hold of events.
    private func bytesOfEvents() throws -> Int {
        let state = try stateFolder()
        return try state.names(".log").reduce(0) { sum, name in
            sum
                + ScanResult(try state.contents(name)).found.filter { $0.number != nil }.reduce(0) {
                    $0 + $1.range.count
                }
        }
    }

    @Test func b63_uploadsThatFailLeaveNoDescriptorOpen() async {
        await #expect(processExitsWith: .success) {
            let folder = TestFolder()
            let transport = StubTransport()
            let lifecycle = ManualLifecycleSource(isInForeground: true)
            let time = VirtualTime()
            let analytics = Analytics(
                configuration: .test(
                    lifecycle: lifecycle, time: time, storage: .folder(folder.url), transport: transport))
            analytics.track(name: "first")
            await analytics.flushed()
            await analytics.stored()
            let before = try Self.openDescriptors()
            let answers: [StubTransport.Answer] = [
                .status(500), .failure(StubTransport.NoAnswer()), .status(429), .status(302),
            ]
            for round in 0..<300 {
                transport.answerAlways(answers[round % answers.count])
                analytics.track(name: "\(round)")
                await analytics.flushed()
                time.advance(by: .seconds(11))
            }
            await analytics.stored()
            guard try Self.openDescriptors() == before else { throw CancellationError() }
            transport.answerAlways(.status(200))
            time.advance(by: .seconds(4_000))
            guard await analytics.flushed().leavesNothing, await analytics.shutdownAndWait() == 0 else {
                throw CancellationError()
            }
            guard
                try FileManager.default.subpathsOfDirectory(atPath: folder.path).filter({ $0.hasSuffix(".log") }).count
                    < 2
            else { throw CancellationError() }
        }
    }

    private static func openDescriptors() throws -> Int {
        #if canImport(Darwin)
        try FileManager.default.contentsOfDirectory(atPath: "/dev/fd").count
        #else
        try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count
        #endif
    }
}
