import Testing
import TillerTesting

@testable import Tiller

/// A checkpoint at the end of a run tells how far it goes, so that the last segment need not be read at the next opening.
@Suite struct CoveredEndTests {
    private let folder = LogFolder()
    private let files = FaultyFiles()

    private var logsRead: Int {
        files.trace.count { $0.operation == .read && $0.name.hasSuffix(".log") }
    }

    /// Three events, and a change of state that makes the end write a checkpoint.
    private func endedLife() throws {
        let log = try folder.open()
        try log.store(StoreRecord.events(1...3) + [.state("A", ["a": 1])])
        log.endWriting()
        log.close()
    }

    @Test func afterAnOrderlyEndNothingIsRead() throws {
        try endedLife()
        let next = try folder.open(on: files)
        #expect(logsRead == 0)
        #expect(next.counts.waiting == 3)
        #expect(next.load("A").object == ["a": 1])
        #expect(try next.deliverAll() == .events(1...3))
        #expect(next.sums == LogIndex.Sums(delivered: 3))
    }

    @Test func whatAKillLeavesBehindThePlaceIsRead() throws {
        let log = try folder.open()
        try log.store([.event("e1")])
        // A checkpoint in the middle of a segment.
        _ = log.append((1...1_024).map { .state("A", ["n": .int($0)]) })
        try log.store([.event("e2"), .state("A", ["n": 0])])
        log.close()
        let next = try folder.open(on: files)
        #expect(logsRead == 1)
        #expect(next.load("A").object == ["n": 0])
        #expect(try next.deliverAll() == .events(1...2))
    }

    /// An earlier version wrote none, and what is out of bounds is none.
    @Test(arguments: [nil, -1, .int((1 << 47) + 1), 2.5] as [JSONValue?]) func withoutTheNumberItIsRead(
        _ next: JSONValue?
    )
        throws
    {
        try endedLife()
        var document = try #require(
            JSONValue(parsing: CheckedText.json(of: folder.contents("checkpoint.json"))).object)
        var covers = try #require(document["covers"]?.object)
        #expect(covers["next"] == 3)
        covers["next"] = next
        document["covers"] = .object(covers)
        var writer = JSONWriter()
        writer.write(document)
        try folder.put(CheckedText.bytes(of: writer.bytes), "checkpoint.json")
        let log = try folder.open(on: files)
        #expect(logsRead == 1)
        #expect(try log.deliverAll() == .events(1...3))
    }

    @Test func aDamagedLastEventCountsAsOne() throws {
        try endedLife()
        let name = try #require(folder.names(".log").first)
        try folder.damage(name, at: "\"e3\"")
        let log = try folder.open(on: files)
        #expect(log.counts.waiting == 3)
        #expect(try log.deliverAll() == .events(1...2))
        #expect(log.sums == LogIndex.Sums(delivered: 2, damaged: 1))
    }
}
