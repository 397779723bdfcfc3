import Testing

@testable import Tiller

/// The form of a record, and the scan for whole ones in whatever lies in a file.
@Suite(.timeLimit(.minutes(5))) struct LogRecordTests {
    private static let moment = Moment(wallMilliseconds: -1_234, continuous: .nanoseconds(987_654_321), sequence: 7)

    /// What a scan finds, in a form that can be compared.
    private struct Whole: Equatable {
        let number: UInt64
        let event: [UInt8]
        let state: [UInt8]
        let range: Range<Int>
    }

    private static func scan(_ bytes: [UInt8]) -> (found: [Whole], skipped: Int, damaged: UInt64?) {
        bytes.withUnsafeBytes { buffer in
            var scanner = LogScanner()
            var found: [Whole] = []
            while let record = scanner.next(in: buffer) {
                found.append(
                    Whole(
                        number: record.header.number, event: Array(buffer[record.event]),
                        state: Array(buffer[record.state]),
                        range: record.payload.lowerBound - LogRecordHeader.size..<record.end))
            }
            return (found, scanner.skipped, scanner.highestDamaged)
        }
    }

    /// A run of records of all kinds: events, state, both.
    private static let run: [UInt8] = {
        var bytes: [UInt8] = []
        var number: UInt64 = 0
        for index in 0..<40 {
            let changes = [StateChange(key: "K", changes: ["n": .int(Int64(index)), "gone": nil])]
            switch index % 3 {
            case 0: bytes.append(.event("e\(index)"), number: number, boot: 5)
            case 1: bytes.append(.event("é\(index)", padding: index, changes: changes), number: number, boot: 5)
            default: bytes.append(.state("K", ["n": .int(Int64(index))]), number: number, boot: 5)
            }
            if index % 3 < 2 { number += 1 }
        }
        return bytes
    }()

    @Test func aRecordComesBackAsItWas() throws {
        let text = "{\"anonymousId\":\"a\\u00e9\",\"x\":1}"
        let content = EncodedEvent(bytes: Array(text.utf8), anonymousId: 16..<23, moment: Self.moment)
        let changes = [
            StateChange(key: "A", changes: ["a": 1, "b": nil]), StateChange(key: "B", changes: ["é": "\u{1F600}"]),
        ]
        var bytes: [UInt8] = [1, 2, 3]
        bytes.append(StoreRecord(event: content, changes: changes), number: 41, boot: .max)
        try bytes.withUnsafeBytes { buffer in
            var scanner = LogScanner()
            let next = scanner.next(in: buffer)
            let found = try #require(next)
            #expect(found.header.number == 41)
            #expect(found.header.anonymousId == 16..<23)
            #expect(found.header.wallMilliseconds == -1_234)
            #expect(found.header.continuousNanoseconds == 987_654_321)
            #expect(found.header.boot == .max)
            #expect(Array(buffer[found.event]) == Array(text.utf8))
            #expect(
                try JSONValue(parsing: Array(buffer[found.state])) == [
                    "A": ["a": 1, "b": nil], "B": ["é": "\u{1F600}"],
                ])
            #expect(found.end == bytes.count)
            #expect(scanner.skipped == 3)
            let last = scanner.next(in: buffer)
            #expect(last == nil)
        }
    }

    /// As the article on the storage says it, byte by byte.
    @Test func headIsWhatTheArticleSays() {
        var bytes: [UInt8] = []
        let content = EncodedEvent(
            bytes: Array("{}".utf8), anonymousId: 1..<2,
            moment: Moment(wallMilliseconds: 0x0102, continuous: .nanoseconds(0x0304), sequence: 1))
        bytes.append(StoreRecord(event: content, changes: []), number: 0x0506, boot: 0x0708)
        let eight: ([UInt8]) -> [UInt8] = { $0 + [UInt8](repeating: 0, count: 8 - $0.count) }
        #expect(Array(bytes[0..<4]) == [0xFF, 1, 0, 0])
        #expect(Array(bytes[4..<20]) == [2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0])
        #expect(Array(bytes[24..<56]) == [[6, 5], [2, 1], [4, 3], [8, 7]].flatMap(eight))
        let checksums = [20..<24: CRC32C.checksum(of: Array("{}".utf8)), 56..<60: CRC32C.checksum(of: bytes[0..<56])]
        for (range, checksum) in checksums {
            #expect(bytes[range].reversed().reduce(0) { $0 << 8 | UInt32($1) } == checksum)
        }
        #expect(bytes.count == 62)
    }

    @Test(arguments: [
        Duration.zero, .nanoseconds(Int64.max), .seconds(Int64.max), .seconds(Int64.min), .nanoseconds(-1),
    ])
    func clocksOfAnyReadingAreWritten(_ continuous: Duration) {
        for wall in [Int64.min, -1, 0, .max] {
            var bytes: [UInt8] = []
            let moment = Moment(wallMilliseconds: wall, continuous: continuous, sequence: 1)
            let content = EncodedEvent(bytes: [0x7B, 0x7D], anonymousId: 0..<0, moment: moment)
            bytes.append(StoreRecord(event: content, changes: []), number: 0, boot: 0)
            let header = bytes.withUnsafeBytes { LogRecordHeader($0, at: 0) }
            #expect(header?.wallMilliseconds == wall)
            #expect(header?.continuousNanoseconds == continuous.wholeNanoseconds)
        }
    }

    @Test func runIsFoundWhole() {
        let all = Self.scan(Self.run)
        #expect(all.found.count == 40)
        #expect(all.skipped == 0)
        #expect(all.damaged == nil)
        #expect(all.found.last?.range.upperBound == Self.run.count)
        #expect(all.found.filter { !$0.event.isEmpty }.map(\.number) == Array(0..<27))
    }

    @Test func everyTruncationCostsTheLastRecordsAndNothingElse() {
        let all = Self.scan(Self.run).found
        for length in 0...Self.run.count {
            let cut = Self.scan(Array(Self.run[..<length]))
            #expect(cut.found == all.filter { $0.range.upperBound <= length }, "cut at \(length)")
            #expect(cut.skipped == length - (cut.found.last?.range.upperBound ?? 0))
            // A write that was cut off never stored anything, so nothing of it is damaged.
            #expect(cut.damaged == nil, "cut at \(length)")
        }
    }

    /// With the record before and the one behind, which is as far as a flip could reach.
    @Test func everyFlippedBitCostsOneRecord() {
        let all = Self.scan(Self.run).found.map { Array(Self.run[$0.range]) }
        for index in all.indices {
            let before = index > 0 ? all[index - 1] : []
            let behind = index + 1 < all.count ? all[index + 1] : []
            var bytes = before + all[index] + behind
            let others = Self.scan(before + behind).found.map(\.event)
            for place in before.count..<before.count + all[index].count {
                for bit in 0..<8 {
                    bytes[place] ^= 1 << bit
                    if Self.scan(bytes).found.map(\.event) != others {
                        Issue.record("bit \(bit) of byte \(place - before.count) of record \(index)")
                    }
                    bytes[place] ^= 1 << bit
                }
            }
        }
    }

    @Test func damagedPayloadIsCountedByItsHead() {
        var bytes = Self.run
        let last = Self.scan(bytes).found.last { !$0.event.isEmpty }
        bytes[(last?.range.lowerBound ?? 0) + LogRecordHeader.size + 3] ^= 1
        #expect(Self.scan(bytes).damaged == last?.number)
        // State has no number of its own.
        bytes = Self.run
        let state = Self.scan(bytes).found.last { $0.event.isEmpty }
        bytes[(state?.range.lowerBound ?? 0) + LogRecordHeader.size] ^= 1
        #expect(Self.scan(bytes).damaged == nil)
    }

    @Test func garbageBetweenRecordsIsSkipped() {
        let all = Self.scan(Self.run).found
        var generator = IdentifierGenerator.seeded(3)
        for round in 0..<60 {
            var bytes: [UInt8] = []
            var expected: [[UInt8]] = []
            for record in all.prefix(12) {
                let kind = generator.nextWord() % 4
                let length = Int(generator.nextWord() % 90)
                switch kind {
                case 0: bytes += (0..<length).map { _ in UInt8(truncatingIfNeeded: generator.nextWord()) }
                case 1: bytes += [UInt8](repeating: 0, count: length)
                case 2: bytes += [UInt8](repeating: LogRecordHeader.marker, count: length)
                // The beginning of a record, its marker and head with it.
                default: bytes += Self.run[record.range].dropLast(1 + length % 20)
                }
                bytes += Self.run[record.range]
                expected.append(record.event + record.state)
            }
            #expect(Self.scan(bytes).found.map { $0.event + $0.state } == expected, "round \(round)")
        }
    }

    @Test(arguments: [
        [], [0xFF], [0xFF, 1], [UInt8](repeating: 0xFF, count: 200), [UInt8](repeating: 0, count: 70_000),
    ])
    func whatHoldsNoRecordGivesNone(_ bytes: [UInt8]) {
        let scan = Self.scan(bytes)
        #expect(scan.found.isEmpty)
        #expect(scan.skipped == bytes.count)
    }

    /// Heads whose checksum is right and whose numbers are not.
    @Test func hostileHeadsAreRefusedOrHarmless() {
        var heads: [LogRecordHeader] = []
        func head(_ change: (inout LogRecordHeader) -> Void) {
            var header = LogRecordHeader()
            header.eventLength = 2
            header.payloadChecksum = CRC32C.checksum(of: Array("{}".utf8))
            change(&header)
            heads.append(header)
        }
        for length in [0, 3, 0x7FFF_FFFF, 0xFFFF_FFFF] { head { $0.eventLength = length } }
        for length in [1, 0xFFFF_FFFF] { head { $0.stateLength = length } }
        head { ($0.eventLength, $0.stateLength) = (0xFFFF_FFFF, 0xFFFF_FFFF) }
        for range in [2..<3, 0..<3, 0xFFFF_FFFF..<0x1_FFFF_FFFE] { head { $0.anonymousId = range } }
        for number in [1 << 48, UInt64.max - 1, .max] { head { $0.number = number } }
        for header in heads {
            var bytes: [UInt8] = []
            header.write(to: &bytes)
            bytes += Array("{}".utf8)
            #expect(Self.scan(bytes).found.isEmpty, "\(header)")
            // And what follows is found.
            #expect(Self.scan(bytes + Self.run).found.count == 40, "\(header)")
        }
    }

    @Test func greatestNumberIsFound() {
        var bytes: [UInt8] = []
        bytes.append(.event("a"), number: LogRecordHeader.numberLimit - 1, boot: 0)
        #expect(Self.scan(bytes).found.map(\.number) == [(1 << 48) - 1])
    }
}
