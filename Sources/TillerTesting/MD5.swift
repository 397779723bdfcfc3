import Foundation

/// MD5 (RFC 1321), for the gateway's `rudderId`. The toolchain has none on Linux.
enum MD5 {
    /// The 16 bytes of the digest.
    static func digest(of bytes: [UInt8]) -> [UInt8] {
        var state: [UInt32] = [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476]
        let message = padded(bytes)
        for block in stride(from: 0, to: message.count, by: 64) { compress(message[block..<block + 64], into: &state) }
        return state.flatMap { littleEndian($0) }
    }

    private static func padded(_ bytes: [UInt8]) -> [UInt8] {
        var message = bytes + [0x80]
        while message.count % 64 != 56 { message.append(0) }
        return message + littleEndian(UInt64(bytes.count) &* 8)
    }

    private static func compress(_ block: ArraySlice<UInt8>, into state: inout [UInt32]) {
        let bytes = Array(block)
        let words = (0..<16).map { word in (0..<4).reduce(UInt32(0)) { $0 | UInt32(bytes[word * 4 + $1]) << ($1 * 8) } }
        var (a, b, c, d) = (state[0], state[1], state[2], state[3])
        for step in 0..<64 {
            let (mixed, word) =
                switch step / 16 {
                case 0: (b & c | ~b & d, step)
                case 1: (b & d | c & ~d, (step * 5 + 1) % 16)
                case 2: (b ^ c ^ d, (step * 3 + 5) % 16)
                default: (c ^ (b | ~d), step * 7 % 16)
                }
            let sum = a &+ mixed &+ words[word] &+ constants[step]
            let count = rotations[step / 16][step % 4]
            (a, d, c, b) = (d, c, b, b &+ (sum << count | sum >> (32 - count)))
        }
        state = [state[0] &+ a, state[1] &+ b, state[2] &+ c, state[3] &+ d]
    }

    private static func littleEndian<Word: FixedWidthInteger>(_ word: Word) -> [UInt8] {
        (0..<Word.bitWidth / 8).map { UInt8(truncatingIfNeeded: word >> Word($0 * 8)) }
    }

    private static let rotations: [[UInt32]] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]]

    /// The whole part of 2^32 times the sine of 1, 2, … 64, its sign left out.
    private static let constants: [UInt32] = (1...64).map { UInt32(abs(sin(Double($0))) * 4_294_967_296) }
}
