import Foundation
import Testing
import Tiller
import TillerTesting

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#endif

/// Two processes on one folder, for real.
@Suite(.timeLimit(.minutes(5))) struct TwoProcessesTests {
    private static let name = "two-processes"
    private static let count = isUnderThreadSanitizer ? 20 : 200

    /// The owner is killed while both write; the guest takes over, and the data plane has each event once, in order.
    @Test func aGuestTakesOverFromAnOwnerThatIsKilled() async throws {
        let folder = TestFolder(name: Self.name)
        try? FileManager.default.removeItem(at: folder.url)
        try FileManager.default.createDirectory(at: folder.url, withIntermediateDirectories: true)
        for name in ["ready", "go"] { try #require(mkfifo(folder.path + "/" + name, 0o600) == 0) }
        let plane = try LocalDataPlane()
        let url = plane.url
        let survivor = Task.detached {
            Self.meet("ready", isWriter: false)
            let guest = Self.instance(dataPlaneUrl: url)
            Self.track("g", 1...Self.count / 2, guest)
            let (stored, flushed) = (await guest.stored(), await guest.flushed())
            Self.meet("go", isWriter: true)
            return (guest, stored, flushed)
        }
        await #expect(processExitsWith: .signal(SIGKILL)) {
            let owner = Self.instance(dataPlaneUrl: "http://127.0.0.1:1")
            Self.track("o", 1...Self.count, owner)
            guard await owner.stored() == .stored else { exit(1) }
            Self.meet("ready", isWriter: true)
            Self.meet("go", isWriter: false)
            Self.track("o", Self.count + 1...Self.count + 50, owner)
            kill(getpid(), SIGKILL)
        }
        let (guest, stored, flushed) = await survivor.value
        #expect(stored == .stored)
        if case .waiting = flushed {} else { Issue.record("\(flushed)") }
        Self.track("g", Self.count / 2 + 1...Self.count, guest)
        #expect(await guest.flushed() == .delivered)
        #expect(await guest.shutdownAndWait() == 0)
        let names = plane.events.compactMap(\.name)
        #expect(names.filter { $0.hasPrefix("g") } == (1...Self.count).map { "g\($0)" })
        let owners = names.filter { $0.hasPrefix("o") }
        #expect(owners.count >= Self.count)
        #expect(owners == (1...max(owners.count, 1)).map { "o\($0)" })
    }

    // MARK: Steps

    private static func track(_ prefix: String, _ numbers: ClosedRange<Int>, _ analytics: Analytics) {
        for number in numbers { analytics.track(name: "\(prefix)\(number)") }
    }

    /// Two processes wait for each other: who opens one end of a FIFO waits for the other end.
    private static func meet(_ name: String, isWriter: Bool) {
        close(open(TestFolder.path(of: Self.name) + "/" + name, isWriter ? O_WRONLY : O_RDONLY))
    }

    private static func instance(dataPlaneUrl: String) -> Analytics {
        Analytics(
            configuration: Configuration(
                writeKey: "key", dataPlaneUrl: dataPlaneUrl, gzipEnabled: false, flushPolicies: [],
                logger: RecordingLogger(), storage: .folder(URL(fileURLWithPath: TestFolder.path(of: Self.name))),
                transport: URLSessionTransport()))
    }
}
