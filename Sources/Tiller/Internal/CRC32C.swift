/// CRC-32C (Castagnoli, as in iSCSI), which finds every damage of up to 32 bits in a row.
enum CRC32C {
    /// Eight bytes a step: the table of row `r` holds what a byte does to the checksum `r` bytes further on.
    private static let tables: [UInt32] = {
        var tables = [UInt32](repeating: 0, count: 8 * 256)
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

    /// - Parameter before: The checksum of what comes before.
    static func checksum(of bytes: UnsafeRawBufferPointer, after before: UInt32 = 0) -> UInt32 {
        var checksum = ~before
        tables.withUnsafeBufferPointer { tables in
            var offset = 0
            while offset + 8 <= bytes.count {
                let word = UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
                let mixed = word ^ UInt64(checksum)
                checksum = 0
                for row in 0..<8 {
                    checksum ^= tables[(7 - row) * 256 + Int(mixed >> UInt64(row * 8) & 0xFF)]
                }
                offset += 8
            }
            while offset < bytes.count {
                checksum = checksum >> 8 ^ tables[Int((checksum ^ UInt32(bytes[offset])) & 0xFF)]
                offset += 1
            }
        }
        return ~checksum
    }

    static func checksum(of bytes: ArraySlice<UInt8>) -> UInt32 { bytes.withUnsafeBytes { checksum(of: $0) } }

    static func checksum(of bytes: [UInt8], after before: UInt32 = 0) -> UInt32 {
        bytes.withUnsafeBytes { checksum(of: $0, after: before) }
    }
}
