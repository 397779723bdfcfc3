import Testing

@testable import kill_harness

/// The kill harness notices what it is there for.
@Suite(.timeLimit(.minutes(5))) struct VerdictTests {
    private typealias Arrival = Verdict.Arrival

    private func arrival(
        _ number: Int?, life: Int = 0, request: Int = 0, id: String? = nil, text: String? = nil, session: UInt64? = 1,
        starts: Bool = false
    ) -> Arrival {
        let id = id ?? number.map { "id\($0)" } ?? "other"
        return Arrival(
            life: life, request: request, number: number, messageId: id, text: text ?? "text of \(id)",
            sessionId: session, isSessionStart: starts)
    }

    /// 1, 2 and 3 in one session, from two processes.
    private var good: [Arrival] {
        [arrival(1, starts: true), arrival(2, request: 1), arrival(3, life: 1)]
    }

    private func verdict(_ arrivals: [Arrival], stored: [ClosedRange<Int>] = [1...3]) -> Verdict {
        Verdict(kills: 7, stored: stored, arrivals: arrivals)
    }

    @Test func everythingOnceAndInOrderIsGood() {
        let verdict = verdict(good)
        #expect(verdict.isGood)
        #expect(verdict.copies == 0)
        #expect(verdict.description == "7 kills, 3 stored, 0 lost, 0 unexplained, 0 out of order")
        #expect(verdict.details.isEmpty)
    }

    @Test func whatArrivedWithoutHavingBeenStoredIsNoFault() {
        #expect(verdict(good, stored: [1...1, 3...3]).isGood)
        #expect(verdict(good, stored: [1...1, 3...3]).stored == 2)
    }

    @Test func aRunInWhichNothingWasStoredShowsNothing() {
        #expect(!verdict(good, stored: []).isGood)
        #expect(verdict([], stored: []).details == ["nothing was stored"])
    }

    @Test func whatWasStoredAndDidNotArriveIsLost() {
        let verdict = verdict(good, stored: [1...2, 3...5, 9...9])
        #expect(!verdict.isGood)
        #expect(verdict.lost == [4, 5, 9])
        #expect(verdict.description == "7 kills, 6 stored, 3 lost, 0 unexplained, 0 out of order")
    }

    // MARK: Copies

    @Test func oneRequestSentAgainByTheNextProcessIsExplained() {
        let copies = [
            arrival(1, starts: true), arrival(2, request: 1), arrival(3, request: 1),
            arrival(2, life: 1), arrival(3, life: 1), arrival(4, life: 1), arrival(5, life: 1, request: 1),
        ]
        #expect(verdict(copies, stored: [1...5]).isGood)
        #expect(verdict(copies, stored: [1...5]).copies == 2)
    }

    /// The third process finds what neither of the two before it could acknowledge.
    @Test func eachKillExplainsOneRequest() {
        let copies = [
            arrival(1, starts: true), arrival(2, request: 1), arrival(2, life: 1), arrival(2, life: 2),
            arrival(3, life: 2, request: 1), arrival(3, life: 3),
        ]
        #expect(verdict(copies).isGood)
    }

    @Test func aSecondRequestSentAgainIsUnexplained() {
        let copies = [
            arrival(1, starts: true), arrival(2, request: 1), arrival(3, request: 2),
            arrival(2, life: 1), arrival(3, life: 1, request: 1),
        ]
        #expect(verdict(copies).unexplained == ["id3 (number 3) was in a second request that process 1 sent again"])
    }

    @Test func aCopyWithoutAKillIsUnexplained() {
        let copies = [arrival(1, starts: true), arrival(2), arrival(2, request: 1), arrival(3, life: 1)]
        #expect(verdict(copies).unexplained == ["id2 (number 2) was sent twice by process 0"])
    }

    /// What was on its way when its sender was killed may be read after the next process's copy.
    @Test func aLateOriginalIsNoFault() {
        let copies = [
            arrival(1, starts: true), arrival(2, life: 1), arrival(3, life: 1), arrival(2, life: 0, request: 1),
        ]
        #expect(verdict(copies).isGood)
    }

    @Test func aCopyWithOtherContentsIsUnexplained() {
        let copies = good + [arrival(2, life: 1, text: "another")]
        #expect(verdict(copies).unexplained == ["id2 (number 2) has come with two contents"])
    }

    @Test func aNumberWithTwoIdsIsUnexplained() {
        let copies = good + [arrival(2, life: 1, id: "another")]
        #expect(verdict(copies).unexplained == ["number 2 has come with two ids"])
    }

    @Test func otherEventsAreJudgedToo() {
        let copies = good + [arrival(nil), arrival(nil, request: 4)]
        #expect(verdict(copies).unexplained == ["other (number none) was sent twice by process 0"])
    }

    // MARK: Order and sessions

    @Test func theFirstArrivalDecidesTheOrder() {
        let copies = [
            arrival(1, starts: true), arrival(3), arrival(2), arrival(5), arrival(4), arrival(6), arrival(5, life: 1),
        ]
        let verdict = verdict(copies)
        #expect(verdict.outOfOrder == [2, 4])
        #expect(verdict.unexplained.isEmpty)
        #expect(!verdict.isGood)
        #expect(verdict.details == ["out of order: 2, 4"])
    }

    @Test func aSessionHasOneStart() {
        let events = [
            arrival(1, session: nil), arrival(2, session: 5), arrival(3, session: 6, starts: true),
            arrival(4, session: 6, starts: true), arrival(5, session: 7, starts: true), arrival(6, session: 7),
        ]
        let verdict = verdict(events)
        #expect(verdict.sessions == ["session 5 has 0 start marks", "session 6 has 2 start marks"])
        #expect(!verdict.isGood)
    }

    @Test func aCopyOfAStartIsNoSecondOne() {
        #expect(verdict(good + [arrival(1, life: 1, starts: true)]).isGood)
    }

    // MARK: What is told over the pipe

    @Test(arguments: [Report.records(upTo: 12), .stored(upTo: 0), .waiting(3)])
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
