import Foundation
import Testing
import Tiller
import TillerTesting

/// The session contract in its runnable form: every scenario, on the real store and on the one in memory.
@Suite struct SessionScenarioTests {
    struct Entry: Sendable, CustomTestStringConvertible {
        let file: String
        let scenario: SessionScenario

        var testDescription: String { "\(file):\(scenario.line) \(scenario.name)" }

        static let all: [Entry] = {
            guard let folder = Bundle.module.url(forResource: "sessions", withExtension: nil),
                let files = try? FileManager.default.contentsOfDirectory(atPath: folder.path)
            else { return [] }
            return files.sorted().flatMap { file -> [Entry] in
                guard let text = try? String(contentsOf: folder.appendingPathComponent(file), encoding: .utf8) else {
                    return []
                }
                let scenarios = try? SessionScenario.read(text, file: file)
                return (scenarios ?? []).map { Entry(file: file, scenario: $0) }
            }
        }()
    }

    @Test func allScenariosAreThere() {
        #expect(Entry.all.count == 86)
        #expect(Set(Entry.all.map(\.file)).count == 7)
    }

    @Test(.timeLimit(.minutes(5)), arguments: Entry.all)
    func holdsOnTheRealStore(_ entry: Entry) async throws {
        let folder = TestFolder()
        let outcome = await entry.scenario.run(store: .folder(folder.url))
        #expect(outcome.failure == nil)
    }

    @Test(.timeLimit(.minutes(5)), arguments: Entry.all)
    func holdsInMemory(_ entry: Entry) async {
        let outcome = await entry.scenario.run(store: .memory)
        #expect(outcome.failure == nil)
    }
}
