/// Makes message ids and anonymous ids: random UUIDs (version 4) of xoshiro256**.
///
/// Seeded once with 256 bits, because `UUID()` costs 3 µs on Linux.
/// Not for secrets.
public struct IdentifierGenerator: Sendable {
    /// `nil`: each instance draws a state of its own from the system's random numbers.
    private var state: (UInt64, UInt64, UInt64, UInt64)?

    /// Seeded from the system's random numbers, anew for each instance that is made with it.
    public static func system() -> IdentifierGenerator { IdentifierGenerator(state: nil) }

    /// The same ids for the same seed, for tests.
    ///
    /// - Parameter seed: Any number.
    public static func seeded(_ seed: UInt64) -> IdentifierGenerator {
        // splitmix64 spreads a small seed over the 256 bits of state, which must not all be zero.
        var seed = seed
        func next() -> UInt64 {
            seed &+= 0x9E37_79B9_7F4A_7C15
            var word = seed
            word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
            word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
            return word ^ (word >> 31)
        }
        return IdentifierGenerator(state: (next(), next(), next(), next() | 1))
    }

    /// The next id.
    mutating func next() -> MessageID {
        // Version 4 in the third group, variant 10 in the fourth (RFC 9562 §5.4).
        MessageID(
            high: nextWord() & 0xFFFF_FFFF_FFFF_0FFF | 0x4000,
            low: nextWord() & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000)
    }

    /// 64 random bits.
    mutating func nextWord() -> UInt64 {
        var (s0, s1, s2, s3) = state ?? Self.drawState()
        let result = rotated(s1 &* 5, by: 7) &* 9
        let shifted = s1 << 17
        s2 ^= s0
        s3 ^= s1
        s1 ^= s2
        s0 ^= s3
        s2 ^= shifted
        s3 = rotated(s3, by: 45)
        state = (s0, s1, s2, s3)
        return result
    }

    private static func drawState() -> (UInt64, UInt64, UInt64, UInt64) {
        var system = SystemRandomNumberGenerator()
        return (system.next(), system.next(), system.next(), system.next() | 1)
    }

    private func rotated(_ word: UInt64, by count: UInt64) -> UInt64 { word << count | word >> (64 - count) }
}
