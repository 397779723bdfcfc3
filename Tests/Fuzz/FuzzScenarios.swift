@testable import TillerTesting

/// A scenario file is read, or refused with a line that it has.
func fuzzScenarios(_ input: [UInt8]) {
    let text = String(decoding: input, as: UTF8.self)
    let lineCount = text.split(omittingEmptySubsequences: false) { $0 == "\n" || $0 == "\r\n" }.count
    do {
        let scenarios = try SessionScenario.read(text, file: "input")
        var line = 0
        for scenario in scenarios {
            check(scenario.line > line && !scenario.steps.isEmpty, "\(scenario)")
            line = scenario.line
            var time = Duration.zero
            for step in scenario.steps {
                check(step.line > line && step.line <= lineCount, "step in line \(step.line)")
                check(step.time >= time, "time runs backwards")
                (line, time) = (step.line, step.time)
                for emission in step.emissions {
                    check(emission.line > line && emission.line <= lineCount, "emission in line \(emission.line)")
                    line = emission.line
                }
            }
        }
        // A text and blank lines say the same.
        let again = try SessionScenario.read("\n" + text + "\n \n", file: "input")
        check(again.map(\.name) == scenarios.map(\.name), "other scenarios: \(again)")
        check(again.map(\.steps.count) == scenarios.map(\.steps.count), "other steps: \(again)")
    } catch {
        check((1...lineCount).contains(error.line), "\(error) of \(lineCount) lines")
    }
}
