import Testing

@testable import TillerTesting

@Suite struct MD5Tests {
    /// The vectors of RFC 1321, appendix A.5, and lengths around the padding's edges.
    @Test(arguments: [
        ("", "d41d8cd98f00b204e9800998ecf8427e"),
        ("a", "0cc175b9c0f1b6a831c399e269772661"),
        ("abc", "900150983cd24fb0d6963f7d28e17f72"),
        ("message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
        ("abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"),
        ("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", "d174ab98d277d9f5a5611c2c9f419d9f"),
        (String(repeating: "1234567890", count: 8), "57edf4a22be3c955ac49da2e2107b67a"),
        (String(repeating: "x", count: 55), "04364420e25c512fd958a70738aa8f72"),
        (String(repeating: "x", count: 56), "668a72d5ba17f08e62dabcafad6db14b"),
        (String(repeating: "x", count: 64), "c1bb4f81d892b2d57947682aeb252456"),
        (String(repeating: "x", count: 1_000), "398533d48111e9f664b1f64cb10c4b63"),
    ])
    func digests(text: String, hex: String) {
        let digest = MD5.digest(of: Array(text.utf8))
        #expect(digest.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined() == hex)
    }
}
