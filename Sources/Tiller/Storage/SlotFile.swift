/// Six numbers that are replaced as one: two slots, written alternately, of which the newer whole one counts.
///
/// A kill or a power cut in the middle of a write damages the slot that is written, never the one that counts.
struct SlotFile: Sendable {
    /// What a file holds that is no slot file any more.
    struct Damage: Error, CustomStringConvertible {
        let path: String
        var description: String { "\(path) is damaged" }
    }

    /// A file of a later version: it is left alone.
    struct NewerFormat: Error, CustomStringConvertible {
        let path: String
        var description: String { "\(path) has a newer format" }
    }

    static let count = 6
    private static let format: UInt64 = 1
    private static let slotSize = 72
    /// Apart, so that no disk writes both at once.
    private static let distance = 4_096

    let path: String
    private let disk: any FileSystem
    /// Of the slot that counts; 0: there is none yet.
    private(set) var generation: UInt64 = 0
    private(set) var values = [UInt64](repeating: 0, count: count)

    /// The file at a path, which need not be there yet.
    ///
    /// - Throws: `Damage`, `NewerFormat`, or why it can't be read.
    init(reading path: String, on disk: any FileSystem = SystemFiles()) throws {
        self.init(new: path, on: disk)
        guard let bytes = try disk.contents(of: path), !bytes.isEmpty else { return }
        let slots = [0, Self.distance].compactMap { Self.slot(in: bytes, at: $0) }
        if slots.contains(where: { $0[0] > Self.format }) { throw NewerFormat(path: path) }
        guard let newest = slots.max(by: { $0[1] < $1[1] }) else {
            // Shorter than the first slot: that one was never written whole, so nothing has been told by it yet.
            if bytes.count < Self.slotSize { return }
            throw Damage(path: path)
        }
        generation = newest[1]
        values = Array(newest[2...])
    }

    init(new path: String, on disk: any FileSystem = SystemFiles()) {
        self.path = path
        self.disk = disk
    }

    /// Replaces the numbers.
    mutating func write(_ values: [UInt64]) throws {
        var bytes: [UInt8] = []
        for value in [Self.format, generation + 1] + values {
            withUnsafeBytes(of: value.littleEndian) { bytes.append(contentsOf: $0) }
        }
        let checksum = UInt64(CRC32C.checksum(of: bytes))
        withUnsafeBytes(of: checksum.littleEndian) { bytes.append(contentsOf: $0) }
        let offset = generation % 2 == 0 ? 0 : Self.distance
        try disk.overwrite(bytes, at: path, offset: offset)
        generation += 1
        self.values = values
    }

    /// Takes the room of both slots, so that none is needed later, when the disk may be full.
    mutating func reserve() throws {
        while generation < 2 { try write(values) }
    }

    /// Format, generation, numbers; `nil` if the slot is not whole.
    private static func slot(in bytes: [UInt8], at offset: Int) -> [UInt64]? {
        guard bytes.count >= offset + slotSize else { return nil }
        let words = bytes.withUnsafeBytes { bytes in
            (0..<slotSize / 8).map { index in
                UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: offset + index * 8, as: UInt64.self))
            }
        }
        let checked = bytes[offset..<offset + slotSize - 8]
        guard words[0] > 0, words[1] > 0, words[words.count - 1] == UInt64(CRC32C.checksum(of: checked)) else {
            return nil
        }
        // A right checksum does not make a writer right.
        if words[0] == format, words[1..<words.count - 1].contains(where: { $0 > LogRecordHeader.numberLimit }) {
            return nil
        }
        return Array(words.dropLast())
    }
}

// MARK: - For those who look on

extension SlotFile {
    /// How one of the two slots is.
    enum SlotState: Equatable {
        /// Not written yet.
        case empty
        case whole(generation: UInt64)
        case newerFormat
        case damaged
    }

    /// The two slots of a file and where they lie.
    static func slots(in bytes: [UInt8]) -> [(offset: Int, state: SlotState)] {
        [0, distance].map { offset in
            // The first slot is never written whole before the file is as long.
            guard bytes.count > offset, offset > 0 || bytes.count >= slotSize else { return (offset, .empty) }
            guard let words = slot(in: bytes, at: offset) else { return (offset, .damaged) }
            return (offset, words[0] > format ? .newerFormat : .whole(generation: words[1]))
        }
    }
}
