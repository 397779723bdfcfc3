import TillerTesting

/// When a child is killed.
struct KillMoment {
    /// After so many reports at the latest.
    let reports: Int
    /// At this request of its own, from 1; `nil`: at none.
    var request: Int?
    /// After so many turns of work behind that; `nil`: before the request's answer is sent.
    var turns: Int?

    /// Some while the process starts and reads what the one before has left, some while it records, most around a
    /// request: before its answer, or when the answer is about to be written down.
    static func random(_ random: inout SeededRandom) -> KillMoment {
        switch Int.random(in: 0..<100, using: &random) {
        case ..<15: return KillMoment(reports: 0, turns: Int.random(in: 0..<40_000_000, using: &random))
        case ..<50:
            let reports = Int.random(in: 1..<30, using: &random)
            return KillMoment(reports: reports, turns: Int.random(in: 0..<3_000_000, using: &random))
        case ..<70: return KillMoment(reports: 40, request: Int.random(in: 1...8, using: &random))
        default:
            let request = Int.random(in: 1...8, using: &random)
            return KillMoment(reports: 40, request: request, turns: Int.random(in: 0..<400_000, using: &random))
        }
    }
}
