import Foundation
import Testing
import TillerTesting

@testable import Tiller
@testable import TillerCommand

/// A support bundle shows the form of what was recorded, and nothing of what it says.
@Suite(.timeLimit(.minutes(5))) struct SupportBundleTests {
    private let folder = TestFolder()
    private static let name = "0123456789abcdef-AliceLtd"

    private var store: LogFolder { LogFolder(path: folder.path + "/base/" + Self.name) }

    private func bundle() throws -> JSONObject {
        let stores = try StoreInspection.folders(in: folder.path + "/base").map { try StoreInspection(folder: $0) }
        return SupportBundle(nowMilliseconds: 1_000).document(stores)
    }

    /// What an SDK stores for calls with secrets in every place that an app can reach.
    private func record() async {
        let options = EventOptions(
            integrations: ["SecretDestination": true],
            customContext: ["secretKey": ["deep": "secret-value"], "app": ["name": "secret-app", "own": 1]],
            externalIds: [ExternalId(type: "secret-type", id: "secret-id")])
        let analytics = Analytics(
            configuration: Configuration(
                writeKey: "secret-write-key", dataPlaneUrl: "http://127.0.0.1:9/secret-path", logLevel: .none,
                storage: .folder(URL(fileURLWithPath: folder.path + "/base"))))
        analytics.identify(userId: "secret-user", traits: ["email": "secret@example.com", "age": 7_654_321])
        analytics.track(
            name: "secret event",
            properties: ["secretProperty": 1_234_567.5, "ordinal": ["secret", true], "messageId": "x"],
            options: options)
        analytics.startSession(sessionId: 9_876_543_210)
        analytics.group(groupId: "secret-group", traits: ["secretTrait": nil])
        analytics.alias(newId: "secret-alias")
        #expect(await analytics.stored() == .stored)
        _ = await analytics.shutdownAndWait(timeout: .zero)
    }

    @Test func nothingThatAnAppSaidIsInIt() async throws {
        await record()
        let name = try #require(try FileManager.default.contentsOfDirectory(atPath: folder.path + "/base").first)
        try LogFolder(path: folder.path + "/base/" + name).put("x", "secret.txt")
        let text = JSONValue.object(try bundle()).description
        for secret in [
            "secret", "Secret", "email", "example", "7654321", "1234567", "9876543210", "deep", "ordinal", folder.path,
        ] {
            #expect(!text.contains(secret), "\(secret)")
        }
        #expect(!text.contains(name))
        #expect(!text.contains(TimeZone.current.identifier) || TimeZone.current.identifier.count < 4)
        // An id is shown nowhere either.
        let uuid = try Regex("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}")
        #expect(text.firstMatch(of: uuid) == nil)
    }

    @Test func formIsKept() async throws {
        await record()
        let told = try #require(try bundle()["stores"]?.array?.first)
        let events = (told["records"]?["oldest"]?.array ?? []).compactMap { $0["event"]?.object }
        #expect(events.map { $0["type"] } == ["identify", "track", "group", "alias"])
        try #require(events.count == 4)
        let track = events[1]
        #expect(track.keys.prefix(5) == ["type", "messageId", "originalTimestamp", "channel", "anonymousId"])
        #expect(track["context"]?["library"] == ["name": "tiller-swift", "version": .string(Analytics.version)])
        #expect(track["integrations"]?["All"] == true)
        #expect(track["properties"]?.object?.count == 3)
        // A key of the specification is none in a place of the app's own.
        #expect(track["properties"]?["messageId"] == nil)
        // Equal values are equal.
        #expect(events[0]["userId"] == track["userId"])
        #expect(events[0]["messageId"] != track["messageId"])
        #expect(told["folder"]?.string?.hasPrefix("s:") == true)
        #expect(told["waiting"] == 4)
    }

    /// Else a list of guesses could be tried.
    @Test func eachBundleHashesOtherwise() {
        let (one, two) = (Redaction(), Redaction())
        #expect(one.hashed("x", as: "s") == one.hashed("x", as: "s"))
        #expect(one.hashed("x", as: "s") != one.hashed("y", as: "s"))
        #expect(one.hashed("x", as: "s") != two.hashed("x", as: "s"))
        #expect(one.redacted("1", .custom) != one.redacted(1, .custom))
        #expect(one.redacted(true, .custom).string?.hasPrefix("b:") == true)
        #expect(one.redacted(.null, .custom) == .null)
    }

    @Test(arguments: [
        ("0.1.0", true), ("12.3", true), ("1.2.3.4", true), ("12345", false), ("12345.1", false), ("1.x", false),
        ("1..2", false), ("49.1511.2345.6789.1", false), (Analytics.version, true),
    ]) func onlyVersionsPassForVersions(_ text: String, _ isShown: Bool) {
        let event: JSONValue = ["context": ["library": ["version": .string(text)]]]
        let shown = Redaction().redacted(event, .event)["context"]?["library"]?["version"]
        #expect((shown == .string(text)) == isShown)
    }

    @Test(arguments: [
        ("00000001-000001-000000000000.log", true), ("00000001-000001-000000000000.log2", true), ("00000007.ack", true),
        ("owner.lock", true), ("00000007.lock", true), ("owner.fifo", true), ("checkpoint.json.unreadable", true),
        ("alice.lock", false), ("0049151123.txt", false), ("owner.logalice", false), ("owner", false), ("", false),
    ]) func onlyTheSDKsNamesAreShown(_ name: String, _ isShown: Bool) {
        #expect((Redaction().fileName(name) == name) == isShown)
    }

    @Test func recordsAreBounded() throws {
        try store.live(StoreRecord.events(1...2_345), storageBytes: 1 << 24)
        let records = try #require(try bundle()["stores"]?.array?.first?["records"])
        #expect(records["count"] == 2_345)
        #expect(records["omitted"] == 345)
        #expect(records["oldest"]?.array?.map { $0["number"]?.int } == (0..<1_000).map { Int64($0) })
        #expect(records["newest"]?.array?.map { $0["number"]?.int } == (1_345..<2_345).map { Int64($0) })
    }

    @Test func pathsInMessagesAreTakenOut() throws {
        try store.live(StoreRecord.events(1...2))
        try store.makeUnreadable("00000001-000001-000000000000.log")
        let text = JSONValue.object(try bundle()).description
        #expect(text.contains("FOLDER/00000001-000001-000000000000.log"))
        #expect(!text.contains(folder.path))
        #expect(!text.contains("AliceLtd"))
    }

    @Test func bundleIsWrittenOnceForItsOwnerOnly() async throws {
        try store.live(StoreRecord.events(1...2))
        let result = try await runTiller(["store", "base", "--bundle", "b.json"], in: folder)
        #expect(result.status == 0)
        let path = folder.path + "/b.json"
        let bytes = try #require(FileManager.default.contents(atPath: path))
        #expect(result.output == "b.json: \(bytes.count) bytes\n")
        #expect(try JSONValue(parsing: bytes)["stores"]?.array?.count == 1)
        let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
        #expect(mode == 0o600)
        let again = try await runTiller(["store", "base", "--bundle", "b.json"], in: folder)
        #expect(again.status == 1)
        #expect(again.errors == "b.json is there already\n")
        let inside = try await runTiller(["store", "base", "--bundle", "base/\(Self.name)/b.json"], in: folder)
        #expect(inside.status == 64)
        #expect(try !store.names().contains("b.json"))
    }
}
