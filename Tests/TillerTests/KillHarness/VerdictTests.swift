import Testing

@testable import kill_harness

/// The kill harness notices what it is there for.
@Suite(.timeLimit(.minutes(5))) struct VerdictTests {
    private typealias Arrival = Verdict.Arrival

    /// Each request of a process is one at the data plane, unless it says otherwise.
    private func arrival(
        _ number: Int?, life: Int = 0, request: Int = 0, exchange: Int? = nil, isHidden: Bool = false, writer: Int = 0,
        id: String? = nil, contents: Int? = nil, session: UInt64? = 1, starts: Bool = false
    ) -> Arrival {
        Arrival(
            life: life, request: request, exchange: exchange ?? life * 1_000 + request, isHidden: isHidden,
            number: number, writer: writer, messageId: id ?? number.map { "id\($0)" } ?? "other",
            contents: contents ?? number ?? 0, sessionId: session, isSessionStart: starts)
    }

    /// 1, 2 and 3 in one session, from two processes.
    private var good: [Arrival] {
        [arrival(1, starts: true), arrival(2, request: 1), arrival(3, life: 1)]
    }

    private func evidence(_ arrivals: [Arrival], stored: [ClosedRange<Int>] = [1...3]) -> Verdict.Evidence {
        var evidence = Verdict.Evidence()
        evidence.killed = Set(0..<7)
        for (life, range) in stored.enumerated() { evidence.stored[life] = range }
        evidence.arrivals = arrivals
        for arrival in arrivals {
            evidence.lastRequests[arrival.life] = max(arrival.request, evidence.lastRequests[arrival.life] ?? 0)
        }
        evidence.account = .init(delivered: Set(arrivals.map(\.messageId)).count)
        return evidence
    }

    private func verdict(
        _ arrivals: [Arrival], stored: [ClosedRange<Int>] = [1...3],
        _ change: (inout Verdict.Evidence) -> Void = { _ in }
    ) -> Verdict {
        var evidence = evidence(arrivals, stored: stored)
        change(&evidence)
        return Verdict(evidence)
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

    @Test func verdictsAddUp() {
        var sum = Verdict()
        sum.add(verdict(good))
        sum.add(verdict(good, stored: [1...4]))
        #expect(sum.description == "14 kills, 7 stored, 1 lost, 0 unexplained, 0 out of order")
        #expect(!sum.isGood)
    }

    // MARK: Copies that a kill explains

    @Test func theLastRequestOfAKilledProcessMayComeAgain() {
        let copies = [
            arrival(1, starts: true), arrival(2, request: 1), arrival(3, request: 1),
            arrival(2, life: 1), arrival(3, life: 1), arrival(4, life: 1), arrival(5, life: 1, request: 1),
        ]
        #expect(verdict(copies, stored: [1...5]).isGood)
        #expect(verdict(copies, stored: [1...5]).copies == 2)
    }

    /// The third process finds what neither of the two before it could acknowledge, and it may cut it otherwise.
    @Test func eachKillExplainsOneRequest() {
        let copies = [
            arrival(1, starts: true), arrival(2, request: 1), arrival(2, life: 1), arrival(3, life: 1),
            arrival(2, life: 2), arrival(3, life: 2, request: 1), arrival(3, life: 3),
        ]
        #expect(verdict(copies).isGood)
    }

    @Test func anEarlierRequestOfAKilledProcessIsUnexplained() {
        let copies = [
            arrival(1, starts: true), arrival(2, request: 1), arrival(3, request: 2),
            arrival(2, life: 1), arrival(3, life: 1),
        ]
        #expect(
            verdict(copies).unexplained == [
                "id2 (number 2) was sent again by process 1, though process 0 had its answer to request 1"
            ])
    }

    /// A later request that stored nothing shows as well that the answer had come.
    @Test func aRequestBeforeAnotherThatFailedIsUnexplained() {
        let copies = good + [arrival(2, life: 1, request: 1)]
        #expect(verdict(copies).isGood)
        #expect(verdict(copies) { $0.lastRequests[0] = 2 }.unexplained.count == 1)
    }

    @Test func aProcessThatWasNotKilledExplainsNothing() {
        let copies = good + [arrival(2, life: 1, request: 1)]
        #expect(verdict(copies) { $0.killed.remove(0) }.unexplained.count == 1)
    }

    @Test func aCopyInTheSameLifeIsUnexplained() {
        let copies = [arrival(1, starts: true), arrival(2), arrival(2, request: 1), arrival(3, life: 1)]
        #expect(
            verdict(copies).unexplained == [
                "id2 (number 2) was sent again by process 0, though process 0 had its answer to request 0"
            ])
    }

    @Test func twiceInOneRequestIsUnexplained() {
        let copies = [arrival(1, starts: true), arrival(2), arrival(2), arrival(3, life: 1)]
        #expect(verdict(copies).unexplained == ["id2 (number 2) was twice in one request of process 0"])
    }

    /// What was on its way when its sender was killed may be read after the next process's copy.
    @Test func aLateOriginalIsNoFault() {
        let copies = [
            arrival(1, starts: true), arrival(2, life: 1), arrival(3, life: 1, request: 1),
            arrival(2, life: 0, request: 1),
        ]
        #expect(verdict(copies).isGood)
        // Of processes side by side nobody knows it.
        #expect(Verdict(evidence(copies), isOneAtATime: false).unexplained.count == 1)
    }

    // MARK: Copies that a lost answer explains

    @Test func aLostAnswerExplainsACopy() {
        let copies = [
            arrival(1, isHidden: true, starts: true), arrival(2, isHidden: true), arrival(1, request: 1),
            arrival(2, request: 2, isHidden: true), arrival(2, request: 3, isHidden: true), arrival(2, request: 4),
            arrival(3, request: 5),
        ]
        #expect(verdict(copies).isGood)
        #expect(verdict(copies).copies == 4)
    }

    /// After a copy whose answer was heard, the loss before explains no other.
    @Test func aLostAnswerExplainsNoSecondCopy() {
        let copies = [
            arrival(1, starts: true), arrival(2, request: 1, isHidden: true), arrival(2, request: 2),
            arrival(2, request: 3), arrival(3, request: 4),
        ]
        #expect(verdict(copies).unexplained.count == 1)
    }

    /// The system's client sends a request again by itself when a connection that was kept open dies.
    @Test func aRequestThatTheClientRepeatedIsTwoAtTheDataPlane() {
        let copies = [
            arrival(1, starts: true), arrival(2, request: 1, exchange: 1, isHidden: true),
            arrival(2, request: 1, exchange: 2), arrival(3, request: 2, exchange: 3),
        ]
        #expect(verdict(copies).isGood)
        let heard = copies.map { copy in
            var copy = copy
            copy.isHidden = false
            return copy
        }
        #expect(verdict(heard).unexplained.count == 1)
    }

    // MARK: Copies of what a process had heard of

    @Test func whatWasWrittenDownAsDeliveredDoesNotComeAgain() {
        let copies = good + [arrival(2, life: 1, request: 1)]  // as after a kill before the acknowledgement
        let early = Verdict.Acknowledged(life: 0, numbers: 0...1, arrivals: 2)
        #expect(verdict(copies) { $0.acknowledged = [early] }.isGood)
        let heard = Verdict.Acknowledged(life: 0, numbers: 0...2, arrivals: 2)
        #expect(
            verdict(copies) { $0.acknowledged = [early, heard] }.unexplained == [
                "id2 (number 2) was sent again by process 1, though process 0 had written down that it was delivered"
            ])
        // A process's own word is no proof against itself: its request was on its way before.
        let own = Verdict.Acknowledged(life: 1, numbers: 0...2, arrivals: 4)
        #expect(verdict(copies) { $0.acknowledged = [own] }.isGood)
    }

    // MARK: Copies that are none

    @Test func aCopyWithOtherContentsIsUnexplained() {
        let copies = good + [arrival(2, life: 1, request: 1, contents: 99)]
        #expect(verdict(copies).unexplained == ["id2 (number 2) has come with two contents"])
    }

    @Test func aNumberWithTwoIdsIsUnexplained() {
        let copies = good + [arrival(2, life: 1, id: "another")]
        #expect(verdict(copies).unexplained == ["number 2 has come with two ids"])
    }

    @Test func otherEventsAreJudgedToo() {
        let copies = good + [arrival(nil), arrival(nil, request: 4)]
        #expect(
            verdict(copies).unexplained == [
                "other (number none) was sent again by process 0, though process 0 had its answer to request 0"
            ])
    }

    // MARK: Order, sessions, the account

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

    @Test func eachWriterHasAnOrderOfItsOwn() {
        let events = [
            arrival(11, writer: 1, starts: true), arrival(1), arrival(12, writer: 1), arrival(2), arrival(3),
        ]
        #expect(verdict(events).outOfOrder.isEmpty)
        #expect(verdict(events + [arrival(10, writer: 1)]).outOfOrder == [10])
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
        #expect(verdict([arrival(1, starts: true), arrival(1, life: 1, starts: true)], stored: [1...1]).isGood)
    }

    @Test func theAccountSaysWhatHasArrived() {
        let copy = good + [arrival(2, life: 1, request: 1)]
        #expect(verdict(copy) { $0.account = .init(delivered: 3) }.isGood)
        let wrong: [Verdict.Account] = [
            .init(delivered: 2), .init(delivered: 4), .init(delivered: 3, waiting: 1), .init(delivered: 3, refused: 1),
            .init(delivered: 3, evicted: 1), .init(delivered: 3, damaged: 1),
        ]
        for account in wrong { #expect(!verdict(copy) { $0.account = account }.isGood, "\(account)") }
        #expect(verdict(copy) { $0.account = nil }.details == ["the account could not be read"])
        #expect(
            verdict(copy) { $0.account = wrong[3] }.details == [
                "the account says 3 delivered, 0 waiting, 1 refused, 0 evicted, 0 damaged; 3 have arrived"
            ])
    }
}
