import Foundation
import Testing
import Tiller

struct TimestampTests {
    // MARK: Texts

    @Test(
        arguments: [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (-1_000, "1969-12-31T23:59:59.000Z"),
            (1, "1970-01-01T00:00:00.001Z"),
            (1_772_715_605_005, "2026-03-05T13:00:05.005Z"),
            (1_772_715_605_050, "2026-03-05T13:00:05.050Z"),
            (1_772_715_605_500, "2026-03-05T13:00:05.500Z"),
            (1_772_715_605_999, "2026-03-05T13:00:05.999Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_799_999, "2000-02-29T23:59:59.999Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (1_709_164_800_000, "2024-02-29T00:00:00.000Z"),
            (1_740_787_199_999, "2025-02-28T23:59:59.999Z"),
            (1_740_787_200_000, "2025-03-01T00:00:00.000Z"),
            (-2_203_891_200_001, "1900-02-28T23:59:59.999Z"),
            (-2_203_891_200_000, "1900-03-01T00:00:00.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (1_735_689_599_999, "2024-12-31T23:59:59.999Z"),
            (1_735_689_600_000, "2025-01-01T00:00:00.000Z"),
            (-62_167_219_200_000, "0000-01-01T00:00:00.000Z"),
            (-62_162_121_600_000, "0000-02-29T00:00:00.000Z"),
            (-62_135_596_800_001, "0000-12-31T23:59:59.999Z"),
            (-62_135_596_800_000, "0001-01-01T00:00:00.000Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        ] as [(Int64, String)])
    func anInstantHasOneText(milliseconds: Int64, text: String) {
        #expect(timestampText(milliseconds) == text)
        let date = Date(timeIntervalSince1970: Double(milliseconds) / 1_000)
        #expect(JSONValue(date) == .string(text))
    }

    @Test(arguments: [
        (Int64.min, "0000-01-01T00:00:00.000Z"), (-62_167_219_200_001, "0000-01-01T00:00:00.000Z"),
        (253_402_300_800_000, "9999-12-31T23:59:59.999Z"), (Int64.max, "9999-12-31T23:59:59.999Z"),
    ])
    func millisecondsOutsideTheYearsOfFourDigitsAreClamped(milliseconds: Int64, text: String) {
        #expect(timestampText(milliseconds) == text)
    }

    @Test(arguments: [253_402_300_800, -62_167_219_200.001, 1e300, -1e300, .infinity, -.infinity, .nan] as [Double])
    func datesOutsideTheYearsOfFourDigitsAreNull(seconds: Double) {
        #expect(JSONValue(Date(timeIntervalSince1970: seconds)) == .null)
    }

    // MARK: Fractions

    @Test(arguments: [
        (0.9996, "999"), (0.999_999_4, "999"), (0.0049, "004"), (0.004_999, "004"), (0.005_000_1, "005"),
        (0.000_9, "000"), (0.1234567, "123"),
    ])
    func whatIsFinerThanAMillisecondIsCut(fraction: Double, digits: String) {
        #expect(
            JSONValue(Date(timeIntervalSince1970: 1_772_715_605 + fraction))
                == .string("2026-03-05T13:00:05.\(digits)Z"))
        #expect(JSONValue(Date(timeIntervalSince1970: fraction - 1)) == .string("1969-12-31T23:59:59.\(digits)Z"))
    }

    /// A `Date` counts seconds in a double: far from its reference a millisecond may lie a good deal below itself.
    @Test(arguments: [0, 1_772_715_605, 10_413_792_000, 99_999_999_999, 253_402_300_799, -62_167_219_200] as [Int64])
    func everyMillisecondOfASecondKeepsItsDigits(second: Int64) {
        let wrong = (second * 1_000..<second * 1_000 + 1_000).filter { milliseconds in
            let date = Date(timeIntervalSince1970: Double(milliseconds) / 1_000)
            return JSONValue(date) != .string(timestampText(milliseconds))
        }
        #expect(wrong == [])
    }

    @Test func theTextIsNeverLaterThanTheInstant() {
        let wrong = (0..<10_000).filter { step in
            // Whole microseconds, so that the milliseconds are known without arithmetic on doubles.
            let microseconds = 1_772_715_605_000_000 + Int64(step) * 137
            let date = Date(timeIntervalSince1970: Double(microseconds) / 1_000_000)
            return JSONValue(date) != .string(timestampText(microseconds / 1_000))
        }
        #expect(wrong == [])
    }

    // MARK: Against Foundation

    @Test func tenThousandInstantsReadAsFoundationWritesThem() throws {
        let style = Date.ISO8601FormatStyle(includingFractionalSeconds: true)
        var state: UInt64 = 7
        var compared = 0
        var wrong: [String] = []
        for _ in 0..<10_000 {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            // 1583 to 2400: Foundation's calendar is Julian before.
            let milliseconds = Int64(state >> 16) % 25_782_000_000_000 - 12_212_553_600_000
            let date = Date(timeIntervalSince1970: Double(milliseconds) / 1_000)
            let text = style.format(date)
            // Foundation writes a millisecond less where the double lies below it.
            guard text.suffix(4) == timestampText(milliseconds).suffix(4) else { continue }
            compared += 1
            if text != timestampText(milliseconds) || JSONValue(date) != .string(text) { wrong.append(text) }
        }
        #expect(wrong == [])
        #expect(compared > 5_000)
    }

    @Test func everyDayOfFourCenturiesFollowsTheOneBefore() {
        let padded = { (number: Int) in number < 10 ? "0\(number)" : "\(number)" }
        var (year, month, day) = (1970, 1, 1)
        var wrong: [String] = []
        for number in 0..<Int64(146_097) {
            let text = timestampText(number * 86_400_000)
            if text != "\(year)-\(padded(month))-\(padded(day))T00:00:00.000Z" { wrong.append(text) }
            let isLeap = year.isMultiple(of: 4) && (!year.isMultiple(of: 100) || year.isMultiple(of: 400))
            let days = [31, isLeap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
            day += 1
            if day > days[month - 1] { (month, day) = (month + 1, 1) }
            if month > 12 { (year, month) = (year + 1, 1) }
        }
        #expect(year == 2370)
        #expect(wrong == [])
    }
}
