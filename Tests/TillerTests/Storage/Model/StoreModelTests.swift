import Testing

@testable import Tiller

/// The protocol of the event store, tried with kills between and within all its file operations.
@Suite(.timeLimit(.minutes(5))) struct StoreModelTests {
    typealias Action = StoreModel.Action

    /// Everything that an instance, a data plane and a disk do.
    static let actions: [Action] =
        StoreModel.Chunk.allCases.map(Action.append) + StoreModel.Answer.allCases.map(Action.deliver) + [
            .evict, .checkpoint, .shutdown, .rotate,
            .appendShort(whole: 0, isCutBack: true), .appendShort(whole: 2, isCutBack: true),
            .appendShort(whole: 1, isCutBack: false), .appendShort(whole: 2, isCutBack: false),
            .damageOldest, .damageNewest, .loseOldest, .cutPower,
        ]

    /// Few enough for longer schedules.
    static let fewActions: [Action] = [
        .append(.event), .append(.state), .deliver(.accepted), .checkpoint, .damageNewest, .cutPower,
    ]

    @Test func protocolHoldsInAllSchedulesOfTwoActionsAndTwoKills() async {
        let depth = isUnderThreadSanitizer ? 1 : 2
        await expectNothingFound { $0.exhaust(depth: depth, kills: 2, actions: Self.actions) }
    }

    @Test func protocolHoldsInAllSchedulesOfFourOfTheCommonestActionsAndAKill() async {
        let depth = isUnderThreadSanitizer ? 2 : 4
        await expectNothingFound { $0.exhaust(depth: depth, kills: 1, actions: Self.fewActions) }
    }

    @Test func protocolHoldsInRandomSchedulesOfManyLives() async {
        let schedules = isUnderThreadSanitizer ? 100 : 2_000
        await expectNothingFound {
            $0.wander(schedules: schedules, length: 30, killEvery: 4, seed: 1, actions: Self.actions)
        }
    }

    @Test(arguments: StoreModel.Mutation.allCases)
    func eachWrongProtocolIsFound(_ mutation: StoreModel.Mutation) async {
        let explorer = await explore(mutation) {
            $0.wander(schedules: 2_000, length: 30, killEvery: 4, seed: 1, actions: Self.actions)
        }
        guard let finding = explorer.finding else {
            Issue.record("\(mutation) was not found in \(explorer.schedules) schedules")
            return
        }
        print("\(mutation) is found after \(explorer.schedules) schedules: \(finding.broken)")
    }

    private func expectNothingFound(_ run: @escaping @Sendable (inout StoreExplorer) -> Void) async {
        let explorer = await explore(nil, run)
        print("\(explorer.schedules) schedules tried")
        #expect(explorer.schedules > 0)
        if let finding = explorer.finding { Issue.record("\(finding)") }
    }

    /// On a thread of its own, so that tests which wait for something are not kept waiting for this one.
    private func explore(
        _ mutation: StoreModel.Mutation?, _ run: @escaping @Sendable (inout StoreExplorer) -> Void
    ) async -> StoreExplorer {
        let result = Locked(StoreExplorer(mutation: mutation))
        await onThreads(1) { _ in
            var explorer = StoreExplorer(mutation: mutation)
            run(&explorer)
            result.withLock { [explorer] in $0 = explorer }
        }
        return result.withLock { $0 }
    }
}
