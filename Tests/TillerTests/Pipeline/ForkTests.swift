import Foundation
import Testing
import Tiller
import TillerTesting

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#endif

/// A process that forks: the child's copy of an instance does nothing, the parent's goes on.
@Suite(.timeLimit(.minutes(5)), .disabled(if: isUnderThreadSanitizer)) struct ForkTests {
    /// In a process of its own, for the child of this one would have none of its threads.
    @Test func theChildsCopyDoesNothingAndTheParentGoesOn() async {
        await #expect(processExitsWith: .success) {
            let folder = TestFolder()
            let transport = StubTransport()
            let analytics = Self.instance(on: folder.url, transport)
            analytics.track(name: "before")
            try #require(await analytics.stored() == .stored)
            let isRight = Self.inChild {
                analytics.track(name: "in the child")
                analytics.flush()
                analytics.shutdown()
                // Whatever goes when the child ends, the parent keeps its lock.
                return analytics.anonymousId == nil
            }
            try #require(isRight)
            let second = Self.instance(on: folder.url, StubTransport())
            second.track(name: "of a guest")
            guard case .waiting = await second.flushed() else { throw CancellationError() }
            analytics.track(name: "after")
            try #require(await analytics.flushed() == .delivered)
            try #require(Set(transport.events.compactMap { $0["event"]?.string }) == ["before", "after", "of a guest"])
            try #require(await analytics.shutdownAndWait() == 0)
        }
    }

    /// A child that outlives its parent has none of its locks.
    @Test func theChildHasNoLockOfItsParents() async {
        await #expect(processExitsWith: .success) {
            let folder = TestFolder()
            let path = folder.path
            let log = try openEventLog(folder: path, logger: RecordingLogger())
            let isFree = Self.inChild {
                // Held by the parent yet, and not by a descriptor of this process.
                let descriptor = open(path + "/owner.lock", O_RDWR)
                defer { close(descriptor) }
                return flock(descriptor, LOCK_EX | LOCK_NB) != 0 && Self.descriptors(of: "owner.lock") == 1
            }
            try #require(isFree)
            try #require(log.isOwned)
            log.close()
        }
    }

    /// Where the parent has made none before, as in servers that fork their workers first.
    @Test func anInstanceThatIsMadeInTheChildWorks() async {
        await #expect(processExitsWith: .success) {
            let folder = TestFolder()
            let url = folder.url
            let isRight = Self.inChild {
                let log = try? openEventLog(folder: url.path, logger: RecordingLogger())
                defer { log?.close() }
                return log?.isOwned == true && (try? log?.save([StateChange(key: "A", changes: ["a": 1])])) != nil
            }
            try #require(isRight)
            let log = try openEventLog(folder: url.path, logger: RecordingLogger())
            guard case .value(let value) = log.load("A") else { throw CancellationError() }
            try #require(value == ["a": 1])
        }
    }

    // MARK: Steps

    private static func instance(on folder: URL, _ transport: StubTransport) -> Analytics {
        Analytics(
            configuration: Configuration(
                writeKey: "key", dataPlaneUrl: "http://127.0.0.1", gzipEnabled: false, flushPolicies: [],
                logger: RecordingLogger(), storage: .folder(folder), transport: transport))
    }

    /// Open descriptors of this process on a file of that name.
    private static func descriptors(of name: String) -> Int {
        let entries = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
        return entries.count {
            (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\($0)"))?.hasSuffix(name)
                ?? false
        }
    }

    /// Runs a body in a forked child, which ends as by `_exit`.
    private static func inChild(_ body: () -> Bool) -> Bool {
        typealias Fork = @convention(c) () -> Int32
        guard let symbol = dlsym(nil, "fork") else { return false }
        let child = unsafeBitCast(symbol, to: Fork.self)()
        if child == 0 { _exit(body() ? 0 : 1) }
        var status: Int32 = -1
        while waitpid(child, &status, 0) < 0, errno == EINTR {}
        return status == 0
    }
}
