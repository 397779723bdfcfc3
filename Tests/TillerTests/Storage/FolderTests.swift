import Foundation
import Testing
import TillerTesting

@testable import Tiller

/// The folder of an instance: who may read it, what it is called, who owns it.
@Suite(.timeLimit(.minutes(5))) struct FolderTests {
    private let folder = TestFolder()
    private let logger = RecordingLogger()

    // MARK: Who may read it

    @Test func filesAreForTheirOwnerOnly() async throws {
        let analytics = Analytics(configuration: configuration(transport: StubTransport(.status(500))))
        analytics.identify(userId: "alice")
        await analytics.shutdownAndWait()
        // The first run's events are delivered, its own wait.
        let next = Analytics(configuration: configuration())
        await next.flushed()
        next.track(name: "A")
        await next.shutdownAndWait()
        let state = try stateFolder()
        #expect(try permissions(of: state) == 0o700)
        let names = try FileManager.default.contentsOfDirectory(atPath: state)
        #expect(Set(names.compactMap { $0.split(separator: ".").last }) == ["log", "ack", "json", "lock", "fifo"])
        for name in names { #expect(try permissions(of: state + "/" + name) == 0o600, "\(name)") }
        #expect(try permissions(of: folder.path) == 0o700)
    }

    @Test func writeKeyIsWrittenNowhereInClear() async throws {
        let key = "2bSecretWriteKey"
        let analytics = Analytics(
            configuration: configuration(writeKey: key, transport: StubTransport(.status(500))))
        analytics.identify(userId: "alice", traits: ["plan": "pro"])
        await analytics.shutdownAndWait()
        var hasSeenUser = false
        for path in try FileManager.default.subpathsOfDirectory(atPath: folder.path) {
            #expect(!path.contains(key))
            let bytes = FileManager.default.contents(atPath: folder.path + "/" + path) ?? Data()
            #expect(bytes.range(of: Data(key.utf8)) == nil)
            #expect(bytes.range(of: Data(key.utf8).base64EncodedData()) == nil)
            if bytes.range(of: Data("alice".utf8)) != nil { hasSeenUser = true }
        }
        #expect(hasSeenUser)
    }

    @Test(arguments: [
        "../..", "/etc/passwd", "a/b/../../../c", "..", ".", "", String(repeating: "k", count: 300), "ключ 🗝",
    ])
    func noWriteKeyOrInstanceNameLeadsOutOfTheFolder(_ text: String) async throws {
        for configuration in [
            configuration(below: "x", writeKey: text), configuration(below: "x", instanceName: text),
        ] {
            let analytics = Analytics(configuration: configuration)
            analytics.identify(userId: "alice")
            await analytics.shutdownAndWait()
        }
        #expect(try names() == ["x"])
        let below = try FileManager.default.contentsOfDirectory(atPath: folder.path + "/x")
        #expect(below.count == 2)
        for name in below {
            #expect(name.utf8.count <= 81)
            let parts = name.split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
            #expect(parts[0].count == 16 && parts[0].allSatisfy { $0.isHexDigit })
            #expect(parts[1].allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "_") })
        }
    }

    @Test func foreignFilesInTheFolderStayAsTheyAre() async throws {
        let first = Analytics(configuration: configuration())
        await first.shutdownAndWait()
        let state = try stateFolder()
        let foreign = ["notes.txt", "checkpoint.json.bak", "checkpoint", ".hidden", "0001.log", "1-1-0.log", "9.ack"]
        for name in foreign { try Data(name.utf8).write(to: URL(fileURLWithPath: state + "/" + name)) }
        try FileManager.default.createDirectory(atPath: state + "/folder/inside", withIntermediateDirectories: true)
        let second = Analytics(configuration: configuration())
        second.identify(userId: "alice")
        second.reset()
        await second.shutdownAndWait()
        for name in foreign { #expect(FileManager.default.contents(atPath: state + "/" + name) == Data(name.utf8)) }
        #expect(FileManager.default.fileExists(atPath: state + "/folder/inside"))
        #expect(logger.texts(.error).isEmpty)
    }

    // MARK: No place to store in

    @Test func aFileInTheFoldersPlaceMeansMemoryWithOneError() async throws {
        try FileManager.default.createDirectory(at: folder.url, withIntermediateDirectories: true)
        try Data("x".utf8).write(to: folder.url.appendingPathComponent("file"))
        try await expectMemory(below: folder.path + "/file")
    }

    /// Not even root can make a folder there.
    @Test func aPlaceThatCannotBeWrittenMeansMemoryWithOneError() async throws {
        try await expectMemory(below: "/proc/tiller")
    }

    private func expectMemory(below path: String) async throws {
        let transport = StubTransport()
        let analytics = Analytics(
            configuration: .test(
                storage: .folder(URL(fileURLWithPath: path)), transport: transport, logger: logger))
        analytics.identify(userId: "alice")
        analytics.track(name: "A")
        #expect(await analytics.stored() == .inMemory)
        #expect(await analytics.flushed().leavesNothing)
        #expect(analytics.userId == "alice")
        #expect(logger.texts(.error).count == 1)
        #expect(transport.events.count == 2)
    }

    // MARK: Ownership

    @Test func secondInstanceIsAGuestThatReadsTheIdentityAndWritesNone() async throws {
        let transport = StubTransport()
        let owner = Analytics(configuration: configuration(seed: 1, transport: transport))
        owner.identify(userId: "alice")
        await owner.stored()
        let guestsTransport = StubTransport()
        let guest = Analytics(configuration: configuration(seed: 2, transport: guestsTransport))
        #expect(guest.anonymousId == owner.anonymousId)
        #expect(guest.userId == "alice")
        guest.track(name: "A")
        guest.identify(userId: "bob")
        #expect(await guest.stored() == .stored)
        guard case .waiting(_, let reason) = await guest.flushed() else { return #expect(Bool(false), "it uploads") }
        #expect(reason == "another process uploads what is stored here")
        await guest.shutdownAndWait()
        #expect(guestsTransport.requests.isEmpty)
        #expect(logger.texts(.error) == [])
        // The guest's end is not the owner's.
        owner.track(name: "B")
        #expect(await owner.flushed() == .delivered)
        let users = transport.events.compactMap { $0["userId"]?.string }
        #expect(users.sorted() == ["alice", "alice", "alice", "bob"])
        let next = await Self.next(after: owner, configuration(seed: 3))
        #expect(next.userId == "alice")
    }

    private static func next(after analytics: Analytics, _ configuration: Configuration) async -> Analytics {
        await analytics.shutdownAndWait()
        return Analytics(configuration: configuration)
    }

    /// In a process of its own: in this one other tests may hold all threads for longer than an instance waits.
    @Test func nextInstanceAfterAShutdownOwnsTheFolder() async {
        await #expect(processExitsWith: .success) {
            let folder = TestFolder()
            let logger = RecordingLogger()
            func start(_ seed: UInt64) -> Analytics {
                var configuration = Configuration.test(storage: .folder(folder.url), logger: logger)
                configuration.identifiers = .seeded(seed)
                return Analytics(configuration: configuration)
            }
            var last = start(1)
            for round in 0..<50 {
                last.identify(userId: "user \(round)")
                last.shutdown()
                last = start(UInt64(round) + 2)
                guard last.userId == "user \(round)" else { throw CancellationError() }
            }
            guard logger.messages.filter({ $0.text.contains("Another instance") }).isEmpty else {
                throw CancellationError()
            }
            await last.shutdownAndWait()
            // Nothing of fifty runs is left but the last one's.
            let paths = try FileManager.default.subpathsOfDirectory(atPath: folder.path)
            guard paths.count < 10 else { throw CancellationError() }
        }
    }

    @Test func instancesOfOtherNamesAndKeysShareNothing() async throws {
        let transports = (0..<6).map { _ in StubTransport() }
        let all = [
            configuration(seed: 1, transport: transports[0]),
            configuration(instanceName: "other", seed: 2, transport: transports[1]),
            configuration(writeKey: "other", seed: 3, transport: transports[2]),
            configuration(instanceName: "a b", seed: 4, transport: transports[3]),
            configuration(instanceName: "a/b", seed: 5, transport: transports[4]),
            // Key and name run together would be the same.
            configuration(writeKey: "keyde", instanceName: "fault", seed: 6, transport: transports[5]),
        ].map { Analytics(configuration: $0) }
        for (index, analytics) in all.enumerated() { analytics.identify(userId: "user \(index)") }
        #expect(all.map(\.userId) == (0..<6).map { "user \($0)" })
        #expect(Set(all.map(\.anonymousId)).count == 6)
        for analytics in all { await analytics.shutdownAndWait() }
        for (index, transport) in transports.enumerated() {
            #expect(transport.events.map { $0["userId"]?.string } == ["user \(index)"])
        }
        #expect(try names().count == 6)
        #expect(logger.messages.filter { $0.text.contains("Another instance") }.isEmpty)
        let again = Analytics(configuration: configuration(instanceName: "a/b", seed: 7))
        #expect(again.userId == "user 4")
    }

    @Test func guestsOfTheFolderSaveNoState() throws {
        let owner = try open()
        try owner.save([StateChange(key: "A", changes: ["a": 1])])
        let guest = try open()
        #expect(owner.isOwned && !guest.isOwned)
        #expect(owner.isDurable && guest.isDurable)
        try guest.save([StateChange(key: "A", changes: ["a": 2])])
        #expect(guest.append([.event("e1", changes: [StateChange(key: "A", changes: ["a": 3])])]).stored == 1)
        #expect(guest.append([.state("A", ["a": 4]), .event("e2"), .state("A", ["a": 5])]).stored == 3)
        #expect(guest.load("A").object == ["a": 1])
        guest.endWriting()
        guest.close()
        #expect(try !open().isOwned)
        owner.close()
        let next = try open()
        #expect(next.isOwned)
        #expect(next.load("A").object == ["a": 1])
        #expect(try next.deliverAll() == ["e1", "e2"])
    }

    /// A guest may not complete what its owner has begun, either.
    @Test func aGuestRemovesNothing() throws {
        let log = LogFolder(path: folder.path)
        try log.live(StoreRecord.events(1...3))
        let owner = try log.open()
        let before = try log.names()
        let guest = try log.open()
        #expect(!guest.isOwned)
        guest.close()
        #expect(try log.names() == before)
        #expect(try owner.deliverAll() == .events(1...3))
    }

    // MARK: Steps

    private func configuration(
        below subfolder: String? = nil, writeKey: String = "key", instanceName: String = "default", seed: UInt64 = 1,
        transport: StubTransport = StubTransport()
    ) -> Configuration {
        let url = subfolder.map { folder.url.appendingPathComponent($0) } ?? folder.url
        var configuration = Configuration.test(storage: .folder(url), transport: transport, logger: logger)
        configuration.writeKey = writeKey
        configuration.instanceName = instanceName
        configuration.identifiers = .seeded(seed)
        return configuration
    }

    /// The log directly in the test's folder.
    private func open() throws -> EventLog {
        try EventLog(folder: folder.path, boot: 0, diagnostics: Diagnostics(logger: logger, level: .debug))
    }

    /// The one folder that an instance has made in the test's.
    private func stateFolder() throws -> String { folder.path + "/" + (try #require(try names().first)) }

    private func names() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
    }

    /// Every file of the one folder.
    private func contents() throws -> [String: Data?] {
        let state = try stateFolder()
        let names = try FileManager.default.contentsOfDirectory(atPath: state)
        return Dictionary(
            uniqueKeysWithValues: names.map { ($0, FileManager.default.contents(atPath: state + "/" + $0)) })
    }

    private func permissions(of path: String) throws -> Int {
        let attributes = try FileManager.default.attributesOfItem(atPath: path)
        return try #require(attributes[.posixPermissions] as? NSNumber).intValue
    }
}
