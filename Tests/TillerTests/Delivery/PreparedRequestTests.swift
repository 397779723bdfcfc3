import Foundation
import Testing
import TillerTesting

@testable import Tiller
@testable import simulate

/// While a request is under way to a server that is near, the next one is made ready: its `sentAt` tells when that was.
@Suite struct PreparedRequestTests {
    private let time = VirtualTime()
    private let transport = GatedTransport()
    private let executors = SimulatedExecutors(random: SeededRandom(seed: 1, stream: 0))
    private let uploader: Uploader
    private let store: MemoryEventStore

    /// - Parameter batchBytes: By default each event is a batch.
    private init(batchBytes: Int = 1) {
        var configuration = Configuration.test(time: time, limits: Limits(batchBytes: batchBytes))
        configuration.transport = transport
        configuration.executors = executors
        (uploader, store) = Uploader.overMemory(configuration)
    }

    init() { self.init(batchBytes: 1) }

    private func flush(_ numbers: Range<Int>) {
        for number in numbers { store.append(number) }
        uploader.flush()
        run()
    }

    private func run() { while executors.runNext() {} }

    private func answer(_ status: Int = 200, after delay: Duration = .zero) {
        time.advance(by: delay)
        transport.answer(status)
        run()
    }

    /// The numbers of the events of each request.
    private var requests: [[Int64]] { transport.requests.map { $0.events.compactMap { $0["n"]?.int } } }

    /// When the last request says that it was sent: milliseconds after the first.
    private var lastSentAt: Int? {
        let style = Date.ISO8601FormatStyle(includingFractionalSeconds: true)
        let stamps = transport.requests.compactMap { $0.events.first?["sentAt"]?.string }
        guard let first = stamps.first.flatMap({ try? style.parse($0) }),
            let last = stamps.last.flatMap({ try? style.parse($0) })
        else { return nil }
        return Int((last.timeIntervalSince(first) * 1_000).rounded())
    }

    @Test func theNextOneIsReadyWhenTheAnswerComes() {
        flush(0..<5)
        answer()
        answer(after: .milliseconds(10))
        #expect(lastSentAt == 0)
        answer(after: .milliseconds(10))
        #expect(lastSentAt == 10)
        // The last one could have become longer.
        answer(after: .milliseconds(10))
        #expect(lastSentAt == 30)
        answer()
        #expect(requests == [[0], [1], [2], [3], [4]])
        #expect(store.counts.waiting == 0)
    }

    @Test(arguments: [(50, 0), (51, 51)] as [(Int64, Int)])
    func afterFiftyMillisecondsItIsMadeAnew(_ delay: Int64, _ sentAt: Int) {
        flush(0..<4)
        answer()
        answer(after: .milliseconds(delay))
        #expect(lastSentAt == sentAt)
        #expect(requests == [[0], [1], [2]])
    }

    @Test(arguments: [(50, 50), (51, 61)] as [(Int64, Int)])
    func whatComesFromAfarIsWorkedOnOnce(_ delay: Int64, _ sentAt: Int) {
        flush(0..<4)
        answer(after: .milliseconds(delay))
        answer(after: .milliseconds(10))
        #expect(lastSentAt == sentAt)
        #expect(requests == [[0], [1], [2]])
    }

    @Test func whatWasErasedMeanwhileIsNotSent() throws {
        flush(0..<4)
        answer()
        _ = try store.erase(leaving: [], keys: [])
        flush(4..<5)
        answer()
        #expect(requests == [[0], [1], [4]])
        answer()
        #expect(store.counts.waiting == 0)
    }

    @Test func afterARefusalTheRulesSayWhatIsNext() {
        flush(0..<4)
        answer()
        answer(400, after: .milliseconds(10))
        #expect(requests == [[0], [1], [2]])
        #expect(lastSentAt == 10)
        answer(400)
        answer()
        #expect(requests == [[0], [1], [2], [3]])
        #expect(store.counts.refused == 2)
    }

    /// A server that refuses at once is no near one: while it fails nothing is prepared.
    @Test func aFailureBringsTheSameEventsAgain() {
        flush(0..<5)
        answer()
        answer(503)
        time.advance(by: .seconds(60))
        run()
        #expect(requests == [[0], [1], [1]])
        let last = lastSentAt
        answer(after: .milliseconds(10))
        #expect(requests == [[0], [1], [1], [2]])
        #expect(lastSentAt == last.map { $0 + 10 })
    }

    @Test func whatIsRecordedMeanwhileGoesWithTheRest() {
        // Two events have room.
        let bench = PreparedRequestTests(batchBytes: 100)
        bench.flush(0..<5)
        bench.answer()
        bench.flush(5..<6)
        bench.answer()
        #expect(bench.requests == [[0, 1], [2, 3], [4, 5]])
    }
}

/// A transport whose answers a test gives.
private final class GatedTransport: Transport {
    private let state = Locked((requests: [TransportRequest](), waiting: [CheckedContinuation<Int, Never>]()))

    var requests: [TransportRequest] { state.withLock { $0.requests } }

    func answer(_ status: Int) {
        let waiting = state.withLock { state in
            defer { state.waiting = [] }
            return state.waiting
        }
        #expect(waiting.count == 1)
        for continuation in waiting { continuation.resume(returning: status) }
    }

    func post(_ request: TransportRequest) async throws -> TransportResponse {
        state.withLock { $0.requests.append(request) }
        let status = await withCheckedContinuation { continuation in
            state.withLock { $0.waiting.append(continuation) }
        }
        return TransportResponse(status: status, body: Array((status == 200 ? "ok" : "").utf8))
    }
}
