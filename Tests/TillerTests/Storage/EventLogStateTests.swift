import Foundation
import Testing
import TillerTesting

@testable import Tiller

/// State through the log: in an event's record, alone, over segments and kills; no change is lost, none reverted.
@Suite(.timeLimit(.minutes(5))) struct EventLogStateTests {
    private let folder = LogFolder()
    private static let small = 8_000

    private static func change(_ key: String, _ number: Int) -> StateChange {
        StateChange(key: key, changes: ["n": .int(Int64(number)), "k\(number % 3)": .int(Int64(number))])
    }

    @Test func stateOfAnEventsRecordIsThereExactlyWhenTheEventIs() throws {
        let log = try folder.open()
        try log.store([.event("e1", changes: [Self.change("A", 1)]), .event("e2", changes: [Self.change("A", 2)])])
        let file = try #require(try folder.names(".log").first)
        let bytes = try folder.contents(file)
        for length in 0...bytes.count {
            let killed = LogFolder()
            try killed.put(Array(bytes[..<length]), file)
            let next = try killed.open()
            let delivered = try next.deliverAll()
            let state = next.load("A").object?["n"]?.int ?? 0
            #expect(Int(state) == delivered.count, "cut at \(length)")
        }
    }

    /// After every step a kill: the next life has all that was stored, and nothing older.
    @Test func everyKillFindsEveryChange() throws {
        var expected: [String: JSONObject] = [:]
        var generator = IdentifierGenerator.seeded(5)
        var number = 0
        var log = try folder.open(storageBytes: Self.small)
        for step in 0..<120 {
            number += 1
            let key = ["A", "B"][Int(generator.nextWord() % 2)]
            var change = Self.change(key, number)
            if generator.nextWord() % 4 == 0 { change.changes["k\(number % 3)"] = .null }
            expected[key] = change.applied(to: expected[key] ?? [:])
            switch generator.nextWord() % 3 {
            case 0: try log.store([StoreRecord(event: nil, changes: [change])])
            default: try log.store([.event("e\(step)", padding: 60, changes: [change])])
            }
            switch generator.nextWord() % 8 {
            case 0: _ = try log.deliverAll(.count(5))
            case 1:
                log.close()
                log = try folder.open(storageBytes: Self.small)
            case 2:
                log.endWriting()
                log.close()
                log = try folder.open(storageBytes: Self.small)
            default: break
            }
            let killed = try folder.afterKill().open(storageBytes: Self.small)
            for key in ["A", "B"] {
                if killed.load(key).object != expected[key] { Issue.record("step \(step), \(key)") }
                if log.load(key).object != expected[key] { Issue.record("step \(step), \(key), in the same life") }
            }
        }
    }

    @Test func stateAloneAtASegmentsEndCounts() throws {
        let log = try folder.open(storageBytes: 1_600)  // segments of 200 bytes
        try log.store([.event("e1"), .state("A", ["a": 1])])
        try folder.block("checkpoint.json.new")
        try log.store([.state("A", ["a": 2]), .event("e2", padding: 200), .event("e3", padding: 200)])
        try folder.remove("checkpoint.json.new")
        let killed = try folder.afterKill()
        try? killed.remove("checkpoint.json")
        #expect(try killed.names(".log").count > 2)
        #expect(try killed.open().load("A").object == ["a": 2])
    }

    @Test func aCheckpointIsWrittenEvery1024Changes() throws {
        let log = try folder.open(storageBytes: 100_000_000)
        for number in 1...1_023 { try log.store([.state("A", ["n": .int(Int64(number))])]) }
        #expect(try !folder.names().contains("checkpoint.json"))
        try log.store([.state("A", ["n": 1_024])])
        let checkpoint = try Checkpoint(reading: folder.contents("checkpoint.json"))
        #expect(checkpoint.objects == ["A": ["n": 1_024]])
        let size = try folder.contents(try #require(try folder.names(".log").first)).count
        #expect(checkpoint.place == LogPlace(run: 1, segment: 1, offset: size))
        // Counted anew.
        for number in 1_025...2_047 { try log.store([.state("A", ["n": .int(Int64(number))])]) }
        #expect(try Checkpoint(reading: folder.contents("checkpoint.json")).objects == ["A": ["n": 1_024]])
        #expect(try folder.afterKill().open().load("A").object == ["n": 2_047])
    }

    @Test func eventsAloneAskForNoCheckpoint() throws {
        let log = try folder.open()
        for number in 1...1_100 { try log.store([.event("e\(number)")]) }
        #expect(try !folder.names().contains("checkpoint.json"))
    }

    @Test func endOfASegmentAndOfWritingAskForACheckpoint() throws {
        let log = try folder.open(storageBytes: Self.small)
        try log.store([.event("e1", padding: 1_000, changes: [Self.change("A", 1)])])
        #expect(try Checkpoint(reading: folder.contents("checkpoint.json")).objects["A"]?["n"] == 1)
        try log.store([.state("A", ["n": 2])])
        #expect(try Checkpoint(reading: folder.contents("checkpoint.json")).objects["A"]?["n"] == 1)
        log.endWriting()
        #expect(try Checkpoint(reading: folder.contents("checkpoint.json")).objects["A"]?["n"] == 2)
    }

    /// Otherwise what a killed life left would be read at every start.
    @Test func theEndOfWritingCoversWhatAKilledLifeLeft() throws {
        try folder.live([.event("e1", changes: [Self.change("A", 1)])])
        let log = try folder.open()
        log.endWriting()
        log.close()
        let checkpoint = try Checkpoint(reading: folder.contents("checkpoint.json"))
        #expect(checkpoint.objects["A"]?["n"] == 1)
        #expect(checkpoint.place == LogPlace(run: 2, segment: 0, offset: 0))
        let next = try folder.open()
        try next.store([.state("A", ["n": 2])])
        // Its number is above the one that the place names, or this would count as covered.
        #expect(try folder.afterKill().open().load("A").object?["n"] == 2)
        #expect(try next.deliverAll() == ["e1"])
    }

    /// What the checkpoint covers is not applied to it again: it may have been changed since.
    @Test func whatACheckpointCoversIsNotAppliedAgain() throws {
        let log = try folder.open()
        try log.store([.event("e1", changes: [StateChange(key: "A", changes: ["a": 1])])])
        let offset = try folder.contents(try #require(try folder.names(".log").first)).count
        try log.store([.event("e2", changes: [StateChange(key: "A", changes: ["b": 1])])])
        log.close()
        func put(_ place: LogPlace) throws {
            var checkpoint = Checkpoint()
            checkpoint.objects = ["A": ["a": 5, "b": 5]]
            checkpoint.place = place
            try folder.put(checkpoint.bytes, "checkpoint.json")
        }
        let expected: [(LogPlace, JSONObject)] = [
            (LogPlace(run: 1, segment: 1, offset: 0), ["a": 1, "b": 1]),
            (LogPlace(run: 1, segment: 1, offset: offset), ["a": 5, "b": 1]),
            (LogPlace(run: 1, segment: 1, offset: offset + 1), ["a": 5, "b": 1]),
            (LogPlace(run: 1, segment: 2, offset: 0), ["a": 5, "b": 5]),
            (LogPlace(run: 3, segment: 0, offset: 0), ["a": 5, "b": 5]),
        ]
        for (place, object) in expected {
            try put(place)
            let copy = try folder.afterKill().open()
            #expect(copy.load("A").object == object, "\(place)")
            #expect(copy.counts.waiting == 2)
        }
    }

    @Test func severalChangesOfOneAppendAreAllStored() throws {
        let log = try folder.open(storageBytes: Self.small)
        try log.store((1...50).map { .event("e\($0)", changes: [Self.change("K\($0 % 7)", $0)]) })
        let next = try folder.afterKill().open()
        for key in (0..<7).map({ "K\($0)" }) { #expect(next.load(key).object == log.load(key).object) }
        #expect(next.load("K1").object?["n"] == 50)
    }

    @Test func deliveryLeavesTheStateOfAKilledRun() throws {
        try folder.live([.event("e1", changes: [Self.change("A", 1)])])
        let log = try folder.open()
        // The fold removes the only record of it, so a checkpoint comes first.
        #expect(try log.deliverAll() == ["e1"])
        #expect(try folder.names(".log") == [])
        #expect(try folder.afterKill().open().load("A").object?["n"] == 1)
    }

    /// A checkpoint of an earlier life that was killed in the middle of its write.
    @Test func leftoverOfAnInterruptedCheckpointIsReplaced() throws {
        let log = try folder.open()
        try log.store([.state("A", ["a": 1])])
        try folder.put("half of a ch", "checkpoint.json.new")
        log.endWriting()
        log.close()
        #expect(try !folder.names().contains("checkpoint.json.new"))
        #expect(try folder.open().load("A").object == ["a": 1])
    }

    /// Killed between the two renames: the new one is in neither place yet.
    @Test func killBetweenTheRenamesOfAnUnreadableCheckpointKeepsTheChange() throws {
        try folder.put("damaged", "checkpoint.json")
        let log = try folder.open()
        try log.store([.state("A", ["a": 1])])
        let killed = try folder.afterKill()
        try killed.remove("checkpoint.json")
        #expect(try killed.open().load("A").object == ["a": 1])
        #expect(try killed.contents("checkpoint.json.unreadable") == Array("damaged".utf8))
    }

    /// A right checksum does not make a writer right.
    @Test(arguments: [Int.max, (1 << 48) + 1, -1]) func aPlaceThatNoLogReachesTrapsNothing(_ run: Int) throws {
        let log = try folder.open()
        try log.store([.state("A", ["a": 1])])
        log.endWriting()
        log.close()
        var checkpoint = try Checkpoint(reading: try folder.contents("checkpoint.json"))
        checkpoint.place.run = run
        try folder.put(checkpoint.bytes, "checkpoint.json")
        let next = try folder.open()
        #expect(next.load("A").object == ["a": 1])
        try next.store(StoreRecord.events(1...1))
        _ = try next.erase(leaving: [], keys: [])
    }
}
