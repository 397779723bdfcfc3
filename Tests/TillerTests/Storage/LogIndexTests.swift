import Testing

@testable import Tiller

/// Which file may go when, and what becomes of the counts: rules on values, without a disk.
@Suite(.timeLimit(.minutes(5))) struct LogIndexTests {
    /// An earlier run of 10 events in segments of 5, and the own one of 10 more.
    private static func index() -> LogIndex {
        var index = LogIndex(ownRun: 2)
        index.runs = [
            LogIndex.Run(number: 1, segments: [segment(1, first: 0), segment(2, first: 5)], end: 10)
        ]
        index.counts.appended = 10
        for (number, first) in [(1, 0), (2, 5)] as [(Int, UInt64)] {
            index.begin(LogIndex.Segment(index: number, first: first))
            index.grow(to: 500, end: first + 5, hasState: false)
        }
        return index
    }

    private static func segment(_ index: Int, first: UInt64, hasState: Bool = false) -> LogIndex.Segment {
        LogIndex.Segment(index: index, first: first, size: 500, hasState: hasState)
    }

    private static func batch(_ run: Int, _ start: UInt64, to end: UInt64, without damaged: [UInt64] = [])
        -> StoredBatch
    {
        var batch = StoredBatch(run: run, isOwnRun: run == 2, start: start)
        for number in start..<end where !damaged.contains(number) {
            _ = batch.take(
                [], anonymousId: 0..<0, number: number, wallMilliseconds: 0, continuousNanoseconds: 0, boot: 0,
                within: .all)
        }
        batch.extend(to: end)
        return batch
    }

    @Test func growingCounts() {
        let index = Self.index()
        #expect(index.counts.appended == 20)
        #expect(index.counts.waiting == 20)
        #expect(index.bytes == 2_000)
        #expect(index.runs.map(\.number) == [1, 2])
        #expect(index.runs[1].end == 10)
        #expect(index.runs[1].end(ofSegmentAt: 0) == 5)
        #expect(index.runs[1].end(ofSegmentAt: 1) == 10)
    }

    @Test func settlingCountsWhatIsRefused() {
        var index = Self.index()
        let run = index.settle(SettledBatch(batch: Self.batch(1, 0, to: 7, without: [2]), outcome: .refused))
        #expect(run?.sums == LogIndex.Sums(damaged: 1, refused: 6))
        #expect((index.counts.settled, index.counts.lost, index.counts.refused) == (7, 7, 6))
        // What was evicted meanwhile has been counted.
        _ = index.evict(1, of: 2)
        _ = index.settle(SettledBatch(batch: Self.batch(2, 4, to: 6), outcome: .refused))
        #expect(index.runs[1].sums == LogIndex.Sums(evicted: 5, refused: 1))
        #expect(index.counts.refused == 7)
    }

    @Test func behindWhatIsHeldTheRestOfItsRunComesAndThenTheNextRun() {
        var index = Self.index()
        #expect(index.nextRun(after: Self.batch(1, 0, to: 9))?.number == 1)
        #expect(index.runs[0].start(after: Self.batch(1, 0, to: 9)) == 9)
        #expect(index.nextRun(after: Self.batch(1, 0, to: 10))?.number == 2)
        #expect(index.runs[1].start(after: Self.batch(1, 0, to: 10)) == 0)
        #expect(index.nextRun(after: Self.batch(2, 9, to: 10)) == nil)
        // What was evicted meanwhile is not read again.
        _ = index.evict(1, of: 1)
        #expect(index.runs[0].start(after: Self.batch(1, 0, to: 1)) == 5)
        index.fold(1)
        #expect(index.nextRun(after: Self.batch(1, 0, to: 1))?.number == 2)
    }

    @Test func settlingCountsDeliveredAndDamaged() {
        var index = Self.index()
        let run = index.settle(Self.batch(1, 0, to: 7, without: [2, 6]))
        #expect(run?.position == 7)
        #expect(run?.sums == LogIndex.Sums(delivered: 5, damaged: 2))
        #expect(index.counts.settled == 7)
        #expect(index.nextRun(after: nil)?.number == 1)
        _ = index.settle(Self.batch(1, 7, to: 10))
        #expect(index.nextRun(after: nil)?.number == 2)
        #expect(index.sums == LogIndex.Sums(delivered: 8, damaged: 2))
    }

    @Test func settlingTwiceOrAnUnknownRunChangesNothing() {
        var index = Self.index()
        #expect(index.settle(Self.batch(1, 0, to: 5)) != nil)
        #expect(index.settle(Self.batch(1, 0, to: 5)) == nil)
        #expect(index.settle(Self.batch(1, 0, to: 3)) == nil)
        #expect(index.settle(Self.batch(7, 0, to: 3)) == nil)
        #expect(index.counts.settled == 5)
        #expect(index.sums.delivered == 5)
    }

    @Test func whatWasEvictedDuringTheUploadIsCountedOnce() {
        var index = Self.index()
        let evicted = index.evict(1, of: 1)
        #expect(evicted?.count == 5)
        _ = index.settle(Self.batch(1, 0, to: 8, without: [1, 6]))
        #expect(index.sums == LogIndex.Sums(delivered: 2, evicted: 5, damaged: 1))
        #expect(index.counts.settled == 8)
        // A batch that lay wholly in what was evicted.
        index = Self.index()
        _ = index.evict(1, of: 1)
        #expect(index.settle(Self.batch(1, 0, to: 5)) == nil)
        #expect(index.sums == LogIndex.Sums(evicted: 5))
    }

    @Test func evictionTakesTheOldestClosedSegment() {
        var index = Self.index()
        #expect(index.segmentToEvict(limit: 2_000) == nil)
        var order: [String] = []
        while let (run, segment, _) = index.segmentToEvict(limit: 0) {
            order.append("\(run).\(segment.index)")
            _ = index.evict(segment.index, of: run)
            index.remove(segment.index, of: run)
        }
        // The one that is being written stays.
        #expect(order == ["1.1", "1.2", "2.1"])
        #expect(index.runs[1].position == 5)
        #expect(index.sums == LogIndex.Sums(evicted: 15))
        #expect(index.counts.waiting == 5)
        #expect(index.evict(9, of: 1) == nil)
        #expect(index.evict(1, of: 9) == nil)
    }

    @Test func evictionOfWhatIsDeliveredCountsNothing() {
        var index = Self.index()
        _ = index.settle(Self.batch(1, 0, to: 7))
        #expect(index.evict(1, of: 1)?.count == 0)
        #expect(index.evict(2, of: 1)?.count == 3)
        #expect(index.sums == LogIndex.Sums(delivered: 7, evicted: 3))
    }

    @Test func closedSegmentsGoWhenAllTheirEventsHave() {
        var index = Self.index()
        func finished() -> [String] { index.finishedSegments(covered: true).map { "\($0.run).\($0.segment.index)" } }
        #expect(finished() == [])
        _ = index.settle(Self.batch(1, 0, to: 4))
        #expect(finished() == [])
        _ = index.settle(Self.batch(1, 4, to: 5))
        #expect(finished() == ["1.1"])
        _ = index.settle(Self.batch(1, 5, to: 10))
        #expect(finished() == ["1.1", "1.2"])
        _ = index.settle(Self.batch(2, 0, to: 10))
        // The own run's last one is being written.
        #expect(finished() == ["1.1", "1.2", "2.1"])
    }

    @Test func noSegmentWithStateGoesBeforeACheckpointCoversIt() {
        var index = Self.index()
        index.runs[0].segments[0].hasState = true
        _ = index.settle(Self.batch(1, 0, to: 10))
        #expect(index.finishedSegments(covered: true).map(\.segment.index) == [2])
        #expect(index.finishedSegments(covered: false).map(\.segment.index) == [1])
        #expect(index.runToFold == nil)
        #expect(index.segmentToEvict(limit: 0)?.isCovered == false)
        index.covered = LogPlace(run: 1, segment: 1, offset: 499)
        #expect(index.runToFold == nil)
        index.covered = LogPlace(run: 1, segment: 1, offset: 500)
        #expect(index.finishedSegments(covered: false).isEmpty)
        #expect(index.runToFold?.number == 1)
        #expect(index.segmentToEvict(limit: 0)?.isCovered == true)
    }

    @Test func onlyARunThatIsOverAndEmptyIsFolded() {
        var index = Self.index()
        #expect(index.runToFold == nil)
        _ = index.settle(Self.batch(1, 0, to: 9))
        #expect(index.runToFold == nil)
        _ = index.settle(Self.batch(1, 9, to: 10))
        #expect(index.runToFold?.number == 1)
        index.fold(1)
        _ = index.settle(Self.batch(2, 0, to: 10))
        #expect(index.runToFold == nil)  // not the own one
    }

    @Test func whatCouldNotBeReadIsNeitherPassedOverNorRemoved() {
        var index = LogIndex(ownRun: 2)
        var unread = Self.segment(1, first: 0)
        unread.isUnread = true
        index.runs = [LogIndex.Run(number: 1, segments: [unread], end: 0)]
        index.begin(LogIndex.Segment(index: 1, first: 0))
        index.grow(to: 500, end: 5, hasState: false)
        #expect(index.nextRun(after: nil)?.number == 1)
        #expect(index.runToFold == nil)
        #expect(index.finishedSegments(covered: true).isEmpty && index.finishedSegments(covered: false).isEmpty)
        index.covered = LogPlace(run: 9, segment: 9, offset: 9)
        #expect(index.segmentToEvict(limit: 0)?.isCovered == false)
        var newer = LogIndex(ownRun: 3)
        newer.runs = [LogIndex.Run(number: 1, segments: [Self.segment(1, first: 0, hasState: true)], end: 7)]
        index.learn(from: newer)
        #expect(index.runs[0].end == 7)
        #expect(index.runs[0].segments[0].hasState)
        #expect(!index.hasUnread)
        #expect(index.counts.appended == 12)
        // One that went meanwhile holds nothing up.
        index.runs[0].segments[0].isUnread = true
        index.learn(from: LogIndex(ownRun: 3))
        #expect(!index.hasUnread)
        #expect(index.counts.appended == 12)
    }

    @Test func placesAreOrderedByRunThenSegmentThenOffset() {
        let places = [
            LogPlace(), LogPlace(run: 1, segment: 1, offset: 100), LogPlace(run: 1, segment: 2, offset: 0),
            LogPlace(run: 1, segment: 2, offset: 1), LogPlace(run: 2, segment: 0, offset: 0),
            LogPlace(run: 2, segment: 1, offset: 0),
        ]
        #expect(places.shuffled().sorted() == places)
    }
}

extension LogIndex {
    /// A batch was delivered.
    fileprivate mutating func settle(_ batch: StoredBatch) -> Run? {
        settle(SettledBatch(batch: batch, outcome: .delivered))
    }
}
