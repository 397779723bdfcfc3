/// Cuts what is read piece by piece into lines, and keeps no more than one line.
struct InputLines {
    /// The longest line that is kept, in bytes, its end not counted.
    static let longestLine = 1_048_576

    struct Line: Equatable {
        /// From 1 on; blank lines are counted.
        let number: Int
        /// `nil`: there were too many.
        let bytes: [UInt8]?

        /// Whether there is nothing in it, or blanks only.
        var isBlank: Bool { bytes?.allSatisfy { $0 == 0x20 || $0 == 0x09 || $0 == 0x0D } == true }
    }

    private var begun: [UInt8] = []
    private var isTooLong = false
    private var count = 0

    /// Takes the next piece.
    ///
    /// - Returns: The lines that end in it.
    mutating func take(_ piece: [UInt8]) -> [Line] {
        var lines: [Line] = []
        var rest = piece[...]
        while let end = rest.firstIndex(of: 0x0A) {
            keep(rest[..<end])
            lines.append(finish())
            rest = rest[(end + 1)...]
        }
        keep(rest)
        return lines
    }

    /// The last line, if it has no end.
    mutating func end() -> Line? { begun.isEmpty && !isTooLong ? nil : finish() }

    private mutating func keep(_ part: ArraySlice<UInt8>) {
        if isTooLong { return }
        if begun.count + part.count > Self.longestLine {
            isTooLong = true
            begun = []
        } else {
            begun += part
        }
    }

    private mutating func finish() -> Line {
        defer {
            begun = []
            isTooLong = false
        }
        count += 1
        let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
        // Some editors begin a file with a byte order mark.
        if count == 1, begun.starts(with: mark) { begun.removeFirst(mark.count) }
        return Line(number: count, bytes: isTooLong ? nil : begun)
    }
}
