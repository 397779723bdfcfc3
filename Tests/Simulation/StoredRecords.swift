/// Finds the ledger's numbers in the files of a store, as the article "What is stored, and how" describes them.
enum StoredRecords {
    /// Numbers of the events whose records are whole.
    static func numbers(in files: [(path: String, bytes: [UInt8])]) -> Set<Int> {
        var numbers: Set<Int> = []
        for file in files where file.path.hasSuffix(".log") {
            for event in events(in: file.bytes) {
                if let number = PostedEvents.number(in: file.bytes, event) { numbers.insert(number) }
            }
        }
        return numbers
    }

    /// The events of the records from the beginning on, up to the first that is not whole.
    static func events(in bytes: [UInt8]) -> [Range<Int>] {
        var events: [Range<Int>] = []
        var offset = 0
        while bytes.count - offset >= 60, bytes[offset] == 0xFF, bytes[offset + 1] == 1 {
            let event = offset + 60..<offset + 60 + length(bytes, offset + 4)
            let end = event.upperBound + length(bytes, offset + 8)
            if end > bytes.count { break }
            events.append(event)
            offset = end
        }
        return events
    }

    private static func length(_ bytes: [UInt8], _ offset: Int) -> Int {
        (0..<4).reduce(0) { $0 | Int(bytes[offset + $1]) << ($1 * 8) }
    }
}
