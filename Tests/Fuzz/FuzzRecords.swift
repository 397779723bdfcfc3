@testable import Tiller

/// The files of a store. The first byte says what the others are; where it is odd their checksums are put right first, for
/// no fuzzer finds one.
func fuzzRecords(_ input: [UInt8]) {
    guard let first = input.first else { return }
    let isRight = first & 1 == 1
    let bytes = Array(input.dropFirst())
    switch first >> 1 & 3 {
    case 0: fuzzSegment(isRight ? bytes.withRightRecords : bytes)
    case 1: fuzzSlots(isRight ? bytes.withRightSlots : bytes)
    case 2: fuzzCheckpoint(isRight ? CheckedText.bytes(of: bytes) : bytes)
    default: fuzzFolder(bytes, isRight: isRight)
    }
}

/// Every byte belongs to a whole record or is skipped, in order.
private func fuzzSegment(_ bytes: [UInt8]) {
    bytes.withUnsafeBytes { buffer in
        var scanner = LogScanner()
        var end = 0
        var taken = 0
        while let found = scanner.next(in: buffer) {
            check(found.start >= end && found.end <= bytes.count, "a record at \(found.start) after \(end)")
            check(found.event.upperBound == found.state.lowerBound && found.state.upperBound == found.end, "its parts")
            var head: [UInt8] = []
            found.header.write(to: &head)
            check(head.withUnsafeBytes { LogRecordHeader($0, at: 0) } == found.header, "its head")
            end = found.end
            taken += found.end - found.start
        }
        check(scanner.offset == bytes.count, "read up to \(scanner.offset) of \(bytes.count)")
        check(scanner.skipped + taken == bytes.count, "\(scanner.skipped) skipped and \(taken) taken of \(bytes.count)")
    }
}

private func fuzzSlots(_ bytes: [UInt8]) {
    let disk = ReadOnlyFiles(["base.ack": bytes])
    let whole = SlotFile.slots(in: bytes).filter { if case .whole = $0.state { true } else { false } }
    guard let file = try? SlotFile(reading: "base.ack", on: disk) else { return }
    check(file.values.allSatisfy { $0 <= LogRecordHeader.numberLimit }, "\(file.values)")
    check((file.generation > 0) == !whole.isEmpty, "generation \(file.generation)")
}

/// What is read of a checkpoint can be written and read again.
private func fuzzCheckpoint(_ bytes: [UInt8]) {
    guard let checkpoint = try? Checkpoint(reading: bytes) else { return }
    let written = checkpoint.bytes
    guard let again = try? Checkpoint(reading: written) else { fatalError("what was written is not read") }
    check(again.place == checkpoint.place, "\(again.place)")
    check(again.bytes == written, "\(checkpoint) became \(again)")
}

/// A whole folder: files with a byte for the name and two for the size each.
private func fuzzFolder(_ bytes: [UInt8], isRight: Bool) {
    let names = [
        "base.ack", "checkpoint.json", "00000001.ack", "00000002.ack", "00000001-000001-000000000000.log",
        "00000001-000002-000000000003.log", "00000001-000004-000000000009.log", "00000002-000001-000000000000.log",
        "00000003-000001-000000000000.log2", "x",
    ]
    var files: [String: [UInt8]] = [:]
    var rest = bytes[...]
    while rest.count > 3, files.count < names.count {
        let head = Array(rest.prefix(3))
        let name = names[Int(head[0]) % names.count]
        rest = rest.dropFirst(3)
        let content = Array(rest.prefix(Int(head[1]) | Int(head[2] & 0x1F) << 8))
        rest = rest.dropFirst(content.count)
        guard isRight else {
            files[name] = content
            continue
        }
        switch name.split(separator: ".").last {
        case "ack": files[name] = content.withRightSlots
        case "json": files[name] = CheckedText.bytes(of: content)
        default: files[name] = content.withRightRecords
        }
    }
    inspect(ReadOnlyFiles(files))
}

private func inspect(_ disk: ReadOnlyFiles) {
    guard let store = try? StoreInspection(folder: "/fuzz", on: disk, readsPayloads: true) else {
        fatalError("a folder that can't be read")
    }
    var count = 0
    store.records(on: disk) { _ in count += 1 }
    check(count == store.runs.reduce(0) { $0 + $1.recordCount }, "\(count) records")
    guard let account = store.account else { return check(store.obstacle != nil, "no account, and no reason") }
    check(store.lostCount <= account.waiting, "\(store.lostCount) of \(account.waiting) are lost")
    check(account.waiting == store.runs.reduce(0) { $0 + ($1.waiting ?? 0) }, "\(account.waiting) wait")
}

// MARK: - Right checksums

extension [UInt8] {
    /// Wherever a head begins its lengths and its number become small, and its checksums right.
    fileprivate var withRightRecords: [UInt8] {
        var bytes = self
        var offset = 0
        while offset + LogRecordHeader.size <= count {
            guard bytes[offset] == LogRecordHeader.marker, bytes[offset + 1] == 1 else {
                offset += 1
                continue
            }
            for zero in [6, 7, 10, 11, 13, 14, 15, 17, 18, 19, 26, 27, 28, 29, 30, 31] { bytes[offset + zero] = 0 }
            let length = { (at: Int) in Int(bytes[offset + at]) | Int(bytes[offset + at + 1]) << 8 }
            let start = offset + LogRecordHeader.size
            let end = Swift.min(start + length(4) + length(8), count)
            bytes.put(CRC32C.checksum(of: bytes[start..<end]), at: offset + 20)
            bytes.put(CRC32C.checksum(of: bytes[offset..<start - 4]), at: start - 4)
            offset = end
        }
        return bytes
    }

    /// Numbers become small, and the two slots whole.
    fileprivate var withRightSlots: [UInt8] {
        var bytes = self
        for offset in [0, 4_096] where offset + 72 <= count {
            for word in 0..<8 { for high in 2..<8 { bytes[offset + word * 8 + high] = 0 } }
            let checksum = CRC32C.checksum(of: bytes[offset..<offset + 64])
            bytes.put(checksum, at: offset + 64)
            bytes.put(0, at: offset + 68)
        }
        return bytes
    }

    private mutating func put(_ value: UInt32, at offset: Int) {
        for byte in 0..<4 { self[offset + byte] = UInt8(truncatingIfNeeded: value >> UInt32(byte * 8)) }
    }
}
