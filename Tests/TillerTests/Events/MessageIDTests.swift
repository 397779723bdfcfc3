import Foundation
import Testing

@testable import Tiller

struct MessageIDTests {
    @Test func theTextIsThirtySixLowerCaseCharacters() {
        let id = MessageID(high: 0x0123_4567_89AB_4DEF, low: 0xBEDC_BA98_7654_3210)
        #expect(id.description == "01234567-89ab-4def-bedc-ba9876543210")
        #expect(MessageID.zero.description == "00000000-0000-0000-0000-000000000000")
        #expect(MessageID(high: .max, low: .max).description == "ffffffff-ffff-ffff-ffff-ffffffffffff")
    }

    /// RFC 9562 §5.4: version 4 in the third group, variant 10 in the fourth.
    @Test func idsAreRandomUUIDsOfVersionFour() {
        var generator = IdentifierGenerator.seeded(1)
        for _ in 0..<10_000 {
            let id = generator.next()
            let text = Array(id.description)
            #expect(text[14] == "4")
            #expect("89ab".contains(text[19]))
            #expect(UUID(uuidString: id.description)?.uuidString.lowercased() == id.description)
        }
    }

    @Test func everyOtherBitIsRandom() {
        var generator = IdentifierGenerator.seeded(2)
        var everSet = MessageID.zero
        var alwaysSet = MessageID(high: .max, low: .max)
        for _ in 0..<200 {
            let id = generator.next()
            everSet = MessageID(high: everSet.high | id.high, low: everSet.low | id.low)
            alwaysSet = MessageID(high: alwaysSet.high & id.high, low: alwaysSet.low & id.low)
        }
        #expect(everSet.description == "ffffffff-ffff-4fff-bfff-ffffffffffff")
        #expect(alwaysSet.description == "00000000-0000-4000-8000-000000000000")
    }

    @Test func idsDiffer() {
        var generator = IdentifierGenerator.system()
        #expect(Set((0..<10_000).map { _ in generator.next() }).count == 10_000)
    }

    @Test func theSameSeedGivesTheSameIds() {
        var first = IdentifierGenerator.seeded(5)
        var second = IdentifierGenerator.seeded(5)
        var other = IdentifierGenerator.seeded(6)
        let ids = (0..<100).map { _ in first.next() }
        #expect(ids == (0..<100).map { _ in second.next() })
        #expect(ids != (0..<100).map { _ in other.next() })
    }

    @Test func twoGeneratorsOfTheSystemDiffer() {
        var (first, second) = (IdentifierGenerator.system(), IdentifierGenerator.system())
        #expect(first.next() != second.next())
    }
}
