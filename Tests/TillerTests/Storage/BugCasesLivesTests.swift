import Foundation
import Testing
import TillerTesting

@testable import Tiller

/// Public bug reports on what one life of a process finds of the lives before it.
@Suite(.timeLimit(.minutes(5))) struct BugCasesLivesTests {
    private let files = MemoryFiles()
    private let time = VirtualTime()
    private let transport = StubTransport()

    private func start(
        seed: UInt64, disk: any FileSystem, inForeground: Bool = true,
        _ change: (inout Configuration) -> Void = { _ in }
    ) -> (analytics: Analytics, lifecycle: ManualLifecycleSource) {
        let lifecycle = ManualLifecycleSource(isInForeground: inForeground)
        var configuration = Configuration.test(
            lifecycle: lifecycle, time: time, storage: .folder(URL(fileURLWithPath: "/memory/lives")),
            transport: transport)
        configuration.fileSystem = disk
        configuration.identifiers = .seeded(seed)
        change(&configuration)
        return (Analytics(configuration: configuration), lifecycle)
    }

    private var names: [String?] { transport.events.map { $0["event"]?.string } }

    @Test func b53_aStoreThatCannotBeReadYetKeepsItsIdentity() async {
        let first = start(seed: 1, disk: files).analytics
        first.identify(userId: "u1")
        await first.stored()
        let id = first.anonymousId
        await first.shutdownAndWait()

        let disk = FaultyFiles(files)
        disk.fail { operation, name, _ in operation == .read && name == "checkpoint.json" ? .permission : nil }
        let (second, lifecycle) = start(seed: 2, disk: disk, inForeground: false)
        second.track(name: "a")
        second.track(name: "b")
        await second.stored()
        disk.fail(nil)
        lifecycle.foreground()
        #expect(second.anonymousId == id && second.userId == "u1")
        second.track(name: "c")
        #expect(await second.flushed() == .delivered)
        #expect(names.suffix(3) == ["a", "b", "c"])
        #expect(!names.contains("Application Installed"))
        await second.shutdownAndWait()

        let third = start(seed: 3, disk: files).analytics
        #expect(third.anonymousId == id && third.userId == "u1")
        await third.shutdownAndWait()
    }

    @Test func b55_valuesOfAnotherTypeCostNothingElse() async throws {
        let log = try EventLog(
            folder: "/memory/lives/\(SHA256.hex(of: "key\u{0}default").prefix(16))-default", on: files, boot: 1,
            diagnostics: Diagnostics(logger: RecordingLogger(), level: .error))
        try log.save([
            StateChange(key: "IdentityPlugin", changes: ["anonymousId": "raw", "userId": 5, "traits": "none"]),
            StateChange(key: "LifecyclePlugin", changes: ["installed": 1, "version": "1.0", "build": 41]),
            StateChange(key: "SessionTrackingPlugin", changes: ["session": "old", "generation": "x", "lastId": 1.5]),
        ])
        log.close()
        let analytics = start(seed: 1, disk: files) { configuration in
            configuration.trackApplicationLifecycleEvents = true
            configuration.application = ApplicationInfo(name: "App", version: "1.0", build: "42")
        }.analytics
        #expect(analytics.anonymousId == "raw")
        #expect(await analytics.flushed() == .delivered)
        let updates = transport.events.filter { $0["event"]?.string == "Application Updated" }
        #expect(updates.count == 1)
        #expect(updates.first?["properties"]?["previous_build"]?.string == "41")
        #expect(!names.contains("Application Installed"))
        await analytics.shutdownAndWait()
    }

    @Test func b139_aFirstStartOfflineLosesNothing() async {
        transport.answerAlways(.failure(StubTransport.NoAnswer()))
        let first = start(seed: 1, disk: files).analytics
        first.track(name: "a")
        first.track(name: "b")
        #expect(await first.flushed() != .delivered)
        transport.answerAlways(.status(200))
        first.track(name: "c")
        time.advance(by: .seconds(20))
        #expect(await first.flushed() == .delivered)
        // An attempt without an answer was no delivery: what arrived is what was answered.
        #expect(names.suffix(3) == ["a", "b", "c"])
        transport.answerAlways(.failure(StubTransport.NoAnswer()))
        first.track(name: "d")
        await first.shutdownAndWait()
        transport.answerAlways(.status(200))
        let second = start(seed: 2, disk: files).analytics
        second.track(name: "e")
        #expect(await second.flushed() == .delivered)
        #expect(names.suffix(2) == ["d", "e"])
        await second.shutdownAndWait()
    }

    @Test func b162_instancesShareNothingWhateverTheirKeys() async throws {
        let folder = TestFolder()
        let keys = ["/", "..", " ", "../../x", "a\u{0}b", String(repeating: "k", count: 300), "ключ"]
        var ids: Set<String?> = []
        for (index, key) in keys.enumerated() {
            for name in ["", "default", "../\(index)"] {
                let analytics = start(seed: UInt64(ids.count + 1), disk: SystemFiles()) { configuration in
                    configuration.writeKey = key
                    configuration.instanceName = name
                    configuration.storage = .folder(folder.url)
                }.analytics
                ids.insert(analytics.anonymousId)
                analytics.track(name: "\(ids.count)")
                #expect(await analytics.stored() == .stored)
                #expect(await analytics.flushed().leavesNothing)
                #expect(transport.requests.last?.events.count == 1)
                await analytics.shutdownAndWait()
            }
        }
        #expect(ids.count == keys.count * 3)
        let made = try FileManager.default.contentsOfDirectory(atPath: folder.path)
        #expect(made.count == keys.count * 3)
        let beside = try FileManager.default.contentsOfDirectory(
            atPath: folder.url.deletingLastPathComponent().path)
        #expect(!beside.contains("x"))
    }
}
