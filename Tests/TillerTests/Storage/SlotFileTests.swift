import Foundation
import Testing

@testable import Tiller

/// Two slots: whatever happens to one, the other tells what was written before.
@Suite(.timeLimit(.minutes(5))) struct SlotFileTests {
    private let folder = LogFolder()
    private static let name = "x.ack"
    private var path: String { folder.path + "/" + Self.name }
    private static let slots = [0..<72, 4_096..<4_168]

    /// A file to which so many sixes of numbers were written: 10, 11 ...; 20, 21 ...
    private func write(_ count: Int) throws -> [UInt8] {
        try? folder.remove(Self.name)
        try folder.put([], "folder is there")
        var file = SlotFile(new: path)
        for number in 1...count { try file.write(Self.values(number)) }
        return try folder.contents(Self.name)
    }

    private static func values(_ number: Int) -> [UInt64] { (0..<6).map { UInt64(number * 10 + $0) } }

    private func read(_ bytes: [UInt8]) throws -> SlotFile {
        try folder.put(bytes, Self.name)
        return try SlotFile(reading: path)
    }

    @Test func numbersComeBack() throws {
        var file = SlotFile(new: path)
        #expect(try SlotFile(reading: path).values == [0, 0, 0, 0, 0, 0])
        try folder.put([], "folder is there")
        for number in 1...9 {
            try file.write(Self.values(number))
            let read = try SlotFile(reading: path)
            #expect(read.values == Self.values(number))
            #expect(read.generation == UInt64(number))
            #expect(file.values == read.values)
            // One that was read goes on as the one that wrote would.
            if number % 4 == 0 { file = read }
        }
        #expect(try folder.contents(Self.name).count == 4_168)
    }

    @Test func everyTruncationTellsTheLastWholeSlot() throws {
        for count in 1...3 {
            let whole = try write(count)
            for length in 0..<whole.count where length < 80 || length > 4_090 || length % 500 == 0 {
                let present = (0..<count).filter { Self.slots[$0 % 2].upperBound <= length }
                // Of each slot the last one written.
                let newest = present.filter { $0 + 2 >= count }.max().map { $0 + 1 } ?? 0
                let file = try read(Array(whole[..<length]))
                #expect(
                    file.values == (newest == 0 ? SlotFile(new: path).values : Self.values(newest)),
                    "\(count) \(length)")
            }
        }
    }

    @Test(arguments: [2, 3]) func everyFlippedBitCostsOneSlot(_ count: Int) throws {
        let whole = try write(count)
        let newest = Self.slots[(count - 1) % 2]
        for slot in Self.slots {
            for index in slot {
                for bit in 0..<8 {
                    var damaged = whole
                    damaged[index] ^= 1 << bit
                    let expected = newest.contains(index) ? count - 1 : count
                    let values = try read(damaged).values
                    if values != Self.values(expected) { Issue.record("bit \(bit) of byte \(index)") }
                }
            }
        }
        var damaged = whole
        damaged[1_000] ^= 1  // between them lies nothing
        #expect(try read(damaged).values == Self.values(count))
    }

    @Test func aDamagedSlotIsTheNextToBeWritten() throws {
        var damaged = try write(3)
        damaged[20] ^= 1
        var file = try read(damaged)
        #expect(file.values == Self.values(2))
        try file.write(Self.values(7))
        #expect(try SlotFile(reading: path).values == Self.values(7))
        try file.write(Self.values(8))
        #expect(try SlotFile(reading: path).values == Self.values(8))
    }

    @Test func damageOfBothSlotsIsSaid() throws {
        var damaged = try write(4)
        damaged[20] ^= 1
        damaged[4_100] ^= 1
        #expect(throws: SlotFile.Damage.self) { try read(damaged) }
        // Of one that has only one.
        damaged = try write(1)
        damaged[70] ^= 1
        #expect(throws: SlotFile.Damage.self) { try read(damaged) }
    }

    @Test(arguments: [
        [UInt8](repeating: 0, count: 4_168), [UInt8](repeating: 0xFF, count: 100), Array("{\"format\":1}".utf8),
    ])
    func garbageTellsNothing(_ bytes: [UInt8]) throws {
        if bytes.count < 72 {
            #expect(try read(bytes).generation == 0)
        } else {
            #expect(throws: SlotFile.Damage.self) { try read(bytes) }
        }
    }

    @Test func newerFormatIsLeftAlone() throws {
        #expect(throws: SlotFile.NewerFormat.self) { try read(Self.slot([2, 1, 0, 0, 0, 0, 0, 0])) }
    }

    /// Written by nobody, and it must end no process: later these numbers are added to.
    @Test(arguments: 1..<8) func hostileNumbersAreDamage(_ index: Int) throws {
        var words: [UInt64] = [1, 1, 0, 0, 0, 0, 0, 0]
        words[index] = .max
        #expect(throws: SlotFile.Damage.self) { try read(Self.slot(words)) }
        words[index] = (1 << 48) + 1
        #expect(throws: SlotFile.Damage.self) { try read(Self.slot(words)) }
    }

    @Test func aFileThatCannotBeReadIsNotAnEmptyOne() throws {
        try folder.block(Self.name)
        #expect(throws: (any Error).self) { try SlotFile(reading: path) }
        var file = SlotFile(new: path)
        #expect(throws: (any Error).self) { try file.write(Self.values(1)) }
        #expect(file.generation == 0)
        #expect(file.values == [0, 0, 0, 0, 0, 0])
    }

    private static func slot(_ words: [UInt64]) -> [UInt8] {
        let bytes = words.flatMap { word in (0..<8).map { UInt8(truncatingIfNeeded: word >> ($0 * 8)) } }
        let checksum = UInt64(CRC32C.checksum(of: bytes))
        return bytes + (0..<8).map { UInt8(truncatingIfNeeded: checksum >> ($0 * 8)) }
    }
}
