import Testing

@testable import Tiller

/// Events whose texts lie in one array, one behind the other.
@Suite(.timeLimit(.minutes(5))) struct WrittenEventTests {
    private func makeEvent(_ name: String, by person: String?, context: JSONObject = [:]) -> Event {
        var event = Event(.track, name: name, properties: ["n": .string(name)])
        event.anonymousId = person
        event.context = context
        return event
    }

    private func encode(_ events: [Event], with writer: inout JSONWriter) -> [EncodedEvent] {
        var texts: [UInt8] = []
        var written: [WrittenEvent] = []
        for event in events {
            let anonymousId = writer.write(event, channel: .mobile)
            written.append(texts.append(writer, anonymousId: anonymousId))
        }
        return written.enumerated().map { index, written in
            let moment = Moment(wallMilliseconds: 0, continuous: .zero, sequence: UInt64(index))
            return EncodedEvent(written, in: texts, moment: moment)
        }
    }

    private func encode(_ events: [Event]) -> [EncodedEvent] {
        var writer = JSONWriter(capacity: 16)
        return encode(events, with: &writer)
    }

    private func text(_ bytes: ArraySlice<UInt8>) -> String { String(decoding: bytes, as: UTF8.self) }

    @Test func eachIsAsItWouldBeAlone() throws {
        let events = [makeEvent("a", by: "ann"), makeEvent("bé", by: nil), makeEvent("c", by: "\"quoted\"")]
        let ids = ["ann", "", #"\"quoted\""#]
        for (index, encoded) in encode(events).enumerated() {
            let alone = encode([events[index]])[0]
            #expect(text(encoded.bytes) == text(alone.bytes))
            #expect(encoded.anonymousId == alone.anonymousId)
            #expect(encoded.checksum == CRC32C.checksum(of: alone.bytes))
            #expect(encoded.moment.sequence == UInt64(index))
            let id = encoded.bytes.dropFirst(encoded.anonymousId.lowerBound).prefix(encoded.anonymousId.count)
            #expect(text(id) == ids[index])
        }
    }

    /// Its record tells where the id lies from the event's start, wherever the event lay among the texts.
    @Test func aRecordDoesNotDependOnThePlace() {
        let part = encode([makeEvent("a", by: "ann"), makeEvent("b", by: "bob")])[1]
        var (ofPart, ofCopy): ([UInt8], [UInt8]) = ([], [])
        ofPart.append(StoreRecord(event: part, changes: []), number: 7, boot: 1)
        ofCopy.append(StoreRecord(event: part, changes: []).apart, number: 7, boot: 1)
        #expect(ofPart == ofCopy)
        #expect(part.bytes.startIndex > 0)
        #expect(part.apart.bytes.startIndex == 0)
        var scanner = LogScanner()
        let found = ofPart.withUnsafeBytes { scanner.next(in: $0) }
        #expect(found?.header.eventLength == part.bytes.count)
    }

    @Test(arguments: [[:], ["locale": "de"]] as [JSONObject])
    func whatIsSplicedInLeavesTheNeighboursAlone(context: JSONObject) throws {
        var encoded = encode(["a", "b", "c"].map { makeEvent($0, by: "ann", context: context) })
        let before = encoded
        // Copies: parts of the same memory would change together.
        let texts = encoded.map { Array($0.bytes) }
        encoded[1].splice("sessionStart", true)
        #expect(Array(encoded[0].bytes) == texts[0])
        #expect(Array(encoded[2].bytes) == texts[2])
        var expected = context
        expected["sessionStart"] = true
        #expect(try JSONValue(parsing: Array(encoded[1].bytes))["context"]?.object == expected)
        #expect(encoded[1].checksum == nil)
        #expect(encoded[1].anonymousId == before[1].anonymousId)
    }

    @Test func lossesAreThoseOfTheLastEvent() {
        var writer = JSONWriter()
        _ = encode([Event(.track, name: "a", properties: ["v": .double(.nan)])], with: &writer)
        let first = writer.nonFiniteCount
        _ = encode([Event(.track, name: "b")], with: &writer)
        let second = writer.nonFiniteCount
        #expect(first == 1)
        #expect(second == 0)
    }
}
