import Testing

@testable import Tiller

/// Records one after another, of all kinds and many sizes, and where each of them lies: what a scan must find, without a
/// scan.
struct RecordRun: Sendable {
    struct Place: Sendable, Equatable {
        let range: Range<Int>
        /// The event's number; `nil`: state alone.
        let number: UInt64?

        var payload: Range<Int> { range.lowerBound + LogRecordHeader.size..<range.upperBound }
    }

    private(set) var bytes: [UInt8] = []
    private(set) var places: [Place] = []

    /// Every record that has state sets a key of its own.
    init(_ records: Range<Int>, first: UInt64 = 0, padding: (Int) -> Int = { _ in 0 }) {
        var number = first
        for index in records {
            let changes = [StateChange(key: "S", changes: ["k\(index)": .int(Int64(index))])]
            let start = bytes.count
            switch index % 4 {
            case 0: bytes.append(.state("S", ["k\(index)": .int(Int64(index))]), number: number, boot: 5)
            case 1: bytes.append(.event("é\(index)", padding: padding(index)), number: number, boot: 5)
            case 2: bytes.append(.bare(index, padding: padding(index)), number: number, boot: 5)
            default: bytes.append(.event("e\(index)", changes: changes), number: number, boot: 5)
            }
            let isEvent = index % 4 > 0
            places.append(Place(range: start..<bytes.count, number: isEvent ? number : nil))
            if isEvent { number += 1 }
        }
    }

    /// The records that are as they were.
    func intact(in damaged: [UInt8]) -> [Place] {
        places.filter { place in
            damaged.withUnsafeBufferPointer { damaged in
                damaged.count >= place.range.upperBound && place.range.allSatisfy { damaged[$0] == bytes[$0] }
            }
        }
    }

    /// Which state keys the records set.
    static func keys(_ records: some Sequence<Int>) -> Set<String> {
        Set(records.filter { $0 % 4 == 0 || $0 % 4 == 3 }.map { "k\($0)" })
    }
}

extension StoreRecord {
    /// The smallest event that tells which it is.
    fileprivate static func bare(_ index: Int, padding: Int) -> StoreRecord {
        let text = "{\"i\":\(index)\(String(repeating: " ", count: padding))}"
        let moment = Moment(wallMilliseconds: 1, continuous: .zero, sequence: 1)
        return StoreRecord(
            event: EncodedEvent(bytes: Array(text.utf8), anonymousId: 0..<0, moment: moment), changes: [])
    }
}

/// What a scan of a part of bytes finds.
struct ScanResult: Equatable {
    /// Where whole records lie, in the bytes.
    private(set) var found: [RecordRun.Place] = []
    private(set) var skipped = 0
    private(set) var highestDamaged: UInt64?
    private(set) var checkedInVain = 0

    init(_ bytes: [UInt8], _ part: Range<Int>? = nil) {
        let part = part ?? 0..<bytes.count
        bytes.withUnsafeBytes { bytes in
            let buffer = UnsafeRawBufferPointer(rebasing: bytes[part])
            var scanner = LogScanner()
            while let record = scanner.next(in: buffer) {
                let start = record.payload.lowerBound - LogRecordHeader.size + part.lowerBound
                found.append(
                    RecordRun.Place(
                        range: start..<record.end + part.lowerBound,
                        number: record.header.eventLength > 0 ? record.header.number : nil))
            }
            (skipped, highestDamaged) = (scanner.skipped, scanner.highestDamaged)
            checkedInVain = scanner.checkedInVain
        }
    }
}
