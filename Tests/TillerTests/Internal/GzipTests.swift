import Testing

@testable import Tiller

@Suite(.timeLimit(.minutes(5))) struct GzipTests {
    // MARK: - Round trips

    @Test(arguments: [0, 1, 20, 500_000, 5_000_000], [Content.random, .repetitive])
    func roundTrip(count: Int, content: Content) throws {
        let bytes = content.bytes(count)
        let compressed = try #require(Gzip.compress(bytes))
        #expect(compressed.starts(with: [0x1F, 0x8B, 0x08]))
        if content == .repetitive && count > 1_000 { #expect(compressed.count < count / 50) }
        let isSame = try Gzip.inflate(compressed, limit: count) == bytes
        #expect(isSame)
    }

    @Test(arguments: 0...9) func everyLevelMakesGzip(_ level: Int32) throws {
        let bytes = Content.repetitive.bytes(10_000)
        let compressed = try #require(Gzip.compress(bytes, level: level))
        #expect(try Gzip.inflate(compressed, limit: 10_000) == bytes)
        #expect((compressed.count > 10_000) == (level == 0))
    }

    @Test(arguments: [-2, 10, .min, .max]) func noSuchLevelIsNil(_ level: Int32) {
        #expect(Gzip.compress([1, 2, 3], level: level) == nil)
    }

    @Test func pythonsStreamInflates() throws {
        #expect(try Gzip.inflate(Self.stream, limit: 86) == Self.text)
    }

    @Test func sameFromManyThreadsAtOnce() async {
        let results = Locked<[Bool]>([])
        await onThreads(8) { index in
            let bytes = Content.random.bytes(20_000 + index) + Content.repetitive.bytes(200_000)
            let isSame = (0..<5).allSatisfy { _ in
                (try? Gzip.inflate(Gzip.compress(bytes) ?? [], limit: bytes.count)) == bytes
            }
            results.withLock { $0.append(isSame) }
        }
        #expect(results.withLock { $0 } == [Bool](repeating: true, count: 8))
    }

    // MARK: - Damage

    @Test(arguments: 0..<GzipTests.stream.count) func streamCutShortIsDamaged(_ count: Int) {
        #expect(throws: Gzip.Failure.damaged) { try Gzip.inflate(Array(Self.stream.prefix(count)), limit: 1_000) }
    }

    /// RFC 1952 leaves some bits without effect on the bytes: FTEXT in the flags, the time, the extra flags and the
    /// system; RFC 1951 those between the last block's end and the next whole byte. Any other one is noticed.
    @Test(arguments: 0..<GzipTests.stream.count) func bitThatFlipsIsNoticed(_ position: Int) throws {
        for bit in 0..<8 {
            var bytes = Self.stream
            bytes[position] ^= 1 << bit
            let hasNoEffect =
                (position, bit) == (3, 0) || (4...9).contains(position) || (position == 68 && (2...7).contains(bit))
            if hasNoEffect {
                #expect(try Gzip.inflate(bytes, limit: 1_000) == Self.text, "bit \(bit)")
            } else {
                #expect(throws: Gzip.Failure.damaged, "bit \(bit)") { try Gzip.inflate(bytes, limit: 1_000) }
            }
        }
    }

    @Test(arguments: [
        [], [0x1F], [0x1F, 0x8B], Array("{\"batch\":[]}".utf8), [UInt8](repeating: 0, count: 100),
        // The text "a" as zlib and as raw deflate, which are not gzip.
        [0x78, 0x9C, 0x4B, 0x04, 0x00, 0x00, 0x62, 0x00, 0x62], [0x4B, 0x04, 0x00],
    ])
    func otherBytesAreDamaged(_ bytes: [UInt8]) {
        #expect(throws: Gzip.Failure.damaged) { try Gzip.inflate(bytes, limit: 1_000) }
    }

    @Test(arguments: [
        [0], [0x0A], [UInt8](repeating: 0, count: 512), Array("garbage".utf8), [0x1F], [0x1F, 0x8B, 0x08],
    ])
    func bytesAfterTheStreamAreDamage(_ trailing: [UInt8]) {
        #expect(throws: Gzip.Failure.damaged) { try Gzip.inflate(Self.stream + trailing, limit: 1_000) }
    }

    // MARK: - Members

    @Test func membersInARowAreOneBody() throws {
        let empty = try #require(Gzip.compress([]))
        let large = Content.random.bytes(200_000)
        let members = try Self.stream + empty + #require(Gzip.compress(large)) + Self.stream
        let isSame = try Gzip.inflate(members, limit: 1_000_000) == Self.text + large + Self.text
        #expect(isSame)
    }

    @Test func damageInALaterMemberCounts() {
        #expect(throws: Gzip.Failure.damaged) {
            try Gzip.inflate(Self.stream + Self.stream.dropLast(), limit: 1_000)
        }
    }

    // MARK: - Limit

    /// Around the pieces that output comes in, too.
    @Test(arguments: [1, 86, 65_535, 65_536, 65_537, 131_072, 300_000])
    func limitMayBeReachedAndNotPassed(_ count: Int) throws {
        let bytes = Content.repetitive.bytes(count)
        let compressed = try #require(Gzip.compress(bytes))
        let isSame = try Gzip.inflate(compressed, limit: count) == bytes
        #expect(isSame)
        #expect(throws: Gzip.Failure.tooLarge) { try Gzip.inflate(compressed, limit: count - 1) }
        #expect(throws: Gzip.Failure.tooLarge) { try Gzip.inflate(compressed, limit: 0) }
    }

    @Test func limitCountsAllMembers() throws {
        let members = Self.stream + Self.stream
        #expect(try Gzip.inflate(members, limit: 172) == Self.text + Self.text)
        #expect(throws: Gzip.Failure.tooLarge) { try Gzip.inflate(members, limit: 171) }
    }

    @Test func extremeLimitsAreNoTrap() throws {
        #expect(try Gzip.inflate(Self.stream, limit: .max) == Self.text)
        #expect(throws: Gzip.Failure.tooLarge) { try Gzip.inflate(Self.stream, limit: .min) }
        #expect(try Gzip.inflate(#require(Gzip.compress([])), limit: -1) == [])
    }

    /// What comes after the limit is not even looked at: the damage at the end isn't found.
    @Test func inflatingStopsAtTheLimit() throws {
        let bomb = try #require(Gzip.compress([UInt8](repeating: 0, count: 20_000_000))).dropLast(8)
        #expect(bomb.count < 200_000)
        #expect(throws: Gzip.Failure.tooLarge) { try Gzip.inflate(Array(bomb), limit: 1_000) }
        #expect(throws: Gzip.Failure.damaged) { try Gzip.inflate(Array(bomb), limit: 20_000_000) }
    }

    // MARK: - No zlib

    @Test func withoutZlibNothingIsMade() {
        #expect(Gzip.compress([1, 2, 3], by: nil) == nil)
        #expect(throws: Gzip.Failure.unavailable) { try Gzip.inflate(Self.stream, limit: 1_000, by: nil) }
    }
}

// MARK: - Data

extension GzipTests {
    enum Content {
        case random, repetitive

        func bytes(_ count: Int) -> [UInt8] {
            switch self {
            case .repetitive:
                let text = #"{"type":"track","event":"Ad Viewed"},"#
                return Array(String(repeating: text, count: count / text.utf8.count + 1).utf8.prefix(count))
            case .random:
                // Made without room, an array writes its count where all empty ones have theirs: the sanitizer reports it.
                if count == 0 { return [] }
                // xorshift64: the same in each run, and nothing that zlib could compress.
                var state: UInt64 = 0x9E37_79B9_7F4A_7C15
                return [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
                    for index in 0..<count {
                        state ^= state << 13
                        state ^= state >> 7
                        state ^= state << 17
                        buffer.initializeElement(at: index, to: UInt8(truncatingIfNeeded: state >> 32))
                    }
                    filled = count
                }
            }
        }
    }

    static let text = Array(
        #"{"batch":[{"type":"track","event":"Ad Viewed"},{"type":"track","event":"Ad Clicked"}]}"#.utf8)

    /// `gzip.compress(text, 9, mtime=0)` of Python 3.11. The deflated block ends in the two lowest bits of byte 68.
    static let stream: [UInt8] = [
        0x1F, 0x8B, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xAB, 0x56, 0x4A, 0x4A, 0x2C, 0x49,
        0xCE, 0x50, 0xB2, 0x8A, 0xAE, 0x56, 0x2A, 0xA9, 0x2C, 0x48, 0x55, 0xB2, 0x52, 0x2A, 0x29, 0x4A,
        0x4C, 0xCE, 0x56, 0xD2, 0x51, 0x4A, 0x2D, 0x4B, 0xCD, 0x2B, 0x01, 0xF2, 0x1D, 0x53, 0x14, 0xC2,
        0x32, 0x53, 0xCB, 0x53, 0x53, 0x94, 0x6A, 0x75, 0xF0, 0x29, 0x72, 0xCE, 0xC9, 0x4C, 0xCE, 0x06,
        0xA9, 0x8A, 0xAD, 0x05, 0x00, 0x2D, 0x99, 0x20, 0x0F, 0x56, 0x00, 0x00, 0x00,
    ]
}
