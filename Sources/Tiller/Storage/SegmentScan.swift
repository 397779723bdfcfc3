/// Goes through a segment, record by record, and says what is not as it was written.
struct SegmentScan {
    typealias Record = StoreInspection.Record

    let name: String
    let run: Int
    /// The number that its first event should have.
    let first: UInt64
    /// What the next segment begins with: events from there on are that one's. `nil` in the last segment.
    let limit: UInt64?
    /// The number after its last event, as far as that is known.
    let end: UInt64
    /// The number of the first event that waits.
    let position: UInt64
    /// Whether what the records hold is read too.
    let readsPayloads: Bool

    private(set) var recordCount = 0
    private(set) var eventCount = 0
    private(set) var stateCount = 0
    /// The call of the first event that waits.
    private(set) var oldestMilliseconds: Int64?
    /// Events that wait and are not whole.
    private(set) var lostCount: UInt64 = 0
    private(set) var findings = StoreInspection.Findings()
    /// The next event's number.
    private(set) var reached: UInt64 = 0
    private var isRepeated = false

    /// - Parameter reached: The number after the last event of the segments before it.
    init(
        name: String, run: Int, first: UInt64, reached: UInt64 = 0, limit: UInt64?, end: UInt64, position: UInt64,
        readsPayloads: Bool
    ) {
        self.name = name
        self.run = run
        self.first = first
        self.limit = limit
        self.end = end
        self.position = position
        self.readsPayloads = readsPayloads
        self.reached = max(first, reached)
    }

    mutating func read(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes { buffer in
            var scanner = LogScanner()
            var last = 0
            while let found = scanner.next(in: buffer) {
                take(found, after: last, buffer)
                last = found.end
            }
            finish(after: last, buffer)
        }
    }

    /// Gives all whole records that count.
    func records(in bytes: [UInt8], _ visit: (Record) -> Void) {
        bytes.withUnsafeBytes { buffer in
            var scanner = LogScanner()
            while let found = scanner.next(in: buffer) {
                let header = found.header
                if isBeyondLimit(header) { continue }
                visit(
                    Record(
                        run: run, file: name, offset: found.start, number: header.number,
                        wallMilliseconds: header.wallMilliseconds,
                        continuousNanoseconds: header.continuousNanoseconds, boot: header.boot,
                        event: Array(bytes[found.event]), state: Array(bytes[found.state])))
            }
        }
    }

    // MARK: Records

    private func isBeyondLimit(_ header: LogRecordHeader) -> Bool {
        guard let limit else { return false }
        return header.eventLength > 0 ? header.number >= limit : header.number > limit
    }

    private mutating func take(_ found: LogScanner.Found, after last: Int, _ bytes: UnsafeRawBufferPointer) {
        let header = found.header
        let isCounted = !isBeyondLimit(header)
        let lost = isCounted ? skipTo(header.number) : 0..<0
        if found.start > last {
            add(.damage, last, gap(last, found.start, bytes) + Self.loss(lost))
        } else if !lost.isEmpty {
            add(.damage, found.start, "Here are missing" + Self.loss(lost))
        }
        guard isCounted else {
            if !isRepeated { add(.remark, found.start, "From here on the next segment holds it again") }
            isRepeated = true
            return
        }
        if header.number < reached {
            add(.damage, found.start, "The number \(header.number) comes after \(reached)")
        }
        recordCount += 1
        if header.eventLength > 0 {
            eventCount += 1
            reached = max(reached, header.number + 1)
            if header.number >= position, oldestMilliseconds == nil { oldestMilliseconds = header.wallMilliseconds }
        }
        if header.stateLength > 0 { stateCount += 1 }
        if readsPayloads { checkPayload(of: found, bytes) }
    }

    /// - Returns: The events that should have come before.
    private mutating func skipTo(_ number: UInt64) -> Range<UInt64> {
        guard number > reached else { return 0..<0 }
        defer { reached = number }
        lostCount += number - max(min(position, number), reached)
        return reached..<number
    }

    private mutating func checkPayload(of found: LogScanner.Found, _ bytes: UnsafeRawBufferPointer) {
        if found.header.eventLength > 0, (try? JSONValue(parsing: bytes[found.event]))?.object == nil {
            add(.damage, found.event.lowerBound, "The event \(found.header.number) is no JSON object")
        }
        guard found.header.stateLength > 0 else { return }
        let state = (try? JSONValue(parsing: bytes[found.state]))?.object
        if state?.allSatisfy({ $0.value.object != nil }) != true {
            add(.damage, found.state.lowerBound, "The state is no JSON object of objects")
        }
    }

    // MARK: Gaps

    private mutating func finish(after last: Int, _ bytes: UnsafeRawBufferPointer) {
        let lost = skipTo(end)
        // What was never there, because a power cut took it, is settled.
        let missing = max(lost.lowerBound, min(position, lost.upperBound))..<lost.upperBound
        if last < bytes.count {
            // What ends here without a whole head is as a kill in the middle of a write leaves it.
            let isDamage = !missing.isEmpty || isWholeButForItsPayload(last, bytes)
            add(isDamage ? .damage : .remark, last, gap(last, bytes.count, bytes) + Self.loss(missing))
        } else if !missing.isEmpty {
            add(.damage, bytes.count, "At the end are missing" + Self.loss(missing))
        }
    }

    private func isWholeButForItsPayload(_ start: Int, _ bytes: UnsafeRawBufferPointer) -> Bool {
        guard let header = LogRecordHeader(bytes, at: start) else { return false }
        return header.payloadLength <= bytes.count - start - LogRecordHeader.size
    }

    /// What is to be said of bytes that are no whole record.
    private func gap(_ start: Int, _ end: Int, _ bytes: UnsafeRawBufferPointer) -> String {
        guard let header = LogRecordHeader(bytes, at: start) else {
            return "\(end - start) bytes are no whole record"
        }
        let size = LogRecordHeader.size + header.payloadLength
        let what = header.eventLength > 0 ? "event \(header.number)" : "state before event \(header.number)"
        if size > bytes.count - start {
            return "\(end - start) of \(size) bytes of a record (\(what)): its writing was cut off"
        }
        return "\(end - start) bytes: a record (\(what)) is not what was written"
    }

    private static func loss(_ numbers: Range<UInt64>) -> String {
        guard let last = numbers.last else { return "" }
        return numbers.count == 1 ? "; event \(last) is lost" : "; events \(numbers.lowerBound) to \(last) are lost"
    }

    private mutating func add(_ kind: StoreInspection.Finding.Kind, _ offset: Int, _ text: String) {
        findings.add(kind, name, at: offset, text)
    }
}
