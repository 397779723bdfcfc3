import Foundation
import Testing
import Tiller
import TillerTesting

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#endif

/// `tiller serve` as a shell sees it.
@Suite(.timeLimit(.minutes(5))) struct ServeCommandTests {
    private let folder = TestFolder()

    // MARK: Serving

    @Test(arguments: [SIGTERM, SIGINT])
    func tellsEachEventAndEndsWithZero(signal: Int32) async throws {
        try await serve([]) { server in
            let url = server.url
            #expect(url.hasPrefix("http://127.0.0.1:"))
            try post(
                url,
                #"{"batch":[{"type":"track","event":"Order Completed","userId":"u-1","context":{"sessionId":1740463597,"#
                    + #""sessionStart":true}},{"type":"screen","event":"Home","anonymousId":"a-1","#
                    + #""context":{"sessionId":1740463597}},{"type":"identify","userId":"u-1"},{"userId":7}]}"#)
            let lines = try (0..<4).map { _ in try server.readLine() }
            for line in lines { #expect(line.prefixMatch(of: #/\d\d:\d\d:\d\d\.\d\d\dZ  /#) != nil, "\(line)") }
            #expect(
                lines.map { String($0.dropFirst(15)) } == [
                    "track     Order Completed  session 1740463597 start  user u-1",
                    "screen    Home  session 1740463597  anonymous a-1", "identify  -  no session  user u-1",
                    "-         -  no session  user 7",
                ])
            let shown = try events(url)
            #expect(shown.map { $0["event"]?["type"] } == ["track", "screen", "identify", nil])
            #expect(shown.first?["writeKey"] == "wk")
            #expect(shown.first?["event"]?["rudderId"]?.string?.isEmpty == false)
            #expect(try server.end(by: signal) == 0)
            #expect(try server.rest() == "")
            #expect(server.errors() == "")
        }
    }

    @Test(.disabled(if: isUnderThreadSanitizer)) func takesEventsOfTheSDK() async throws {
        try await serve(["--write-key", "other", "--write-key", "key"]) { server in
            let configuration = Configuration(writeKey: "key", dataPlaneUrl: server.url, storage: .memory)
            let done = DispatchSemaphore(value: 0)
            Task {
                let analytics = Analytics(configuration: configuration)
                analytics.track(name: "From the SDK")
                _ = await analytics.flushed()
                done.signal()
            }
            var line = try server.readLine()
            while !line.contains("track     From the SDK  ") { line = try server.readLine() }
            #expect(line.contains("  anonymous "))
            done.wait()
            #expect(try server.end(by: SIGTERM) == 0)
        }
    }

    @Test func refusalsAreToldOnStandardError() async throws {
        try await serve(["--write-key", "known", "--strict"]) { server in
            let url = server.url
            #expect(try post(url, "{}", key: "unknown").status == 401)
            #expect(try post(url, "{", key: "known").status == 400)
            let deep = String(repeating: "[", count: 200) + String(repeating: "]", count: 200)
            let strict = try post(url, #"{"batch":[{"userId":"u","p":\#(deep)}]}"#, key: "known")
            #expect(strict.status == 400)
            #expect(strict.body.contains("200 levels"))
            #expect(try post(url, #"{"batch":[{"userId":"u"}]}"#, key: "known").status == 200)
            #expect(try server.readLine().hasSuffix("  user u"))  // nothing came before it
            #expect(try server.end(by: SIGTERM) == 0)
            let errors = server.errors().split(separator: "\n").map { String($0.dropFirst(15)) }
            #expect(
                errors == [
                    "refused 401  invalid write key  POST /v1/batch", "refused 400  invalid json  POST /v1/batch",
                    "refused 400  " + strict.body.dropLast() + "  POST /v1/batch",
                ])
        }
    }

    /// A sender could write to the developer's terminal, or into the line of another event.
    @Test func controlCharactersAreShownAsNone() async throws {
        try await serve([]) { server in
            let name = #"a\u001b[31m\nb\u0000\u202e\u2028"# + String(repeating: "x", count: 500)
            try post(server.url, #"{"batch":[{"type":"track","event":"\#(name)","userId":"\r\u009bu"}]}"#)
            let line = try server.readLine()
            #expect(line.contains("  a\u{FFFD}[31m\u{FFFD}b\u{FFFD}\u{FFFD}\u{FFFD}xx"))
            #expect(line.contains("xx…  no session  user \u{FFFD}\u{FFFD}u"))
            #expect(line.count < 300)
            #expect(try server.end(by: SIGTERM) == 0)
        }
    }

    @Test func forgetsWhatItHasTold() async throws {
        try await serve(["--forget"]) { server in
            try post(server.url, #"{"batch":[{"userId":"u"}]}"#)
            #expect(try server.readLine().hasSuffix("  user u"))
            #expect(try events(server.url).isEmpty)
            #expect(try server.end(by: SIGTERM) == 0)
        }
    }

    /// As `tiller serve | head -1` does.
    @Test func endsQuietlyWhenItsReaderIsGone() async throws {
        try await serve([]) { server in
            server.closeOutput()
            // A child of another test may have inherited the reading end; then the first lines still find a reader.
            while (try? post(server.url, #"{"batch":[{"userId":"u"}]}"#)) != nil {}
            #expect(server.waitForExit() == 0)
            #expect(server.errors() == "")
        }
    }

    @Test func faultsAreThoseOfTheScriptAndTold() async throws {
        let script = try file("script", "at 2: status 503 \"later\\n\" retry-after 7s\nat 3: cut after-storing\n")
        try await serve(["--faults", script.path]) { server in
            let body = #"{"batch":[{"userId":"u"}]}"#
            #expect(try post(server.url, body).status == 200)
            let second = try post(server.url, body)
            #expect(second.status == 503)
            #expect(second.headers["Retry-After"] == "7")
            #expect(throws: RawClient.Failure(reason: "no answer")) { try post(server.url, body) }
            #expect(try events(server.url).count == 2)
            #expect(try server.end(by: SIGTERM) == 0)
            let errors = server.errors().split(separator: "\n").map { String($0.dropFirst(15)) }
            #expect(
                errors == [
                    #"fault 2  status 503 "later\n" retry-after 7s  nothing stored"#,
                    "fault 3  cut after-storing  1 stored",
                ])
        }
    }

    @Test func aBadScriptIsSixtyFourAndNamesTheLine() async throws {
        let bad = try file("bad", "at 2: refuse\nat 3: explode\n")
        let result = try await runTiller(["serve", "--faults", bad.path], in: folder)
        #expect(result.status == 64)
        #expect(result.errors == "\(bad.path):2: 'explode' is no fault\n")
        let missing = try await runTiller(["serve", "--faults", "nowhere"], in: folder)
        #expect(missing.status == 64)
        #expect(missing.errors == "nowhere: can't be read\n")
        let binary = try file("binary", Data([0xFF, 0xFE]))
        let unreadable = try await runTiller(["serve", "--faults", binary.path], in: folder)
        #expect(unreadable.status == 64)
        #expect(unreadable.errors == "\(binary.path): it is not UTF-8\n")
    }

    private func file(_ name: String, _ text: String) throws -> URL { try file(name, Data(text.utf8)) }

    private func file(_ name: String, _ data: Data) throws -> URL {
        try FileManager.default.createDirectory(at: folder.url, withIntermediateDirectories: true)
        let url = folder.url.appendingPathComponent(name)
        try data.write(to: url)
        return url
    }

    @Test func aTakenPortIsToldAndIsOne() async throws {
        let plane = try LocalDataPlane()
        let port = try #require(URL(string: plane.url)?.port)
        let result = try await runTiller(["serve", "--port", "\(port)"], in: folder)
        #expect(result.status == 1)
        #expect(result.output == "")
        #expect(result.errors.hasPrefix("can't listen on 127.0.0.1:\(port): "))
    }

    // MARK: Usage

    @Test(arguments: [
        (["--port"], "--port needs a value"), (["--port", "x"], "--port is a number up to 65535, not 'x'"),
        (["--port", "65536"], "--port is a number up to 65535, not '65536'"),
        (["--port", "-1"], "--port is a number up to 65535, not '-1'"), (["--write-key"], "--write-key needs a value"),
        (["--write-key", ""], "--write-key can't be empty"), (["--faults"], "--faults needs a value"),
        (["--faults", "a", "--faults", "b"], "--faults is given twice"), (["--colour"], "--colour is not an option"),
        (["file"], "file is not an option"),
    ])
    func badUsageIsSixtyFourAndSaysWhatIsWrong(_ arguments: [String], _ problem: String) async throws {
        let result = try await runTiller(["serve"] + arguments, in: folder)
        #expect(result.status == 64)
        #expect(result.output.isEmpty)
        #expect(result.errors.hasPrefix(problem + "\n"))
        #expect(result.errors.contains("tiller serve [--port N]"))
    }

    @Test func helpIsNoFault() async throws {
        let result = try await runTiller(["serve", "--help"], in: folder)
        #expect(result.status == 0)
        #expect(result.output.contains("tiller serve [--port N]"))
        #expect(result.output.contains("8080 by default"))
        #expect(result.output.contains("cut POINT, reset POINT"))
        #expect(result.output.contains(#""Service Unavailable\n" retry-after 2s"#))
    }

    // MARK: Steps

    /// Runs a body beside a server on a free port.
    private func serve(
        _ arguments: [String], _ body: @escaping @Sendable (TillerServer) throws -> Void
    ) async throws {
        let folder = folder
        try await withCheckedThrowingContinuation { (done: CheckedContinuation<Void, any Error>) in
            Thread.detachNewThread {
                done.resume(
                    with: Result {
                        let server = try TillerServer(arguments, in: folder)
                        defer { server.kill() }
                        try body(server)
                    })
            }
        }
    }
}

@discardableResult
private func post(_ url: String, _ body: String, key: String = "wk") throws -> RawClient.Answer {
    let authorization = Data("\(key):".utf8).base64EncodedString()
    let client = try RawClient(url)
    try client.send(
        "POST /v1/batch HTTP/1.1\r\nHost: h\r\nAuthorization: Basic \(authorization)\r\n"
            + "Content-Length: \(body.utf8.count)\r\n\r\n\(body)")
    return try client.answer()
}

private func events(_ url: String) throws -> [JSONObject] {
    let client = try RawClient(url)
    try client.send("GET /tiller/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return try #require(try JSONValue(parsing: client.answer().body).array).compactMap(\.object)
}

/// `tiller serve` as a child process, for the one thread that made it. No wait is longer than four minutes.
private final class TillerServer {
    private let program: Program
    private let output = Pipe()
    private let errorFile: URL
    private let ended = DispatchSemaphore(value: 0)
    private var unread: [UInt8] = []
    private(set) var url = ""

    struct Failure: Error {
        let reason: String
    }

    init(_ arguments: [String], in folder: TestFolder) throws {
        try FileManager.default.createDirectory(at: folder.url, withIntermediateDirectories: true)
        errorFile = folder.url.appendingPathComponent("standard-error")
        try Data().write(to: errorFile)
        guard let executable = builtTiller else { throw CocoaError(.fileNoSuchFile) }
        for end in [output.fileHandleForReading, output.fileHandleForWriting] {
            _ = fcntl(end.fileDescriptor, F_SETFD, FD_CLOEXEC)  // not for the children of other tests
        }
        let errors = try FileHandle(forWritingTo: errorFile)
        program = try Program(
            executable.path, ["serve", "--port", "0"] + arguments,
            output: output.fileHandleForWriting.fileDescriptor, errors: errors.fileDescriptor)
        try errors.close()
        Thread.detachNewThread { [program, ended] in
            _ = program.wait()
            ended.signal()
        }
        try output.fileHandleForWriting.close()
        let line = try readLine()
        guard line.hasPrefix("listening on http://") else { throw Failure(reason: line) }
        url = String(line.dropFirst("listening on ".count))
    }

    /// The next line of its output.
    func readLine() throws -> String {
        while !unread.contains(UInt8(ascii: "\n")) {
            guard try receive() else { throw Failure(reason: "the end, after \(unread.count) bytes of a line") }
        }
        let line = unread.prefix { $0 != UInt8(ascii: "\n") }
        unread.removeFirst(line.count + 1)
        return String(decoding: line, as: UTF8.self)
    }

    /// What comes until its output ends.
    func rest() throws -> String {
        while try receive() {}
        return String(decoding: unread, as: UTF8.self)
    }

    func closeOutput() { try? output.fileHandleForReading.close() }

    func errors() -> String { (try? String(contentsOf: errorFile, encoding: .utf8)) ?? "" }

    func end(by signal: Int32) throws -> Int32 {
        program.signal(signal)
        return waitForExit()
    }

    /// - Returns: Its status; -1 if it was ended by a signal or did not end.
    func waitForExit() -> Int32 {
        guard ended.wait(timeout: .now() + 240) == .success else { return -1 }
        ended.signal()
        return if case .exit(let status) = program.wait() { status } else { -1 }
    }

    /// What may be left of it.
    func kill() {
        program.signal(SIGKILL)
    }

    private func receive() throws -> Bool {
        let descriptor = output.fileHandleForReading.fileDescriptor
        var polled = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        guard poll(&polled, 1, 240_000) > 0 else { throw Failure(reason: "nothing for four minutes") }
        var chunk = [UInt8](repeating: 0, count: 65_536)
        let count = read(descriptor, &chunk, chunk.count)
        unread += chunk[..<max(count, 0)]
        return count > 0
    }
}
