import Tiller

/// Knows the lines whose events the SDK has dropped: their events were captured and never sealed.
final class DroppedLines: CapturingPlugin {
    struct State: Sendable {
        fileprivate var line: UInt64 = 0
        fileprivate var unsealed: Set<UInt64> = []
    }

    /// The next event is this line's.
    struct Begin: Command {
        let line: Int
    }

    /// What was dropped up to here has been reported.
    private struct Forget: Command {}

    let stage = Stage.before

    func restore(_ stored: Stored, present: State?, in section: inout Section) -> State { State() }

    func apply(_ command: any Command, to state: inout State, in section: inout Section) {
        switch command {
        case let begin as Begin: state.line = UInt64(begin.line)
        case is Forget: state.unsealed = []
        default: break
        }
    }

    /// Scoped events too: nothing is put on them.
    func capture(_ event: inout Event, state: inout State, in section: inout Section) {
        section.fact = state.line
        state.unsealed.insert(state.line)
    }

    func seals(_ state: State) -> Bool { true }

    func seal(_ event: inout Event, state: inout State, in section: inout Section) {
        if let line = section.fact { state.unsealed.remove(line) }
    }

    /// The lines that were dropped since this was last asked. Everything recorded must have passed the pipeline.
    static func take(from analytics: Analytics) -> [Int] {
        let lines = analytics.read(DroppedLines.self) { state, _ in state.unsealed.sorted().map { Int($0) } } ?? []
        if !lines.isEmpty { analytics.perform(Forget()) }
        return lines
    }
}
