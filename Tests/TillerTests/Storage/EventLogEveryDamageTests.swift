import Testing
import TillerTesting

@testable import Tiller

/// Damage at every place of a small log, through opening and delivery: exactly what is whole is delivered, in order and
/// once, the rest is counted as far as its loss can be known, and what comes afterwards is delivered too.
@Suite(.timeLimit(.minutes(5))) struct EventLogEveryDamageTests {
    private static let folder = "/memory/log"
    private static let step = isUnderThreadSanitizer ? 29 : 1

    /// A segment of the first run.
    private struct Segment {
        let index: Int
        let records: Range<Int>
        let first: UInt64
        let run: RecordRun

        init(_ index: Int, _ records: Range<Int>, first: UInt64) {
            (self.index, self.records, self.first) = (index, records, first)
            run = RecordRun(records, first: first)
        }

        var path: String { LogFiles(folder: folder).segment(index, of: 1, first: first) }
    }

    /// Eight records each, six of them events.
    private static let segments = (0..<3).map { Segment($0 + 1, $0 * 8..<$0 * 8 + 8, first: UInt64($0) * 6) }

    /// What came out of a log.
    private struct Outcome: Equatable {
        var delivered: [UInt64] = []
        var damaged = 0
        var keys: Set<String> = []
    }

    /// Opens, delivers, appends one more event and delivers it.
    private func outcome(of contents: [(path: String, bytes: [UInt8])]) throws -> Outcome {
        let disk = MemoryFiles()
        for (path, bytes) in contents { disk.put(bytes, at: path) }
        let log = try EventLog(
            folder: Self.folder, on: disk, boot: 1, diagnostics: Diagnostics(logger: RecordingLogger(), level: .none))
        var outcome = Outcome()
        outcome.keys = Set(log.load("S").object?.map(\.key) ?? [])
        while let batch = try log.nextBatch(.count(20), after: nil) {
            outcome.delivered += batch.events.map(\.number)
            try log.acknowledge([SettledBatch(batch: batch, outcome: .delivered)])
        }
        if log.append([.event("new")]).failure != nil { Issue.record("nothing could be stored") }
        let last = try log.nextBatch(.all, after: nil)
        if last?.names != ["new"] { Issue.record("the next event was not delivered") }
        if let last { try log.acknowledge([SettledBatch(batch: last, outcome: .delivered)]) }
        outcome.damaged = Int(log.sums.damaged)
        let waiting = log.counts.waiting
        if waiting != 0 { Issue.record("\(waiting) wait for ever") }
        if disk.names(in: Self.folder, ".log").count != 1 { Issue.record("files were left") }
        log.close()
        return outcome
    }

    /// What the log must give if these records are whole.
    ///
    /// - Parameter known: The number after the last event whose existence can be known.
    private func expected(_ whole: [RecordRun.Place], _ records: [Int], known: UInt64) -> Outcome {
        let delivered = whole.compactMap(\.number)
        return Outcome(
            delivered: delivered, damaged: Int(known) - delivered.count, keys: RecordRun.keys(records))
    }

    private func check(_ damaged: Int, _ bytes: [UInt8], _ what: String) throws {
        let segment = Self.segments[damaged]
        let whole = segment.run.intact(in: bytes)
        let told = segment.run.places.filter { place in
            let head = place.range.lowerBound..<place.payload.lowerBound
            return place.range.upperBound <= bytes.count && bytes[head] == segment.run.bytes[head]
        }
        var places: [RecordRun.Place] = []
        var records: [Int] = []
        var known: UInt64 = 0
        for other in Self.segments {
            let isDamaged = other.index == segment.index
            let kept = isDamaged ? whole : other.run.places
            places += kept
            records += zip(other.records, other.run.places).filter { kept.contains($0.1) }.map(\.0)
            known = max(known, other.first, (kept.compactMap(\.number).last ?? 0) + (kept.isEmpty ? 0 : 1))
        }
        // Behind the last whole event only a whole head tells of one.
        if let number = told.compactMap(\.number).max() { known = max(known, number + 1) }
        let outcome = try outcome(
            of: Self.segments.map { ($0.path, $0.index == segment.index ? bytes : $0.run.bytes) })
        let expected = expected(places, records, known: known)
        if outcome != expected { Issue.record("\(what): \(outcome), expected \(expected)") }
    }

    @Test func undamagedAllIsDelivered() throws {
        let outcome = try outcome(of: Self.segments.map { ($0.path, $0.run.bytes) })
        #expect(outcome == Self.all)
    }

    @Test(arguments: [0, 2]) func everyTruncation(_ damaged: Int) throws {
        let bytes = Self.segments[damaged].run.bytes
        for cut in stride(from: 0, to: bytes.count, by: Self.step) {
            try check(damaged, Array(bytes[..<cut]), "segment \(damaged) cut at \(cut)")
        }
    }

    /// One bit of each byte; the scan's own tests have all eight.
    @Test(arguments: [1, 2]) func everyFlippedByte(_ damaged: Int) throws {
        let run = Self.segments[damaged].run
        for byte in stride(from: 0, to: run.bytes.count, by: Self.step) {
            var bytes = run.bytes
            bytes[byte] ^= 1 << (byte % 8)
            try check(damaged, bytes, "segment \(damaged), byte \(byte)")
        }
    }

    @Test(arguments: 0..<3) func everyZeroedBlock(_ damaged: Int) throws {
        let bytes = Self.segments[damaged].run.bytes
        for start in stride(from: 0, to: bytes.count, by: 7 * Self.step) {
            var zeroed = bytes
            for index in start..<min(start + 512, bytes.count) { zeroed[index] = 0 }
            try check(damaged, zeroed, "segment \(damaged), zeros at \(start)")
        }
        try check(damaged, [UInt8](repeating: 0, count: 4_096), "nothing but zeros")
    }

    // MARK: Segments as a whole

    private static let all = Outcome(delivered: Array(0..<18), damaged: 0, keys: RecordRun.keys(0..<24))

    @Test(arguments: 0..<3) func aMissingSegmentCostsItsEvents(_ missing: Int) throws {
        let rest = Self.segments.filter { $0.index != missing + 1 }
        let outcome = try outcome(of: rest.map { ($0.path, $0.run.bytes) })
        let lost = missing * 6..<missing * 6 + 6
        #expect(outcome.delivered == (0..<18).filter { !lost.contains($0) }.map(UInt64.init))
        // Of events at the end nothing tells.
        #expect(outcome.damaged == (missing == 2 ? 0 : 6))
        #expect(outcome.keys == RecordRun.keys(rest.flatMap { Array($0.records) }))
    }

    /// Under a later name with the same first number the copy counts; under a later number it holds nothing new.
    @Test(arguments: 0..<3, [false, true]) func aSegmentTwiceIsDeliveredOnce(_ twice: Int, _ asOfTheEnd: Bool) throws {
        let original = Self.segments[twice]
        let isInPlace = !asOfTheEnd && twice == 2
        let path = LogFiles(folder: Self.folder).segment(4, of: 1, first: isInPlace ? original.first : 18)
        let outcome = try outcome(of: Self.segments.map { ($0.path, $0.run.bytes) } + [(path, original.run.bytes)])
        #expect(outcome == Self.all)
    }

    /// What stands in the wrong place can't be told from what a failed write left: it is counted, never sent in disorder.
    @Test(arguments: [(0, 1), (0, 2), (1, 2)]) func swappedSegmentsAreCountedAndNothingIsSentTwice(
        _ one: Int, _ other: Int
    ) throws {
        var contents = Self.segments.map { ($0.path, $0.run.bytes) }
        (contents[one].1, contents[other].1) = (contents[other].1, contents[one].1)
        let outcome = try outcome(of: contents)
        #expect(outcome.delivered == outcome.delivered.sorted())
        #expect(Set(outcome.delivered).count == outcome.delivered.count)
        let untouched = Self.segments.filter { ![one, other].contains($0.index - 1) }
        for segment in untouched {
            #expect(segment.run.places.compactMap(\.number).allSatisfy(outcome.delivered.contains))
        }
        #expect(outcome.delivered.count + outcome.damaged >= 12)
    }

    /// Whatever bytes are put anywhere.
    @Test func garbageAnywhereEndsNothing() throws {
        var generator = IdentifierGenerator.seeded(11)
        for round in 0..<150 / Self.step + 1 {
            var contents = Self.segments.map { ($0.path, $0.run.bytes) }
            let segment = Int(generator.nextWord() % 3)
            let at = Int(generator.nextWord() % UInt64(contents[segment].1.count))
            let garbage = (0..<1 + Int(generator.nextWord() % 300)).map { _ in
                UInt8(truncatingIfNeeded: generator.nextWord())
            }
            contents[segment].1.insert(contentsOf: garbage, at: at)
            let outcome = try outcome(of: contents)
            let cut = Self.segments[segment].run.places.first { $0.range.lowerBound < at && $0.range.upperBound > at }
            let expected = (0..<18).map(UInt64.init).filter { $0 != cut?.number }
            #expect(outcome.delivered == expected, "round \(round)")
        }
    }
}
