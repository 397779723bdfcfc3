import Foundation
import Testing
import TillerTesting

@testable import Tiller

/// An instance on a folder of which one file is something else than it was.
@Suite(.timeLimit(.minutes(5))) struct DamagedFolderTests {
    enum Damage: CaseIterable {
        case empty, oneByte, garbage, half, null, hugeLength, missing

        func bytes(for original: [UInt8]) -> [UInt8]? {
            switch self {
            case .empty: return []
            case .oneByte: return [0x7B]
            case .garbage:
                var generator = IdentifierGenerator.seeded(7)
                return (0..<4_096).map { _ in UInt8(truncatingIfNeeded: generator.nextWord()) }
            case .half: return Array(original.prefix(original.count / 2))
            case .null: return Array("null".utf8)
            case .hugeLength: return [0xFF, 1, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF] + original.dropFirst(8)
            case .missing: return nil
            }
        }
    }

    /// A folder of an instance that was shut down with an event that waits, so that every kind of file is there.
    private func makeFolder(_ logger: RecordingLogger) async throws -> (folder: TestFolder, path: String, id: String?) {
        let folder = TestFolder()
        let transport = StubTransport()
        let first = Analytics(configuration: configuration(folder, transport, logger))
        first.identify(userId: "alice")
        first.track(name: "delivered")
        await first.flushed()
        transport.answerAlways(.status(503))
        first.track(name: "waits")
        await first.shutdownAndWait()
        let name = try #require(try FileManager.default.contentsOfDirectory(atPath: folder.path).first)
        let next = Analytics(configuration: configuration(folder, transport, logger))
        let id = next.anonymousId
        await next.shutdownAndWait()
        return (folder, folder.path + "/" + name, id)
    }

    private func configuration(_ folder: TestFolder, _ transport: StubTransport, _ logger: RecordingLogger)
        -> Configuration
    {
        .test(storage: .folder(folder.url), transport: transport, logger: logger)
    }

    @Test(arguments: Damage.allCases) func b46_aCorruptFileEndsNothingAndCostsItsContentsOnly(_ damage: Damage)
        async throws
    {
        let original = try await makeFolder(RecordingLogger())
        let names = try FileManager.default.contentsOfDirectory(atPath: original.path)
        #expect(Set(names.compactMap { $0.split(separator: ".").last }) == ["log", "ack", "json", "lock", "fifo"])
        for name in names where !name.hasSuffix(".fifo") {
            let logger = RecordingLogger()
            let (folder, path, id) = try await makeFolder(logger)
            let file = path + "/" + name
            let original = Array(try #require(FileManager.default.contents(atPath: file)))
            if let bytes = damage.bytes(for: original) {
                try Data(bytes).write(to: URL(fileURLWithPath: file))
            } else {
                try FileManager.default.removeItem(atPath: file)
            }
            for life in 1...2 {
                let transport = StubTransport()
                let analytics = Analytics(configuration: configuration(folder, transport, logger))
                analytics.track(name: "new")
                #expect(await analytics.flushed() == .delivered, "\(damage) \(name)")
                #expect(transport.events.names.last == "new", "\(damage) \(name), life \(life)")
                if name != "checkpoint.json" {
                    #expect(analytics.anonymousId == id && analytics.userId == "alice", "\(damage) \(name)")
                }
                if name != "checkpoint.json", !name.hasSuffix(".log"), life == 1 {
                    #expect(transport.events.names.contains("waits"), "\(damage) \(name)")
                }
                #expect(await analytics.shutdownAndWait() == 0, "\(damage) \(name)")
            }
        }
    }
}
