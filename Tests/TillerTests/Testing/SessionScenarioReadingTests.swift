import Testing
import Tiller
import TillerTesting

/// The format of session scenarios.
@Suite struct SessionScenarioReadingTests {
    private typealias Action = SessionScenario.Action
    private typealias Expectation = SessionScenario.Expectation

    private func read(_ text: String) throws -> [SessionScenario] { try SessionScenario.read(text, file: "f.scenario") }

    /// The one step of a scenario of one step.
    private func step(_ line: String) throws -> SessionScenario.Step {
        let scenarios = try read("scenario x\n---\n\(line)")
        #expect(scenarios.count == 1 && scenarios[0].steps.count == 1)
        return try #require(scenarios.first?.steps.first)
    }

    // MARK: Header

    @Test func headerHasDefaults() throws {
        let scenario = try #require(try read("scenario A name\n---\n+0s kill").first)
        #expect(scenario.name == "A name")
        #expect(scenario.line == 1)
        #expect(scenario.settings == SessionScenario.Settings())
        #expect(scenario.settings.isAutomatic)
        #expect(scenario.settings.timeout == 300_000)
        #expect(scenario.settings.background == .carry)
        #expect(scenario.wallMilliseconds == 1_740_463_597_000)
        #expect(!scenario.sendsLifecycleEvents)
    }

    @Test func everyHeaderLineIsRead() throws {
        let scenario = try #require(
            try read(
                """
                # a file
                scenario All of it
                  automatic off
                timeout 1h30m   # long
                background exclude

                clock 1969-12-31T23:59:59.250Z
                lifecycle-events on
                ---
                +0s kill
                """
            ).first)
        #expect(scenario.line == 2)
        #expect(!scenario.settings.isAutomatic)
        #expect(scenario.settings.timeout == 5_400_000)
        #expect(scenario.settings.background == .exclude)
        #expect(scenario.wallMilliseconds == -750)
        #expect(scenario.sendsLifecycleEvents)
    }

    private static let instants: [(String, Int64)] = [
        ("1970-01-01T00:00:00Z", 0), ("2000-02-29T12:34:56.789Z", 951_827_696_789),
        ("1900-03-01T00:00:00Z", -2_203_891_200_000), ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
    ]

    @Test(arguments: instants)
    func clockIsAnInstantInUTC(_ text: String, _ milliseconds: Int64) throws {
        #expect(try read("scenario x\nclock \(text)\n---\n+0s kill").first?.wallMilliseconds == milliseconds)
    }

    @Test func aNewScenarioEndsTheOneBefore() throws {
        let scenarios = try read("scenario A\n---\n+5s kill\nscenario B\ntimeout 1s\n---\n+0s kill\n\n")
        #expect(scenarios.map(\.name) == ["A", "B"])
        #expect(scenarios.map(\.line) == [1, 4])
        #expect(scenarios.map(\.settings.timeout) == [300_000, 1_000])
        #expect(scenarios.flatMap(\.steps).map(\.line) == [3, 7])
    }

    @Test func emptyFileHasNoScenarios() throws {
        #expect(try read("").isEmpty)
        #expect(try read("\n # nothing\n\n").isEmpty)
    }

    @Test func linesMayEndAsOnWindows() throws {
        let scenarios = try read("scenario A\r\ntimeout 1s\r\n---\r\n+0s track \"x\" => S1\r\n")
        #expect(scenarios.map(\.name) == ["A"])
        #expect(scenarios.first?.steps.map(\.action) == [.track("x")])
        #expect(scenarios.first?.steps.map(\.line) == [4])
    }

    // MARK: Durations

    private static let durations: [(String, UInt64?)] = [
        ("250ms", 250), ("1.5s", 1_500), ("5m", 300_000), ("1h", 3_600_000), ("2d", 172_800_000), ("5m11s", 311_000),
        ("0s", 0), ("0.001s", 1), ("1d1h1m1s1ms", 90_061_001), ("1s1s", 2_000), ("0.5ms0.5ms", nil), ("0.0s", 0),
        ("18446744073709551615ms", .max), ("18446744073709551616ms", nil), ("18446744073709551s615ms", .max),
        ("18446744073709551s616ms", nil), ("213503982335d", nil), ("0.0001s", nil), ("0.1ms", nil), ("0.5m", 30_000),
        ("", nil), ("5", nil), ("s", nil), ("5M", nil), ("5 s", nil), ("-5s", nil), ("+5s", nil), ("1.s", nil),
        (".5s", nil), ("1.2.3s", nil), ("5sec", nil), ("5m11", nil), ("٥s", nil), ("0x5s", nil), ("1e3s", nil),
        ("0.1234567890s", nil),
    ]

    @Test(arguments: durations)
    func durationsAreExact(_ text: String, _ milliseconds: UInt64?) {
        #expect(SessionScenario.milliseconds(text) == milliseconds)
    }

    @Test func stepsMayLieAtTheEndOfTime() throws {
        #expect(
            try step("+18446744073709551615ms kill").time == .seconds(18_446_744_073_709_551) + .milliseconds(615))
    }

    // MARK: Actions

    private static let actions: [(String, SessionScenario.Action)] = [
        ("launch foreground", .launch(inForeground: true)), ("launch background", .launch(inForeground: false)),
        ("foreground", .foreground), ("background", .background), ("terminate", .terminate()),
        ("terminate survived", .terminate(survived: true)), ("kill", .kill), ("shutdown", .shutdown),
        ("track \"A b\"", .track("A b")), ("screen \"S\"", .screen("S")), ("group \"g\"", .group("g")),
        ("alias \"a\"", .alias("a")), ("identify \"u\"", .identify("u")), ("identify \"\"", .identify("")),
        ("identify", .identify(nil)), ("start-session", .startSession(nil)),
        ("start-session 1740463597", .startSession(1_740_463_597)),
        ("start-session 18446744073709551615", .startSession(.max)), ("end-session", .endSession), ("reset", .reset()),
        ("reset keeping session", .reset(keepingSession: true)), ("filter \"A\"", .filter("A")), ("hold", .hold),
        ("release", .release), ("clock +1d", .setClock(.seconds(86_400))), ("clock -8m", .setClock(.seconds(-480))),
        ("reboot", .reboot),
    ]

    @Test(arguments: actions) func everyActionIsRead(_ text: String, _ action: SessionScenario.Action) throws {
        let step = try step("+1m1s \(text)  # why")
        #expect(step.action == action)
        #expect(step.time == .seconds(61))
        #expect(step.expectation == nil)
        #expect(step.line == 3)
        #expect(step.text == "+1m1s \(text)")
    }

    @Test func launchChangesSettings() throws {
        var change = SessionScenario.SettingsChange()
        change.isAutomatic = false
        change.timeout = 1_000
        change.background = .include
        #expect(
            try step("+0s launch background automatic off timeout 1s background include").action
                == .launch(inForeground: false, change))
        #expect(try step("+0s launch foreground timeout 1s").action != .launch(inForeground: true))
    }

    // MARK: Expectations

    private static let expectations: [(String, SessionScenario.Expectation)] = [
        ("none", .none), ("S1", .carries("S1")), ("S1 start", .carries("S1", starts: true)),
        ("1740463597", .carries("1740463597")), ("1740463597 start", .carries("1740463597", starts: true)),
        ("dropped", .dropped),
    ]

    @Test(arguments: expectations)
    func everyExpectationIsRead(_ text: String, _ expectation: SessionScenario.Expectation) throws {
        let step = try step("+0s track \"A\" => \(text)")
        #expect(step.expectation == expectation)
        #expect(step.text == "+0s track \"A\"")
        #expect(expectation.description == text)
    }

    @Test(arguments: ["none", "S1", "1740463597"]) func theGetterHasExpectationsOfItsOwn(_ text: String) throws {
        #expect(try step("+0s session-id => \(text)").action == .readSessionId)
    }

    @Test func eventsOfTheSDKStandBelowTheirStep() throws {
        let scenario = try #require(
            try read("scenario x\n---\n+0s hold\n  emits \"A b\" => S1 start\n\temits \"C\"\n+1s kill").first)
        #expect(scenario.steps.count == 2)
        let emissions = scenario.steps[0].emissions
        #expect(emissions.map(\.name) == ["A b", "C"])
        #expect(emissions.map(\.expectation) == [.carries("S1", starts: true), nil])
        #expect(emissions.map(\.line) == [4, 5])
        #expect(scenario.steps[1].emissions.isEmpty)
    }

    // MARK: Comments and quotes

    @Test func aHashInQuotesIsNoComment() throws {
        let step = try step("+0s track \"A # b\" => S1 # a comment \" with a quote")
        #expect(step.action == .track("A # b"))
        #expect(step.expectation == .carries("S1"))
        #expect(step.text == "+0s track \"A # b\"")
    }

    @Test func anArrowInQuotesIsNoExpectation() throws {
        let bare = try step("+0s track \"a => b\"")
        #expect(bare.action == .track("a => b"))
        #expect(bare.expectation == nil)
        #expect(bare.text == "+0s track \"a => b\"")
        let expected = try step("+0s track \"a => b\" => none")
        #expect(expected.expectation == SessionScenario.Expectation.none)
        #expect(expected.text == "+0s track \"a => b\"")
    }

    @Test func namesKeepTheirQuotesAndLoseTheirComment() throws {
        #expect(try read("scenario It's 5\" wide\n---\n+0s kill").first?.name == "It's 5\" wide")
        #expect(try read("scenario A \"#1\" b # c\n---\n+0s kill").first?.name == "A \"#1\" b")
    }

    // MARK: Faults

    private static let faults: [(String, Int, String)] = [
        ("+0s kill", 1, "begins with 'scenario NAME'"),
        ("\n# x\ntimeout 5m", 3, "begins with 'scenario NAME'"),
        ("scenario\n---\n+0s kill", 1, "needs a name"),
        ("scenario # x\n---\n+0s kill", 1, "needs a name"),
        ("scenario x", 1, "without steps"),
        ("scenario x\n---", 1, "without steps"),
        ("scenario x\n---\n\nscenario y\n---\n+0s kill", 1, "without steps"),
        ("scenario x\n+0s kill", 2, "a line '---' has to end the header before the first step"),
        ("scenario x\ncolour red\n---\n+0s kill", 2, "'colour' is not known here"),
        ("scenario x\nautomatic yes\n---", 2, "on or off"),
        ("scenario x\nautomatic\n---", 2, "on or off"),
        ("scenario x\ntimeout 5\n---", 2, "duration"),
        ("scenario x\ntimeout\n---", 2, "duration"),
        ("scenario x\ntimeout 5m 6m\n---", 2, "end of the line"),
        ("scenario x\nbackground keep\n---", 2, "carry, exclude or include"),
        ("scenario x\nclock now\n---", 2, "clock needs"),
        ("scenario x\nclock\n---", 2, "clock needs"),
        ("scenario x\nclock 9223372036854775807-01-01T00:00:00Z\n---", 2, "clock needs"),
        ("scenario x\nclock 2025-01-01T9223372036854775807:00:00Z\n---", 2, "clock needs"),
        ("scenario x\nclock 2025-02-30T00:00:00Z\n---", 2, "clock needs"),
        ("scenario x\nclock 2025-02-25T06:06:37\n---", 2, "clock needs"),
        ("scenario x\nclock 2025-02-25T24:00:00Z\n---", 2, "clock needs"),
        ("scenario x\nlifecycle-events maybe\n---", 2, "on or off"),
        ("scenario x\nlifecycle-events on off\n---", 2, "end of the line"),
        ("scenario x\n---\n---\n+0s kill", 3, "time like"),
        ("scenario x\n---\ntrack \"A\"", 3, "time like"),
        ("scenario x\n---\n0s track \"A\"", 3, "time like"),
        ("scenario x\n---\n+5 track \"A\"", 3, "time like"),
        ("scenario x\n---\n+5s kill\n+4s kill", 4, "backwards"),
        ("scenario x\n---\n+5s", 3, "an action is missing"),
        ("scenario x\n---\n+5s \"track\"", 3, "an action is missing"),
        ("scenario x\n---\n+5s jump", 3, "'jump' is not an action; the article \"Session scenarios\" lists them"),
        ("scenario x\n---\n+5s track", 3, "in quotes"),
        ("scenario x\n---\n+5s track A", 3, "in quotes"),
        ("scenario x\n---\n+5s track \"A", 3, "not closed"),
        ("scenario x\n---\n+5s track \"A\" \"B\"", 3, "end of the line"),
        ("scenario x\n---\n+5s kill now", 3, "end of the line"),
        ("scenario x\n---\n+5s launch", 3, "launch foreground"),
        ("scenario x\n---\n+5s launch sideways", 3, "launch foreground"),
        ("scenario x\n---\n+5s launch foreground colour red", 3, "'colour' is not known"),
        ("scenario x\n---\n+5s start-session x", 3, "whole number"),
        ("scenario x\n---\n+5s start-session -1", 3, "whole number"),
        ("scenario x\n---\n+5s reset keeping", 3, "reset keeping session"),
        ("scenario x\n---\n+5s clock 1d", 3, "shift"),
        ("scenario x\n---\n+5s clock +x", 3, "shift"),
        ("scenario x\n---\n+5s session-id", 3, "needs an expectation"),
        ("scenario x\n---\n+5s session-id => dropped", 3, "a session or none"),
        ("scenario x\n---\n+5s session-id => S1 start", 3, "a session or none"),
        ("scenario x\n---\n+5s foreground => S1", 3, "nothing can be expected"),
        ("scenario x\n---\n+5s track \"A\" =>", 3, "an expectation is"),
        ("scenario x\n---\n+5s track \"A\" => maybe", 3, "an expectation is"),
        ("scenario x\n---\n+5s track \"A\" => S", 3, "an expectation is"),
        ("scenario x\n---\n+5s track \"A\" => S1 end", 3, "an expectation is"),
        ("scenario x\n---\n+5s track \"A\" => none start", 3, "an expectation is"),
        ("scenario x\n---\n+5s track \"A\" => -5", 3, "an expectation is"),
        ("scenario x\n---\n+5s track \"A\" => S1 => S2", 3, "an expectation is"),
        ("scenario x\n---\n+5s kill\n  emits Opened", 4, "in quotes"),
        ("scenario x\n---\n+5s kill\n  emits \"A\" \"B\"", 4, "in quotes"),
        ("scenario x\n---\n  emits \"A\"", 3, "below a step"),
        ("scenario x\n---\n+5s kill\nemits \"A\"", 4, "time like"),
    ]

    @Test(arguments: faults)
    func everyFaultIsToldWithFileAndLine(_ text: String, _ line: Int, _ reason: String) throws {
        let error = #expect(throws: SessionScenario.ReadingError.self) { try read(text) }
        #expect(error?.file == "f.scenario")
        #expect(error?.line == line)
        #expect(error?.reason.contains(reason) == true)
        #expect(error?.description == "f.scenario:\(line): \(error?.reason ?? "")")
    }

    /// Whatever is cut off or put in: an error or scenarios, never a trap.
    @Test func noTextTraps() throws {
        let text =
            "scenario x \"y\"\ntimeout 5m11s\nclock 2025-02-25T06:06:37Z\n---\n"
            + "+1.5s track \"A # b\" => S1 start # c\n"
        for length in 0...text.count { _ = try? read(String(text.prefix(length))) }
        for (index, _) in text.enumerated() {
            for odd in ["\"", "#", "+", "=>", "\n", "\u{0}", "é", "18446744073709551616"] {
                _ = try? read(String(text.prefix(index)) + odd + String(text.dropFirst(index)))
                _ = try? read(String(text.prefix(index)) + odd + String(text.dropFirst(index + 1)))
            }
        }
    }
}
