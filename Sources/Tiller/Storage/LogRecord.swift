/// The head of a record of the log, as the article "What is stored, and how" describes it.
struct LogRecordHeader: Sendable, Equatable {
    static let size = 60
    /// No byte of UTF-8, so none of JSON.
    static let marker: UInt8 = 0xFF
    private static let kind: UInt8 = 1
    /// No run comes to so many events; sums of such numbers overflow nowhere.
    static let numberLimit: UInt64 = 1 << 48

    var eventLength = 0
    var stateLength = 0
    /// Where the anonymous id lies in the event.
    var anonymousId = 0..<0
    var payloadChecksum: UInt32 = 0
    var number: UInt64 = 0
    var wallMilliseconds: Int64 = 0
    var continuousNanoseconds: Int64 = 0
    var boot: UInt64 = 0

    var payloadLength: Int { eventLength + stateLength }

    func write(to bytes: inout [UInt8]) {
        withUnsafeTemporaryAllocation(byteCount: Self.size, alignment: 8) { head in
            func put(_ value: some FixedWidthInteger, at offset: Int) {
                head.storeBytes(of: value.littleEndian, toByteOffset: offset, as: type(of: value))
            }
            put(Self.marker, at: 0)
            put(Self.kind, at: 1)
            put(UInt16(0), at: 2)
            put(UInt32(eventLength), at: 4)
            put(UInt32(stateLength), at: 8)
            put(UInt32(anonymousId.lowerBound), at: 12)
            put(UInt32(anonymousId.count), at: 16)
            put(payloadChecksum, at: 20)
            put(number, at: 24)
            put(wallMilliseconds, at: 32)
            put(continuousNanoseconds, at: 40)
            put(boot, at: 48)
            put(CRC32C.checksum(of: UnsafeRawBufferPointer(rebasing: head[..<(Self.size - 4)])), at: Self.size - 4)
            bytes.append(contentsOf: UnsafeRawBufferPointer(head))
        }
    }

    init() {}

    /// `nil` if what lies there is no whole head.
    init?(_ bytes: UnsafeRawBufferPointer, at offset: Int) {
        guard bytes.count - offset >= Self.size, bytes[offset] == Self.marker, bytes[offset + 1] == Self.kind else {
            return nil
        }
        let head = UnsafeRawBufferPointer(rebasing: bytes[offset..<offset + Self.size])
        func read<T: FixedWidthInteger>(_ offset: Int, _ type: T.Type) -> T {
            T(littleEndian: head.loadUnaligned(fromByteOffset: offset, as: T.self))
        }
        let checked = UnsafeRawBufferPointer(rebasing: head[..<(Self.size - 4)])
        guard read(Self.size - 4, UInt32.self) == CRC32C.checksum(of: checked) else { return nil }
        eventLength = Int(read(4, UInt32.self))
        stateLength = Int(read(8, UInt32.self))
        let idStart = Int(read(12, UInt32.self))
        anonymousId = idStart..<idStart + Int(read(16, UInt32.self))
        payloadChecksum = read(20, UInt32.self)
        number = read(24, UInt64.self)
        wallMilliseconds = read(32, Int64.self)
        continuousNanoseconds = read(40, Int64.self)
        boot = read(48, UInt64.self)
        // A right checksum does not make a writer right.
        guard anonymousId.upperBound <= eventLength, payloadLength > 0, number < Self.numberLimit else {
            return nil
        }
    }
}

extension [UInt8] {
    /// Adds a record.
    ///
    /// - Parameters:
    ///   - number: The event's, or without an event that of the next one.
    ///   - boot: The hash of the boot's identity.
    @inline(never)  // what it is given is held once, and not at each look
    mutating func append(_ record: StoreRecord, number: UInt64, boot: UInt64) {
        let state = record.changes.isEmpty ? [] : record.changes.encoded
        var header = LogRecordHeader()
        header.stateLength = state.count
        header.number = number
        header.boot = boot
        guard let event = record.event else {
            header.payloadChecksum = CRC32C.checksum(of: state)
            header.write(to: &self)
            append(contentsOf: state)
            return
        }
        header.eventLength = event.bytes.count
        header.anonymousId = event.anonymousId
        header.wallMilliseconds = event.moment.wallMilliseconds
        header.continuousNanoseconds = event.moment.continuousNanoseconds
        header.payloadChecksum = event.checksum ?? CRC32C.checksum(of: event.bytes)
        if !state.isEmpty { header.payloadChecksum = CRC32C.checksum(of: state, after: header.payloadChecksum) }
        header.write(to: &self)
        append(contentsOf: event.bytes)
        append(contentsOf: state)
    }
}

extension [StateChange] {
    /// As they stand in a record.
    fileprivate var encoded: [UInt8] {
        var object = JSONObject()
        for change in self {
            var changes = object[change.key]?.object ?? JSONObject()
            changes.merge(change.changes)
            object[change.key] = .object(changes)
        }
        var writer = JSONWriter()
        writer.write(object)
        return writer.bytes
    }
}

extension Duration {
    /// As many as fit 64 bits.
    var wholeNanoseconds: Int64 {
        let (seconds, attoseconds) = components
        let (product, overflows) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        return overflows ? (seconds < 0 ? .min : .max) : product.addingClamped(attoseconds / 1_000_000_000)
    }
}

/// Finds the whole records in bytes, whatever lies between them.
struct LogScanner {
    /// A whole record.
    struct Found {
        let header: LogRecordHeader
        /// Where its payload lies: the event, then the state.
        let payload: Range<Int>

        var event: Range<Int> { payload.lowerBound..<payload.lowerBound + header.eventLength }
        var state: Range<Int> { payload.lowerBound + header.eventLength..<payload.upperBound }
        var start: Int { payload.lowerBound - LogRecordHeader.size }
        var end: Int { payload.upperBound }
    }

    /// Where reading goes on.
    private(set) var offset = 0
    /// Bytes that belong to no whole record.
    private(set) var skipped = 0
    /// The highest number that a damaged event's head, itself whole, told.
    private(set) var highestDamaged: UInt64?
    /// Bytes of payloads that turned out to be damaged.
    private(set) var checkedInVain = 0

    /// The next whole record; `nil` at the end.
    mutating func next(in bytes: UnsafeRawBufferPointer) -> Found? {
        while offset < bytes.count {
            guard bytes[offset] == LogRecordHeader.marker else {
                skipToMarker(in: bytes)
                continue
            }
            guard let header = LogRecordHeader(bytes, at: offset) else {
                skip()
                continue
            }
            let start = offset + LogRecordHeader.size
            // A write that a kill cut off: nothing was stored by it.
            guard header.payloadLength <= bytes.count - start else {
                skip()
                continue
            }
            let payload = start..<start + header.payloadLength
            guard CRC32C.checksum(of: UnsafeRawBufferPointer(rebasing: bytes[payload])) == header.payloadChecksum
            else {
                noteDamage(header, of: bytes.count)
                continue
            }
            offset = payload.upperBound
            return Found(header: header, payload: payload)
        }
        return nil
    }

    private mutating func noteDamage(_ header: LogRecordHeader, of count: Int) {
        if header.eventLength > 0 { highestDamaged = max(highestDamaged ?? 0, header.number) }
        checkedInVain += header.payloadLength
        // Not past the payload: a whole record may lie in what was meant for it. Unless more was meant than there are
        // bytes: then heads were forged to claim the same bytes again and again.
        skip(checkedInVain > count ? LogRecordHeader.size + header.payloadLength : 1)
    }

    private mutating func skip(_ count: Int = 1) {
        offset += count
        skipped += count
    }

    private mutating func skipToMarker(in bytes: UnsafeRawBufferPointer) {
        let next = bytes[offset...].firstIndex(of: LogRecordHeader.marker) ?? bytes.count
        skipped += next - offset
        offset = next
    }
}
