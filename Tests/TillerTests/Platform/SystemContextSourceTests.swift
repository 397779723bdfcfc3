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

/// What this machine tells of itself.
@Suite(.timeLimit(.minutes(5)))
struct SystemContextSourceTests {
    private static let names = [
        NSLocale.currentLocaleDidChangeNotification, Notification.Name.NSSystemTimeZoneDidChange,
    ]

    private let center = NotificationCenter()

    private func makeSource() -> SystemContextSource {
        let center = center
        return SystemContextSource(relay: NotificationRelay { center })
    }

    private func text(of field: (some Any)) -> String {
        withUnsafeBytes(of: field) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    }

    /// All texts that lie in a value.
    private func texts(in value: JSONValue) -> [String] {
        switch value {
        case .string(let text): [text]
        case .array(let values): values.flatMap(texts)
        case .object(let object): object.flatMap { texts(in: $0.value) }
        default: []
        }
    }

    private func wholeContext() async throws -> JSONObject {
        let destination = RecordingDestination()
        var configuration = Configuration.test()
        configuration.collectDeviceId = true
        let analytics = Analytics(configuration: configuration, plugins: [destination])
        analytics.track(name: "A")
        return try #require(await analytics.settled(destination).last).context
    }

    @Test func neitherHostNameNorMachineIdNorUserNameIsSent() async throws {
        var name = [CChar](repeating: 0, count: 1_024)
        #expect(gethostname(&name, name.count - 1) == 0)
        let host = String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        let context = try await wholeContext()
        let texts = texts(in: .object(context))
        #expect(texts.count > 3)
        let secrets = [host, ProcessInfo.processInfo.hostName, NSUserName(), NSFullUserName()]
        for secret in secrets where !secret.isEmpty { #expect(!texts.contains(secret)) }
        for path in ["/etc/machine-id", "/var/lib/dbus/machine-id", "/proc/sys/kernel/random/boot_id"] {
            let found = (try? String(contentsOfFile: path, encoding: .utf8)) ?? ""
            let id = found.trimmingCharacters(in: .whitespacesAndNewlines)
            for form in [id, id.replacingOccurrences(of: "-", with: "")] where !form.isEmpty {
                #expect(!texts.contains { $0.replacingOccurrences(of: "-", with: "").contains(form) })
            }
        }
        #expect(context["device"]?["name"] == nil)
    }

    @Test(.enabled(if: FileManager.default.fileExists(atPath: "/proc/self")))
    func onLinuxItIsTheReleaseFileAndTheKernel() throws {
        let system = SystemContextSource().read()
        var names = utsname()
        #expect(uname(&names) == 0)
        #expect(system.device.model == text(of: names.machine))
        #expect(system.device.type == "Linux")
        #expect(system.device.manufacturer == nil)
        #expect(system.device.id == nil)
        #expect(system.os.kernel == text(of: names.release))
        #expect(system.os.name == ReleaseFile.read()?.name ?? "Linux")
        #expect(system.network == nil)
        #expect(system.screen == nil)
        #expect(!SystemContextSource().hasDeviceId)
    }

    #if !canImport(Darwin)
    @Test func withoutAReleaseFileTheSystemIsTheKernel() throws {
        let folder = TestFolder()
        try FileManager.default.createDirectory(at: folder.url, withIntermediateDirectories: true)
        var os = Machine.read(releasePaths: [folder.path + "/missing"]).os
        #expect(os.name == "Linux")
        #expect(os.version == os.kernel)
        // A distribution without a version has none: the kernel's is not its.
        for (text, name, version) in [
            ("NAME=Rolling\n", "Rolling", nil), ("NAME=A\nVERSION_ID=3\n", "A", "3"),
            ("VERSION_ID=3\n", "Linux", os.kernel), ("\u{0}", "Linux", os.kernel),
        ] {
            let path = folder.path + "/os-release"
            try Data(text.utf8).write(to: URL(fileURLWithPath: path))
            os = Machine.read(releasePaths: [path]).os
            #expect(os.name == name)
            #expect(os.version == version)
        }
    }
    #endif

    // MARK: Changes

    @Test(arguments: names)
    func aNoticeOfTheSystemIsAChange(_ name: Notification.Name) {
        let source = makeSource()
        let changes = Locked(0)
        let token = source.observe { changes.withLock { $0 += 1 } }
        center.post(name: name, object: nil)
        #expect(changes.withLock { $0 } == 1)  // on the thread that posts
        center.post(name: Notification.Name("another"), object: nil)
        #expect(changes.withLock { $0 } == 1)
        token.cancel()
        center.post(name: name, object: nil)
        #expect(changes.withLock { $0 } == 1)
    }

    @Test func anObservationThatIsReleasedEnds() {
        let changes = Locked(0)
        do {
            let source = makeSource()
            let token = source.observe { changes.withLock { $0 += 1 } }
            withExtendedLifetime(token) { center.post(name: .NSSystemTimeZoneDidChange, object: nil) }
        }
        center.post(name: .NSSystemTimeZoneDidChange, object: nil)
        #expect(changes.withLock { $0 } == 1)
    }

    @Test(arguments: names) func theSystemsOwnCenterIsHeard(_ name: Notification.Name) {
        let changes = Locked(0)
        let token = SystemContextSource().observe { changes.withLock { $0 += 1 } }
        NotificationCenter.default.post(name: name, object: nil)
        #expect(changes.withLock { $0 } >= 1)  // another test may have posted too
        token.cancel()
    }

    @Test func theProgramsNoticeReachesThePlugin() async {
        let source = makeSource()
        let destination = RecordingDestination()
        var configuration = Configuration.test()
        configuration.contextSource = source
        let analytics = Analytics(configuration: configuration, plugins: [destination])
        analytics.track(name: "A")
        await analytics.settled()
        await onThreads(4) { _ in
            for _ in 0..<100 {
                center.post(name: .NSSystemTimeZoneDidChange, object: nil)
                analytics.track(name: "B")
            }
        }
        let events = await analytics.settled(destination)
        #expect(Set(events.map { $0.context["timezone"]?.string }).count == 1)
        await analytics.shutdownAndWait()
    }
}
