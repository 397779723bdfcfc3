import Testing

@testable import Tiller

/// Damage of every kind at every place of a hundred records, as the scan for whole ones meets it: it costs the records
/// that it touches, tells what it can, and takes time in proportion to the bytes.
@Suite(.timeLimit(.minutes(5))) struct LogScannerDamageTests {
    /// Records enough, most of them small.
    private static let run = RecordRun(0..<120) { $0 % 53 == 1 ? 300 : $0 % 7 == 0 ? 60 : 0 }
    /// The sanitizer's tenfold time is not worth each place.
    private static let step = isUnderThreadSanitizer ? 23 : 1

    private func expect(_ bytes: [UInt8], _ what: String) {
        let scan = ScanResult(bytes)
        let intact = Self.run.intact(in: bytes)
        if scan.found != intact { Issue.record("\(what): \(scan.found.count) found, \(intact.count) are whole") }
        if scan.skipped != bytes.count - intact.reduce(0, { $0 + $1.range.count }) { Issue.record("\(what): skipped") }
    }

    @Test func undamagedAllAreThere() {
        #expect(ScanResult(Self.run.bytes).found == Self.run.places)
        #expect(Self.run.places.count == 120)
    }

    /// A scan goes from left to right: the record before the cut is all that a cut could reach besides the one it is in.
    @Test func everyTruncationCostsTheRecordItIsIn() {
        for (index, place) in Self.run.places.enumerated() {
            let before = index > 0 ? [Self.run.places[index - 1]] : []
            let start = before.first?.range.lowerBound ?? place.range.lowerBound
            for cut in stride(from: place.range.lowerBound, to: place.range.upperBound, by: Self.step) {
                let scan = ScanResult(Self.run.bytes, start..<cut)
                // What a kill cut off was never stored, so nothing of it is damaged.
                guard scan.found == before, scan.highestDamaged == nil, scan.skipped == cut - place.range.lowerBound
                else {
                    Issue.record("cut at \(cut), in record \(index)")
                    return
                }
            }
        }
        for cut in stride(from: 0, to: Self.run.bytes.count, by: 4_001) {
            expect(Array(Self.run.bytes[..<cut]), "cut at \(cut)")
        }
    }

    /// With a record behind, which must be found.
    @Test func everyFlippedBitCostsItsRecordAndTellsWhatItCan() {
        let tail = RecordRun(4..<5).bytes
        for (index, place) in Self.run.places.enumerated() {
            let size = place.range.count
            var bytes = Array(Self.run.bytes[place.range]) + tail
            for bit in stride(from: 0, to: size * 8, by: Self.step) {
                bytes[bit / 8] ^= 1 << (bit % 8)
                defer { bytes[bit / 8] ^= 1 << (bit % 8) }
                let scan = ScanResult(bytes)
                // The head tells its event's number, as long as it is whole itself.
                let damaged = bit / 8 < LogRecordHeader.size ? nil : place.number
                guard scan.found.map(\.range) == [size..<bytes.count], scan.skipped == size,
                    scan.highestDamaged == damaged
                else {
                    Issue.record("bit \(bit) of record \(index)")
                    return
                }
            }
        }
        for byte in stride(from: 0, to: Self.run.bytes.count, by: 997) {
            var bytes = Self.run.bytes
            bytes[byte] ^= 1 << (byte % 8)
            expect(bytes, "byte \(byte)")
        }
    }

    @Test(arguments: [512, 4_096], [0x00, 0xFF] as [UInt8]) func everyOverwrittenBlockCostsWhatItTouches(
        _ size: Int, _ value: UInt8
    ) {
        // Each phase of a block to the records, over the first quarter; on a disk blocks are aligned, elsewhere not.
        for start in stride(from: 0, to: Self.run.bytes.count / 4, by: 61 * Self.step) {
            var bytes = Self.run.bytes
            for index in start..<min(start + size, bytes.count) { bytes[index] = value }
            expect(bytes, "\(size) bytes at \(start)")
        }
    }

    @Test func whateverIsInsertedCostsTheRecordThatItLiesIn() {
        var generator = IdentifierGenerator.seeded(5)
        for round in 0..<200 / Self.step + 1 {
            let at = Int(generator.nextWord() % UInt64(Self.run.bytes.count))
            let length = 1 + Int(generator.nextWord() % 700)
            let garbage = (0..<length).map { _ in UInt8(truncatingIfNeeded: generator.nextWord()) }
            let scan = ScanResult(Self.run.bytes[..<at] + garbage + Self.run.bytes[at...])
            let whole = Self.run.places.filter { $0.range.upperBound <= at || $0.range.lowerBound >= at }
            #expect(scan.found.map(\.number) == whole.map(\.number), "round \(round), \(length) bytes at \(at)")
        }
    }

    /// A record within what another one claims as its payload: a block of the disk that lies in the wrong place.
    @Test func aRecordWithinADamagedOneIsFound() {
        let inner = RecordRun(1..<2).bytes
        var outer: [UInt8] = []
        outer.append(.event("outer", padding: 500), number: 7, boot: 1)
        outer.replaceSubrange(200..<200 + inner.count, with: inner)
        let scan = ScanResult(outer)
        #expect(scan.found.map(\.range) == [200..<200 + inner.count])
        #expect(scan.highestDamaged == 7)
    }

    // MARK: Time in proportion to the bytes

    @Test func markersEverywhereAreReadOnce() {
        for count in [1_000, 200_000] {
            let scan = ScanResult([UInt8](repeating: LogRecordHeader.marker, count: count))
            #expect(scan.skipped == count && scan.checkedInVain == 0)
        }
    }

    /// Each of these heads is whole, and claims all that follows: to check them all would take the square of their number.
    @Test func headsThatClaimTheSameBytesAgainAndAgainAreNotAllBelieved() {
        let count = 3_000
        var bytes: [UInt8] = []
        for index in 0..<count {
            var header = LogRecordHeader()
            header.eventLength = (count - 1 - index) * LogRecordHeader.size + 1
            header.number = UInt64(index)
            header.write(to: &bytes)
        }
        bytes += [0] + Self.run.bytes
        let scan = ScanResult(bytes)
        #expect(scan.checkedInVain <= 2 * bytes.count)
        // Whatever they cost, what lies behind them is found.
        #expect(scan.found.count == 120)
    }

    @Test func lengthsOfFourGigabytesAllocateNothing() {
        for (event, state) in [(0xFFFF_FFFF, 0), (0, 0xFFFF_FFFF), (0xFFFF_FFFF, 0xFFFF_FFFF)] {
            var header = LogRecordHeader()
            (header.eventLength, header.stateLength) = (event, state)
            var bytes: [UInt8] = []
            header.write(to: &bytes)
            let scan = ScanResult(bytes + Self.run.bytes)
            #expect(scan.found.count == 120 && scan.checkedInVain == 0 && scan.highestDamaged == nil)
        }
    }
}
