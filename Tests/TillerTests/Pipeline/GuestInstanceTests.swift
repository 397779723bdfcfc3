import Foundation
import Testing
import Tiller
import TillerTesting

/// Two instances of one write key on one folder, as in two processes.
@Suite(.timeLimit(.minutes(5))) struct GuestInstanceTests {
    private let folder = TestFolder()
    private let logger = RecordingLogger()
    private let transports = [StubTransport(), StubTransport()]

    private func start(_ index: Int, policies: [any FlushPolicy] = []) -> Analytics {
        var configuration = Configuration.test(
            storage: .folder(folder.url), transport: transports[index], logger: logger, flushPolicies: policies)
        configuration.identifiers = .seeded(UInt64(index) + 1)
        return Analytics(configuration: configuration)
    }

    private func names(_ index: Int) -> [String] { transports[index].events.compactMap { $0["event"]?.string } }

    @Test func b163_twoLiveInstancesSendEachEventOnceInOrder() async throws {
        let owner = start(0)
        let guest = start(1)
        for number in 1...20 {
            owner.track(name: "o\(number)")
            guest.track(name: "g\(number)")
        }
        await owner.stored()
        #expect(await guest.stored() == .stored)
        #expect(await owner.flushed().leavesNothing)
        #expect(names(0).filter { $0.hasPrefix("o") } == (1...20).map { "o\($0)" })
        #expect(names(0).filter { $0.hasPrefix("g") } == (1...20).map { "g\($0)" })
        #expect(await guest.flushed() == .delivered)
        #expect(transports[1].requests.isEmpty)
        #expect(await owner.shutdownAndWait() == 0)
        guest.track(name: "g21")
        let result = await guest.flushed()
        #expect(result == .delivered)
        #expect(names(1) == ["g21"])
        #expect(await guest.shutdownAndWait() == 0)
        #expect(Set(transports.flatMap(\.events).compactMap { $0["messageId"]?.string }).count == 41)
        #expect(logger.texts(.error) == [])
    }

    /// What the guest's policy or flush asks for is done by the owner, which has no reason of its own.
    @Test func aGuestsFlushIsTheOwnersUpload() async throws {
        let owner = start(0)
        await owner.stored()
        let guest = start(1)
        guest.track(name: "A")
        guest.flush()
        await transports[0].requests(count: 1)
        #expect(names(0) == ["A"])
        #expect(transports[1].requests.isEmpty)
        _ = await owner.shutdownAndWait()
    }

    @Test func b166_whoTakesOverHasTheIdentityThatIsStored() async throws {
        let owner = start(0)
        await owner.stored()
        let guest = start(1)
        #expect(guest.anonymousId == owner.anonymousId)
        guest.identify(userId: "the guest's own")
        owner.identify(userId: "alice", traits: ["a": 1])
        await owner.stored()
        await guest.stored()
        #expect(await owner.shutdownAndWait() == 0)
        #expect(guest.userId == "the guest's own")
        guest.track(name: "A")
        #expect(await guest.flushed() == .delivered)
        #expect(guest.userId == "alice")
        guest.track(name: "B")
        guest.identify(userId: "alice", traits: ["b": 2])
        #expect(await guest.flushed() == .delivered)
        #expect(
            transports[1].events.map { $0["userId"]?.string }
                == ["the guest's own", "the guest's own", "alice", "alice"])
        #expect(await guest.shutdownAndWait() == 0)
        let next = start(0)
        #expect(next.userId == "alice")
        #expect(Set(transports.flatMap(\.events).compactMap { $0["anonymousId"]?.string }).count == 1)
    }

    @Test func aGuestsShutdownTellsWhatWaits() async throws {
        transports[0].answerAlways(.failure(StubTransport.NoAnswer()))
        let owner = start(0)
        await owner.stored()
        let guest = start(1)
        for _ in 1...3 { guest.track(name: "A") }
        #expect(await guest.shutdownAndWait() == 3)
        transports[0].answerAlways(.status(200))
        #expect(await owner.shutdownAndWait() == 0)
    }
}
