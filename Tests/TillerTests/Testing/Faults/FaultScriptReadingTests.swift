import Testing
import TillerTesting

/// Fault scripts as texts.
@Suite(.timeLimit(.minutes(5)))
struct FaultScriptReadingTests {
    private typealias Rule = FaultScript.Rule

    @Test func aScriptIsReadLineByLine() throws {
        let text = """
            # what is to happen
            seed 7

            at 3: refuse   # and nothing else
              chance 0.1 from 10 to 500: cut after-storing
            every 25 for 3: status 503 "Service Unavailable\\n" retry-after 2s
            always: delay 5ms then truncate
            """
        let script = try FaultScript.read(text, file: "f")
        #expect(
            script
                == FaultScript(
                    [
                        .init(.at(3), .refused), .init(.chance(0.1).from(10).to(500), .cut(.afterStoring)),
                        .init(
                            .every(25).lasting(3),
                            .status(503, "Service Unavailable\n", retryAfter: .seconds(2))),
                        .init(.always, .truncated, delay: .milliseconds(5)),
                    ], seed: 7))
    }

    @Test func anEmptyTextIsAScriptWithoutFaults() throws {
        #expect(try FaultScript.read("", file: "f") == FaultScript())
        #expect(try FaultScript.read("\n# nothing\r\n \t\n", file: "f") == FaultScript())
        #expect(try FaultScript.read("seed 1\r\nat 1: refuse\r\n", file: "f").rules == [.init(.at(1), .refused)])
    }

    private static let rules: [(String, Rule)] = [
        ("always: refuse", Rule(.always, .refused)), ("at 1: refuse", Rule(.at(1), .refused)),
        ("at 7 for 2: refuse", Rule(.at(7).lasting(2), .refused)), ("every 3: refuse", Rule(.every(3), .refused)),
        ("from 4: refuse", Rule(.always.from(4), .refused)),
        ("from 4 to 9: refuse", Rule(.always.from(4).to(9), .refused)),
        ("from 1 to 9: refuse", Rule(.always.to(9), .refused)),
        ("every 3 from 4 to 9 for 2: refuse", Rule(.every(3).from(4).to(9).lasting(2), .refused)),
        ("chance 0.25 to 9: refuse", Rule(.chance(0.25).to(9), .refused)),
        ("chance 5e-05: refuse", Rule(.chance(0.00005), .refused)),
        ("always: cut before-reading", Rule(.always, .cut(.beforeReading))),
        ("always: cut in-body", Rule(.always, .cut(.inBody))),
        ("always: reset before-storing", Rule(.always, .cut(.beforeStoring, isReset: true))),
        ("always: reset after-storing", Rule(.always, .cut(.afterStoring, isReset: true))),
        ("always: status 200", Rule(.always, .status(200))),
        ("always: status 204", Rule(.always, .status(204))),
        (#"always: status 503 "a # b\u00e9\n""#, Rule(.always, .status(503, "a # bé\n"))),
        (
            #"always: status 429 "x" header X-A "b: \"c\"" header X-A "" retry-after 0s stored"#,
            Rule(
                .always,
                .status(
                    .init(
                        429, "x", headers: [.init("X-A", "b: \"c\""), .init("X-A", "")], retryAfter: .seconds(0),
                        isStored: true)))
        ),
        (
            "always: status 429 retry-after-date 1s500ms",
            Rule(.always, .status(429, retryAfter: .date(after: .milliseconds(1_500))))
        ),
        ("always: page", Rule(.always, .page())), (#"always: page "<p>""#, Rule(.always, .page("<p>"))),
        (#"always: redirect 301 "/v2""#, Rule(.always, .redirect(301, location: "/v2"))),
        (
            #"always: redirect 308 "http://127.0.0.1:80/v1/batch""#,
            Rule(.always, .redirect(308, location: "http://127.0.0.1:80/v1/batch"))
        ),
        ("always: garbage", Rule(.always, .garbage())), (#"always: garbage "\u0000""#, Rule(.always, .garbage("\0"))),
        ("always: trickle", Rule(.always, .trickled())),
        ("always: trickle 2s", Rule(.always, .trickled(pause: .seconds(2)))),
        ("always: truncate", Rule(.always, .truncated)), ("always: length 12", Rule(.always, .length(12))),
        ("always: chunked", Rule(.always, .chunked)), ("always: close", Rule(.always, .closing)),
        ("always: delay 0s", Rule(.always)), ("always: delay 150ms", Rule(.always, delay: .milliseconds(150))),
        ("at 2: delay 61s then close", Rule(.at(2), .closing, delay: .seconds(61))),
    ]

    @Test(arguments: rules) func everyFormIsRead(_ text: String, _ rule: FaultScript.Rule) throws {
        #expect(try FaultScript.read(text, file: "f").rules == [rule])
    }

    @Test(arguments: rules) func whatIsWrittenIsWhatIsRead(_ text: String, _ rule: FaultScript.Rule) throws {
        let script = FaultScript([rule], seed: .max)
        #expect(script.description.hasPrefix("seed 18446744073709551615\n"))
        #expect(try FaultScript.read(script.description, file: "f") == script)
    }

    @Test func aScriptIsWrittenAsPeopleWriteIt() {
        let script = FaultScript(Self.rules.map(\.1))
        let written = script.description.split(separator: "\n").map(String.init)
        let texts = Self.rules.map(\.0)
        #expect(written.count == texts.count)
        for (line, text) in zip(written, texts) where !text.contains("\\u") { #expect(line == text) }
    }

    @Test func otherWaysToWriteTheSame() throws {
        let texts = [
            "at 3:refuse": "at 3: refuse\n", "at 3 : refuse": "at 3: refuse\n", "\tat\t3:\trefuse": "at 3: refuse\n",
            "always from 3 to 3: refuse": "at 3: refuse\n", "every 1: trickle 0ms": "always: trickle\n",
            "always: redirect 301 /v2": "always: redirect 301 \"/v2\"\n",
            "always: redirect 301 http://localhost/x:y": "always: redirect 301 \"http://localhost/x:y\"\n",
            "always: delay 1m then trickle 1.5s": "always: delay 60s then trickle 1s500ms\n",
        ]
        for (text, written) in texts { #expect(try FaultScript.read(text, file: "f").description == written) }
    }

    @Test(arguments: 0..<50) func aRandomScriptIsReadAsItIsWritten(seed: UInt64) throws {
        let script = FaultScript.random(seed: seed)
        #expect(try FaultScript.read(script.description, file: "f") == script)
    }

    @Test(arguments: [
        ("sometimes: refuse", "'sometimes' is no occasion: always, at, every, chance or from"),
        (": refuse", "':' is no occasion: always, at, every, chance or from"),
        ("\"at\" 1: refuse", "\"at\" is no occasion: always, at, every, chance or from"),
        ("at 3", "a colon is missing before the fault"), ("at 3 refuse", "a colon is missing before the fault"),
        ("at 3 from 4: refuse", "a colon is missing before the fault"),
        ("every 3 for 2 from 4: refuse", "a colon is missing before the fault"),
        ("at: refuse", "at needs a number, not ':'"), ("at x: refuse", "at needs a number, not 'x'"),
        ("at -1: refuse", "at needs a number, not '-1'"), ("at 0: refuse", "at counts from 1, not 0"),
        ("at 99999999999999999999: refuse", "at needs a number, not '99999999999999999999'"),
        ("at 9223372036854775807: refuse", "at counts from 1, not 9223372036854775807"),
        ("every 0: refuse", "every counts from 1, not 0"), ("always for 0: refuse", "for counts from 1, not 0"),
        ("always for 10001: refuse", "for goes up to 10000"),
        ("from 5 to 4: refuse", "the end, 4, is before the beginning"),
        ("chance 1.1: refuse", "chance needs a number from 0 to 1, not '1.1'"),
        ("chance -0.1: refuse", "chance needs a number from 0 to 1, not '-0.1'"),
        ("chance nan: refuse", "chance needs a number from 0 to 1, not 'nan'"),
        ("chance 10%: refuse", "chance needs a number from 0 to 1, not '10%'"),
        ("always:", "a rule needs a word, not the line's end"), ("always: explode", "'explode' is no fault"),
        ("always: refuse it", "'it' is too much"), ("always: refuse: it", "'refuse:' is no fault"),
        ("always: \"refuse\"", "a rule needs a word, not \"refuse\""),
        ("always: cut", "cut needs a word, not the line's end"),
        (
            "always: cut here",
            "'here' is no point to cut at: before-reading, in-body, before-storing, after-storing"
        ),
        ("always: status", "status needs a word, not the line's end"),
        ("always: status 99", "a status is from 200 to 599, not 99"),
        ("always: status 101", "a status is from 200 to 599, not 101"),
        ("always: status 600", "a status is from 200 to 599, not 600"),
        ("always: status 204 \"x\"", "204 has no body"), ("always: status 500 oops", "'oops' is too much"),
        ("always: status 500 \"x", "a quote is not closed"), ("always: status 500 \"x\\\"", "a quote is not closed"),
        ("always: status 500 \"\\x\"", "\"\\x\" is no JSON string"),
        ("always: status 500 header", "header needs a word, not the line's end"),
        ("always: status 500 header A", "a header needs a value in quotes"),
        ("always: status 500 header A b", "a header needs a value in quotes"),
        ("always: status 500 header A: \"b\"", "'A:' is no header's name"),
        ("always: status 500 header Ä \"b\"", "'Ä' is no header's name"),
        ("always: status 500 header A \"b\\r\\nC: d\"", "a header's value has no control characters"),
        ("always: status 500 retry-after", "retry-after needs a word, not the line's end"),
        ("always: status 500 retry-after 2", "retry-after needs a duration like 250ms or 5s, not '2'"),
        ("always: status 500 retry-after 1500ms", "retry-after takes whole seconds"),
        ("always: status 500 retry-after 1s retry-after-date 1s", "retry-after is given twice"),
        ("always: status 500 stored \"x\"", "\"x\" is too much"),
        ("always: redirect 200 /x", "200 is no redirect's status"),
        ("always: redirect 301", "redirect needs a word, not the line's end"),
        (
            "always: redirect 301 https://example.com/",
            "a redirect leads to a path or to http://127.0.0.1, not to 'https://example.com/'"
        ),
        (
            "always: redirect 301 http://127.0.0.1.example.com/",
            "a redirect leads to a path or to http://127.0.0.1, not to 'http://127.0.0.1.example.com/'"
        ),
        (
            "always: redirect 301 //example.com",
            "a redirect leads to a path or to http://127.0.0.1, not to '//example.com'"
        ),
        ("always: redirect 301 \"/a b\"", "a location has neither blanks nor other than ASCII characters"),
        ("always: length", "length needs a word, not the line's end"),
        ("always: length -1", "length needs a number, not '-1'"),
        ("always: trickle fast", "trickle needs a duration like 250ms or 5s, not 'fast'"),
        ("always: delay", "delay needs a word, not the line's end"),
        ("always: delay 1s refuse", "'refuse' is too much"),
        ("always: delay 1s then", "a rule needs a word, not the line's end"),
        ("always: delay 1s then delay 1s", "a delay comes first, and once"),
        ("seed", "a seed needs a word, not the line's end"), ("seed -1", "a seed needs a number, not '-1'"),
        ("seed 1 2", "'2' is too much"), ("seed 5\nseed 6", "the seed is given twice"),
    ])
    func aBadLineIsToldWithItsNumber(_ text: String, _ reason: String) {
        let lines = text.split(separator: "\n").count
        #expect(throws: FaultScript.ReadingError.self) { try FaultScript.read(text, file: "f") }
        do {
            _ = try FaultScript.read("# first\r\nat 1: refuse\n" + text + "\nat 2: refuse", file: "dir/f")
        } catch {
            #expect("\(error)" == "dir/f:\(2 + lines): \(reason)")
        }
    }
}
