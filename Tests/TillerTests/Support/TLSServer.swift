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
    private let process: Locked<Process>
    /// While it is open the server runs.
    private let input = Pipe()

    init() throws {
        guard let tool = Self.tool else { throw Failure(reason: "no openssl") }
        try FileManager.default.createDirectory(at: folder.url, withIntermediateDirectories: true)
        let key = folder.path + "/key.pem"
        let certificate = folder.path + "/certificate.pem"
        let maker = try Self.run(
            tool,
            [
                "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "2",
                "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
            ], Pipe(), Pipe())
        maker.waitUntilExit()
        let output = Pipe()
        let server = try Self.run(
            tool, ["s_server", "-accept", "127.0.0.1:0", "-key", key, "-cert", certificate], input, output)
        process = Locked(server)
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

    deinit {
        try? input.fileHandleForWriting.close()
        // It blocks all other signals: it has the mask of the thread that started it.
        process.withLock { _ = kill($0.processIdentifier, SIGKILL) }
    }

    private static func run(_ tool: String, _ arguments: [String], _ input: Pipe, _ output: Pipe) throws -> Process {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: tool)
        process.arguments = arguments
        process.standardInput = input
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        try process.run()
        return process
    }
}
