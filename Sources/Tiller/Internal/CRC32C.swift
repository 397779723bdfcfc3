internal import CTillerChecksum

/// CRC-32C (Castagnoli, as in iSCSI), which finds every damage of up to 32 bits in a row.
///
/// By the processor's own instructions where it has some: x86-64 since SSE4.2, ARM since 8.1.
enum CRC32C {
    private static let isInProcessor = tiller_crc32c_is_supported()

    /// Sixteen bytes a step: the table of row `r` holds what a byte does to the checksum `r` bytes further on.
    private static let tables: [UInt32] = {
        var tables = [UInt32](repeating: 0, count: step * 256)
        for byte in 0..<256 {
            var checksum = UInt32(byte)
            for _ in 0..<8 { checksum = checksum & 1 == 0 ? checksum >> 1 : checksum >> 1 ^ 0x82F6_3B78 }
            tables[byte] = checksum
        }
        for index in 256..<tables.count {
            let before = tables[index - 256]
            tables[index] = before >> 8 ^ tables[Int(before & 0xFF)]
        }
        return tables
    }()

    private static let step = 16

    /// - Parameter before: The checksum of what comes before.
    static func checksum(of bytes: UnsafeRawBufferPointer, after before: UInt32 = 0) -> UInt32 {
        isInProcessor
            ? ~tiller_crc32c(~before, bytes.baseAddress, bytes.count) : checksumByTable(of: bytes, after: before)
    }

    /// The same, on any processor.
    static func checksumByTable(of bytes: UnsafeRawBufferPointer, after before: UInt32 = 0) -> UInt32 {
        guard let first = bytes.baseAddress else { return before }
        return tables.withUnsafeBufferPointer { tables in
            // Each byte is loaded alone: that takes fewer instructions than taking words apart.
            func effect(_ byte: UInt8, ofRow row: Int) -> UInt32 { tables[row &* 256 &+ Int(byte)] }
            var remainder = ~before
            var rest = bytes.count
            var next = first.assumingMemoryBound(to: UInt8.self)
            while rest >= step {
                var sum: UInt32 = 0
                for index in 0..<4 {
                    sum ^= effect(next[index] ^ UInt8(truncatingIfNeeded: remainder >> (8 * index)), ofRow: 15 - index)
                }
                for index in 4..<step { sum ^= effect(next[index], ofRow: 15 - index) }
                remainder = sum
                next += step
                rest &-= step
            }
            for index in 0..<rest {
                remainder = remainder >> 8 ^ effect(next[index] ^ UInt8(truncatingIfNeeded: remainder), ofRow: 0)
            }
            return ~remainder
        }
    }

    static func checksum(of bytes: ArraySlice<UInt8>) -> UInt32 { bytes.withUnsafeBytes { checksum(of: $0) } }

    static func checksum(of bytes: [UInt8], after before: UInt32 = 0) -> UInt32 {
        bytes.withUnsafeBytes { checksum(of: $0, after: before) }
    }
}
