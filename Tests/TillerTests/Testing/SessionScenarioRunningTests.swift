import Testing
import Tiller
import TillerTesting

/// What a run of a scenario shows.
@Suite(.timeLimit(.minutes(5))) struct SessionScenarioRunningTests {
    private func run(
        _ steps: String, header: String = "", checks: Bool = true
    ) async throws -> SessionScenario.Outcome {
        let text = "scenario x\n" + header + "---\n" + steps
        let scenario = try #require(try SessionScenario.read(text, file: "f.scenario").first)
        return await scenario.run(checks: checks)
    }

    // MARK: Failing

    @Test func aFailureNamesLineStepExpectedAndSeen() async throws {
        let outcome = try await run(
            """
            +0s launch foreground
            +1s track "A" => S1 start
            +2s track "B" => S1 start   # wrong
            +3s track "C" => none
            """)
        let failure = try #require(outcome.failure)
        #expect(failure.line == 5)
        #expect(failure.step == "+2s track \"B\"")
        #expect(failure.expected == "S1 (1740463597) start")
        #expect(failure.seen == "S1 (1740463597)")
        // It stops there.
        #expect(outcome.rows.map(\.text) == ["+0s launch foreground", "+1s track \"A\"", "+2s track \"B\""])
    }

    private static let failures: [(String, Int, String, String)] = [
        ("+1s track \"A\" => none", 4, "none", "1740463597 start"),
        ("+1s track \"A\" => S1", 4, "S1", "1740463597 start"),
        ("+1s track \"A\" => 1740463598 start", 4, "1740463598 start", "1740463597 start"),
        ("+1s track \"A\" => dropped", 4, "dropped", "1740463597 start"),
        ("+1s filter \"A\"\n+1s track \"A\" => S1 start", 5, "S1 start", "it did not arrive"),
        ("+1s session-id => none", 4, "none", "1740463597"),
        ("+1s end-session\n+1s session-id => S1", 5, "S1", "none"),
        ("+1s end-session\n+1s track \"A\" => S1", 5, "S1", "none"),
        // Two labels are two sessions, and the later one is the greater number.
        ("+1s track \"A\" => S1 start\n+2s track \"B\" => S2", 5, "S2", "S1 (1740463597)"),
        (
            "+1s track \"A\" => S1 start\n+2s start-session 1000000000\n+2s track \"B\" => S2 start", 6, "S2 start",
            "1000000000 start"
        ),
        (
            "+1s track \"A\" => S1 start\n+2s start-session\n+2s track \"B\" => S1 start", 6, "S1 (1740463597) start",
            "1740463599 start"
        ),
        // What the SDK does not do.
        ("+1s foreground\n  emits \"Opened\" => S1", 5, "S1", "it did not arrive"),
        // What a scenario can't do.
        ("+1s launch foreground", 4, "no process at a launch", "one is running"),
        ("+1s reboot", 4, "no process at a reboot", "one is running"),
        ("+1s kill\n+2s track \"A\"", 5, "a launch before this step", "no process is running"),
        ("+1s terminate\n+2s foreground", 5, "a launch before this step", "no process is running"),
    ]

    @Test(arguments: failures)
    func everyExpectationCanFail(_ steps: String, _ line: Int, _ expected: String, _ seen: String) async throws {
        let failure = try #require(try await run("+0s launch foreground\n" + steps).failure)
        #expect(failure.line == line)
        #expect(failure.expected == expected)
        #expect(failure.seen == seen)
    }

    @Test func anEventThatNobodyWroteDownFails() async throws {
        let header = "lifecycle-events on\n"
        let failure = try #require(try await run("+0s launch foreground", header: header).failure)
        #expect(failure.line == 4)
        #expect(failure.expected == "no further event")
        #expect(failure.seen == "\"Application Installed\" arrived")
        let missing = try #require(
            try await run(
                "+0s launch foreground\n  emits \"Application Opened\" => S1\n  emits \"Application Installed\"",
                header: header
            ).failure)
        #expect(missing.line == 5)
        #expect(missing.step == "emits \"Application Opened\"")
        #expect(missing.seen == "it did not arrive")
    }

    // MARK: Passing

    @Test func emittedEventsAreCheckedInOrder() async throws {
        let outcome = try await run(
            """
            +0s launch foreground
                emits "Application Installed" => S1 start
                emits "Application Opened" => S1
            +5s background
                emits "Application Backgrounded"
            +6s track "A" => S1
            """, header: "lifecycle-events on\n")
        #expect(outcome.failure == nil)
        #expect(outcome.rows.map(\.isEmission) == [false, true, true, false, true, false])
    }

    @Test func labelsBindToTheIdsSeenFirst() async throws {
        let outcome = try await run(
            """
            +0s launch foreground
            +1s session-id => S7
            +1s track "A" => S7 start
            +2s start-session
            +2s track "B" => S2 start
            +3s start-session 1000000000
            +3s track "C" => 1000000000 start
            +3s session-id => 1000000000
            """)
        #expect(outcome.failure == nil)
        #expect(outcome.sessions.map(\.label) == ["S7", "S2"])
        #expect(outcome.sessions.map(\.id) == [1_740_463_597, 1_740_463_599])
    }

    @Test func heldEventsAreCheckedAtTheRelease() async throws {
        let steps = """
            +0s launch foreground
            +1s hold
            +2s track "A" => S1 start
            +3s track "B" => %
            +400s session-id => S1
            +500s release
            """
        #expect(try await run(steps.replacing("%", with: "S1")).failure == nil)
        let failure = try #require(try await run(steps.replacing("%", with: "none")).failure)
        #expect(failure.line == 6)
        #expect(failure.step == "+3s track \"B\"")
    }

    @Test func heldEventsOfAKilledProcessDoNotArrive() async throws {
        let outcome = try await run(
            "+0s launch foreground\n+1s hold\n+2s track \"A\" => dropped\n+3s kill\n+4s launch foreground")
        #expect(outcome.failure == nil)
        #expect(outcome.rows.contains { $0.seen == .dropped })
    }

    @Test func whatComesAfterAShutdownIsDropped() async throws {
        #expect(
            try await run(
                """
                +0s launch foreground
                +1s track "A" => S1 start
                +2s shutdown
                +3s track "B" => dropped
                +3s session-id => none
                +4s launch foreground
                +4s track "C" => S1
                """
            ).failure == nil)
    }

    @Test func timersRunAtTheirTimeOnTheWay() async throws {
        let steps = "+0s launch foreground\n+1s track \"A\"\n+2s background\n+3m track \"B\"\n+9d kill"
        let outcome = try await run(steps, header: "timeout 1m\n")
        #expect(outcome.failure == nil)
        #expect(outcome.rows.map(\.time) == [.zero, .seconds(1), .seconds(2), .seconds(180), .seconds(777_600)])
    }

    @Test func everyEventCallAndEveryFileOfTheStoreWorks() async throws {
        let text = """
            scenario x
            ---
            +0s launch foreground
            +1s track "t" => S1 start
            +1s screen "s" => S1
            +1s group "g" => S1
            +1s identify "u" => S1
            +1s identify "" => S1
            +1s identify => S1
            +1s alias "a" => S1
            +2s terminate
            +2s reboot
            +3s launch foreground
            +3s session-id => S1
            +4s clock +1d
            +4s reset keeping session
            +4s session-id => S1
            +5s reset
            +5s track "t" => S2 start
            +6s terminate survived
            +6s track "t" => S2
            """
        let scenario = try #require(try SessionScenario.read(text, file: "f.scenario").first)
        let folder = TestFolder()
        #expect(await scenario.run().failure == nil)
        #expect(await scenario.run(store: .folder(folder.url)).failure == nil)
    }

    @Test func withoutChecksTheRunGoesOnAndTellsWhatHappens() async throws {
        let outcome = try await run(
            """
            +0s launch foreground
            +1s track "A" => none
            +2s session-id => none
            +3s start-session
            +3s track "B" => dropped
            """, header: "lifecycle-events on\n", checks: false)
        #expect(outcome.failure == nil)
        #expect(
            outcome.rows.map { "\($0.text): \($0.seen.map { "\($0)" } ?? "")" } == [
                "+0s launch foreground: ", "emits \"Application Installed\": S1 start",
                "emits \"Application Opened\": S1",
                "+1s track \"A\": S1", "+2s session-id: S1", "+3s start-session: ", "+3s track \"B\": S2 start",
            ])
        #expect(outcome.sessions.map(\.label) == ["S1", "S2"])
    }

    // MARK: Made in Swift

    @Test func aScenarioMadeInSwiftRuns() async {
        var scenario = SessionScenario("A return after the timeout starts a new session")
        scenario.settings.timeout = 60_000
        scenario.at(.zero, .launch(inForeground: true))
        scenario.at(.seconds(1), .track("A"), expect: .carries("S1", starts: true))
        scenario.at(.seconds(10), .background)
        scenario.at(.seconds(400), .foreground)
        scenario.at(.seconds(401), .track("B"), expect: .carries("S2", starts: true))
        #expect(await scenario.run().failure == nil)
        scenario.at(.seconds(402), .track("C"), expect: .carries("S1"))
        let failure = await scenario.run().failure
        #expect(failure?.line == 0)
        #expect(failure?.step == "track(\"C\")")
        #expect(failure?.expected == "S1 (1740463597)")
        #expect(failure?.seen == "S2 (1740463997)")
    }

    @Test func runsShareNothing() async throws {
        let text = "scenario x\n---\n+0s launch foreground\n+1s track \"A\" => 1740463597 start"
        let scenario = try #require(try SessionScenario.read(text, file: "f").first)
        async let first = scenario.run()
        async let second = scenario.run()
        #expect(await [first.failure, second.failure] == [nil, nil])
    }
}
