import Testing
import TillerTesting

@testable import Tiller

/// Each loss is said once with its reason, then as a count per minute.
@Suite(.timeLimit(.minutes(5))) struct LossLogTests {
    private let time = VirtualTime()
    private let logger = RecordingLogger()

    private func diagnostics(_ level: LogLevel = .error) -> Diagnostics {
        Diagnostics(logger: logger, level: level, time: time)
    }

    @Test func theFirstIsSaidAtOnceAndTheRestOnceAMinute() async {
        let diagnostics = diagnostics()
        diagnostics.loss(1, "too large") { "An event was too large" }
        #expect(logger.texts(.error) == ["An event was too large"])
        for _ in 0..<5 { diagnostics.loss(2, "too large") { "never said" } }
        diagnostics.loss(1, "full") { "The queue is full" }
        #expect(logger.texts(.error) == ["An event was too large", "The queue is full"])
        time.advance(by: .seconds(59))
        #expect(logger.texts(.error).count == 2)
        time.advance(by: .seconds(1))
        #expect(logger.texts(.error).dropFirst(2) == ["10 more events were lost: too large"])
        // Nothing more was lost: no timer runs.
        time.advance(by: .seconds(600))
        #expect(logger.texts(.error).count == 3)
        diagnostics.loss(3, "full") { "never said" }
        diagnostics.loss(4, "too large") { "never said" }
        time.advance(by: .seconds(60))
        #expect(
            logger.texts(.error).dropFirst(3)
                == ["3 more events were lost: full", "4 more events were lost: too large"])
    }

    @Test func whatHasOnlyBeenCountedIsSaidAtTheEnd() {
        let diagnostics = diagnostics()
        for _ in 0..<3 { diagnostics.loss(1, "full") { "The queue is full" } }
        diagnostics.sayRest()
        diagnostics.sayRest()
        #expect(logger.texts(.error) == ["The queue is full", "2 more events were lost: full"])
        time.advance(by: .seconds(120))
        #expect(logger.texts(.error).count == 2)
    }

    @Test func nothingIsLostIsNothingSaid() {
        diagnostics().loss(0, "full") { "The queue is full" }
        diagnostics(.none).loss(1, "full") { "The queue is full" }
        #expect(logger.messages.isEmpty)
    }

    /// The store says nothing while it holds a lock, and shares the count with the instance.
    @Test func deferredLossesAreSaidWhenTheyMayBe() {
        let diagnostics = diagnostics()
        let (deferred, messages) = diagnostics.deferring()
        deferred.loss(1, "full") { "The queue is full" }
        deferred.loss(6, "full") { "never said" }
        #expect(logger.messages.isEmpty)
        messages.deliver()
        #expect(logger.texts(.error) == ["The queue is full"])
        diagnostics.loss(1, "full") { "never said" }
        time.advance(by: .seconds(60))
        #expect(logger.texts(.error) == ["The queue is full", "7 more events were lost: full"])
    }
}
