import Testing
import Tiller
import TillerTesting

/// What a seal does outside its event, and whom a fact reaches.
@Suite(.timeLimit(.minutes(5))) struct SealFactsTests {
    private final class Sealer: CapturingPlugin {
        struct State: Sendable { var wakes = 0 }

        let stage = Stage.before

        func restore(_ stored: Stored, present: State?, in section: inout Section) -> State { State() }
        func seals(_ state: State) -> Bool { true }

        func apply(_ command: any Command, to state: inout State, in section: inout Section) {
            if command is Wake { state.wakes += 1 }
        }

        func seal(_ event: inout Event, state: inout State, in section: inout Section) {
            section.report(.error, "from the seal")
            section.wake(after: .seconds(1))
            event.properties["sealed"] = true
        }
    }

    @Test func effectsOfASealTakePlaceOnceAndEveryDestinationGetsTheSame() async throws {
        let logger = RecordingLogger()
        let time = VirtualTime()
        let transport = StubTransport()
        let recorder = RecordingDestination()
        let analytics = Analytics(
            configuration: .test(time: time, transport: transport, logger: logger), plugins: [Sealer(), recorder])
        analytics.track(name: "A")
        await analytics.flushed()
        await analytics.settled()
        time.advance(by: .seconds(2))
        #expect(logger.texts(.error) == ["from the seal"])
        #expect(analytics.read(Sealer.self) { state, _ in state.wakes } == 1)
        let (seen, sent) = (try #require(recorder.events.first), try #require(transport.events.first))
        #expect(seen.properties["sealed"] == sent["properties"]?.object?["sealed"])
    }

    private final class FactOnce: CapturingPlugin {
        struct State: Sendable {
            var given = false
            var seen: [UInt64?] = []
        }

        let stage = Stage.before

        func restore(_ stored: Stored, present: State?, in section: inout Section) -> State { State() }

        func capture(_ event: inout Event, state: inout State, in section: inout Section) {
            if !state.given { section.fact = 7 }
            state.given = true
        }

        func seals(_ state: State) -> Bool { true }

        func seal(_ event: inout Event, state: inout State, in section: inout Section) {
            state.seen.append(section.fact)
        }
    }

    @Test func eventThatIsRecordedAgainHasNoOldFact() async throws {
        let recorder = RecordingDestination()
        let analytics = Analytics(configuration: .test(), plugins: [FactOnce(), recorder])
        analytics.identify(userId: "alice", traits: ["secret": 1])
        let event = try #require(await analytics.settled(recorder).first)
        analytics.reset()
        analytics.identify(userId: "bob", traits: ["b": 2])
        analytics.record(event)
        await analytics.settled()
        #expect(analytics.read(FactOnce.self) { state, _ in state.seen } == [7, nil, nil])
    }

    private struct Poke: Command {}

    private final class FactInApply: CapturingPlugin {
        struct State: Sendable {}

        let stage = Stage.before

        func restore(_ stored: Stored, present: State?, in section: inout Section) -> State { State() }
        func commands(before event: borrowing Event, state: State) -> [any Command] { [Poke()] }
        func apply(_ command: any Command, to state: inout State, in section: inout Section) { section.fact = 9 }
    }

    private final class FactReader: CapturingPlugin {
        struct State: Sendable { var seen: [UInt64?] = [] }

        let stage = Stage.before

        func restore(_ stored: Stored, present: State?, in section: inout Section) -> State { State() }

        func capture(_ event: inout Event, state: inout State, in section: inout Section) {
            state.seen.append(section.fact)
        }
    }

    @Test func factOfACommandReachesNoCapture() async {
        let analytics = Analytics(
            configuration: .test(), builtIn: [FactInApply(), FactReader()], plugins: [RecordingDestination()])
        analytics.track(name: "A", options: EventOptions(userId: "x"))
        await analytics.settled()
        #expect(analytics.read(FactReader.self) { state, _ in state.seen } == [nil])
    }
}
