import Foundation
import Testing
import TillerTesting

@testable import Tiller

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#endif

/// What an instance takes of the machine. Each test is a process of its own; its last line of output has the figures.
@Suite(.serialized, .timeLimit(.minutes(5)), .disabled(if: Resources.residentBytes == 0 || isUnderThreadSanitizer))
struct ResourceTests {
    /// Threads beside those that `URLSession` and Dispatch have for a program that uses them without us: at most 3.
    @Test func threads() async throws {
        let result = try await #require(processExitsWith: .exitCode(7), observing: [\.standardErrorContent]) {
            guard let plane = try? LocalDataPlane() else { exit(1) }
            try? await warmUp(plane)
            let before = Resources.threads
            let folder = TestFolder()
            let analytics = instance(plane.url, .folder(folder.url))
            var most = 0
            for number in 0..<2_000 {
                analytics.track(name: "\(number)")
                if number % 100 == 0 {
                    await analytics.flushed()
                    most = max(most, Resources.threads)
                }
            }
            await analytics.shutdownAndWait()
            say("threads: \(most - before) more than without Tiller (\(before))")
            exit(most - before <= 3 ? 7 : 2)
        }
        show(result)
    }

    /// Descriptors while a request is under way, its connection among them: at most 8; afterwards those of the client's
    /// connection, which is kept for the next, stay.
    @Test func descriptors() async throws {
        let result = try await #require(processExitsWith: .exitCode(7), observing: [\.standardErrorContent]) {
            guard let plane = try? LocalDataPlane() else { exit(1) }
            let folder = TestFolder()
            let before = Resources.descriptors
            var during: [Int] = []
            var after: [Int] = []
            for life in 0..<3 {
                let analytics = instance(plane.url, .folder(folder.url))
                plane.answerNext(.ok.held())
                analytics.track(name: "A")
                analytics.flush()
                _ = try? await plane.requests(count: life + 1)
                during.append(Resources.descriptors - before - 1)  // one is the data plane's end of the connection
                plane.releaseHeld()
                await analytics.shutdownAndWait()
                // Some are given back a moment later, by the system's queue and its client: they are waited for.
                var rest = Resources.descriptors - before - 1
                for _ in 0..<1_000_000 where rest > after.first ?? 3 {
                    await Task.yield()
                    rest = Resources.descriptors - before - 1
                }
                after.append(rest)
            }
            let most = during.max() ?? 9
            say("descriptors: \(during) during deliveries, \(after) after the shutdowns")
            exit(most <= 8 && after[0] <= 4 && after[2] <= after[0] ? 7 : 2)
        }
        show(result)
    }

    /// 200 000 events, delivered: memory does not grow with their number. Fewer in a debug build, which takes its time.
    @Test func memoryOfADelivery() async throws {
        let result = try await #require(processExitsWith: .exitCode(7), observing: [\.standardErrorContent]) {
            let folder = TestFolder()
            let analytics = instance("http://127.0.0.1", .folder(folder.url), EmptyTransport())
            func record(_ count: Int) async {
                for _ in 0..<count / 10_000 {
                    for number in 0..<10_000 { analytics.track(name: "Order Completed", properties: ["n": number]) }
                    await analytics.flushed()
                }
            }
            let start = Resources.residentBytes
            await record(20_000)
            let before = Resources.residentBytes
            let rest = isDebugBuild ? 20_000 : 180_000
            await record(rest)
            let grown = Resources.residentBytes - before
            await analytics.shutdownAndWait()
            say(
                "memory: \((before - start) / 1_000_000) MB after 20 000 events, \(grown / 1_000_000) MB more after \(rest) more"
            )
            exit(grown < 20_000_000 && analytics.account.recorded == 20_000 + rest ? 7 : 2)
        }
        show(result)
    }

    /// A data plane that does not answer, and no disk: what waits is bounded, and so is the memory that it takes.
    @Test func memoryWithAStuckDataPlane() async throws {
        let result = try await #require(processExitsWith: .exitCode(7), observing: [\.standardErrorContent]) {
            var limits = Limits()
            limits.memoryBytes = 4_000_000
            let analytics = instance("http://127.0.0.1", .memory, StubTransport(.hold), limits)
            let before = Resources.residentBytes
            for number in 0..<20_000 {
                analytics.track(name: "Order Completed", properties: ["n": .int(Int64(number))])
            }
            await analytics.stored()
            let grown = Resources.residentBytes - before
            let account = analytics.account
            say(
                "memory with a stuck data plane: \(grown / 1_000_000) MB for 4 MB of events, \(account.inMemory) of them"
            )
            exit(grown < 40_000_000 && account.dropped[.queueFull, default: 0] > 0 && account.inMemory > 0 ? 7 : 2)
        }
        show(result)
    }

    /// Never more on disk than the limit and one segment.
    @Test func disk() async throws {
        let result = try await #require(processExitsWith: .exitCode(7), observing: [\.standardErrorContent]) {
            var limits = Limits()
            limits.storageBytes = 2_000_000
            let folder = TestFolder()
            let analytics = instance("http://127.0.0.1", .folder(folder.url), StubTransport(.status(503)), limits)
            var most = 0
            for round in 0..<24 {
                for number in 0..<500 {
                    analytics.track(
                        name: "\(round).\(number)", properties: ["text": .string(String(repeating: "x", count: 300))])
                }
                await analytics.stored()
                most = max(most, Resources.bytes(in: folder.path))
            }
            await analytics.shutdownAndWait()
            most = max(most, Resources.bytes(in: folder.path))
            say("disk: \(most) bytes at the most with a limit of \(limits.storageBytes)")
            exit(most > 1_500_000 && most <= limits.storageBytes + limits.storageBytes / 8 ? 7 : 2)
        }
        show(result)
    }
}

// MARK: - Steps

private func instance(
    _ url: String, _ storage: Storage, _ transport: any Transport = URLSessionTransport(), _ limits: Limits = Limits()
) -> Analytics {
    Analytics(
        configuration: Configuration(
            writeKey: "key", dataPlaneUrl: url, flushPolicies: [], logger: RecordingLogger(), storage: storage,
            transport: transport, limits: limits))
}

/// Uses Dispatch and `URLSession` as we do, so that what is theirs is there.
private func warmUp(_ plane: LocalDataPlane) async throws {
    let request = TransportRequest(url: plane.url + "/v1/batch", headers: [:], body: [0], timeout: .seconds(30))
    _ = try await URLSessionTransport().post(request)
    let queues = (0..<3).map { DispatchQueue(label: "\($0)") }
    for queue in queues { await withCheckedContinuation { done in queue.async { done.resume() } } }
}

private var isDebugBuild: Bool {
    var isDebug = false
    assert(
        {
            isDebug = true
            return true
        }())
    return isDebug
}

private func say(_ text: String) { FileHandle.standardError.write(Data(("figures: " + text + "\n").utf8)) }

private func show(_ result: ExitTest.Result?) {
    let text = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
    for line in text.split(separator: "\n") where line.hasPrefix("figures: ") { print(line) }
}

/// Takes everything and keeps nothing.
private struct EmptyTransport: Transport {
    func post(_ request: TransportRequest) async throws -> TransportResponse {
        TransportResponse(status: 200, body: Array("ok".utf8))
    }
}
