/// One thing that is measured.
struct Workload: Sendable {
    let name: String
    let measure: @Sendable (Scale) async throws -> [Figure]
    /// The parts that need a process of their own, by name.
    var roles: [String: Child.Role] = [:]

    static let all = [caller, pipeline, deliver, backlog, start, idle, plugins, session, memory]

    /// A workload did not do what it was to do: its figures are worth nothing.
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }
}

/// Fails loudly.
///
/// - Parameters:
///   - condition: What must hold for the figures to be worth anything.
///   - description: What does not hold.
func check(_ condition: Bool, _ description: @autoclosure () -> String) throws {
    if !condition { throw Workload.Failure(description: description()) }
}
