import Foundation
import Testing
import TillerTesting

@testable import Tiller
@testable import TillerCommand

/// `tiller store` as a shell sees it.
@Suite(.timeLimit(.minutes(5))) struct StoreCommandTests {
    private let folder = TestFolder()
    private static let name = "0123456789abcdef-default"

    private var store: LogFolder { LogFolder(path: folder.path + "/base/" + Self.name) }

    private func tiller(_ arguments: String...) async throws -> CommandResult {
        try await runTiller(["store"] + arguments, in: folder)
    }

    private func json(_ text: String) throws -> JSONValue { try JSONValue(parsing: text) }

    /// A line of what is told for people, without the column before it.
    private func line(_ name: String, _ result: CommandResult) -> String? {
        result.output.split(separator: "\n").first { $0.hasPrefix("  \(name) ") }
            .map { $0.dropFirst(2 + name.count).drop { $0 == " " } }.map(String.init)
    }

    // MARK: For people

    @Test func whatWaitsIsTold() async throws {
        try store.live(StoreRecord.events(1...3))
        try store.put("x", "notes.txt")
        try store.put("x", "00000007-000001-000000000000.log2")
        let result = try await tiller("base")
        #expect(result.status == 0)
        #expect(result.errors.isEmpty)
        #expect(result.output.hasPrefix("base/\(Self.name)\n"))
        #expect(line("owner", result)?.hasPrefix("free") == true)
        #expect(line("waiting", result)?.hasPrefix("3 events, the oldest of 1970-01-01T00:00:01.000Z, ") == true)
        #expect(line("runs", result) == "1, in 1 segment")
        #expect(line("damage", result) == "none")
        #expect(
            line("account", result)
                == "3 stored = 0 delivered + 3 waiting + 0 refused + 0 evicted + 0 damaged")
        #expect(line("foreign", result) == "not the SDK's, left alone: notes.txt")
        #expect(line("newer", result) == "of a newer version, left as they are: 00000007-000001-000000000000.log2")
        // The age of the oldest is by the clock, which goes on.
        func withoutWaiting(_ result: CommandResult) -> [Substring] {
            result.output.split(separator: "\n").filter { !$0.hasPrefix("  waiting ") }
        }
        #expect(try await withoutWaiting(tiller("base/\(Self.name)")) == withoutWaiting(result))
    }

    @Test func ownerIsTold() async throws {
        let log = try store.open()
        let result = try await tiller("base")
        #if canImport(Darwin)
        #expect(line("owner", result) == "held")
        #else
        #expect(line("owner", result) == "held by process \(getpid())")
        #endif
        #expect(log.isOwned)
    }

    @Test func allStoresOfABaseAreTold() async throws {
        try store.live(StoreRecord.events(1...3))
        try LogFolder(path: folder.path + "/base/fedcba9876543210-b").live(StoreRecord.events(1...2))
        let result = try await tiller("base", "--json")
        let stores = try json(result.output)["stores"]?.array ?? []
        #expect(stores.map { $0["folder"]?.string } == ["base/\(Self.name)", "base/fedcba9876543210-b"])
        #expect(stores.map { $0["waiting"] } == [3, 2])
    }

    /// A terminal obeys control characters.
    @Test func namesOfFilesAreHarmless() async throws {
        try store.live([])
        try store.put("x", "a\u{1B}[2Jb")
        let result = try await tiller("base")
        #expect(line("foreign", result)?.hasSuffix("a\u{FFFD}[2Jb") == true)
        #expect(!result.output.contains("\u{1B}"))
    }

    @Test(
        arguments: [
            (-1, "after now: the clock was set"), (59_999, "59 s old"), (60_000, "1 min 0 s old"),
            (3_599_999, "59 min 59 s old"), (3_600_000, "1 h 0 min old"), (86_400_000 * 3 + 3_600_000, "3 d 1 h old"),
        ] as [(Int64, String)])
    func ageHasTwoUnits(_ milliseconds: Int64, _ text: String) { #expect(StoreText.age(milliseconds) == text) }

    // MARK: As JSON

    @Test func jsonHasEverything() async throws {
        let log = try store.open()
        try log.store(StoreRecord.events(1...4) + [.state("S", ["a": 1])])
        try log.acknowledge(try #require(try log.nextBatch(.count(1))))
        log.endWriting()
        log.close()
        try store.put("x", "notes.txt")
        let document = try json(try await tiller("--json", "base").output)
        #expect(document["tiller"]?.string == Analytics.version)
        let told = try #require(document["stores"]?.array?.first)
        #expect(told["account"]?["stored"] == 4)
        #expect(told["account"]?["delivered"] == 1)
        #expect(told["waiting"] == 3)
        #expect(told["oldest"] == "1970-01-01T00:00:01.000Z")
        #expect((told["oldestAgeSeconds"]?.double ?? 0) > 1e9)
        #expect(told["checkpoint"]?["state"] == "whole")
        #expect(told["runs"]?.array?.first?["position"] == 1)
        #expect(told["files"]?.array?.contains { $0["name"] == "notes.txt" && $0["kind"] == "foreign" } == true)
        #expect(told["findings"]?["damage"] == 0)
        #expect(told["isMoving"] == false)
    }

    // MARK: Checking

    @Test func wholeStoreIsZero() async throws {
        try store.live(StoreRecord.events(1...3))
        let result = try await tiller("--check", "base")
        #expect(result.status == 0)
        #expect(result.output == "base/\(Self.name): 3 records in 1 segment, whole\n")
    }

    @Test func damageIsOneAndToldWithFileAndOffset() async throws {
        try store.live(StoreRecord.events(1...3))
        let file = "00000001-000001-000000000000.log"
        try store.damage(file, at: "e2")
        let size = LogRecordHeader.size + (StoreRecord.event("e1").event?.bytes.count ?? 0)
        let result = try await tiller("--check", "base")
        #expect(result.status == 1)
        #expect(
            result.output == """
                damaged     base/\(Self.name)/\(file):\(size): \(size) bytes: a record (event 1) is not what was \
                written; event 1 is lost
                base/\(Self.name): 2 records in 1 segment, 1 place damaged

                """)
        let document = try await tiller("--check", "--json", "base")
        #expect(document.status == 1)
        let finding = try json(document.output)["stores"]?.array?.first?["findings"]?["list"]?.array?.first
        #expect(finding?["offset"] == .int(Int64(size)))
        #expect(
            line("damage", try await tiller("base"))
                == "1 place, 1 waiting event lost; tiller store --check tells where")
    }

    @Test func remarksAreNoDamage() async throws {
        try store.live(StoreRecord.events(1...2))
        let file = "00000001-000001-000000000000.log"
        try store.put(Array(try store.contents(file).dropLast(3)), file)
        let result = try await tiller("--check", "base")
        #expect(result.status == 0)
        #expect(result.output.hasPrefix("remark      base/\(Self.name)/\(file):"))
        #expect(result.output.hasSuffix(", whole\n"))
    }

    @Test func whatCanNotBeReadIsSixtyFour() async throws {
        try store.live(StoreRecord.events(1...2))
        try store.makeUnreadable("00000001-000001-000000000000.log")
        let result = try await tiller("--check", "base")
        #expect(result.status == 64)
        #expect(result.output.hasPrefix("unreadable  "))
        #expect(try await tiller("base").status == 0)
        for folder in ["missing", "base/\(Self.name)/owner.lock"] {
            let result = try await tiller(folder)
            #expect(result.status == 64)
            #expect(result.output.isEmpty)
            #expect(!result.errors.isEmpty)
        }
    }

    @Test func aFolderWithoutAStoreIsSixtyFour() async throws {
        try store.put("x", "x")
        try store.remove("x")
        try FileManager.default.createDirectory(atPath: folder.path + "/empty", withIntermediateDirectories: true)
        let result = try await tiller("empty")
        #expect(result.status == 64)
        #expect(result.errors == "there is no store in empty\n")
    }

    // MARK: Usage

    @Test(
        arguments: [
            ([], "no folder is given"), (["a", "b"], "more than one folder is given"),
            (["-x", "a"], "'-x' is not an option"),
            (["a", "--bundle"], "--bundle needs a file"), (["a", "--bundle", "--json"], "--bundle needs a file"),
            (["a", "--bundle", "x", "--bundle", "y"], "--bundle is given twice"),
            (["a", "--bundle", "x", "--json"], "--bundle goes with neither --check nor --json: it has both"),
        ] as [([String], String)])
    func badUsageSaysWhatIsWrong(_ arguments: [String], _ problem: String) {
        #expect(throws: StoreOptions.Problem(reason: problem)) { try StoreOptions(arguments) }
    }

    @Test func badUsageIsSixtyFourAndHelpIsNot() async throws {
        let result = try await tiller("--colour")
        #expect(result.status == 64)
        #expect(result.errors == "'--colour' is not an option (see tiller store --help)\n")
        let help = try await tiller("--help")
        #expect(help.status == 0)
        #expect(help.output == StoreCommand.help + "\n")
    }
}
