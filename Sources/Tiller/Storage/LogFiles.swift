/// The names of the log's files in a folder.
struct LogFiles: Sendable {
    let folder: String

    var checkpoint: String { folder + "/checkpoint.json" }
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
        let parts = name.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 2 else { return .other }
        let numbers = parts[0].split(separator: "-", omittingEmptySubsequences: false)
        // An `Int` may be written with a sign; ours are not.
        guard numbers.allSatisfy({ $0.utf8.allSatisfy { (0x30...0x39).contains($0) } }),
            let run = numbers.first.flatMap({ Int($0) }), run > 0, run < Int.max / 2
        else { return .other }
        switch parts[1] {
        // A name that we would write otherwise is not ours, and its file would be looked for elsewhere.
        case "ack" where name == acknowledgementName(run): return .acknowledgement(run: run)
        case "lock" where name == runLockName(run): return .runLock(run: run)
        case "newlock" where numbers.count == 1: return .newLock
        case "log" where numbers.count == 3:
            guard let index = Int(numbers[1]), let first = UInt64(numbers[2]), first < LogRecordHeader.numberLimit,
                name == segmentName(index, of: run, first: first)
            else { return .other }
            return .segment(run: run, index: index, first: first)
        case let ending where ending.hasPrefix("log") && Int(ending.dropFirst(3)) ?? 0 > 1:
            return .newerSegment(run: run)
        default: return .other
        }
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
            "checkpoint.json", "checkpoint.json.new", "checkpoint.json.unreadable", "erasure.json", "erasure.json.new",
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
