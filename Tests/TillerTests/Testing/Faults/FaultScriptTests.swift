import Testing
import TillerTesting

/// Which requests meet which faults.
@Suite(.timeLimit(.minutes(5)))
struct FaultScriptTests {
    private func numbers(_ occasion: FaultScript.Occasion, upTo last: Int = 20, seed: UInt64 = 0) -> [Int] {
        let script = FaultScript([.init(occasion, .refused)], seed: seed)
        return (1...last).filter { script.rule(forRequest: $0) != nil }
    }

    @Test func anOccasionAppliesWhereItSays() {
        #expect(numbers(.always) == Array(1...20))
        #expect(numbers(.at(3)) == [3])
        #expect(numbers(.every(7)) == [7, 14])
        #expect(numbers(.every(1)) == Array(1...20))
        #expect(numbers(.every(5).from(4)) == [8, 13, 18])
        #expect(numbers(.every(5).from(4).to(13)) == [8, 13])
        #expect(numbers(.every(5).to(9)) == [5])
        #expect(numbers(.always.from(18)) == [18, 19, 20])
        #expect(numbers(.always.from(4).to(6)) == [4, 5, 6])
        #expect(numbers(.always.from(6).to(4)) == [])
        #expect(numbers(.chance(0)) == [])
        #expect(numbers(.chance(1)) == Array(1...20))
    }

    @Test func aRuleGoesOnForSomeRequests() {
        #expect(numbers(.at(3).lasting(4)) == [3, 4, 5, 6])
        #expect(numbers(.every(7).lasting(2)) == [7, 8, 14, 15])
        #expect(numbers(.every(5).from(4).to(13).lasting(3)) == [8, 9, 10, 13, 14, 15])
        #expect(numbers(.every(2).lasting(5)) == Array(2...20))
        #expect(numbers(.chance(1).from(5).to(6).lasting(3)) == [5, 6, 7, 8])
    }

    @Test func whatIsOutOfRangeIsTheNearest() {
        #expect(numbers(.every(0)) == Array(1...20))
        #expect(numbers(.at(0)) == [])
        #expect(numbers(.always.from(-3)) == Array(1...20))
        #expect(numbers(.at(2).lasting(0)) == [2])
        #expect(numbers(.every(.max)) == [])
    }

    @Test func theFirstRuleThatAppliesDecides() {
        let script = FaultScript([.init(.at(2), .refused), .init(.every(2), .truncated), .init(.always)])
        #expect((1...4).map { script.rule(forRequest: $0)?.fault } == [nil, .refused, nil, .truncated])
    }

    @Test func chancesFollowFromTheSeedAndTheNumberAlone() {
        let first = numbers(.chance(0.3), upTo: 10_000, seed: 1)
        #expect((2_800...3_200).contains(first.count))
        #expect(numbers(.chance(0.3), upTo: 10_000, seed: 1) == first)
        let second = numbers(.chance(0.3), upTo: 10_000, seed: 2)
        #expect((700...1_100).contains(Set(first).intersection(second).count))  // as if they did not know each other
    }

    /// Two rules with the same chance would otherwise always meet the same requests, and the second none.
    @Test func rulesDrawApart() {
        let script = FaultScript([.init(.chance(0.5), .refused), .init(.chance(0.5), .truncated)], seed: 3)
        let faults = (1...1_000).map { script.rule(forRequest: $0)?.fault }
        #expect((400...600).contains(faults.filter { $0 == .refused }.count))
        #expect((180...320).contains(faults.filter { $0 == .truncated }.count))
    }

    // MARK: What becomes of the events

    @Test func aFaultTellsWhatBecomesOfTheEvents() {
        typealias Fault = FaultScript.Fault
        let unstored: [Fault] = [
            .refused, .cut(.beforeReading), .cut(.inBody), .cut(.beforeStoring, isReset: true), .status(503), .page(),
            .redirect(307, location: "/"), .garbage(),
        ]
        for fault in unstored { #expect(!fault.storesEvents && !fault.hidesStoring(), "\(fault)") }
        let hidden: [Fault] = [
            .cut(.afterStoring), .truncated, .length(3), .status(.init(504, isStored: true)),
        ]
        for fault in hidden { #expect(fault.storesEvents && fault.hidesStoring(), "\(fault)") }
        let told: [Fault] = [
            .trickled(), .length(2), .length(0), .chunked, .closing, .status(.init(201, isStored: true)),
        ]
        for fault in told { #expect(fault.storesEvents && !fault.hidesStoring(), "\(fault)") }
    }

    // MARK: Random scripts

    @Test func aRandomScriptIsTheSameForItsSeed() {
        #expect(FaultScript.random(seed: 5) == .random(seed: 5))
        #expect(FaultScript.random(seed: 5) != .random(seed: 6))
    }

    @Test(arguments: 0..<20) func aRandomScriptHasEveryKindAndLetsEverythingPass(seed: UInt64) {
        let script = FaultScript.random(seed: seed)
        let share = Double((1...1_000).filter { script.rule(forRequest: $0)?.fault != nil }.count) / 1_000
        #expect((0.15...0.5).contains(share))
        let faults = Set(script.rules.compactMap(\.fault))
        #expect(Set(faults.map { "\($0)".split(separator: " ")[0] }).count == 12)
        for case .status(let answer) in faults {
            #expect(![400, 413, 422].contains(answer.status) && answer.status > 299)
        }
        for rule in script.rules { #expect(rule.delay <= .milliseconds(50)) }
    }
}
