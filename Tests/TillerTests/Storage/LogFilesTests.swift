import Testing

@testable import Tiller

/// The names of the log's files: what is ours, and what is not.
@Suite(.timeLimit(.minutes(5))) struct LogFilesTests {
    private let files = LogFiles(folder: "/f")

    @Test func namesAreThoseOfTheArticle() {
        #expect(files.segment(2, of: 1, first: 345) == "/f/00000001-000002-000000000345.log")
        #expect(files.acknowledgement(of: 12) == "/f/00000012.ack")
        #expect(files.checkpoint == "/f/checkpoint.json")
        #expect(files.base == "/f/base.ack")
        #expect(files.runLock(of: 12) == "/f/00000012.lock")
        #expect(files.newLock(7) == "/f/7.newlock")
        #expect(LogFiles.kind(of: "00000012.lock") == .runLock(run: 12))
        #expect(LogFiles.kind(of: "7.newlock") == .newLock)
    }

    @Test func namesComeBackAsWhatTheyAre() {
        for run in [1, 9, 99_999_999, 100_000_000, 1 << 40] {
            #expect(LogFiles.kind(of: name(files.acknowledgement(of: run))) == .acknowledgement(run: run))
            for index in [1, 999_999, 1_000_000] {
                for first in [0, 1, 999_999_999_999, 1_000_000_000_000, (1 << 48) - 1] as [UInt64] {
                    let path = files.segment(index, of: run, first: first)
                    #expect(LogFiles.kind(of: name(path)) == .segment(run: run, index: index, first: first))
                }
            }
        }
    }

    /// As many as can be in a list by name: that is a list by age.
    @Test func orderOfNamesIsOrderOfAge() {
        let paths = [1, 2, 10, 100].flatMap { run in
            [1, 2, 10, 100].map { files.segment($0, of: run, first: UInt64($0) * 1_000_000) }
        }
        #expect(paths == paths.sorted())
    }

    @Test(arguments: [
        "00000001-000001-000000000000.log2", "00000001-000001-000000000000.log10", "00000001.log3", "1-2-3-4.log2",
        "00000001-x.log2",
    ])
    func newerFormatsAreKnownByTheirEnding(_ name: String) {
        let isOurs = !name.contains("x")
        #expect(LogFiles.kind(of: name) == (isOurs ? .newerSegment(run: 1) : .other))
    }

    @Test(arguments: [
        "", ".", "..", ".log", ".ack", "-.log", "--.log", "---.log", "owner.lock", "checkpoint.json", "base.ack",
        "checkpoint.json.new", "notes.txt", "0001.log", "1.lock", "x.newlock", "1-1.newlock", "owner.fifo",
        // Not as we write them.
        "1-1-0.log", "1.ack", "000000001.ack", "00000001-000001-0000000000000.log",
        // Signs, blanks, other digits.
        "+0000001.ack", "-0000001.ack", " 0000001.ack", "00000001 .ack", "0000000١.ack", "0x000001.ack",
        "+0000001-000001-000000000000.log", "00000001-+00001-000000000000.log", "00000001-000001-+00000000000.log",
        "00000001--00001-000000000000.log", "00000001-000001-00000000000.log", "00000001-000001-0000000000 0.log",
        // Nothing is run 0.
        "00000000.ack", "00000000-000001-000000000000.log",
        // More than fits.
        "9223372036854775807.ack", "9223372036854775808.ack", "99999999999999999999.ack",
        "00000001-99999999999999999999-000000000000.log", "00000001-000001-99999999999999999999.log",
        "00000001-000001-18446744073709551615.log", "00000001-000001-281474976710656.log",
        // Other endings, more and fewer parts.
        "00000001.ACK", "00000001.ack2", "00000001.acknowledged", "00000001.ack.bak", "00000001.ack~", "00000001",
        "00000001-000001.ack", "00000001-000001.log", "00000001-000001-000000000000",
        "00000001-000001-000000000000.log.gz",
        "00000001-000001-000000000000.LOG", "00000001-000001-000000000000.log1", "00000001-000001-000000000000.log0",
        "00000001-000001-000000000000.log-2", "00000001-000001-000000000000.logs", "00000001-000001-000000000000.log2x",
        "00000001-000001-000000000000-0.log", "00000001-000001-000000000000.log99999999999999999999",
    ])
    func whatWeWouldNotWriteIsNotOurs(_ name: String) {
        #expect(LogFiles.kind(of: name) == .other)
    }

    @Test func onlyWhatIsWantedIsLookedAt() throws {
        let folder = LogFolder()
        for run in 1...3 {
            let segment = LogIndex.Segment(index: 1, first: 0)
            try folder.put("abc", name(LogFiles(folder: "/x").segment(segment, of: run)))
        }
        let disk = SystemFiles()
        #expect(try disk.list(folder.path).filter { $0.name.hasSuffix(".log") }.count == 3)
        #expect(try disk.list(folder.path) { $0.starts(with: "00000002".utf8) }.map(\.size) == [3])
        #expect(try disk.list(folder.path) { _ in false }.isEmpty)
        let listing = try LogListing(LogFiles(folder: folder.path), on: disk, without: [1, 3])
        #expect(listing.runs.keys.sorted() == [2])
        #expect(listing.runs[2]?.segments.map(\.size) == [3])
    }

    private func name(_ path: String) -> String { String(path.dropFirst(3)) }
}
