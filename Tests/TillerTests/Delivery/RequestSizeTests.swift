import Testing
import TillerTesting

@testable import Tiller

/// How large requests are, and what a second attempt says of itself.
@Suite(.timeLimit(.minutes(5))) struct RequestSizeTests {
    /// Answers everything with 200, and likes small bodies.
    private final class SmallBodies: Transport {
        let stub = StubTransport()
        let preferredBodyBytes: Int? = 10_000
        func post(_ request: TransportRequest) async throws -> TransportResponse { try await stub.post(request) }
    }

    /// Bodies are as large as the transport likes, whatever the events are made of, and no smaller than they need be.
    @Test(arguments: [true, false], [true, false])
    func bodiesAreAsTheTransportLikesThem(_ compresses: Bool, _ isRandom: Bool) async {
        let transport = SmallBodies()
        let bench = DeliveryBench {
            $0.transport = transport
            $0.gzipEnabled = compresses
            $0.identifiers = .seeded(7)
        }
        var random = IdentifierGenerator.seeded(3)
        let count = 600
        for number in 0..<count {
            let text = isRandom ? (0..<8).map { _ in random.next().description }.joined() : "the same each time"
            bench.analytics.track(name: "\(number)", properties: ["text": .string(text)])
        }
        #expect(await bench.analytics.flushed() == .delivered)
        let requests = transport.stub.requests
        #expect(requests.flatMap(\.events).names == (0..<count).map(String.init))
        #expect(requests.allSatisfy { $0.body.count <= 10_000 })
        // Without the last, which has what is left, and the first ones, from which the size is learnt.
        let sizes = requests.dropFirst(2).dropLast().map(\.body.count)
        #expect(sizes.allSatisfy { $0 > 5_000 }, "\(sizes)")
        await bench.analytics.shutdownAndWait()
    }

    @Test func oneEventIsSentWhateverItsSize() async {
        let transport = SmallBodies()
        let bench = DeliveryBench { $0.transport = transport }
        for name in ["A", "B"] {
            bench.analytics.track(name: name, properties: ["text": .string(String(repeating: "x", count: 15_000))])
        }
        #expect(await bench.analytics.flushed() == .delivered)
        #expect(transport.stub.requests.map { $0.events.names } == [["A"], ["B"]])
    }

    @Test func onlyLinuxHasAHint() {
        #if os(Linux)
        #expect(URLSessionTransport().preferredBodyBytes == 60_000)
        #else
        #expect(URLSessionTransport().preferredBodyBytes == nil)
        #endif
        #expect(StubTransport().preferredBodyBytes == nil)
    }

    // MARK: Second attempts

    private static let names = ["Rsa-Retry-Attempt", "Rsa-Since-Last-Attempt", "Rsa-Retry-Reason"]

    @Test func aSecondAttemptSaysSo() async {
        let bench = DeliveryBench()
        bench.transport.stub.answerNext(.status(503), .failure(StubTransport.NoAnswer()))
        bench.track("A")
        bench.analytics.flush()
        let first = await bench.failure(1)
        bench.time.virtual.advance(by: first)
        let second = await bench.failure(2)
        bench.time.virtual.advance(by: second)
        await bench.requests(3)
        let values = bench.transport.stub.requests.map { request in Self.names.map { request.headers[$0] } }
        #expect(values[0] == [nil, nil, nil])
        #expect(values[1] == ["1", "\(first.wholeMilliseconds)", "server-503"])
        #expect(values[2] == ["2", "\(second.wholeMilliseconds)", "client-network"])
        await bench.analytics.shutdownAndWait()
    }

    @Test func theNextBatchSaysNothing() async {
        let bench = DeliveryBench { $0.limits.batchBytes = 1 }
        bench.transport.stub.answerNext(.status(500))
        bench.track("A", "B")
        bench.analytics.flush()
        bench.time.virtual.advance(by: await bench.failure(1))
        await bench.requests(3)
        #expect(bench.batches == [["A"], ["A"], ["B"]])
        let values = bench.transport.stub.requests.map { request in Self.names.compactMap { request.headers[$0] }.count
        }
        #expect(values == [0, 3, 0])
        await bench.analytics.shutdownAndWait()
    }
}
