import Testing
import Tiller
import TillerTesting

@testable import simulate

/// The SDK in some simulated worlds; `swift run -c release simulate` runs it in many more.
@Suite(.timeLimit(.minutes(10))) struct SimulationTests {
    @Test(.disabled(if: isUnderThreadSanitizer, "a world has one thread, and many take long"))
    func theRulesHoldInThirtyWorlds() async throws {
        let options = try #require(SimulationOptions(["--seeds", "30"]))
        let said = Locked<[String]>([])
        let result = await computing {
            Simulation(options: options) { line in said.withLock { $0.append(line) } }.run(threads: 1)
        }
        #expect(result.failed == [], "\(said.withLock { $0 })")
        #expect(result.seeds == 30)
        #expect(result.events > 500)
    }

    @Test(arguments: [3, 8, 40] as [UInt64])
    func theSameSeedGivesTheSameTrace(seed: UInt64) {
        let first = World(seed: seed).run()
        let second = World(seed: seed).run()
        #expect(first.trace == second.trace)
        #expect(first.trace.count > 20)
    }

    // MARK: Options

    @Test func optionsAreRead() {
        #expect(SimulationOptions([])?.seeds == 10_000)
        #expect(SimulationOptions(["--seeds", "7"])?.seeds == 7)
        let single = SimulationOptions(["--seed", "12"])
        #expect(single?.first == 12 && single?.seeds == 1 && single?.isSingle == true)
        let some = SimulationOptions(["--seed", "12", "--seeds", "3"])
        #expect(some?.first == 12 && some?.seeds == 3 && some?.isSingle == false)
        #expect(SimulationOptions(["--help"])?.wantsHelp == true)
    }

    @Test(arguments: [
        ["--seeds"], ["--seeds", "0"], ["--seeds", "-1"], ["--seed", "x"], ["--seed", "-1"], ["7"], ["--x"],
    ])
    func otherOptionsAreRefused(arguments: [String]) { #expect(SimulationOptions(arguments) == nil) }
}
