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
        var name = name
        return name.withUTF8 { kind(of: $0[...]) }
    }

    /// A folder may have thousands of files: no text is made here.
    private static func kind(of name: Slice<UnsafeBufferPointer<UInt8>>) -> Kind {
        guard let dot = name.firstIndex(of: UInt8(ascii: ".")) else { return .other }
        let ending = name[(dot + 1)...]
        let fields = name[..<dot].split(separator: UInt8(ascii: "-"), omittingEmptySubsequences: false)
            .map(Field.init)
        guard fields.allSatisfy(\.isNumber), let run = fields[0].number, run > 0, run < Int.max / 2 else {
            return .other
        }
        // A name that we would write otherwise is not ours, and its file would be looked for elsewhere.
        let isOurs = fields[0].isPadded(to: 8)
        if fields.count == 1 {
            if ending.elementsEqual("ack".utf8), isOurs { return .acknowledgement(run: run) }
            if ending.elementsEqual("lock".utf8), isOurs { return .runLock(run: run) }
            if ending.elementsEqual("newlock".utf8) { return .newLock }
        }
        guard ending.starts(with: "log".utf8) else { return .other }
        if ending.count > 3 {
            let version = Field(ending.dropFirst(3))
            return version.isNumber && version.number ?? 0 > 1 ? .newerSegment(run: run) : .other
        }
        guard fields.count == 3, let index = fields[1].number, let first = fields[2].number.map({ UInt64($0) }),
            first < LogRecordHeader.numberLimit, isOurs, fields[1].isPadded(to: 6), fields[2].isPadded(to: 12)
        else { return .other }
        return .segment(run: run, index: index, first: first)
    }

    /// A number in a name: digits only, for an `Int` may be written with a sign, and ours are not.
    private struct Field {
        private(set) var isNumber: Bool
        /// `nil` if it is none, or too large.
        private(set) var number: Int? = 0
        private let count: Int
        private let startsWithZero: Bool

        init(_ digits: Slice<UnsafeBufferPointer<UInt8>>) {
            count = digits.count
            startsWithZero = digits.first == UInt8(ascii: "0")
            isNumber = true
            for digit in digits {
                guard (0x30...0x39).contains(digit) else {
                    isNumber = false
                    number = nil
                    return
                }
                let (tens, overflows) = (number ?? 0).multipliedReportingOverflow(by: 10)
                let (sum, overflowsToo) = tens.addingReportingOverflow(Int(digit - 0x30))
                number = number == nil || overflows || overflowsToo ? nil : sum
            }
            if count == 0 { number = nil }
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
