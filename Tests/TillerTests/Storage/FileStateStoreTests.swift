import Foundation
import Testing
import TillerTesting

@testable import Tiller

/// The store on disk: who may read it, what damage costs, who owns it.
@Suite(.timeLimit(.minutes(5))) struct FileStateStoreTests {
    private let folder = TestFolder()
    private let logger = RecordingLogger()

    // MARK: Who may read it

    @Test func filesAreForTheirOwnerOnly() throws {
        let store = try open()
        try store.save([StateChange(key: "A", changes: ["a": 1])])
        #expect(try permissions(of: "") == 0o700)
        #expect(try names() == ["owner.lock", "state.json"])
        for name in try names() { #expect(try permissions(of: name) == 0o600) }
    }

    @Test func writeKeyIsWrittenNowhereInClear() async throws {
        let key = "2bSecretWriteKey"
        let analytics = Analytics(configuration: configuration(writeKey: key))
        analytics.identify(userId: "alice", traits: ["plan": "pro"])
        await analytics.shutdownAndWait()
        for path in try FileManager.default.subpathsOfDirectory(atPath: folder.path) {
            #expect(!path.contains(key))
            let bytes = FileManager.default.contents(atPath: folder.path + "/" + path) ?? Data()
            #expect(bytes.range(of: Data(key.utf8)) == nil)
        }
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

    // MARK: Damage

    @Test func everyTruncationIsNoticedAndLeftAsItIs() async throws {
        let whole = try writeState()
        let textLength = try #require(whole.firstIndex(of: 0x0A))
        for length in 0..<whole.count {
            try put(Array(whole[..<length]))
            // Without anything of the checksum's line the text is whole.
            try await expectUntouched(isWhole: (textLength...textLength + 1).contains(length), "cut at \(length)")
        }
    }

    @Test(arguments: [0x01, 0x20, 0xFF] as [UInt8])
    func everyFlippedByteIsNoticedAndLeftAsItIs(_ flip: UInt8) async throws {
        let whole = try writeState()
        for index in whole.indices {
            var damaged = whole
            damaged[index] ^= flip
            try put(damaged)
            // A hexadecimal digit of the checksum in the other case is the same digit.
            let isSame = index > whole.count - 10 && flip == 0x20 && Character(Unicode.Scalar(whole[index])).isLetter
            try await expectUntouched(isWhole: isSame, "byte \(index) flipped by \(flip)")
        }
    }

    @Test func damageThatIsStillJSONIsNoticed() throws {
        let whole = try writeState()
        let text = String(decoding: whole, as: UTF8.self).replacingOccurrences(of: "alice", with: "mallo")
        try put(Array(text.utf8))
        #expect(try open().load("IdentityPlugin").isUnreadable)
        #expect(logger.texts(.error).count == 1)
    }

    @Test(arguments: [
        "[]", "null", "7", "{}", "{\"IdentityPlugin\":{}}", "{\"format\":\"1\"}",
        "\u{FEFF}{\"format\":1}", "{\"format\":1}}",
    ])
    func whatIsNoStateIsUnreadable(_ text: String) async throws {
        _ = try writeState()
        try put(Array(text.utf8))
        try await expectUntouched(isWhole: false, text)
    }

    @Test func onePluginsUnreadableStateIsThatPluginsTrouble() throws {
        try makeFolder()
        try put(Array("{\"format\":1,\"A\":5,\"B\":{\"b\":1}}".utf8))
        let store = try open()
        #expect(store.load("A").isUnreadable)
        #expect(store.load("B").object == ["b": 1])
        try store.save([StateChange(key: "B", changes: ["b": 2])])
        #expect(store.load("A").isUnreadable)
        #expect(try names() == ["owner.lock", "state.json"])
        try store.save([StateChange(key: "A", changes: ["a": 1])])
        #expect(store.load("A").object == ["a": 1])
        #expect(try contents("state.json.unreadable")?.contains("\"A\":5") == true)
    }

    @Test func aDirectoryInTheFilesPlaceIsUnreadableAndStays() async throws {
        let analytics = Analytics(configuration: configuration())
        await analytics.shutdownAndWait()
        let state = try stateFolder() + "/state.json"
        try FileManager.default.removeItem(atPath: state)
        try FileManager.default.createDirectory(atPath: state + "/inside", withIntermediateDirectories: true)
        let transport = StubTransport()
        let second = Analytics(configuration: configuration(transport: transport))
        second.track(name: "A")
        #expect(await second.flushed() == .delivered)
        await second.shutdownAndWait()
        #expect(FileManager.default.fileExists(atPath: state + "/inside"))
        #expect(transport.events.compactMap { $0["event"]?.string } == ["A"])
    }

    @Test func stateCanBeReadOnceItIsReadableAgain() throws {
        let whole = try writeState()
        try put(Array(whole.dropLast(20)))
        let store = try open()
        #expect(store.load("IdentityPlugin").isUnreadable)
        try put(whole)
        #expect(store.load("IdentityPlugin").object?["userId"] == "alice")
        // What is saved then is added to it.
        try store.save([StateChange(key: "IdentityPlugin", changes: ["traits": [:]])])
        #expect(store.load("IdentityPlugin").object?["userId"] == "alice")
        #expect(try names() == ["owner.lock", "state.json"])
    }

    @Test func newerFormatIsLeftAlone() async throws {
        _ = try writeState()
        let newer = Array("{\"format\":2,\"IdentityPlugin\":{\"anonymousId\":\"old\"},\"log\":[1]}".utf8)
        try put(newer)
        try await expectUntouched(isWhole: false, "newer format")
        #expect(logger.texts(.error).contains { $0.contains("newer format") })
    }

    @Test func unknownKeysOfTheFileSurviveAnInstance() async throws {
        let first = Analytics(configuration: configuration())
        await first.shutdownAndWait()
        let path = try stateFolder() + "/state.json"
        let text = #"{"format":1,"Someone":{"else":true},"IdentityPlugin":{"anonymousId":"anon","new":[1]}}"#
        try Data(text.utf8).write(to: URL(fileURLWithPath: path))
        let second = Analytics(configuration: configuration())
        #expect(second.anonymousId == "anon")
        second.identify(userId: "alice")
        await second.shutdownAndWait()
        let line = try #require(try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n").first)
        let state = try JSONValue(parsing: String(line))
        #expect(state["Someone"] == ["else": true])
        #expect(state["IdentityPlugin"]?["new"] == [1])
        #expect(state["IdentityPlugin"]?["userId"] == "alice")
    }

    @Test func explicitChangeReplacesTheUnreadableAndKeepsItsBytes() async throws {
        let first = Analytics(configuration: configuration())
        await first.shutdownAndWait()
        let state = try stateFolder()
        let damaged = Data("{\"format\":1,\"IdentityPlugin\":{\"anonym".utf8)
        try damaged.write(to: URL(fileURLWithPath: state + "/state.json"))
        let second = Analytics(configuration: configuration())
        second.track(name: "A")
        await second.stored()
        #expect(FileManager.default.contents(atPath: state + "/state.json") == damaged)
        second.identify(userId: "bob")
        await second.stored()
        #expect(FileManager.default.contents(atPath: state + "/state.json.unreadable") == damaged)
        await second.shutdownAndWait()
        let third = Analytics(configuration: configuration())
        #expect(third.userId == "bob")
    }

    @Test func stateThatCannotBeWrittenLeavesTheOldFileInItsPlace() throws {
        try makeFolder()
        let damaged = Array("damaged".utf8)
        try put(damaged)
        // The new file can't be made: a directory lies in its place.
        try FileManager.default.createDirectory(
            atPath: folder.path + "/state.json.new/inside", withIntermediateDirectories: true)
        let store = try open()
        #expect(throws: (any Error).self) { try store.save([StateChange(key: "A", changes: ["a": 1])]) }
        #expect(try contents("state.json") == "damaged")
        #expect(try contents("state.json.unreadable") == nil)
    }

    @Test func foreignFilesInTheFolderStayAsTheyAre() async throws {
        let first = Analytics(configuration: configuration())
        await first.shutdownAndWait()
        let state = try stateFolder()
        let foreign = ["notes.txt", "state.json.bak", "state", ".hidden", "0001.log"]
        for name in foreign { try Data(name.utf8).write(to: URL(fileURLWithPath: state + "/" + name)) }
        let second = Analytics(configuration: configuration())
        second.identify(userId: "alice")
        second.reset()
        await second.shutdownAndWait()
        for name in foreign { #expect(FileManager.default.contents(atPath: state + "/" + name) == Data(name.utf8)) }
        let all = try FileManager.default.contentsOfDirectory(atPath: state)
        #expect(Set(all) == Set(foreign + ["owner.lock", "state.json"]))
    }

    @Test func leftoverOfAnInterruptedWriteIsReplaced() throws {
        let store = try open()
        try Data("half of a st".utf8).write(to: URL(fileURLWithPath: folder.path + "/state.json.new"))
        try store.save([StateChange(key: "A", changes: ["a": 1])])
        store.close()
        #expect(try names() == ["owner.lock", "state.json"])
        #expect(try open().load("A").object == ["a": 1])
    }

    @Test func aLinkInTheFilesPlaceIsNotFollowed() throws {
        let outside = TestFolder()
        try FileManager.default.createDirectory(at: outside.url, withIntermediateDirectories: true)
        try Data("{\"format\":1}".utf8).write(to: outside.url.appendingPathComponent("secret"))
        try makeFolder()
        try FileManager.default.createSymbolicLink(
            atPath: folder.path + "/state.json", withDestinationPath: outside.path + "/secret")
        #expect(try open().load("A").isUnreadable)
    }

    // MARK: No place to store in

    @Test func aFileInTheFoldersPlaceMeansMemoryWithOneError() async throws {
        try makeFolder()
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
        #expect(await analytics.flushed() == .delivered)
        #expect(analytics.userId == "alice")
        #expect(logger.texts(.error).count == 1)
        #expect(transport.events.count == 2)
    }

    // MARK: Ownership

    @Test func secondInstanceOnTheFolderIsAGuestThatReadsAndWritesNothing() async throws {
        let owner = Analytics(configuration: configuration(seed: 1))
        owner.identify(userId: "alice")
        await owner.stored()
        let path = try stateFolder() + "/state.json"
        let before = FileManager.default.contents(atPath: path)
        let transport = StubTransport()
        let guest = Analytics(configuration: configuration(seed: 2, transport: transport))
        #expect(guest.anonymousId == owner.anonymousId)
        #expect(guest.userId == "alice")
        guest.track(name: "A")
        guest.identify(userId: "bob")
        guest.reset()
        #expect(await guest.flushed() == .delivered)
        await guest.shutdownAndWait()
        #expect(transport.events.count == 2)
        #expect(FileManager.default.contents(atPath: path) == before)
        #expect(logger.texts(.warn).filter { $0.contains("owns") }.count == 1)
        // The guest's end is not the owner's.
        owner.identify(userId: "carol")
        await owner.stored()
        #expect(FileManager.default.contents(atPath: path) != before)
    }

    @Test func nextInstanceAfterAShutdownOwnsTheFolder() async throws {
        var last = Analytics(configuration: configuration())
        for round in 0..<50 {
            last.identify(userId: "user \(round)")
            last.shutdown()
            last = Analytics(configuration: configuration())
            #expect(last.userId == "user \(round)")
        }
        #expect(logger.texts(.warn).filter { $0.contains("owns") }.isEmpty)
    }

    @Test func instancesOfOtherNamesAndKeysShareNothing() async throws {
        let all = [
            configuration(seed: 1), configuration(instanceName: "other", seed: 2),
            configuration(writeKey: "other", seed: 3), configuration(instanceName: "a b", seed: 4),
            configuration(instanceName: "a/b", seed: 5),
            // Key and name run together would be the same.
            configuration(writeKey: "keyde", instanceName: "fault", seed: 6),
        ].map { Analytics(configuration: $0) }
        for (index, analytics) in all.enumerated() { analytics.identify(userId: "user \(index)") }
        #expect(all.map(\.userId) == (0..<6).map { "user \($0)" })
        #expect(Set(all.map(\.anonymousId)).count == 6)
        for analytics in all { await analytics.shutdownAndWait() }
        #expect(try names().count == 6)
        #expect(logger.texts(.warn).filter { $0.contains("owns") }.isEmpty)
        let again = Analytics(configuration: configuration(instanceName: "a/b", seed: 7))
        #expect(again.userId == "user 4")
    }

    @Test func nothingIsSavedAfterTheClose() throws {
        let store = try open()
        try store.save([StateChange(key: "A", changes: ["a": 1])])
        store.close()
        try store.save([StateChange(key: "A", changes: ["a": 2])])
        #expect(try open().load("A").object == ["a": 1])
    }

    @Test func guestsOfTheFolderSaveNothing() throws {
        let owner = try open()
        try owner.save([StateChange(key: "A", changes: ["a": 1])])
        let guest = try open()
        #expect(owner.isOwned && !guest.isOwned)
        try guest.save([StateChange(key: "A", changes: ["a": 2])])
        #expect(guest.load("A").object == ["a": 1])
        guest.close()
        #expect(try !open().isOwned)
        owner.close()
        #expect(try open().isOwned)
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

    /// The store directly in the test's folder.
    private func open() throws -> FileStateStore {
        try FileStateStore(folder: folder.path, diagnostics: Diagnostics(logger: logger, level: .debug))
    }

    /// The one folder that an instance has made in the test's.
    private func stateFolder() throws -> String { folder.path + "/" + (try #require(try names().first)) }

    private func names() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
    }

    private func permissions(of name: String) throws -> Int {
        let attributes = try FileManager.default.attributesOfItem(atPath: folder.path + "/" + name)
        return try #require(attributes[.posixPermissions] as? NSNumber).intValue
    }

    private func makeFolder() throws {
        try FileManager.default.createDirectory(at: folder.url, withIntermediateDirectories: true)
    }

    private func put(_ bytes: [UInt8]) throws {
        try Data(bytes).write(to: URL(fileURLWithPath: folder.path + "/state.json"))
    }

    private func contents(_ name: String) throws -> String? {
        FileManager.default.contents(atPath: folder.path + "/" + name).map { String(decoding: $0, as: UTF8.self) }
    }

    /// A small state, whole, as the store writes it.
    private func writeState() throws -> [UInt8] {
        let store = try open()
        try store.save([StateChange(key: "IdentityPlugin", changes: ["anonymousId": "anon", "userId": "alice"])])
        store.close()
        return Array(try #require(FileManager.default.contents(atPath: folder.path + "/state.json")))
    }

    /// An ordinary start reads the state if it is whole, and else leaves it as it is; new events are delivered either way.
    private func expectUntouched(isWhole: Bool, _ comment: String) async throws {
        let before = try contents("state.json")
        let store = try open()
        let transport = StubTransport()
        let analytics = Analytics(
            configuration: .test(storage: .custom(store), transport: transport, logger: RecordingLogger()))
        if isWhole {
            #expect(analytics.userId == "alice", "\(comment)")
        } else {
            #expect(store.load("IdentityPlugin").isUnreadable, "\(comment)")
            #expect(analytics.userId == nil, "\(comment)")
        }
        analytics.track(name: "A")
        #expect(await analytics.shutdownAndWait() == 0, "\(comment)")
        #expect(transport.events.compactMap { $0["event"]?.string } == ["A"], "\(comment)")
        if !isWhole { #expect(try contents("state.json") == before, "\(comment)") }
        #expect(try names() == ["owner.lock", "state.json"], "\(comment)")
    }
}
