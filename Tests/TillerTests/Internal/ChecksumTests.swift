import Testing

@testable import Tiller

/// Against published vectors and values of Python's `hashlib`.
@Suite struct ChecksumTests {
    @Test(arguments: [
        ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        (
            "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
        ),
        ("key\u{0}default — ключ", "87fc7ab03c860733546a5979a350da0cde75b4b40097a4593763097bad06658f"),
    ])
    func sha256OfAText(_ text: String, _ hash: String) {
        #expect(SHA256.hex(of: text) == hash)
    }

    /// Around the end of a block, where the padding begins another one.
    @Test(arguments: [
        (55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"),
        (56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"),
        (57, "f13b2d724659eb3bf47f2dd6af1accc87b81f09f59f2b75e5c0bed6589dfe8c6"),
        (58, "d5c039b748aa64665782974ec3dc3025c042edf54dcdc2b5de31385b094cb678"),
        (59, "111bb261277afd65f0744b247cd3e47d386d71563d0ed995517807d5ebd4fba3"),
        (60, "11ee391211c6256460b6ed375957fadd8061cafbb31daf967db875aebd5aaad4"),
        (61, "35d5fc17cfbbadd00f5e710ada39f194c5ad7c766ad67072245f1fad45f0f530"),
        (62, "f506898cc7c2e092f9eb9fadae7ba50383f5b46a2a4fe5597dbb553a78981268"),
        (63, "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34"),
        (64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"),
        (65, "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0"),
        (119, "31eba51c313a5c08226adf18d4a359cfdfd8d2e816b13f4af952f7ea6584dcfb"),
        (120, "2f3d335432c70b580af0e8e1b3674a7c020d683aa5f73aaaedfdc55af904c21c"),
        (127, "c57e9278af78fa3cab38667bef4ce29d783787a2f731d4e12200270f0c32320a"),
        (128, "6836cf13bac400e9105071cd6af47084dfacad4e5e302c94bfed24e013afb73e"),
    ])
    func sha256OfSoManyLetters(_ count: Int, _ hash: String) {
        #expect(SHA256.hex(of: String(repeating: "a", count: count)) == hash)
    }

    @Test func sha256OfAMillionLetters() {
        #expect(
            SHA256.hex(of: String(repeating: "a", count: 1_000_000))
                == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0")
    }

    /// The check value of the catalogue, and RFC 3720 B.4.
    @Test func crc32cOfKnownBytes() {
        #expect(CRC32C.checksum(of: Array("123456789".utf8)) == 0xE306_9283)
        #expect(CRC32C.checksum(of: []) == 0)
        #expect(CRC32C.checksum(of: [UInt8](repeating: 0, count: 32)) == 0x8A91_36AA)
        #expect(CRC32C.checksum(of: [UInt8](repeating: 0xFF, count: 32)) == 0x62A8_AB43)
        #expect(CRC32C.checksum(of: [UInt8](0..<32)) == 0x46DD_794E)
    }

    /// Bit by bit, as the polynomial says.
    private static func slowChecksum(_ bytes: ArraySlice<UInt8>) -> UInt32 {
        var sum = UInt32.max
        for byte in bytes {
            sum ^= UInt32(byte)
            for _ in 0..<8 {
                let isOdd = sum & 1 == 1
                sum >>= 1
                if isOdd { sum ^= 0x82F6_3B78 }
            }
        }
        return ~sum
    }

    @Test func crc32cOfAllLengthsInAllParts() {
        var identifiers = IdentifierGenerator.seeded(11)
        let bytes = (0..<90).map { _ in UInt8(truncatingIfNeeded: identifiers.nextWord()) }
        for count in 0...bytes.count {
            let whole = Self.slowChecksum(bytes[..<count])
            #expect(CRC32C.checksum(of: bytes[..<count]) == whole)
            for cut in 0...count {
                let start = CRC32C.checksum(of: bytes[..<cut])
                // From any address.
                #expect(bytes[cut..<count].withUnsafeBytes { CRC32C.checksum(of: $0, after: start) } == whole)
                // As on a processor without instructions for it.
                let byTable = bytes[cut..<count].withUnsafeBytes { CRC32C.checksumByTable(of: $0, after: start) }
                #expect(byTable == whole)
            }
        }
    }
}
