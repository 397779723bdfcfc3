import Foundation

/// What is fuzzed. The program's name says which one: `.ci/fuzz` makes a link for each.
enum FuzzTarget: String {
    case json, records, requests, scenarios

    /// Set once, before the first input.
    static let current: FuzzTarget = {
        let name = CommandLine.arguments.first?.split(separator: "/").last.map(String.init) ?? ""
        guard let target = FuzzTarget(rawValue: name) else { fatalError("'\(name)' is nothing to be fuzzed") }
        return target
    }()

    func run(_ input: [UInt8]) {
        switch self {
        case .json: fuzzJSON(input)
        case .records: fuzzRecords(input)
        case .requests: fuzzRequests(input)
        case .scenarios: fuzzScenarios(input)
        }
    }
}

/// What libFuzzer calls.
@_cdecl("LLVMFuzzerTestOneInput")
public func testOneInput(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    FuzzTarget.current.run(Array(UnsafeBufferPointer(start: bytes, count: count)))
    return 0
}

/// What must hold for every input: otherwise the input is kept as a crash.
func check(_ holds: Bool, _ message: @autoclosure () -> String) {
    if !holds { fatalError(message()) }
}
