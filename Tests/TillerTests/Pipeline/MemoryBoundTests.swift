import Testing
import Tiller
import TillerTesting

/// What waits in memory is counted by what it really takes, and the account balances.
@Suite(.timeLimit(.minutes(5))) struct MemoryBoundTests {
    @Test func longIdsAreCounted() async {
        let stuck = StuckPlugin()
        let analytics = Analytics(configuration: .test(limits: Limits(memoryBytes: 10_000)), plugins: [stuck])
        let long = String(repeating: "x", count: 1_000_000)
        for _ in 0..<5 { analytics.group(groupId: long) }
        for _ in 0..<5 { analytics.track(name: "A", options: EventOptions(userId: long)) }
        #expect(analytics.account.dropped[.queueFull] == 10)
        stuck.open()
    }

    @Test func whatAPluginAddsIsCounted() async {
        let large = JSONValue.string(String(repeating: "x", count: 20_000))
        let analytics = Analytics(
            configuration: .test(limits: Limits(memoryBytes: 100_000)),
            plugins: [
                ClosurePlugin(.enrichment) { event, _ in
                    var event = event
                    event.properties["x"] = large
                    return event
                }
            ])
        for _ in 0..<20 {
            analytics.track(name: "A")
            await analytics.stored()
        }
        #expect((analytics.account.dropped[.queueFull] ?? 0) > 0)
    }

    @Test func pluginThatHandsOnAnotherEventKeepsTheAccount() async {
        let transport = StubTransport()
        let kept = Locked<Event?>(nil)
        let delays = ClosurePlugin { event, _ in
            kept.withLock { kept in
                defer { kept = event }
                return kept ?? event
            }
        }
        let analytics = Analytics(configuration: .test(transport: transport), plugins: [delays])
        for index in 0..<10 {
            analytics.track(name: "\(index)", properties: ["x": .string(String(repeating: "x", count: index * 100))])
        }
        await analytics.flushed()
        #expect(analytics.account.inMemory == 0)
        #expect(Set(transport.events.compactMap { $0["messageId"]?.string }).count == 10)
    }

    @Test func stuckDestinationKeepsToItsBound() async {
        let first = StuckPlugin()
        let stuck = StuckPlugin(.destination)
        let seen = Locked(0)
        let destination = ClosurePlugin(.destination) { event, _ in
            _ = stuck.process(event)
            seen.withLock { $0 += 1 }
            return event
        }
        let analytics = Analytics(
            configuration: .test(limits: Limits(destinationEvents: 10)), plugins: [first, destination])
        for _ in 0..<10 { analytics.track(name: "A") }
        first.waitForArrival()
        first.open()
        stuck.waitForArrival()
        await analytics.stored()
        for _ in 0..<30 { analytics.track(name: "A") }
        await analytics.stored()
        stuck.open()
        await analytics.settled()
        #expect(seen.withLock { $0 } <= 11)
    }

    @Test func resetsOnTheRoadAreBounded() async {
        let stuck = StuckPlugin()
        let witness = WitnessPlugin(.enrichment)
        let analytics = Analytics(configuration: .test(limits: Limits(memoryEvents: 10)), plugins: [stuck, witness])
        analytics.track(name: "A")
        stuck.waitForArrival()
        for _ in 0..<1_000 { analytics.reset() }
        stuck.open()
        await analytics.settled()
        let resets = witness.entries.count { $0 == "reset" }
        #expect((1...20).contains(resets))
    }

    @Test func resetIsNeverDropped() async {
        let recorder = RecordingDestination()
        let analytics = Analytics(configuration: .test(limits: Limits(memoryEvents: 0)), plugins: [recorder])
        analytics.reset()
        await analytics.settled()
        #expect(recorder.entries.contains { if case .reset = $0 { true } else { false } })
    }

    @Test func commandsOfARefusedEventTakeEffect() {
        let analytics = Analytics(configuration: .test(limits: Limits(memoryEvents: 0)))
        analytics.record(Event(.track, name: "A"), after: [StartSession(id: 1_234_567_890)])
        #expect(analytics.sessionId == 1_234_567_890)
    }

    @Test func accountBalancesWhereShutdownRacesCalls() async {
        for _ in 0..<10 {
            let transport = StubTransport()
            let analytics = Analytics(configuration: .test(transport: transport), plugins: [RecordingDestination()])
            await onThreads(4) { index in
                for _ in 0..<50 { analytics.track(name: "A") }
                if index % 2 == 0 { analytics.shutdown() }
            }
            await analytics.shutdownAndWait()
            #expect(analytics.account.inMemory == 0)
            #expect(analytics.account.recorded == transport.events.count)
        }
    }
}
