import Foundation
import Testing
import TillerTesting

@testable import Tiller

/// What becomes of events that the data plane refuses, over a store in memory and one on disk.
@Suite(.timeLimit(.minutes(5))) struct RefusedEventsTests {
    enum Kind: String, CaseIterable, CustomTestStringConvertible {
        case memory
        case disk
        var testDescription: String { rawValue }
    }

    private let folder = TestFolder()

    private func bench(
        _ kind: Kind = .memory, policies: [any FlushPolicy] = [], _ change: (inout Configuration) -> Void = { _ in }
    ) -> DeliveryBench {
        DeliveryBench(policies) {
            if kind == .disk { $0.storage = .folder(folder.url) }
            change(&$0)
        }
    }

    /// A server that refuses every request with one of these events.
    private func refusing(_ names: Set<String>, _ status: Int = 400)
        -> @Sendable (TransportRequest) -> TransportResponse
    {
        { request in
            names.isDisjoint(with: request.events.names) ? .status(200, "ok") : .status(status, "invalid json\n")
        }
    }

    @Test(arguments: Kind.allCases, [400, 413, 422])
    func b118_aRefusedEventIsGivenUpOnceAnotherIsAccepted(_ kind: Kind, _ status: Int) async {
        let bench = bench(kind)
        bench.answer(refusing(["C"], status))
        bench.track("A", "B", "C", "D", "E")
        let result = await bench.flushed()
        // Not all of them were delivered.
        #expect(result.isStopped && result.reason?.contains("1 stored event") == true)
        #expect(bench.batches == [["A", "B", "C", "D", "E"], ["A", "B"], ["C", "D", "E"], ["C"], ["D", "E"]])
        #expect(bench.logger.texts(.error).filter { $0.contains("given up") }.count == 1)
        #expect(bench.logger.texts(.error).contains { $0.contains("\(status)") })
        #expect(await bench.flushed() == .nothingWaiting)
        let account = bench.analytics.account
        #expect(account.inMemory == 0)
        #expect(account.recorded == 5)
        switch kind {
        case .memory:
            #expect(account.delivered == 4)
            #expect(account.dropped == [.refused: 1])
        case .disk: #expect(account.stored == 5)
        }
        bench.track("F")
        #expect(await bench.flushed() == .delivered)
        #expect(await bench.analytics.shutdownAndWait() == 1)
        if kind == .disk {
            let log = try? LogFolder(path: folder.logPath).open()
            #expect(log?.sums == LogIndex.Sums(delivered: 5, refused: 1))
        }
    }

    @Test func eachReasonIsSaidOnce() async {
        let bench = bench { $0.limits.batchBytes = 1 }
        bench.answer(refusing(["A", "C", "E"]))
        bench.track("A", "B", "C", "D", "E", "F")
        await bench.flushed()
        #expect(bench.analytics.account.dropped == [.refused: 3])
        #expect(bench.logger.texts(.error).filter { $0.contains("given up") }.count == 1)
        bench.answer(refusing(["G"], 422))
        bench.track("G", "H")
        await bench.flushed()
        #expect(bench.logger.texts(.error).filter { $0.contains("given up") }.count == 2)
    }

    /// One or two events, and a proxy that refuses everything: they stay, and a wait goes by between the attempts.
    @Test(arguments: Kind.allCases, [1, 2])
    func whatRefusesEverythingErasesNothing(_ kind: Kind, _ count: Int) async throws {
        let bench = bench(kind)
        bench.answer { _ in .status(400) }
        for number in 0..<count { bench.track("\(number)") }
        #expect(try #require(await bench.flushed().wait).reason.contains("400"))
        await bench.pass(.seconds(86_400))
        #expect(bench.transport.stub.requests.count < 86_400 / 150 * 2 * count)
        #expect(bench.logger.texts(.error).allSatisfy { !$0.contains("given up") })
        bench.answer { _ in .status(200) }
        bench.time.virtual.advance(by: .seconds(300))
        await bench.flushed()
        #expect(await bench.analytics.shutdownAndWait() == 0)
        #expect(Set(bench.sent) == Set((0..<count).map { "\($0)" }))
        #expect(bench.analytics.account.dropped == [:])
    }

    @Test(arguments: Kind.allCases) func threeInARowAreAFaultAndNothingIsGivenUp(_ kind: Kind) async {
        let bench = bench(kind)
        bench.answer { _ in .status(400) }
        for number in 0..<30 { bench.track("\(number)") }
        #expect(await bench.flushed().isStopped)
        #expect(bench.batches.suffix(4) == [["0"], ["1", "2"], ["1"], ["2"]])
        let count = bench.transport.stub.requests.count
        #expect(count < 12)
        await bench.pass(.seconds(3_599))
        #expect(bench.transport.stub.requests.count == count)
        await bench.pass(.seconds(1))
        #expect(bench.transport.stub.requests.count == count + 3)
        bench.answer { _ in .status(200) }
        bench.time.virtual.advance(by: .seconds(60))
        #expect(await bench.flushed() == .delivered)
        #expect(bench.analytics.account.dropped == [:])
    }

    /// What comes later is sent as soon as it is asked for, not after the wait.
    @Test func newEventsEndTheWaitForOthers() async {
        let bench = bench(policies: [CountFlushPolicy(flushAt: 1)])
        bench.answer(refusing(["A"]))
        bench.track("A")
        _ = await bench.failure(1)
        #expect(bench.batches == [["A"]])
        bench.track("B")
        await bench.requests(3)
        await bench.flushed()
        // A has another chance first.
        #expect(bench.batches == [["A"], ["A"], ["B"]])
        #expect(bench.analytics.account.dropped == [.refused: 1])
        #expect(bench.analytics.account.delivered == 1)
        #expect(bench.time.virtual.timerCount == 0)
    }

    /// A kill while an event is held: it is there again, and so is what lies behind it.
    @Test func aHeldEventSurvivesTheProcess() async {
        let first = bench(.disk)
        first.answer(refusing(["A"]))
        first.track("A")
        #expect(await first.flushed().wait != nil)
        await first.analytics.shutdownAndWait()
        let second = bench(.disk)
        second.track("B")
        #expect(await second.flushed() == .delivered)
        #expect(second.batches == [["A"], ["B"]])  // one run each
    }

    @Test func b49_anEventOfAnEarlierRunThatIsRefusedBlocksNoUpload() async {
        let first = bench(.disk)
        first.answer { _ in .status(503) }
        first.track("A")
        await first.flushed()
        await first.analytics.shutdownAndWait()
        let second = bench(.disk)
        second.answer(refusing(["A"]))
        second.track("B", "C")
        await second.flushed()
        #expect(second.batches == [["A"], ["B", "C"]])
        #expect(second.logger.texts(.error).contains { $0.contains("given up") })
        #expect(await second.flushed() == .nothingWaiting)
    }

    /// Bodies of more than 10 000 bytes are too large for this server, and one event is larger.
    @Test func b122_aBatchThatIsTooLargeIsHalvedUntilAllButTheCulpritArrive() async {
        let bench = bench()
        bench.answer { $0.body.count > 10_000 ? .status(413, "request size exceeds max limit\n") : .status(200, "ok") }
        for number in 0..<100 {
            let padding = String(repeating: "x", count: number == 37 ? 20_000 : 50)
            bench.analytics.track(name: "\(number)", properties: ["p": .string(padding)])
        }
        await bench.flushed()
        bench.track("later")
        await bench.flushed()
        let accepted = bench.transport.stub.requests.filter { $0.body.count <= 10_000 }
        #expect(accepted.flatMap { $0.events.names } == (0..<100).filter { $0 != 37 }.map { "\($0)" } + ["later"])
        #expect(bench.analytics.account.dropped == [.refused: 1])
        for (body, next) in zip(bench.batches, bench.batches.dropFirst()) { #expect(body != next) }
    }

    /// A stored event that is no JSON, by whatever accident.
    @Test func b133_whatTheServerCannotParseIsSetAside() async {
        var configuration = Configuration.test()
        configuration.transport = JSONReadingTransport()
        let (uploader, store) = Uploader.overMemory(configuration)
        for text in ["{\"n\":1}", "{\"n\":", "{\"n\":3}"] {
            _ = store.append([StoreRecord(event: EncodedEvent(text), changes: [])])
        }
        uploader.flush()
        await withCheckedContinuation { done in uploader.whenFlushed(settledBefore: 0) { _ in done.resume() } }
        #expect(store.counts.waiting == 0)
        #expect(store.counts.refused == 1)
    }

    // MARK: Compression

    @Test func aBrokenGzipIsSentPlain() async {
        let bench = bench { $0.gzipEnabled = true }
        bench.answer {
            $0.headers["Content-Encoding"] == nil
                ? .status(200, "ok") : .status(500, "failed to read body from request\n")
        }
        bench.track("A", "B")
        #expect(await bench.flushed().wait != nil)
        bench.time.virtual.advance(by: .seconds(1))
        await bench.requests(3)
        await bench.flushed()
        #expect(bench.analytics.account.delivered == 2)
        let encodings = bench.transport.stub.requests.map { $0.headers["Content-Encoding"] }
        #expect(encodings == ["gzip", "gzip", nil])
        #expect(bench.batches == [["A", "B"], ["A", "B"], ["A", "B"]])
        bench.track("C")
        #expect(await bench.flushed() == .delivered)
        #expect(bench.transport.stub.requests.last?.headers["Content-Encoding"] == nil)
        #expect(bench.logger.texts(.warn).filter { $0.contains("plain from now on") }.count == 1)
    }

    @Test func aProxyThatLosesTheHeaderGetsPlainBodies() async {
        let bench = bench { $0.gzipEnabled = true }
        bench.answer { $0.headers["Content-Encoding"] == nil ? .status(200, "ok") : .status(400, "invalid json\n") }
        bench.track("A", "B")
        #expect(await bench.flushed() == .delivered)
        bench.track("C")
        #expect(await bench.flushed() == .delivered)
        #expect(bench.transport.stub.requests.map { $0.headers["Content-Encoding"] } == ["gzip", nil, nil])
        #expect(bench.analytics.account.dropped == [:])
    }

    // MARK: An hour of server errors

    @Test(arguments: Kind.allCases) func anEventAtWhichTheServerFailsEndsSplitOff(_ kind: Kind) async {
        let bench = bench(kind)
        bench.answer { $0.events.names.contains("C") ? .status(500, "panic\n") : .status(200, "ok") }
        bench.track("A", "B", "C", "D", "E")
        #expect(await bench.flushed().wait != nil)
        await bench.pass(.seconds(3_500))
        #expect(bench.batches.allSatisfy { $0 == ["A", "B", "C", "D", "E"] })
        #expect(bench.batches.count > 10)
        while bench.analytics.undelivered > 0, bench.time.virtual.now < .seconds(4 * 3_600) {
            bench.time.virtual.advance(by: .seconds(300))
            await bench.flushed()
        }
        #expect(await bench.flushed() == .nothingWaiting)
        let accepted = bench.batches.filter { !$0.contains("C") }.flatMap { $0 }
        #expect(accepted == ["A", "B", "D", "E"])
        #expect(bench.logger.texts(.error).filter { $0.contains("given up") && $0.contains("500") }.count == 1)
    }
}

/// A data plane that reads what it gets.
private final class JSONReadingTransport: Transport {
    func post(_ request: TransportRequest) async throws -> TransportResponse {
        (try? JSONValue(parsing: request.plainBody)) == nil ? .status(400, "invalid json\n") : .status(200, "ok")
    }
}

extension Analytics {
    /// What waits for the data plane.
    fileprivate var undelivered: Int { engine.storeCounts.waiting }
}

extension TestFolder {
    /// The only log below it.
    var logPath: String {
        let names = (try? FileManager.default.subpathsOfDirectory(atPath: path)) ?? []
        let log = names.first { $0.hasSuffix("base.ack") || $0.hasSuffix(".log") } ?? ""
        return path + "/" + log.split(separator: "/").dropLast().joined(separator: "/")
    }
}
