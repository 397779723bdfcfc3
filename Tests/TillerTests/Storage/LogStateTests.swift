import Foundation
import Testing
import TillerTesting

@testable import Tiller

/// State that can't be read: it is noticed, left as it is, and replaced only by a call that says so.
@Suite(.timeLimit(.minutes(5))) struct LogStateTests {
    private let folder = LogFolder()
    private static let name = "checkpoint.json"

    // MARK: Damage

    @Test func everyTruncationIsNoticedAndLeftAsItIs() async throws {
        let whole = try writeState()
        for length in 0..<whole.count {
            try await expectUntouched(
                Array(whole[..<length]), isWhole: false, "cut at \(length)", starts: length % 16 == 0)
        }
        try await expectUntouched(whole, isWhole: true, "whole", starts: true)
    }

    @Test(arguments: [0x01, 0x20, 0xFF] as [UInt8])
    func everyFlippedByteIsNoticedAndLeftAsItIs(_ flip: UInt8) async throws {
        let whole = try writeState()
        for index in whole.indices {
            var damaged = whole
            damaged[index] ^= flip
            // A hexadecimal digit of the checksum in the other case is the same digit.
            let isSame = index > whole.count - 10 && flip == 0x20 && Character(Unicode.Scalar(whole[index])).isLetter
            try await expectUntouched(
                damaged, isWhole: isSame, "byte \(index) flipped by \(flip)", starts: index % 16 == 0 || isSame)
        }
    }

    @Test func damageThatIsStillJSONIsNoticed() throws {
        let text = String(decoding: try writeState(), as: UTF8.self).replacingOccurrences(of: "alice", with: "mallo")
        let other = LogFolder()
        try other.put(text, Self.name)
        #expect(try other.open().load("IdentityPlugin").isUnreadable)
        #expect(other.logger.texts(.error).count == 1)
    }

    @Test(arguments: [
        "", "[]", "null", "7", "{}", "{\"IdentityPlugin\":{}}", "{\"format\":\"1\"}", "{\"format\":1}",
        "{\"format\":1}}",
        "\u{FEFF}{\"format\":1,\"state\":{},\"covers\":{\"run\":1,\"segment\":1,\"offset\":0}}",
        "{\"format\":1,\"state\":[],\"covers\":{\"run\":1,\"segment\":1,\"offset\":0}}",
        "{\"format\":1,\"state\":{},\"covers\":{\"run\":1,\"segment\":1}}",
        "{\"format\":1,\"state\":{},\"covers\":{\"run\":1.5,\"segment\":1,\"offset\":0}}",
        "{\"format\":1,\"state\":{}}",
    ])
    func whatIsNoCheckpointIsUnreadable(_ text: String) async throws {
        // With a right checksum and without one.
        try await expectUntouched(CheckedText.bytes(of: Array(text.utf8)), isWhole: false, text, starts: true)
        try await expectUntouched(Array(text.utf8), isWhole: false, text, starts: true)
    }

    @Test(arguments: [Int64.min, -1, .max]) func hostilePlacesEndNothing(_ number: Int64) throws {
        let place: JSONValue = ["run": .int(number), "segment": .int(number), "offset": .int(number)]
        var writer = JSONWriter()
        writer.write(["format": 1, "state": ["A": ["a": 1]], "covers": place] as JSONObject)
        try folder.put(CheckedText.bytes(of: writer.bytes), Self.name)
        let log = try folder.open()
        #expect(log.load("A").object == ["a": 1])
        try log.store([.event("e1"), .state("A", ["a": 2])])
        #expect(try log.deliverAll() == ["e1"])
        log.endWriting()
        log.close()
    }

    @Test func onePluginsUnreadableStateIsThatPluginsTrouble() throws {
        try putCheckpoint(["A": 5, "B": ["b": 1]])
        let log = try folder.open()
        #expect(log.load("A").isUnreadable)
        #expect(log.load("B").object == ["b": 1])
        try log.save([StateChange(key: "B", changes: ["b": 2])])
        log.sync()
        #expect(log.load("A").isUnreadable)
        #expect(try folder.afterKill().open().load("A").isUnreadable)
        #expect(try !folder.names().contains("checkpoint.json.unreadable"))
        try log.save([StateChange(key: "A", changes: ["a": 1])])
        #expect(log.load("A").object == ["a": 1])
        #expect(String(decoding: try folder.contents("checkpoint.json.unreadable"), as: UTF8.self).contains("\"A\":5"))
        let next = try folder.afterKill().open()
        #expect(next.load("A").object == ["a": 1])
        #expect(next.load("B").object == ["b": 2])
    }

    @Test func aDirectoryInTheFilesPlaceIsUnreadableAndStays() async throws {
        try folder.block(Self.name + "/inside")
        let transport = StubTransport()
        let analytics = try start(transport)
        analytics.track(name: "A")
        #expect(await analytics.flushed() == .delivered)
        await analytics.shutdownAndWait()
        #expect(FileManager.default.fileExists(atPath: folder.path + "/checkpoint.json/inside"))
        #expect(transport.events.compactMap { $0["event"]?.string } == ["A"])
    }

    @Test func aLinkInTheFilesPlaceIsNotFollowed() throws {
        let outside = LogFolder()
        try outside.put(try writeState(), "secret")
        let other = LogFolder()
        try other.put([], "x")
        try FileManager.default.createSymbolicLink(
            atPath: other.path + "/" + Self.name, withDestinationPath: outside.path + "/secret")
        #expect(try other.open().load("IdentityPlugin").isUnreadable)
    }

    @Test func stateCanBeReadOnceItIsReadableAgain() throws {
        let whole = try writeState()
        let other = LogFolder()
        try other.put(Array(whole.dropLast(20)), Self.name)
        let log = try other.open()
        #expect(log.load("IdentityPlugin").isUnreadable)
        try other.put(whole, Self.name)
        #expect(log.load("IdentityPlugin").object?["userId"] == "alice")
        // What is saved then is added to it.
        try log.save([StateChange(key: "IdentityPlugin", changes: ["traits": [:]])])
        #expect(log.load("IdentityPlugin").object?["userId"] == "alice")
        log.endWriting()
        log.close()
        #expect(try !other.names().contains("checkpoint.json.unreadable"))
        #expect(try other.open().load("IdentityPlugin").object?["traits"] == [:])
    }

    /// Also by the change that comes first: what can be read by then is not replaced.
    @Test func aChangeDoesNotReplaceWhatCanBeReadByThen() throws {
        let whole = try writeState()
        let other = LogFolder()
        try other.put(Array(whole.dropLast(20)), Self.name)
        let log = try other.open()
        try other.put(whole, Self.name)
        try log.save([StateChange(key: "Other", changes: ["a": 1])])
        #expect(log.load("IdentityPlugin").object?["userId"] == "alice")
    }

    @Test func newerFormatIsLeftAlone() async throws {
        let newer = CheckedText.bytes(
            of: Array("{\"format\":2,\"state\":{\"IdentityPlugin\":{\"userId\":\"alice\"}},\"log\":[1]}".utf8))
        let logger = try await expectUntouched(newer, isWhole: false, "newer format", starts: true)
        #expect(logger.texts(.error).contains { $0.contains("newer format") })
    }

    @Test func unknownKeysOfTheFileSurviveAnInstance() async throws {
        let text =
            #"{"format":1,"state":{"Someone":{"else":true},"IdentityPlugin":{"anonymousId":"anon","new":[1]}},"#
            + #""covers":{"run":4,"segment":1,"offset":0},"beside":{"x":1}}"#
        try folder.put(CheckedText.bytes(of: Array(text.utf8)), Self.name)
        let analytics = try start()
        #expect(analytics.anonymousId == "anon")
        analytics.identify(userId: "alice")
        await analytics.shutdownAndWait()
        let json = try CheckedText.json(of: try folder.contents(Self.name))
        let document = try JSONValue(parsing: json)
        #expect(document["beside"] == ["x": 1])
        #expect(document["state"]?["Someone"] == ["else": true])
        #expect(document["state"]?["IdentityPlugin"]?["new"] == [1])
        #expect(document["state"]?["IdentityPlugin"]?["userId"] == "alice")
        #expect(document["covers"]?["run"]?.int == 5)
    }

    // MARK: An explicit change

    @Test func explicitChangeReplacesTheUnreadableAndKeepsItsBytes() async throws {
        let damaged = Array("{\"format\":1,\"IdentityPlugin\":{\"anonym".utf8)
        try folder.put(damaged, Self.name)
        let second = try start()
        second.track(name: "A")
        await second.stored()
        #expect(try folder.contents(Self.name) == damaged)
        second.identify(userId: "bob")
        await second.stored()
        #expect(try folder.contents("checkpoint.json.unreadable") == damaged)
        let killed = try folder.afterKill()
        #expect(try killed.open().load("IdentityPlugin").object?["userId"] == "bob")
        await second.shutdownAndWait()
        let third = try start()
        #expect(third.userId == "bob")
    }

    @Test func aCheckpointThatCannotBeWrittenLeavesTheOldFileInItsPlace() throws {
        try folder.put("damaged", Self.name)
        // The new file can't be made: a directory lies in its place.
        try folder.block("checkpoint.json.new/inside")
        let log = try folder.open()
        try log.save([StateChange(key: "A", changes: ["a": 1])])
        #expect(try folder.contents(Self.name) == Array("damaged".utf8))
        #expect(try !folder.names().contains("checkpoint.json.unreadable"))
        #expect(log.load("A").object == ["a": 1])
        // The log has the change; what it replaces is still unread.
        log.close()
        try folder.remove("checkpoint.json.new")
        let next = try folder.open()
        #expect(next.load("A").isUnreadable)
        try next.save([StateChange(key: "B", changes: ["b": 1])])
        #expect(next.load("A").object == ["a": 1])
        #expect(try folder.contents("checkpoint.json.unreadable") == Array("damaged".utf8))
    }

    /// Until then nothing that tells of state goes.
    @Test func segmentsWithStateStayWhileTheCheckpointCannotBeRead() throws {
        try folder.live([.event("e1", changes: [StateChange(key: "A", changes: ["a": 1])])])
        try folder.put("damaged", Self.name)
        let log = try folder.open(storageBytes: 800)
        try log.store(StoreRecord.events(2...40))
        #expect(try log.deliverAll().first == "e1")
        #expect(try folder.names(".log").contains("00000001-000001-000000000000.log"))
        #expect(try folder.contents(Self.name) == Array("damaged".utf8))
        log.endWriting()
        log.close()
        var checkpoint = Checkpoint()
        checkpoint.objects = ["A": ["b": 2]]
        try folder.put(checkpoint.bytes, Self.name)
        let next = try folder.open()
        #expect(next.load("A").object == ["a": 1, "b": 2])
        #expect(next.counts.waiting == 0)
    }

    @Test func nothingIsSavedAfterTheClose() throws {
        let log = try folder.open()
        try log.save([StateChange(key: "A", changes: ["a": 1])])
        log.close()
        #expect(throws: EventLog.Closed.self) { try log.save([StateChange(key: "A", changes: ["a": 2])]) }
        #expect(try folder.open().load("A").object == ["a": 1])
    }

    // MARK: Steps

    /// An instance on the log directly in the test's folder.
    private func start(_ transport: StubTransport = StubTransport()) throws -> Analytics {
        Analytics(configuration: .test(storage: .custom(try folder.open()), transport: transport))
    }

    private func putCheckpoint(_ objects: JSONObject) throws {
        var checkpoint = Checkpoint()
        checkpoint.objects = objects
        try folder.put(checkpoint.bytes, Self.name)
    }

    /// A small checkpoint, whole, as the log writes it.
    private func writeState() throws -> [UInt8] {
        let log = try folder.open()
        try log.save([StateChange(key: "IdentityPlugin", changes: ["anonymousId": "anon", "userId": "alice"])])
        log.endWriting()
        log.close()
        return try folder.contents(Self.name)
    }

    /// An ordinary start reads the state if it is whole, and else leaves it as it is; new events are delivered either way.
    ///
    /// - Parameter starts: Whether an instance is started; else only the log is opened.
    @discardableResult
    private func expectUntouched(
        _ bytes: [UInt8], isWhole: Bool, _ comment: String, starts: Bool
    ) async throws -> RecordingLogger {
        let folder = LogFolder()
        try folder.put(bytes, Self.name)
        let log = try folder.open()
        if log.load("IdentityPlugin").isUnreadable == isWhole { Issue.record("\(comment)") }
        guard starts else { return folder.logger }
        let transport = StubTransport()
        let analytics = Analytics(configuration: .test(storage: .custom(log), transport: transport))
        #expect(analytics.userId == (isWhole ? "alice" : nil), "\(comment)")
        analytics.track(name: "A")
        #expect(await analytics.shutdownAndWait() == 0, "\(comment)")
        #expect(transport.events.compactMap { $0["event"]?.string } == ["A"], "\(comment)")
        if !isWhole { #expect(try folder.contents(Self.name) == bytes, "\(comment)") }
        let beside = try folder.names().filter { $0.hasPrefix(Self.name) }
        #expect(beside == [Self.name], "\(comment)")
        return folder.logger
    }
}
