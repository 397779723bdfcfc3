import Foundation
import Testing
import TillerTesting

@testable import Tiller

/// What every `StateStore` keeps to.
@Suite struct StateStoreContractTests {
    enum Conformer: String, CaseIterable, CustomTestStringConvertible {
        case memory
        case file

        var testDescription: String { rawValue }

        func make(in folder: TestFolder) throws -> any StateStore {
            switch self {
            case .memory: MemoryStateStore()
            case .file:
                try EventLog(
                    folder: folder.path, boot: 1, diagnostics: Diagnostics(logger: RecordingLogger(), level: .error))
            }
        }
    }

    /// Every kind of JSON value, the awkward ones too.
    private static let everything: JSONObject = [
        "true": true, "false": false, "zero": 0, "one": 1, "least": .int(.min), "most": .int(.max),
        "unsigned": .uint(.max), "double": 0.1, "whole double": 5e300, "empty": "",
        "text": "é \u{1F600} \" \\ \n \u{0}",
        "array": [1, "two", [true, nil]], "object": ["a": ["b": [:]]], "empty array": [],
        "decimal": .decimal(Decimal(string: "12345678901234567890.123456789") ?? 0),
    ]

    @Test(arguments: Conformer.allCases)
    func whatWasNeverSavedIsAbsent(_ conformer: Conformer) throws {
        let folder = TestFolder()
        let store = try conformer.make(in: folder)
        #expect(store.load("A").isAbsent)
        try store.save([StateChange(key: "A", changes: ["a": 1])])
        #expect(store.load("B").isAbsent)
        #expect(store.load("").isAbsent)
    }

    @Test(arguments: Conformer.allCases)
    func anEmptyObjectIsNotAbsent(_ conformer: Conformer) throws {
        let folder = TestFolder()
        let store = try conformer.make(in: folder)
        try store.save([StateChange(key: "A", changes: [:])])
        #expect(store.load("A").object == [:])
    }

    @Test(arguments: Conformer.allCases)
    func changesPatchAndUnknownKeysStay(_ conformer: Conformer) throws {
        let folder = TestFolder()
        let store = try conformer.make(in: folder)
        try store.save([StateChange(key: "A", changes: ["a": 1, "of a newer version": ["x": true]])])
        try store.save([StateChange(key: "A", changes: ["a": 2, "b": 3])])
        #expect(store.load("A").object == ["a": 2, "b": 3, "of a newer version": ["x": true]])
    }

    @Test(arguments: Conformer.allCases)
    func nullRemovesAKeyAndNothingElse(_ conformer: Conformer) throws {
        let folder = TestFolder()
        let store = try conformer.make(in: folder)
        try store.save([StateChange(key: "A", changes: ["a": 1, "b": 2])])
        try store.save([StateChange(key: "A", changes: ["a": nil, "never there": nil])])
        #expect(store.load("A").object == ["b": 2])
    }

    @Test(arguments: Conformer.allCases)
    func severalObjectsChangeAsOne(_ conformer: Conformer) throws {
        let folder = TestFolder()
        let store = try conformer.make(in: folder)
        try store.save([
            StateChange(key: "A", changes: ["a": 1]), StateChange(key: "B", changes: ["b": 1]),
            StateChange(key: "A", changes: ["a": 2]),
        ])
        #expect(store.load("A").object == ["a": 2])
        #expect(store.load("B").object == ["b": 1])
    }

    @Test(arguments: Conformer.allCases)
    func valuesOfAllKindsComeBackTheSame(_ conformer: Conformer) throws {
        let folder = TestFolder()
        let store = try conformer.make(in: folder)
        try store.save([StateChange(key: "A", changes: Self.everything)])
        #expect(store.load("A").object == Self.everything)
    }

    @Test(arguments: Conformer.allCases)
    func storeThatNoOneElseHasIsOwned(_ conformer: Conformer) throws {
        let folder = TestFolder()
        #expect(try conformer.make(in: folder).isOwned)
    }

    @Test(arguments: Conformer.allCases)
    func whatWasSavedCanBeReadAfterTheClose(_ conformer: Conformer) throws {
        let folder = TestFolder()
        let store = try conformer.make(in: folder)
        try store.save([StateChange(key: "A", changes: ["a": 1])])
        store.prepareToClose()
        store.close()
        store.close()
        #expect(store.load("A").object == ["a": 1])
    }

    @Test(arguments: Conformer.allCases)
    func loadsFromOtherThreadsSeeAWholeChange(_ conformer: Conformer) async throws {
        let folder = TestFolder()
        let store = try conformer.make(in: folder)
        try store.save([StateChange(key: "A", changes: ["a": 0, "b": 0])])
        let torn = Locked(0)
        await onThreads(4) { thread in
            for number in 1...100 {
                let value = JSONValue.int(Int64(number))
                if thread == 0 {
                    try? store.save([StateChange(key: "A", changes: ["a": value, "b": value])])
                } else if let object = store.load("A").object, object["a"] != object["b"] {
                    torn.withLock { $0 += 1 }
                }
            }
        }
        #expect(torn.withLock { $0 } == 0)
        #expect(store.load("A").object == ["a": 100, "b": 100])
    }

    @Test func fileStoreLoadsTheSameValuesAfterReopening() throws {
        let folder = TestFolder()
        let first = try Conformer.file.make(in: folder)
        try first.save([StateChange(key: "A", changes: Self.everything), StateChange(key: "B", changes: ["b": true])])
        first.close()
        let second = try Conformer.file.make(in: folder)
        #expect(second.isOwned)
        #expect(second.load("A").object == Self.everything)
        #expect(second.load("A").object?["true"] == .bool(true))
        #expect(second.load("A").object?["one"]?.int == 1)
        #expect(second.load("A").object?["decimal"]?.description == "12345678901234567890.123456789")
        #expect(second.load("B").object == ["b": true])
        #expect(second.load("C").isAbsent)
    }
}

extension Stored {
    var object: JSONObject? { if case .value(let object) = self { object } else { nil } }
    var isAbsent: Bool { if case .absent = self { true } else { false } }
    var isUnreadable: Bool { if case .unreadable = self { true } else { false } }
}
