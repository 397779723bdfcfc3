/// What a server says of when to come back: the header `Retry-After`.
enum RetryAfter {
    /// Whatever a server says, no wait is longer for it.
    static let longest = Duration.seconds(3_600)

    /// How long to wait, at most `longest`; `nil` if the value says nothing, or a moment that is past.
    ///
    /// - Parameters:
    ///   - value: Seconds, or an HTTP date.
    ///   - date: The answer's own `Date`, which a date is compared with: the device's clock may be wrong.
    ///   - wallMilliseconds: What it is compared with where there is none.
    static func delay(_ value: String, date: String?, wallMilliseconds: Int64) -> Duration? {
        let value = value.trimmedBlanks
        if !value.isEmpty, value.utf8.allSatisfy(\.isDigit) {
            // More digits than a number holds are a long time.
            let seconds = Int64(value) ?? .max
            return seconds > 0 ? .seconds(min(seconds, longest.components.seconds)) : nil
        }
        guard let moment = HTTPDate.milliseconds(value, near: wallMilliseconds) else { return nil }
        let now = date.flatMap { HTTPDate.milliseconds($0, near: wallMilliseconds) } ?? wallMilliseconds
        let (delay, overflows) = moment.subtractingReportingOverflow(now)
        guard !overflows, delay > 0 else { return nil }
        return min(.milliseconds(delay), longest)
    }
}

/// The three forms of a date in HTTP (RFC 9110 §5.6.7).
enum HTTPDate {
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    /// Milliseconds since 1970; `nil` if it is no date. The name of the day is not looked at.
    ///
    /// - Parameter now: Of the years that two digits may mean, the latest that is not more than fifty years after.
    static func milliseconds(_ text: String, near now: Int64) -> Int64? {
        let words = text.split { $0 == " " || $0 == "," || $0 == "-" }.map(String.init)
        switch words.count {
        case 6 where words[5] == "GMT": return moment(words[3], words[2], words[1], words[4], now)
        case 5: return moment(words[4], words[1], words[2], words[3], now)
        default: return nil
        }
    }

    private static func moment(
        _ year: String, _ month: String, _ day: String, _ time: String, _ now: Int64
    ) -> Int64? {
        let clock = time.split(separator: ":", omittingEmptySubsequences: false).map {
            number(String($0), digits: 2...2)
        }
        guard let month = months.firstIndex(of: month), let day = number(day, digits: 1...2), (1...31).contains(day),
            clock.count == 3, let hour = clock[0], let minute = clock[1], let second = clock[2],
            hour < 24, minute < 60, second <= 60
        else { return nil }
        func milliseconds(in year: Int64) -> Int64 {
            (days(year, Int64(month) + 1, day) * 86_400 + hour * 3_600 + minute * 60 + second) * 1_000
        }
        if let year = number(year, digits: 4...4) { return milliseconds(in: year) }
        guard let year = number(year, digits: 2...2) else { return nil }
        let recent = milliseconds(in: 2_000 + year)
        let isTooLate = recent > now.addingClamped(50 * 31_557_600_000)
        return isTooLate ? milliseconds(in: 1_900 + year) : recent
    }

    /// Digits and nothing else.
    private static func number(_ text: String, digits: ClosedRange<Int>) -> Int64? {
        guard digits.contains(text.utf8.count), text.utf8.allSatisfy(\.isDigit) else { return nil }
        return Int64(text)
    }

    /// Days from 1970 to a day of the civil calendar, counted in eras of 400 years that begin on 1 March.
    private static func days(_ year: Int64, _ month: Int64, _ day: Int64) -> Int64 {
        let year = month <= 2 ? year - 1 : year
        let era = (year >= 0 ? year : year - 399) / 400
        let yearOfEra = year - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }
}

extension UInt8 {
    fileprivate var isDigit: Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(self) }
}

extension String {
    fileprivate var trimmedBlanks: String {
        String(drop { $0 == " " || $0 == "\t" }.reversed().drop { $0 == " " || $0 == "\t" }.reversed())
    }
}
