import Testing
import TillerTesting

@testable import Tiller

/// What the delivery says of itself.
@Suite(.timeLimit(.minutes(5))) struct DeliveryProgressTests {
    /// What it was at each change, and after so many.
    private final class Changes: Sendable {
        private let uploader = Locked<Uploader?>(nil)
        private let seen = Locked<[DeliveryProgress]>([])

        func watch(_ uploader: Uploader) { self.uploader.withLock { $0 = uploader } }
        func note() { if let now = uploader.withLock({ $0 })?.delivery { seen.withLock { $0.append(now) } } }
        var all: [DeliveryProgress] { seen.withLock { $0 } }
        var activities: [String] {
            all.map {
                switch $0.activity {
                case .idle: "idle"
                case .running: "running"
                case .waiting: "waiting"
                case .stopped: "stopped"
                }
            }
        }
    }

    private let time = VirtualTime()
    private let transport = StubTransport()

    private func uploader(_ changes: Changes, url: String = "http://127.0.0.1") -> (Uploader, MemoryEventStore) {
        var configuration = Configuration.test(time: time, transport: transport)
        configuration.dataPlaneUrl = url
        let (uploader, store) = Uploader.overMemory(configuration, didChange: { changes.note() })
        changes.watch(uploader)
        return (uploader, store)
    }

    private func flushed(_ uploader: Uploader) async -> FlushResult {
        uploader.flush()
        return await withCheckedContinuation { done in
            uploader.whenFlushed(settledBefore: 0) { done.resume(returning: $0) }
        }
    }

    @Test func eachStateIsToldOnce() async throws {
        let changes = Changes()
        let (uploader, store) = uploader(changes)
        #expect(uploader.delivery == DeliveryProgress())
        transport.answerNext(.status(503))
        store.append(1)
        let wait = try #require(await flushed(uploader).wait)
        #expect(
            uploader.delivery
                == DeliveryProgress(
                    activity: .waiting(until: wait.until, reason: wait.reason), lastError: wait.reason))
        #expect(changes.activities == ["running", "waiting"])
        transport.answerNext(.status(401))
        time.advance(by: .seconds(1))
        await transport.requests(count: 2)
        _ = await flushed(uploader)
        guard case .stopped(let reason) = uploader.delivery.activity else {
            Issue.record("\(uploader.delivery)")
            return
        }
        #expect(reason.contains("401"))
        #expect(uploader.delivery.lastError == reason)
        #expect(changes.activities == ["running", "waiting", "running", "stopped"])
        time.advance(by: .seconds(60))
        _ = await flushed(uploader)
        uploader.close()
        await uploader.closed()
        #expect(uploader.delivery == DeliveryProgress())
        #expect(changes.all.last == DeliveryProgress())
        #expect(changes.all.suffix(3).map(\.lastError) == [reason, nil, nil])
    }

    @Test func anAddressThatCannotBeUsedIsToldFromTheStart() {
        let changes = Changes()
        let (uploader, store) = uploader(changes, url: "nowhere")
        store.append(1)
        uploader.flush()
        guard case .stopped = uploader.delivery.activity else {
            Issue.record("\(uploader.delivery)")
            return
        }
        #expect(changes.activities.isEmpty || changes.activities == ["stopped"])
    }
}

extension Uploader {
    fileprivate func closed() async {
        await withCheckedContinuation { continuation in done.whenReached { continuation.resume() } }
    }
}
