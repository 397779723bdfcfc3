import Foundation
import Tiller

/// Runs the lanes side by side, and tells what came out.
struct Harness {
    private let options: HarnessOptions
    private let time = HarnessTime()

    init(_ options: HarnessOptions) { self.options = options }

    /// - Returns: The exit status.
    func run() async throws -> Int32 {
        let lanes = try (0..<options.lanes).map { try Lane($0, options, time) }
        let results = await withTaskGroup(of: (verdict: Verdict, faultCount: Int, faults: [String]).self) { group in
            for (number, lane) in lanes.enumerated() {
                let kills = options.kills / lanes.count + (number < options.kills % lanes.count ? 1 : 0)
                group.addTask { await Self.run(lane, kills: kills) }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        var verdict = Verdict()
        for result in results { verdict.add(result.verdict) }
        let faults = results.flatMap(\.faults)
        let isGood = verdict.isGood && faults.isEmpty
        if !isGood { print("seed \(options.seed)") }
        for detail in faults + verdict.details { print(detail) }
        let faultCount = results.reduce(0) { $0 + $1.faultCount }
        print(
            "\(faultCount) requests met a fault, \(verdict.copies) copies have arrived, each explained or named above")
        print(verdict)
        return isGood ? 0 : 1
    }

    /// On a thread of its own, which may block as one of the cooperative pool may not.
    private static func run(_ lane: Lane, kills: Int) async -> (verdict: Verdict, faultCount: Int, faults: [String]) {
        await withCheckedContinuation { done in
            Thread.detachNewThread { done.resume(returning: lane.run(kills: kills)) }
        }
    }
}
