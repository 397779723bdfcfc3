import Foundation
import Tiller

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// A server with a certificate that nobody knows: `openssl s_server`, which is no part of this package.
final class TLSServer: Sendable {
    private static let tool = ["/usr/bin/openssl", "/usr/local/bin/openssl", "/opt/homebrew/bin/openssl"].first {
        FileManager.default.isExecutableFile(atPath: $0)
    }

    /// Whether there is such a tool. Where the checks of this repository run there must be: the test fails without.
    static let canBeMade = tool != nil || ProcessInfo.processInfo.environment["TILLER_CI"] == "1"

    struct Failure: Error {
        let reason: String
    }

    let port: Int
    private let folder = TestFolder()
    private let program: Program
    /// While it is open the server runs, if it is not killed.
    private let input = Pipe()

    init() throws {
        guard let tool = Self.tool else { throw Failure(reason: "no openssl") }
        try FileManager.default.createDirectory(at: folder.url, withIntermediateDirectories: true)
        let key = folder.path + "/key.pem"
        let certificate = folder.path + "/certificate.pem"
        let maker = try Program(
            tool,
            [
                "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "2",
                "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
            ])
        guard maker.wait() == .exit(0) else { throw Failure(reason: "openssl made no certificate") }
        let output = Pipe()
        program = try Program(
            tool, ["s_server", "-accept", "127.0.0.1:0", "-key", key, "-cert", certificate],
            input: input.fileHandleForReading.fileDescriptor, output: output.fileHandleForWriting.fileDescriptor)
        try input.fileHandleForReading.close()
        try output.fileHandleForWriting.close()
        var said = Data()
        var port: Int?
        while port == nil {
            let more = output.fileHandleForReading.availableData
            if more.isEmpty { throw Failure(reason: "openssl did not start: \(String(decoding: said, as: UTF8.self))") }
            said += more
            port = String(decoding: said, as: UTF8.self).firstMatch(of: #/ACCEPT 127\.0\.0\.1:(\d+)\n/#).flatMap {
                Int($0.1)
            }
        }
        self.port = port ?? 0
        // Read on: it must not get stuck.
        output.fileHandleForReading.readabilityHandler = { handle in
            if handle.availableData.isEmpty { handle.readabilityHandler = nil }
        }
    }

    deinit { try? input.fileHandleForWriting.close() }
}
