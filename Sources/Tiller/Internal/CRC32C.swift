/// CRC-32C (Castagnoli, as in iSCSI), which finds every damage of up to 32 bits in a row.
enum CRC32C {
    static func checksum(of bytes: some Sequence<UInt8>) -> UInt32 {
        var checksum = ~UInt32(0)
        for byte in bytes {
            checksum ^= UInt32(byte)
            for _ in 0..<8 { checksum = checksum & 1 == 0 ? checksum >> 1 : checksum >> 1 ^ 0x82F6_3B78 }
        }
        return ~checksum
    }
}
