import Testing

@testable import Tiller

/// The protocol of the event store, tried with kills between and within all its file operations.
@Suite(.timeLimit(.minutes(10))) struct StoreModelTests {
    typealias Action = StoreModel.Action
    typealias Turn = StoreModel.Turn
    typealias Mutation = StoreModel.Mutation

    /// Everything that an instance, a data plane and a disk do.
    static let actions: [Action] =
        StoreModel.Chunk.allCases.map(Action.append) + StoreModel.Answer.allCases.map(Action.deliver) + [
            .evict, .checkpoint, .shutdown, .rotate, .rotateAtOnce, .writePending,
            .appendShort(whole: 0, isCutBack: true), .appendShort(whole: 2, isCutBack: true),
            .appendShort(whole: 1, isCutBack: false), .appendShort(whole: 2, isCutBack: false),
            .damageOldest, .damageNewest, .loseOldest, .cutPower,
        ]

    /// Few enough for longer schedules.
    static let fewActions: [Action] = [
        .append(.event), .append(.state), .deliver(.accepted), .checkpoint, .damageNewest, .cutPower,
    ]

    /// What matters where two processes are.
    static let actionsOfTwo: [Action] = [
        .append(.event), .append(.eventAndState), .append(.state), .beginAppend, .finishAppend, .beginRun,
        .appendShort(whole: 1, isCutBack: true), .appendShort(whole: 1, isCutBack: false), .rotate, .rotateAtOnce,
        .writePending,
        .checkpoint, .evict, .deliver(.accepted), .deliver(.lost), .send(.accepted), .answer, .look, .testLocks,
        .readRuns, .takeOver,
        .release,
        .shutdown,
    ]

    static let fewActionsOfTwo: [Action] = [
        .append(.eventAndState), .deliver(.accepted), .rotate, .look, .takeOver, .release,
    ]

    private static func turns(_ actions: [Action], of processes: [StoreModel.Process] = [.a]) -> [Turn] {
        processes.flatMap { process in actions.map { Turn(process: process, action: $0) } }
    }

    private static func turns(toFind mutation: Mutation) -> [Turn] {
        let all = Mutation.allCases
        guard let index = all.firstIndex(of: mutation), let firstOfTwo = all.firstIndex(of: .nextFoldBeforeFilesAreGone)
        else { return [] }
        switch mutation {
        case .nextFoldBeforeFilesAreGone: return turns([.append(.eventAndState), .deliver(.accepted), .checkpoint])
        case .pendingAfterNewer:
            return turns([.append(.eventAndState), .rotateAtOnce, .writePending, .rotate, .deliver(.accepted)])
        case .lockVisibleBeforeLocked:
            return turns([.testLocks, .readRuns, .deliver(.accepted)]) + turns([.beginRun, .append(.event)], of: [.b])
        case .acknowledgeAfterRelease:
            return turns(
                [.append(.event), .send(.accepted), .answer, .release, .takeOver, .deliver(.accepted)], of: both)
        default: return index < firstOfTwo ? turns(actions) : turns(actionsOfTwo, of: both)
        }
    }

    private static let both = StoreModel.Process.allCases

    @Test func protocolHoldsInAllSchedulesOfTwoActionsAndTwoKills() async {
        let depth = isUnderThreadSanitizer ? 1 : 2
        await expectNothingFound { $0.exhaust(depth: depth, kills: 2, turns: Self.turns(Self.actions)) }
    }

    @Test func protocolHoldsInAllSchedulesOfFourOfTheCommonestActionsAndAKill() async {
        let depth = isUnderThreadSanitizer ? 2 : 4
        await expectNothingFound { $0.exhaust(depth: depth, kills: 1, turns: Self.turns(Self.fewActions)) }
    }

    @Test func protocolHoldsInRandomSchedulesOfManyLives() async {
        let schedules = isUnderThreadSanitizer ? 100 : 1_000
        await expectNothingFound {
            $0.wander(schedules: schedules, length: 30, killEvery: 4, seed: 1, turns: Self.turns(Self.actions))
        }
    }

    @Test func protocolHoldsInAllSchedulesOfTwoProcessesAndAKill() async {
        let depth = isUnderThreadSanitizer ? 2 : 3
        await expectNothingFound {
            $0.exhaust(depth: depth, kills: 1, turns: Self.turns(Self.fewActionsOfTwo, of: Self.both))
        }
    }

    @Test func protocolHoldsInRandomSchedulesOfTwoProcesses() async {
        let schedules = isUnderThreadSanitizer ? 100 : 1_500
        await expectNothingFound {
            $0.wander(
                schedules: schedules, length: 40, killEvery: 6, seed: 2,
                turns: Self.turns(Self.actionsOfTwo, of: Self.both) + Self.turns([.cutPower]))
        }
    }

    @Test(arguments: StoreModel.Mutation.allCases)
    func eachWrongProtocolIsFound(_ mutation: StoreModel.Mutation) async {
        let explorer = await explore(mutation) {
            $0.wander(schedules: 4_000, length: 30, killEvery: 4, seed: 1, turns: Self.turns(toFind: mutation))
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

    private func explore(
        _ mutation: StoreModel.Mutation?, _ run: @escaping @Sendable (inout StoreExplorer) -> Void
    ) async -> StoreExplorer {
        await computing {
            var explorer = StoreExplorer(mutation: mutation)
            run(&explorer)
            return explorer
        }
    }
}
