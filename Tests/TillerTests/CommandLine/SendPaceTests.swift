import Testing
import Tiller

@testable import TillerCommand

/// When `tiller send` waits.
@Suite(.timeLimit(.minutes(5))) struct SendPaceTests {
    @Test func aNumberOfEventsIsEnough() {
        var pace = SendPace()
        for _ in 0..<499 { pace.record(bytes: 100) }
        #expect(!pace.isDue)
        pace.record(bytes: 100)
        #expect(pace.isDue)
        pace.didStore()
        #expect(!pace.isDue)
    }

    @Test func aNumberOfBytesIsEnough() {
        var pace = SendPace()
        pace.record(bytes: 999_999)
        #expect(!pace.isDue)
        pace.record(bytes: 1)
        #expect(pace.isDue)
    }

    /// Between two waits: as many events of the largest size, or a million bytes and a longest line of the values that take
    /// most room (`[0,0,…`: two bytes that count as sixteen).
    @Test func whatIsRecordedBetweenTwoWaitsFitsIntoMemory() {
        let limits = SendPace.limits
        #expect(limits.memoryEvents > 500)
        #expect(limits.memoryBytes > 500 * limits.eventBytes)
        #expect(limits.memoryBytes > 8 * (1_000_000 + InputLines.longestLine) + 500 * 300)
    }

    @Test func whatIsInMemoryIsDeliveredBeforeMoreIsRead() {
        #expect(SendPace().needsDelivery(isOnDisk: false))
    }

    /// The disk's bound is 100 MB; beyond it the oldest events would go.
    @Test func whatIsOnDiskIsDeliveredBeforeItIsTooMuch() {
        var pace = SendPace()
        #expect(!pace.needsDelivery(isOnDisk: true))
        for _ in 0..<10_000 { pace.record(bytes: 1_499) }
        pace.didStore()
        #expect(!pace.needsDelivery(isOnDisk: true))
        for _ in 0..<10_000 { pace.record(bytes: 1_501) }
        #expect(pace.needsDelivery(isOnDisk: true))
        pace.didDeliver()
        #expect(!pace.needsDelivery(isOnDisk: true))
    }
}
