import Testing

@testable import TillerCommand

/// How `tiller send` cuts its input.
@Suite(.timeLimit(.minutes(5))) struct InputLinesTests {
    private static let text = "\u{FEFF}one\n\ntwo\r\n  \nünf\u{FEFF}\nlast"

    private static let numbered = ["1 one", "2 ", "3 two\r", "4   ", "5 ünf\u{FEFF}", "6 last"]

    @Test(arguments: [1, 2, 3, 5, 7, 100]) func linesAreTheSameHoweverTheyCome(_ size: Int) {
        #expect(lines(of: Array(Self.text.utf8), inPiecesOf: size).map(name) == Self.numbered)
        #expect(lines(of: Array((Self.text + "\n").utf8), inPiecesOf: size).map(name) == Self.numbered)
    }

    @Test func blankLinesAreKnown() {
        let blank = lines(of: Array(Self.text.utf8), inPiecesOf: 100).filter(\.isBlank).map(\.number)
        #expect(blank == [2, 4])
    }

    @Test func nothingIsNoLine() {
        #expect(lines(of: [], inPiecesOf: 1).isEmpty)
        #expect(lines(of: [0x0A], inPiecesOf: 1).map(name) == ["1 "])
    }

    @Test(arguments: [1_000, 65_536, 4_000_000]) func aLineThatIsTooLongCostsItselfOnly(_ size: Int) {
        let longest = [UInt8](repeating: 0x78, count: InputLines.longestLine)
        let bytes = longest + [0x0A] + longest + [0x78, 0x0A, 0x61, 0x0A] + longest + longest
        let lines = lines(of: bytes, inPiecesOf: size)
        #expect(lines.map(\.number) == [1, 2, 3, 4])
        #expect(lines.map { $0.bytes?.count } == [InputLines.longestLine, nil, 1, nil])
        #expect(lines.filter(\.isBlank).isEmpty)
    }

    private func lines(of bytes: [UInt8], inPiecesOf size: Int) -> [InputLines.Line] {
        var input = InputLines()
        var lines: [InputLines.Line] = []
        var rest = bytes[...]
        while !rest.isEmpty {
            lines += input.take(Array(rest.prefix(size)))
            rest = rest.dropFirst(size)
        }
        if let last = input.end() { lines.append(last) }
        return lines
    }

    private func name(_ line: InputLines.Line) -> String {
        "\(line.number) \(String(decoding: line.bytes ?? [], as: UTF8.self))"
    }
}
