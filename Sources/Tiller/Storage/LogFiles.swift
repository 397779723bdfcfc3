/// The names of the log's files in a folder.
struct LogFiles: Sendable {
    let folder: String

    var checkpoint: String { folder + "/checkpoint.json" }
    /// The next one, until it is whole.
    var newCheckpoint: String { checkpoint + ".new" }
    /// The one before, whose file the next one gets.
    var oldCheckpoint: String { checkpoint + ".old" }
    /// One that could not be read when it was replaced.
    var unreadableCheckpoint: String { checkpoint + ".unreadable" }
    var base: String { folder + "/base.ack" }
    /// The state that an erasure leaves: as long as it is there, everything else is to go.
    var erasure: String { folder + "/erasure.json" }

    /// Locked by the instance that owns the folder.
    var ownerLock: String { folder + "/owner.lock" }
    /// Wakes the owner.
    var signal: String { folder + "/owner.fifo" }

    /// Locked as long as the run may grow.
    func runLock(of run: Int) -> String { folder + "/" + Self.runLockName(run) }

    /// A run's lock before it has its name.
    func newLock(_ number: UInt32) -> String { folder + "/\(max(number, 1)).newlock" }

    func acknowledgement(of run: Int) -> String { folder + "/" + Self.acknowledgementName(run) }

    func segment(_ index: Int, of run: Int, first: UInt64) -> String {
        folder + "/" + Self.segmentName(index, of: run, first: first)
    }

    func segment(_ segment: LogIndex.Segment, of run: Int) -> String {
        self.segment(segment.index, of: run, first: segment.first)
    }

    /// All that belongs to a run, in the order in which it may go: the lock last, for as long as that is there nobody takes
    /// the number.
    func all(of run: LogIndex.Run) -> [String] {
        run.segments.map { segment($0, of: run.number) } + [acknowledgement(of: run.number), runLock(of: run.number)]
    }

    static func runLockName(_ run: Int) -> String { padded(run, to: 8) + ".lock" }

    static func acknowledgementName(_ run: Int) -> String { padded(run, to: 8) + ".ack" }

    private static func segmentName(_ index: Int, of run: Int, first: UInt64) -> String {
        "\(padded(run, to: 8))-\(padded(index, to: 6))-\(padded(first, to: 12)).log"
    }

    /// Leading zeros, so that a list by name is a list by age.
    private static func padded(_ number: some FixedWidthInteger, to width: Int) -> String {
        let digits = String(number)
        return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }

    /// What a file of the folder is.
    enum Kind: Equatable {
        case segment(run: Int, index: Int, first: UInt64)
        case acknowledgement(run: Int)
        case runLock(run: Int)
        /// A run's lock that has not got its name yet, or never will.
        case newLock
        /// A segment of a later version.
        case newerSegment(run: Int)
        /// Not ours.
        case other
    }

    static func kind(of name: String) -> Kind {
        var name = name
        return name.withUTF8 { kind(of: $0) }
    }

    /// A folder may have thousands of files: no text is made here, and no list.
    static func kind(of name: UnsafeBufferPointer<UInt8>) -> Kind {
        var place = 0
        let first = Field(name, &place)
        var (second, third, count) = (first, first, 1)
        while place < name.count, name[place] == UInt8(ascii: "-") {
            place += 1
            let field = Field(name, &place)
            count += 1
            if count == 2 { second = field } else if count == 3 { third = field }
        }
        // Nothing but digits and hyphens up to the dot.
        guard place < name.count, name[place] == UInt8(ascii: "."), let run = first.number, run > 0, run < Int.max / 2
        else { return .other }
        let ending = name[(place + 1)...]
        // A name that we would write otherwise is not ours, and its file would be looked for elsewhere.
        let isOurs = first.isPadded(to: 8)
        if count == 1 {
            if ending.elementsEqual("ack".utf8), isOurs { return .acknowledgement(run: run) }
            if ending.elementsEqual("lock".utf8), isOurs { return .runLock(run: run) }
            if ending.elementsEqual("newlock".utf8) { return .newLock }
        }
        guard ending.starts(with: "log".utf8) else { return .other }
        place += 4
        if place < name.count {
            let version = Field(name, &place)
            return place == name.count && version.number ?? 0 > 1 ? .newerSegment(run: run) : .other
        }
        guard count == 3, let index = second.number, let event = third.number.map({ UInt64($0) }),
            event < LogRecordHeader.numberLimit, isOurs, second.isPadded(to: 6), third.isPadded(to: 12)
        else { return .other }
        return .segment(run: run, index: index, first: event)
    }

    /// A number in a name: digits only, for an `Int` may be written with a sign, and ours are not.
    private struct Field {
        /// `nil` if there are no digits, or too many.
        let number: Int?
        private let count: Int
        private let startsWithZero: Bool

        /// - Parameter place: Where it begins; then where it has ended.
        init(_ name: UnsafeBufferPointer<UInt8>, _ place: inout Int) {
            let start = place
            var sum = 0
            var isTooLarge = false
            while place < name.count, (0x30...0x39).contains(name[place]) {
                let (tens, overflows) = sum.multipliedReportingOverflow(by: 10)
                let (next, overflowsToo) = tens.addingReportingOverflow(Int(name[place] - 0x30))
                isTooLarge = isTooLarge || overflows || overflowsToo
                sum = next
                place += 1
            }
            count = place - start
            startsWithZero = count > 0 && name[start] == UInt8(ascii: "0")
            number = count == 0 || isTooLarge ? nil : sum
        }

        func isPadded(to width: Int) -> Bool { count == width || count > width && !startsWithZero }
    }
}

// MARK: - For those who look on

extension LogFiles {
    /// What else the SDK has in a folder, beside segments and acknowledgements.
    static func isCompanion(_ name: String) -> Bool {
        if name.hasSuffix(".lock") || name.hasSuffix(".newlock") || name.hasSuffix(".fifo") || name == "base.ack" {
            return true
        }
        return [
            "checkpoint.json", "checkpoint.json.new", "checkpoint.json.old", "checkpoint.json.unreadable",
            "erasure.json", "erasure.json.new",
        ].contains(name)
    }

    /// Whether a folder has the name of a store's: sixteen digits of a hash, and the instance's name.
    static func isStoreName(_ name: Substring) -> Bool {
        let hash = name.prefix(16)
        return hash.utf8.count == 16 && hash.utf8.allSatisfy { "0123456789abcdef".utf8.contains($0) }
            && name.dropFirst(16).first == "-"
    }

    /// Whether the files of a folder are a store's.
    static func isStore(_ names: [String]) -> Bool {
        names.contains { $0 == "owner.lock" || $0 == "base.ack" || $0 == "checkpoint.json" || kind(of: $0) != .other }
    }
}
