import Foundation
import Tiller
import TillerTesting

/// `tiller sessions`: runs scenario files.
struct SessionsCommand {
    private var change = SessionScenario.SettingsChange()
    private var files: [String] = []
    private var passed = 0
    private var failed = 0
    private var hasUnreadable = false
    /// Where the scenarios' processes keep their state: below the working directory's build folder, for what lies in a
    /// shared temporary one may vanish.
    private let folder = URL(fileURLWithPath: ".build/tiller-sessions-\(UUID().uuidString)")

    /// A run that asks "what if" instead of checking.
    private var isWhatIf: Bool { change != SessionScenario.SettingsChange() }

    static func run(_ arguments: [String]) async -> Int32 {
        if arguments.contains("--help") || arguments.contains("-h") {
            print(TillerCommand.help)
            return 0
        }
        var command = SessionsCommand()
        if let problem = command.read(arguments) {
            TillerCommand.complain(problem + "\n" + TillerCommand.help)
            return TillerCommand.usage
        }
        for file in command.files { await command.run(file) }
        command.cleanUp()
        if !command.isWhatIf { print("\(command.passed) passed, \(command.failed) failed") }
        if command.hasUnreadable { return TillerCommand.usage }
        return command.failed == 0 ? 0 : 1
    }

    /// - Returns: What is wrong with the arguments; `nil`: nothing.
    private mutating func read(_ arguments: [String]) -> String? {
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            guard argument.hasPrefix("--") else {
                files.append(argument)
                continue
            }
            guard let value = rest.popFirst() else { return "\(argument) needs a value" }
            switch argument {
            case "--background":
                guard let policy = BackgroundEventPolicy(rawValue: value) else {
                    return "--background is carry, exclude or include, not '\(value)'"
                }
                change.background = policy
            case "--timeout":
                guard let timeout = SessionScenario.milliseconds(value) else {
                    return "--timeout needs a duration like 5m, not '\(value)'"
                }
                change.timeout = timeout
            case "--automatic":
                guard ["on", "off"].contains(value) else { return "--automatic is on or off, not '\(value)'" }
                change.isAutomatic = value == "on"
            default: return "\(argument) is not an option"
            }
        }
        return files.isEmpty ? "no file was given" : nil
    }

    private mutating func run(_ file: String) async {
        let scenarios: [SessionScenario]
        do {
            let text = try String(contentsOfFile: file, encoding: .utf8)
            scenarios = try SessionScenario.read(text, file: file)
            guard !scenarios.isEmpty else {
                TillerCommand.complain("\(file): there is no scenario in it")
                hasUnreadable = true
                return
            }
        } catch let error as SessionScenario.ReadingError {
            TillerCommand.complain("\(error)")
            hasUnreadable = true
            return
        } catch {
            TillerCommand.complain("\(file): can't be read: \(error.localizedDescription)")
            hasUnreadable = true
            return
        }
        for scenario in scenarios {
            if isWhatIf { await tell(scenario) } else { await check(scenario, file) }
        }
    }

    private mutating func check(_ scenario: SessionScenario, _ file: String) async {
        let outcome = await scenario.run(store: .folder(folder.appendingPathComponent("\(passed + failed)")))
        guard let failure = outcome.failure else {
            passed += 1
            print("passed  \(file):\(scenario.line)  \(scenario.name)")
            return
        }
        failed += 1
        print("FAILED  \(file):\(scenario.line)  \(scenario.name)")
        print("        \(file):\(failure.line): \(failure.step)")
        print("        expected: \(failure.expected)")
        print("        seen:     \(failure.seen)")
    }

    private func cleanUp() {
        try? FileManager.default.removeItem(at: folder)  // what stays is only clutter
        rmdir(".build")  // goes only if it is empty, that is if it was made here
    }

    private func tell(_ scenario: SessionScenario) async {
        var scenario = scenario
        scenario.settings = change.applied(to: scenario.settings)
        let outcome = await scenario.run(checks: false)
        print(SessionTable(scenario, outcome).text)
    }
}
