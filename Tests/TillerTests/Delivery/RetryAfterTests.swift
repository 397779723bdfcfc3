import Testing

@testable import Tiller

/// What `Retry-After` says, in its two forms, and what says nothing.
@Suite(.timeLimit(.minutes(5))) struct RetryAfterTests {
    /// 1994-11-06T08:49:37Z, the date that the standard has as an example.
    private static let example: Int64 = 784_111_777_000

    @Test(arguments: [
        ("5", 5), (" 120\t", 120), ("3600", 3_600), ("3601", 3_600), ("86400", 3_600),
        ("99999999999999999999999999", 3_600), ("0005", 5),
    ])
    func secondsAreAnHourAtMost(_ value: String, _ seconds: Int) {
        #expect(RetryAfter.delay(value, date: nil, wallMilliseconds: 0) == .seconds(seconds))
    }

    @Test(arguments: ["", " ", "0", "000", "-1", "+5", "5s", "5.5", "1e3", "soon", "٥", "0x10", "5 5"])
    func whatIsNoTimeSaysNothing(_ value: String) {
        #expect(RetryAfter.delay(value, date: nil, wallMilliseconds: 0) == nil)
    }

    @Test(arguments: [
        "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
        "Sun Nov 6 08:49:37 1994",
    ])
    func theThreeFormsOfADateAreRead(_ date: String) {
        #expect(HTTPDate.milliseconds(date, near: Self.example) == Self.example)
        let before = Self.example - 7_500
        #expect(RetryAfter.delay(date, date: nil, wallMilliseconds: before) == .milliseconds(7_500))
        // Past, or this moment.
        #expect(RetryAfter.delay(date, date: nil, wallMilliseconds: Self.example) == nil)
        #expect(RetryAfter.delay(date, date: nil, wallMilliseconds: Self.example + 1) == nil)
        #expect(RetryAfter.delay(date, date: nil, wallMilliseconds: Self.example - 7_200_000) == .seconds(3_600))
        #expect(RetryAfter.delay(date, date: nil, wallMilliseconds: .min) == nil)
    }

    /// The device's clock is years off; the server's is what counts.
    @Test func aDateIsComparedWithTheAnswersOwn() {
        let delay = RetryAfter.delay(
            "Sun, 06 Nov 1994 08:49:37 GMT", date: "Sun, 06 Nov 1994 08:49:07 GMT",
            wallMilliseconds: 1_740_463_597_000)
        #expect(delay == .seconds(30))
        let unreadable = RetryAfter.delay(
            "Sun, 06 Nov 1994 08:49:37 GMT", date: "yesterday", wallMilliseconds: Self.example - 1_000)
        #expect(unreadable == .seconds(1))
    }

    @Test(
        arguments: [
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0), ("Fri, 31 Dec 1999 23:59:60 GMT", 946_684_800_000),
            ("Tue, 29 Feb 2000 00:00:00 GMT", 951_782_400_000), ("Wed, 31 Dec 1969 23:59:59 GMT", -1_000),
            ("Tue, 25 Feb 2025 06:06:37 GMT", 1_740_463_597_000),
        ] as [(String, Int64)])
    func datesAreThoseOfTheCalendar(_ date: String, _ milliseconds: Int64) {
        #expect(HTTPDate.milliseconds(date, near: 0) == milliseconds)
    }

    /// Of the years that two digits may mean: the latest that is no more than fifty years away.
    @Test(arguments: [("26", 2026), ("74", 2074), ("76", 1976), ("99", 1999)])
    func twoDigitsOfAYear(_ digits: String, _ year: Int) {
        let short = HTTPDate.milliseconds("Sunday, 06-Nov-\(digits) 08:49:37 GMT", near: 1_740_463_597_000)
        let long = HTTPDate.milliseconds("Sun, 06 Nov \(year) 08:49:37 GMT", near: 0)
        #expect(short == long && long != nil)
    }

    @Test(arguments: [
        "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49:37 CET", "Sun, 6 Now 1994 08:49:37 GMT",
        "Sun, 32 Nov 1994 08:49:37 GMT", "Sun, 00 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 06 Nov 1994 08:60:00 GMT", "Sun, 06 Nov 1994 8:49:37 GMT", "Sun, 06 Nov 1994 08:49 GMT",
        "Sun, 06 Nov 1994 08:49:37:00 GMT", "Sun, 06 Nov 1994 +8:49:37 GMT", "Sun, 06 Nov 19940 08:49:37 GMT",
        "Sun, 06 Nov 194 08:49:37 GMT", "Sun Nov 6 1994 08:49:37", "1994-11-06T08:49:37Z", "GMT", ",,,,,", "",
        "Sun, 06 Nov -994 08:49:37 GMT",
    ])
    func whatIsNoDateIsNone(_ text: String) {
        #expect(HTTPDate.milliseconds(text, near: 0) == nil)
    }
}
