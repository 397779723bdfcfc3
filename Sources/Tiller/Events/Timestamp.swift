public import Foundation

extension JSONWriter {
    /// The years that four digits can write, in milliseconds since 1970: 0000-01-01 to 9999-12-31.
    static let timestampRange: ClosedRange<Int64> = -62_167_219_200_000...253_402_300_799_999

    /// A quoted instant as `yyyy-MM-ddTHH:mm:ss.SSSZ`, in UTC whatever the locale and calendar of the device.
    ///
    /// By arithmetic, because a formatter costs ten times as much. Days are turned into a civil date
    /// by counting in 400-year eras that begin on 1 March, so that a leap day is the last of its year.
    ///
    /// - Parameter milliseconds: Since 1970; clamped to `timestampRange`.
    mutating func writeTimestamp(_ milliseconds: Int64) {
        let milliseconds = min(max(milliseconds, Self.timestampRange.lowerBound), Self.timestampRange.upperBound)
        let (second, rest) = milliseconds.flooredDivision(by: 1_000)
        if lastTimestamp.second != second { lastTimestamp = TimestampText(ofSecond: second) }
        let (head, tail) = (lastTimestamp.head, lastTimestamp.tail)
        write(count: 26) { text in
            let raw = UnsafeMutableRawPointer(text)
            raw.storeBytes(of: head.0, toByteOffset: 0, as: UInt64.self)
            raw.storeBytes(of: head.1, toByteOffset: 8, as: UInt64.self)
            raw.storeBytes(of: tail, toByteOffset: 16, as: UInt32.self)
            text[20] = UInt8(ascii: ".")
            text.put(rest, in: 21...23, then: "Z")
            text[25] = UInt8(ascii: "\"")
        }
    }
}

/// A second as `"yyyy-MM-ddTHH:mm:ss`, twenty bytes with the quote.
struct TimestampText {
    /// Since 1970.
    private(set) var second = Int64.min
    /// In the order of memory.
    private(set) var head: (UInt64, UInt64) = (0, 0)
    private(set) var tail: UInt32 = 0

    init() {}

    init(ofSecond second: Int64) {
        self.second = second
        let (dayOf1970, time) = second.flooredDivision(by: 86_400)
        let (era, dayOfEra) = (dayOf1970 + 719_468).flooredDivision(by: 146_097)
        let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let monthFromMarch = (5 * dayOfYear + 2) / 153
        let month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
        let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
        let day = dayOfYear - (153 * monthFromMarch + 2) / 5 + 1
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 21) { buffer in
            guard let text = buffer.baseAddress else { return }
            text[0] = UInt8(ascii: "\"")
            text.put(year, in: 1...4, then: "-")
            text.put(month, in: 6...7, then: "-")
            text.put(day, in: 9...10, then: "T")
            text.put(time / 3_600, in: 12...13, then: ":")
            text.put(time / 60 % 60, in: 15...16, then: ":")
            text.put(time % 60, in: 18...19, then: ".")
            let raw = UnsafeRawPointer(text)
            head = (raw.loadUnaligned(as: UInt64.self), raw.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
            tail = raw.loadUnaligned(fromByteOffset: 16, as: UInt32.self)
        }
    }
}

extension UnsafeMutablePointer<UInt8> {
    /// A number's last digits, and what follows them.
    fileprivate func put(_ value: Int64, in places: ClosedRange<Int>, then separator: Unicode.Scalar) {
        var rest = UInt64(value)
        for place in places.reversed() {
            self[place] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
            rest /= 10
        }
        self[places.upperBound + 1] = UInt8(ascii: separator)
    }
}

extension Int64 {
    /// Quotient and remainder with the remainder never negative.
    fileprivate func flooredDivision(by divisor: Int64) -> (quotient: Int64, remainder: Int64) {
        let (quotient, remainder) = quotientAndRemainder(dividingBy: divisor)
        return remainder < 0 ? (quotient - 1, remainder + divisor) : (quotient, remainder)
    }
}

extension JSONValue {
    /// An instant as text: ISO 8601, UTC, milliseconds, `Z`; for instance `2026-03-05T13:00:05.005Z`.
    ///
    /// What is finer than a millisecond is cut off, so that no event lies after its own sending. An instant outside the
    /// years 0000 to 9999 has no such text and becomes `null`.
    ///
    /// - Parameter date: The instant.
    public init(_ date: Date) {
        // A date counts seconds in a double, so that .005 may lie a hair below: what is nearer to a whole millisecond than
        // half a microsecond, or than a double can tell that far from 1970, is that millisecond; the rest is cut.
        let seconds = date.timeIntervalSince1970
        let nearest = (seconds * 1_000).rounded()
        let isWhole = abs(seconds * 1_000 - nearest) <= max(0.000_5, 2_000 * seconds.ulp)
        let milliseconds = isWhole ? nearest : (seconds * 1_000).rounded(.down)
        guard let exact = Int64(exactly: milliseconds), JSONWriter.timestampRange.contains(exact) else {
            self = .null
            return
        }
        self = .string(timestampText(exact))
    }
}

/// `2026-03-05T13:00:05.005Z` for milliseconds since 1970.
package func timestampText(_ milliseconds: Int64) -> String {
    var writer = JSONWriter()
    writer.writeTimestamp(milliseconds)
    return writer.withUTF8 { String(decoding: $0.dropFirst().dropLast(), as: UTF8.self) }
}
