import Testing
import Tiller

@testable import kill_harness

/// What the processes of the kill harness tell each other.
@Suite(.timeLimit(.minutes(5))) struct HarnessOptionsTests {
    @Test func withoutArgumentsFiftyAreKilled() throws {
        let options = try #require(HarnessOptions([]))
        #expect(options.kills == 50)
        #expect(options.child == nil)
        #expect(options.processes == 1)
    }

    @Test func eachArgumentIsRead() throws {
        let options = try #require(
            HarnessOptions(
                ["--kills", "7", "--seed", "8", "--lanes", "9", "--processes", "2", "--trust-memory"]))
        #expect((options.kills, options.seed, options.lanes, options.processes) == (7, 8, 9, 2))
        #expect(options.trustsMemory)
    }

    @Test(arguments: [
        ["--kills"], ["--kills", "x"], ["--kills", "-1"], ["--seed", "-1"], ["--lanes", "0"], ["--processes", "0"],
        ["--lanes", "99999999999"], ["--colour", "red"], ["file"], ["--kills", "1", "--kills", "2"], ["--child"],
        ["--folder", "f"],
    ])
    func whatIsNoArgumentIsRefused(_ arguments: [String]) { #expect(HarnessOptions(arguments) == nil) }

    @Test func aChildIsToldEverything() throws {
        for isLast in [true, false] {
            let child = ChildOptions(
                folder: "f", url: "u", life: 3, first: 9, processes: 2, isLast: isLast, time: HarnessTime())
            #expect(HarnessOptions(child.arguments)?.child == child)
        }
    }

    /// All processes of a run must agree on the time.
    @Test func timeIsTheSameForWhoIsTold() throws {
        let time = HarnessTime()
        let told = try #require(HarnessTime(time.description))
        #expect(told == time)
        let before = time.continuous
        #expect(told.continuous >= before)
        #expect(abs(told.wallMilliseconds - time.wallMilliseconds) < 60_000)
        for text in ["", "1", "1/", "1/x", "1/2/3"] { #expect(HarnessTime(text) == nil) }
    }

    @Test(arguments: [Report.records(upTo: 12), .stored(upTo: 0), .delivered(upTo: 5), .waiting(3)])
    func reportsAreReadAsTheyWereWritten(_ report: Report) {
        #expect(report.line.hasSuffix("\n"))
        #expect(Report(line: report.line.dropLast()) == report)
    }

    @Test(arguments: ["", "stored", "stored x", "stored 1 2", "Stored 1", "1 stored"])
    func whatIsNoReportIsNone(_ line: String) { #expect(Report(line: line) == nil) }

    @Test func aSenderIsReadAsItWasWritten() {
        #expect(Sender(Sender(life: 3, request: 14).description) == Sender(life: 3, request: 14))
        for text in ["", "3", "3.", "3.x", "3.1.4", "b0b3-4c"] { #expect(Sender(text) == nil) }
    }
}
