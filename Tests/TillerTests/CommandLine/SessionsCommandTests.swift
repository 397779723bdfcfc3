import Foundation
import Testing

/// `tiller sessions` as a shell sees it.
@Suite(.timeLimit(.minutes(5))) struct SessionsCommandTests {
    private let folder = TestFolder()

    private static let passing = """
        scenario A first session
        ---
        +0s launch foreground
        +1s track "A" => S1 start

        scenario A second one
        timeout 1m
        background exclude
        ---
        +0s launch foreground
        +1s track "A" => S1 start
        +2s background
        +3s track "B" => none
        +2m foreground
        +2m track "C" => S2 start
        """

    private static let failing = """
        scenario A wrong one
        ---
        +0s launch foreground
        +1s track "A" => none   # wrong
        """

    // MARK: Checking

    @Test func whenAllPassTheStatusIsZero() async throws {
        try put(Self.passing, "pass.scenario")
        let result = try await tiller("sessions", "pass.scenario")
        #expect(result.status == 0)
        #expect(
            result.output == """
                passed  pass.scenario:1  A first session
                passed  pass.scenario:6  A second one
                2 passed, 0 failed

                """)
        #expect(result.errors.isEmpty)
    }

    @Test func whenSomeFailTheStatusIsOneAndTheFailureIsTold() async throws {
        try put(Self.passing, "pass.scenario")
        try put(Self.failing, "fail.scenario")
        let result = try await tiller("sessions", "fail.scenario", "pass.scenario")
        #expect(result.status == 1)
        #expect(
            result.output == """
                FAILED  fail.scenario:1  A wrong one
                        fail.scenario:4: +1s track "A"
                        expected: none
                        seen:     1740463597 start
                passed  pass.scenario:1  A first session
                passed  pass.scenario:6  A second one
                2 passed, 1 failed

                """)
        #expect(result.errors.isEmpty)
    }

    @Test func unreadableFilesStopOnlyTheirOwnScenarios() async throws {
        try put(Self.passing + "\nscenario x\n---\n+0s jump\n", "broken.scenario")
        try put(Self.passing, "pass.scenario")
        try FileManager.default.createDirectory(
            at: folder.url.appendingPathComponent("folder"), withIntermediateDirectories: true)
        try Data([0x73, 0xFF, 0xFE]).write(to: folder.url.appendingPathComponent("binary"))
        let result = try await tiller(
            "sessions", "broken.scenario", "missing.scenario", "folder", "binary", "pass.scenario")
        #expect(result.status == 64)
        #expect(result.output.hasSuffix("2 passed, 0 failed\n"))
        #expect(!result.output.contains("broken"))
        let errors = result.errors.split(separator: "\n")
        #expect(errors.count == 4)
        #expect(errors.first?.hasPrefix("broken.scenario:18: 'jump' is not an action") == true)
        for (error, name) in zip(errors.dropFirst(), ["missing.scenario", "folder", "binary"]) {
            #expect(error.hasPrefix("\(name): can't be read: "))
        }
    }

    @Test func failingScenariosBesideAnUnreadableFileAreSixtyFour() async throws {
        try put(Self.failing, "fail.scenario")
        let result = try await tiller("sessions", "fail.scenario", "missing.scenario")
        #expect(result.status == 64)
        #expect(result.output.hasSuffix("0 passed, 1 failed\n"))
    }

    @Test func theContractsOwnFilesPass() async throws {
        let sessions = try #require(Bundle.module.url(forResource: "sessions", withExtension: nil))
        let files = try FileManager.default.contentsOfDirectory(atPath: sessions.path).sorted()
        let result = try await tiller(["sessions"] + files.map { sessions.appendingPathComponent($0).path })
        #expect(result.status == 0)
        #expect(result.output.hasSuffix("86 passed, 0 failed\n"))
    }

    /// More than a pipe holds: whoever reads it must not be waited for, nor wait.
    @Test func aLongReportIsWhole() async throws {
        let name = String(repeating: "long ", count: 40)
        let many = (0..<600).map { "scenario \(name)\($0)\n---\n+0s launch foreground\n" }.joined()
        try put(many, "many.scenario")
        let result = try await tiller("sessions", "many.scenario")
        #expect(result.status == 0)
        #expect(result.output.split(separator: "\n").count == 601)
        #expect(result.output.utf8.count > 100_000)
    }

    @Test func nothingIsLeftBehind() async throws {
        try put(Self.passing, "pass.scenario")
        _ = try await tiller("sessions", "pass.scenario")
        let left = try FileManager.default.subpathsOfDirectory(atPath: folder.path).sorted()
        #expect(left.filter { $0.hasPrefix(".build/tiller-sessions/") }.isEmpty)
        #expect(left.filter { !$0.hasPrefix(".build") } == ["pass.scenario", "standard-error", "standard-output"])
    }

    // MARK: What if

    @Test func withAnOptionNothingIsCheckedAndATableTells() async throws {
        try put(Self.passing, "pass.scenario")
        let result = try await tiller("sessions", "--background", "include", "pass.scenario")
        #expect(result.status == 0)
        #expect(
            result.output == """
                A first session
                  automatic on, timeout 5m, background include
                  time        what happens              session
                  +0s         launch foreground
                  +1s         track "A"                 S1, its first event
                  S1 is 1740463597

                A second one
                  automatic on, timeout 1m, background include
                  time        what happens              session
                  +0s         launch foreground
                  +1s         track "A"                 S1, its first event
                  +2s         background
                  +3s         track "B"                 S1
                  +2m         foreground
                  +2m         track "C"                 S2, its first event
                  S1 is 1740463597
                  S2 is 1740463717


                """)
    }

    @Test func theTimeoutCanBeAnother() async throws {
        try put(Self.passing, "pass.scenario")
        let result = try await tiller("sessions", "--timeout", "1h", "pass.scenario")
        #expect(result.status == 0)
        #expect(result.output.contains("  automatic on, timeout 1h, background exclude\n"))
        #expect(result.output.contains("  +3s         track \"B\"                 no session\n"))
        #expect(result.output.contains("  +2m         track \"C\"                 S1\n"))
    }

    @Test func automaticTrackingCanBeOff() async throws {
        try put(Self.passing, "pass.scenario")
        let result = try await tiller("sessions", "--automatic", "off", "--timeout", "90s", "pass.scenario")
        #expect(result.status == 0)
        #expect(result.output.contains("  automatic off, timeout 1m30s, background carry\n"))
        #expect(result.output.contains("  +1s         track \"A\"                 no session\n"))
        #expect(!result.output.contains("S1"))
        #expect(!result.output.contains("passed"))
    }

    /// A scenario that fails when it is checked still has its table.
    @Test func failingScenariosHaveATableToo() async throws {
        try put(Self.failing + "\n+2s filter \"B\"\n+2s track \"B\"\n+3s launch foreground\n", "fail.scenario")
        let result = try await tiller("sessions", "--background", "carry", "fail.scenario")
        #expect(result.status == 0)
        #expect(result.output.contains("track \"A\"                 S1, its first event\n"))
        #expect(result.output.contains("track \"B\"                 does not arrive\n"))
        #expect(result.output.contains("  stopped: +3s launch foreground: one is running\n"))
    }

    @Test func eventsOfTheSDKHaveRowsWithoutATime() async throws {
        try put("scenario x\nlifecycle-events on\n---\n+0s launch foreground\n", "x.scenario")
        let result = try await tiller("sessions", "--automatic", "on", "x.scenario")
        #expect(result.output.contains("\n                emits \"Application Opened\""))
    }

    // MARK: Usage

    @Test(arguments: [
        (["sessions"], "no file was given"),
        (["sessions", "--background", "keep", "x"], "--background is carry, exclude or include, not 'keep'"),
        (["sessions", "--timeout", "5", "x"], "--timeout needs a duration like 5m, not '5'"),
        (["sessions", "--automatic", "yes", "x"], "--automatic is on or off, not 'yes'"),
        (["sessions", "--colour", "red", "x"], "--colour is not an option"),
        (["sessions", "x", "--timeout"], "--timeout needs a value"), (["sail"], "'sail' is not a command"),
        ([], "usage:"),
    ])
    func badUsageIsSixtyFourAndSaysWhatIsWrong(_ arguments: [String], _ problem: String) async throws {
        let result = try await tiller(arguments)
        #expect(result.status == 64)
        #expect(result.output.isEmpty)
        #expect(result.errors.hasPrefix(problem))
        #expect(result.errors.contains("usage: tiller sessions"))
    }

    @Test(arguments: ["--help", "-h", "help"]) func helpIsNoFault(_ argument: String) async throws {
        let result = try await tiller(argument)
        #expect(result.status == 0)
        #expect(result.output.hasPrefix("usage: tiller sessions"))
        #expect(result.errors.isEmpty)
    }

    // MARK: Steps

    private func put(_ text: String, _ name: String) throws {
        try FileManager.default.createDirectory(at: folder.url, withIntermediateDirectories: true)
        try Data(text.utf8).write(to: folder.url.appendingPathComponent(name))
    }

    private func tiller(_ arguments: String...) async throws -> CommandResult { try await tiller(arguments) }

    private func tiller(_ arguments: [String]) async throws -> CommandResult {
        try await runTiller(arguments, in: folder)
    }
}

/// What a child process did.
struct CommandResult: Sendable {
    let status: Int32
    let output: String
    let errors: String
}

/// Runs the built `tiller` in a folder. Its input and output are files there: no pipe that could fill up.
func runTiller(_ arguments: [String], in folder: TestFolder, input: Data = Data()) async throws -> CommandResult {
    try FileManager.default.createDirectory(at: folder.url, withIntermediateDirectories: true)
    func file(_ name: String) throws -> (url: URL, handle: FileHandle) {
        let url = folder.url.appendingPathComponent(name)
        try Data().write(to: url)
        return (url, try FileHandle(forWritingTo: url))
    }
    let inputFile = folder.url.appendingPathComponent("standard-input")
    if !input.isEmpty { try input.write(to: inputFile) }
    let output = try file("standard-output")
    let errors = try file("standard-error")
    guard let executable = builtTiller else { throw CocoaError(.fileNoSuchFile) }
    let inputHandle = input.isEmpty ? nil : try FileHandle(forReadingFrom: inputFile)
    let program = try Program(
        executable.path, arguments, in: folder.path, input: inputHandle?.fileDescriptor,
        output: output.handle.fileDescriptor, errors: errors.handle.fileDescriptor)
    let end = await program.ended()
    withExtendedLifetime((inputHandle, output.handle, errors.handle)) {}
    let status: Int32 =
        switch end {
        case .exit(let status): status
        case .signal(let number): -number
        }
    return CommandResult(
        status: status, output: try String(contentsOf: output.url, encoding: .utf8),
        errors: try String(contentsOf: errors.url, encoding: .utf8))
}

/// The executable, in the build folder in which the tests' resources lie.
let builtTiller: URL? = {
    var folder = Bundle.module.bundleURL
    for _ in 0..<6 {
        folder.deleteLastPathComponent()
        let candidate = folder.appendingPathComponent("tiller")
        var isDirectory: ObjCBool = false
        if FileManager.default.fileExists(atPath: candidate.path, isDirectory: &isDirectory), !isDirectory.boolValue {
            return candidate
        }
    }
    return nil
}()
