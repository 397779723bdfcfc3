import Testing
import Tiller

@testable import TillerCommand

/// What `tiller send` makes of one line.
@Suite(.timeLimit(.minutes(5))) struct EventLineTests {
    // MARK: Good lines

    @Test(arguments: [
        (#"{"type":"track","name":"A"}"#, EventLine.Call.track(name: "A", properties: nil)),
        (#"{"type":"track","event":"A","properties":{"n":1}}"#, .track(name: "A", properties: ["n": 1])),
        (#"{"type":"track","event":"wire","name":"ours"}"#, .track(name: "ours", properties: nil)),
        (#"{"type":"track","name":""}"#, .track(name: "", properties: nil)),
        (#"{"type":"screen","name":"S"}"#, .screen(name: "S", category: nil, properties: nil)),
        (
            #"{"type":"screen","event":"S","category":"C","properties":{"a":[true,null]}}"#,
            .screen(name: "S", category: "C", properties: ["a": [true, nil]])
        ),
        (#"{"type":"identify","userId":"u"}"#, .identify(userId: "u", traits: nil)),
        (#"{"type":"identify","traits":{"t":1.5}}"#, .identify(userId: nil, traits: ["t": 1.5])),
        (#"{"type":"identify","traits":{}}"#, .identify(userId: nil, traits: [:])),
        (#"{"type":"group","groupId":"g"}"#, .group(groupId: "g", traits: nil)),
        (#"{"type":"group","groupId":"g","traits":{"t":"x"}}"#, .group(groupId: "g", traits: ["t": "x"])),
        (#"{"type":"alias","userId":"new"}"#, .alias(newId: "new", previousId: nil)),
        (#"{"type":"alias","userId":"new","previousId":"old"}"#, .alias(newId: "new", previousId: "old")),
        // What other programs write beside it, and `null` for what there is not.
        (
            #" {"messageId":7,"traits":3,"type":"track","name":"A","properties":null,"context":null,"userId":null} "#,
            .track(name: "A", properties: nil)
        ),
        ("{\"type\":\"track\",\"name\":\"A\"}\r", .track(name: "A", properties: nil)),
        (#"{"type":"track","name":"A","type":"screen"}"#, .track(name: "A", properties: nil)),
        (#"{"type":"track","name":"\u00e9\ud83d\ude00"}"#, .track(name: "é😀", properties: nil)),
    ])
    func aLineIsACall(_ line: String, _ call: EventLine.Call) throws {
        let event = try EventLine(Array(line.utf8))
        #expect(event.call == call)
        #expect(event.userId == nil)
        #expect(event.anonymousId == nil)
        #expect(event.context == nil)
        #expect(event.integrations == nil)
    }

    @Test(arguments: ["track", "screen", "group"]) func aLineMayNameItsPerson(_ type: String) throws {
        let line = """
            {"type":"\(type)","name":"A","groupId":"g","userId":"u","anonymousId":"a",
            "context":{"ip":"127.0.0.1"},"integrations":{"X":false}}
            """
        let event = try EventLine(Array(line.utf8))
        #expect(event.userId == "u")
        #expect(event.anonymousId == "a")
        #expect(event.context == ["ip": "127.0.0.1"])
        #expect(event.integrations == ["X": false])
    }

    /// Its user id is what it says of the person, not who it is.
    @Test(arguments: ["identify", "alias"]) func anIdentityIsScopedByItsAnonymousIdAlone(_ type: String) throws {
        let plain = try EventLine(Array(#"{"type":"\#(type)","userId":"u"}"#.utf8))
        #expect(plain.userId == nil)
        #expect(plain.anonymousId == nil)
        let scoped = try EventLine(Array(#"{"type":"\#(type)","userId":"u","anonymousId":"a"}"#.utf8))
        #expect(scoped.userId == nil)
        #expect(scoped.anonymousId == "a")
    }

    @Test func anAnonymousPersonMayBeIdentifiedWithNothing() throws {
        let event = try EventLine(Array(#"{"type":"identify","anonymousId":"a"}"#.utf8))
        #expect(event.call == .identify(userId: nil, traits: nil))
        #expect(event.anonymousId == "a")
    }

    @Test func idsHaveABound() throws {
        let longest = String(repeating: "u", count: 4_096)
        #expect(
            try EventLine(Array(#"{"type":"alias","userId":"\#(longest)"}"#.utf8)).call
                == .alias(newId: longest, previousId: nil))
        #expect(throws: EventLine.Problem(reason: "userId is longer than 4096 bytes")) {
            try EventLine(Array(#"{"type":"alias","userId":"\#(longest)u"}"#.utf8))
        }
    }

    // MARK: Bad lines

    @Test(arguments: [
        ("x", "it is no JSON: unexpected character at byte 0"),
        (#"{"type":"track","name":"A""#, "it is no JSON: expected ',' or '}' at byte 26"),
        (#"{"type":"track","name":"A"} {}"#, "it is no JSON: text after the value at byte 28"),
        ("{\"type\":\"track\",\"name\":\"\u{1}\"}", "it is no JSON: raw control character at byte 24"),
        (#"[{"type":"track","name":"A"}]"#, "it is no object"),
        ("null", "it is no object"),
        ("{}", "type is missing"),
        (#"{"type":null}"#, "type is missing"),
        (#"{"type":1}"#, "type is no string"),
        (#"{"type":"page","name":"A"}"#, #""page" is not a type of event"#),
        (#"{"type":"Track","name":"A"}"#, #""Track" is not a type of event"#),
        (#"{"type":"\u001b[2J"}"#, #""\u001b[2J" is not a type of event"#),
        (#"{"type":"track"}"#, "name is missing"),
        (#"{"type":"track","name":1}"#, "name is no string"),
        (#"{"type":"track","name":"A","event":1}"#, "event is no string"),
        (#"{"type":"track","name":"A","properties":[]}"#, "properties is no object"),
        (#"{"type":"track","name":"A","userId":42}"#, "userId is no string"),
        (#"{"type":"track","name":"A","userId":""}"#, "userId is blank"),
        (#"{"type":"track","name":"A","anonymousId":" \u200b"}"#, "anonymousId is blank"),
        (#"{"type":"track","name":"A","anonymousId":{}}"#, "anonymousId is no string"),
        (#"{"type":"track","name":"A","context":"x"}"#, "context is no object"),
        (#"{"type":"track","name":"A","integrations":true}"#, "integrations is no object"),
        (#"{"type":"screen"}"#, "name is missing"),
        (#"{"type":"screen","name":["A"]}"#, "name is no string"),
        (#"{"type":"screen","name":"A","category":1}"#, "category is no string"),
        (#"{"type":"screen","name":"A","properties":1}"#, "properties is no object"),
        (#"{"type":"identify"}"#, "identify needs userId, anonymousId or traits"),
        (#"{"type":"identify","userId":"\t"}"#, "userId is blank"),
        (#"{"type":"identify","userId":1}"#, "userId is no string"),
        (#"{"type":"identify","userId":"u","traits":[]}"#, "traits is no object"),
        (#"{"type":"group"}"#, "groupId is missing"),
        (#"{"type":"group","groupId":""}"#, "groupId is blank"),
        (#"{"type":"group","groupId":1}"#, "groupId is no string"),
        (#"{"type":"group","groupId":"g","traits":"t"}"#, "traits is no object"),
        (#"{"type":"alias"}"#, "userId is missing"),
        (#"{"type":"alias","userId":false}"#, "userId is no string"),
        (#"{"type":"alias","userId":"u","previousId":""}"#, "previousId is blank"),
        (#"{"type":"alias","userId":"u","previousId":1}"#, "previousId is no string"),
    ])
    func aBadLineSaysWhy(_ line: String, _ reason: String) {
        #expect(throws: EventLine.Problem(reason: reason)) { try EventLine(Array(line.utf8)) }
    }

    @Test(arguments: [[0xFF], [0xC3], [0xC0, 0x80], [0xED, 0xA0, 0x80], [0xF5, 0x80, 0x80, 0x80]] as [[UInt8]])
    func whatIsNoUTF8IsNotMended(_ bytes: [UInt8]) {
        let line = Array(#"{"type":"track","name":""#.utf8) + bytes + Array(#""}"#.utf8)
        #expect(throws: EventLine.Problem(reason: "it is not UTF-8")) { try EventLine(line) }
    }

    /// The replacement character itself is no fault.
    @Test func theReplacementCharacterIsText() throws {
        let event = try EventLine(Array("{\"type\":\"track\",\"name\":\"\u{FFFD}\"}".utf8))
        #expect(event.call == .track(name: "\u{FFFD}", properties: nil))
    }

    @Test func aTypeOfAnyLengthIsToldShortly() {
        let line = #"{"type":"\#(String(repeating: "x", count: 100_000))"}"#
        let short = String(repeating: "x", count: 40)
        #expect(throws: EventLine.Problem(reason: "\"\(short)\" is not a type of event")) {
            try EventLine(Array(line.utf8))
        }
    }
}
