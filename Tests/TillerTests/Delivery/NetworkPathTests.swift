import Foundation
import Testing
import TillerTesting

@testable import Tiller

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#endif

// Which module declares `timeval`, `timespec` and `stat` varies from build to build on Linux (SwiftGlibc or this one), and
// MemberImportVisibility insists on the right one.
#if canImport(SwiftOverlayShims)
import SwiftOverlayShims
#endif

/// What lies between the default transport and the data plane: certificates, proxies, IPv6.
@Suite(.timeLimit(.minutes(5))) struct NetworkPathTests {
    // MARK: Certificates

    @Test(.enabled(if: TLSServer.canBeMade, "openssl is not installed"))
    func aCertificateThatIsNotAcceptedIsSaidOnceAndTheEventsWait() async throws {
        let server = try TLSServer()
        let url = "https://127.0.0.1:\(server.port)"
        let failure = await #expect(throws: URLSessionTransport.NoAnswer.self) {
            try await URLSessionTransport().post(
                TransportRequest(url: url, headers: [:], body: [], timeout: .seconds(30)))
        }
        #expect(failure?.kind == .certificate)
        #expect(failure?.isTimeout == false)

        let time = VirtualTime()
        let logger = RecordingLogger()
        var configuration = Configuration.test(time: time, logger: logger)
        configuration.dataPlaneUrl = url
        configuration.transport = URLSessionTransport()
        let analytics = Analytics(configuration: configuration)
        analytics.track(name: "A")
        for _ in 0..<3 {
            let wait = try #require(await analytics.flushed().wait)
            #expect(wait.reason.contains("the server's certificate was not accepted"))
            time.advance(by: .seconds(600))
        }
        #expect(await analytics.shutdownAndWait() == 1)
        #expect(logger.messages.filter { $0.text.contains("certificate") }.count == 1)
        #expect(!logger.messages.contains { $0.text.contains("127.0.0.1") || $0.text.contains("v1/batch") })
    }

    @Test func aRefusedConnectionAndABrokenOneAreOfTheConnection() async throws {
        let plane = try LocalDataPlane()
        plane.answerNext(.closed)
        for url in ["http://127.0.0.1:1", plane.url + "/v1/batch"] {
            let failure = await #expect(throws: URLSessionTransport.NoAnswer.self) {
                try await URLSessionTransport().post(
                    TransportRequest(url: url, headers: [:], body: [1], timeout: .seconds(30)))
            }
            #expect(failure?.kind == .connection)
        }
    }

    // MARK: Proxies

    /// The client takes the proxy from the environment: the data plane here, as the proxy of a host that is nowhere.
    @Test(arguments: ["http_proxy", "all_proxy", "ALL_PROXY"]) func plainRequestsGoThroughTheProxy(_ name: String) async
    {
        switch name {
        case "http_proxy": await #expect(processExitsWith: .exitCode(7)) { await viaProxy("http_proxy") }
        case "all_proxy": await #expect(processExitsWith: .exitCode(7)) { await viaProxy("all_proxy") }
        default: await #expect(processExitsWith: .exitCode(7)) { await viaProxy("ALL_PROXY") }
        }
    }

    @Test func encryptedRequestsAskTheProxyToConnect() async {
        await #expect(processExitsWith: .exitCode(7)) { await viaProxy("https_proxy") }
        await #expect(processExitsWith: .exitCode(7)) { await viaProxy("HTTPS_PROXY") }
    }

    @Test func noProxyGoesDirectly() async {
        await #expect(processExitsWith: .exitCode(7)) { await pastProxy("no_proxy") }
        await #expect(processExitsWith: .exitCode(7)) { await pastProxy("NO_PROXY") }
    }

    // MARK: IPv6

    @Test(.enabled(if: OneAnswerServer.hasIPv6, "no IPv6 on this machine"))
    func aDataPlaneMayBeReachedByIPv6() async throws {
        let server = try #require(OneAnswerServer(AF_INET6))
        async let request = server.answerOne()
        let result = await delivery(to: "http://localhost:\(server.port)")
        if result != .delivered { server.stop() }
        #expect(result == .delivered)
        #expect(await request.hasPrefix("POST /v1/batch HTTP/1.1\r\n"))
    }

    /// Where the system's client can't do it, it is said what to do.
    @Test(.enabled(if: OneAnswerServer.hasIPv6, "no IPv6 on this machine"))
    func anIPv6AddressInTheURLIsUsedOrSaidToBeOfNoUse() async throws {
        let server = try #require(OneAnswerServer(AF_INET6))
        async let request = server.answerOne()
        switch await delivery(to: "http://[::1]:\(server.port)") {
        case .delivered: #expect(await request.contains("Host: [::1]:\(server.port)\r\n"))
        case .waiting(_, let reason):
            #expect(reason.contains("IPv6"))
            server.stop()
            #expect(await request.isEmpty)
        default: Issue.record()
        }
    }
}

// MARK: - Steps

private func delivery(to url: String) async -> FlushResult {
    var configuration = Configuration.test()
    configuration.dataPlaneUrl = url
    configuration.transport = URLSessionTransport()
    let analytics = Analytics(configuration: configuration)
    analytics.track(name: "A")
    return await analytics.flushed()
}

/// Ends the process with 7 if a proxy of this name in the environment was asked.
private func viaProxy(_ name: String) async {
    guard let proxy = OneAnswerServer(AF_INET) else { exit(1) }
    setenv(name, "http://127.0.0.1:\(proxy.port)", 1)
    let isEncrypted = name.lowercased() == "https_proxy"
    async let request = proxy.answerOne()
    let result = await delivery(to: isEncrypted ? "https://events.example.invalid" : "http://events.example.invalid")
    let text = await request
    if isEncrypted {
        // What the proxy let through is no TLS.
        exit(text.hasPrefix("CONNECT events.example.invalid:443 HTTP/1.1\r\n") && result.wait != nil ? 7 : 3)
    }
    exit(text.hasPrefix("POST http://events.example.invalid/v1/batch HTTP/1.1\r\n") && result == .delivered ? 7 : 4)
}

/// Ends the process with 7 if a request went past the proxy to where it belongs.
private func pastProxy(_ name: String) async {
    guard let proxy = try? LocalDataPlane(), let plane = try? LocalDataPlane() else { exit(1) }
    setenv("http_proxy", proxy.url, 1)
    setenv(name, "example.com,127.0.0.1", 1)
    let result = await delivery(to: plane.url)
    exit(result == .delivered && proxy.requests.isEmpty && plane.events.count == 1 ? 7 : 2)
}

/// A server of the loopback interface that answers one request.
private final class OneAnswerServer: Sendable {
    static let hasIPv6 = OneAnswerServer(AF_INET6) != nil

    private let descriptor: Int32
    /// Keeps the port of the other family from everybody else: `localhost` is both.
    private let placeholder: Int32
    let port: UInt16

    init?(_ family: Int32) {
        for _ in 0..<100 {
            guard let (descriptor, port) = Self.openListener(family) else { return nil }
            guard family == AF_INET6 else {
                (self.descriptor, self.port, placeholder) = (descriptor, port, -1)
                return
            }
            let placeholder = Self.makeSocket(AF_INET)
            if Self.take(port, with: placeholder) {
                (self.descriptor, self.port, self.placeholder) = (descriptor, port, placeholder)
                return
            }
            close(placeholder)
            close(descriptor)
        }
        return nil
    }

    deinit {
        close(descriptor)
        if placeholder >= 0 { close(placeholder) }
    }

    private static func makeSocket(_ family: Int32) -> Int32 {
        #if canImport(Glibc)
        socket(family, Int32(SOCK_STREAM.rawValue), 0)
        #else
        socket(family, SOCK_STREAM, 0)
        #endif
    }

    private static func openListener(_ family: Int32) -> (descriptor: Int32, port: UInt16)? {
        let descriptor = makeSocket(family)
        var four = loopback
        var six = sockaddr_in6()
        six.sin6_family = sa_family_t(AF_INET6)
        six.sin6_addr = in6addr_loopback
        guard family == AF_INET6 ? listens(descriptor, &six) : listens(descriptor, &four) else {
            close(descriptor)
            return nil
        }
        return (descriptor, UInt16(bigEndian: family == AF_INET6 ? six.sin6_port : four.sin_port))
    }

    private static var loopback: sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return address
    }

    /// Without listening: who connects is refused.
    private static func take(_ port: UInt16, with descriptor: Int32) -> Bool {
        var address = loopback
        address.sin_port = port.bigEndian
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
    }

    private static func listens<Address>(_ descriptor: Int32, _ address: inout Address) -> Bool {
        var length = socklen_t(MemoryLayout<Address>.size)
        return withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                bind(descriptor, address, length) == 0 && listen(descriptor, 1) == 0
                    && getsockname(descriptor, address, &length) == 0
            }
        }
    }

    /// - Returns: What came, up to the end of a body that says how long it is; empty if it was stopped.
    func answerOne() async -> String {
        await withCheckedContinuation { done in
            Thread.detachNewThread { done.resume(returning: self.exchange()) }
        }
    }

    func stop() { shutdown(descriptor, Int32(SHUT_RDWR)) }

    private func exchange() -> String {
        let connection = accept(descriptor, nil, nil)
        guard connection >= 0 else { return "" }
        defer { close(connection) }
        var text = ""
        var bytes = [UInt8](repeating: 0, count: 65_536)
        while !Self.isWhole(text) {
            let count = read(connection, &bytes, bytes.count)
            if count <= 0 { break }
            text += String(decoding: bytes.prefix(count), as: UTF8.self)
        }
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
        _ = answer.withCString { write(connection, $0, strlen($0)) }
        return text
    }

    private static func isWhole(_ text: String) -> Bool {
        guard let end = text.range(of: "\r\n\r\n") else { return false }
        guard let length = text.firstMatch(of: #/Content-Length: (\d+)/#).flatMap({ Int($0.1) }) else { return true }
        return text[end.upperBound...].utf8.count >= length
    }
}
