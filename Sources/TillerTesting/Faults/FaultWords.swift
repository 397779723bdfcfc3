import Tiller

/// One line of a fault script, cut into words, which are taken off one by one; `#` outside of quotes begins a comment.
struct FaultWords {
    /// What is wrong with the line.
    struct Fault: Error {
        let reason: String

        init(_ reason: String) { self.reason = reason }
    }

    private enum Word: Hashable {
        case word(String)
        case text(String)
    }

    private var words: [Word] = []
    private var position = 0

    init(_ line: Substring) throws(Fault) {
        var rest = line.drop { $0.isWhitespace }
        while let character = rest.first, character != "#" {
            if character == "\"" {
                words.append(.text(try Self.takeText(&rest)))
            } else if character == ":" {
                words.append(.word(":"))
                rest.removeFirst()
            } else {
                // A colon ends the occasion; behind it, it is a character like others, as in a URL.
                let hasColon = words.contains(.word(":"))
                let word = rest.prefix { !$0.isWhitespace && $0 != "\"" && $0 != "#" && (hasColon || $0 != ":") }
                words.append(.word(String(word)))
                rest.removeFirst(word.count)
            }
            rest = rest.drop { $0.isWhitespace }
        }
    }

    /// A JSON string at the front.
    private static func takeText(_ rest: inout Substring) throws(Fault) -> String {
        var end = rest.index(after: rest.startIndex)
        while end < rest.endIndex, rest[end] != "\"" {
            let isEscape = rest[end] == "\\"
            end = rest.index(after: end)
            if isEscape, end < rest.endIndex { end = rest.index(after: end) }
        }
        guard end < rest.endIndex else { throw Fault("a quote is not closed") }
        let quoted = rest[...end]
        rest = rest[rest.index(after: end)...]
        guard let text = (try? JSONValue(parsing: Array(quoted.utf8)))?.string else {
            throw Fault("\(quoted) is no JSON string")
        }
        return text
    }
}

// MARK: - Taking words

extension FaultWords {
    var isAtEnd: Bool { position == words.count }

    /// What comes next, for messages.
    var shown: String {
        guard !isAtEnd else { return "the line's end" }
        return switch words[position] {
        case .word(let word): "'\(word)'"
        case .text(let text): JSONValue.string(text).description
        }
    }

    func isNext(_ word: String) -> Bool { !isAtEnd && words[position] == .word(word) }

    mutating func take(_ word: String) -> Bool {
        guard isNext(word) else { return false }
        position += 1
        return true
    }

    mutating func takeText() -> String? {
        guard !isAtEnd, case .text(let text) = words[position] else { return nil }
        position += 1
        return text
    }

    /// - Parameter subject: What needs a word, for the message.
    mutating func word(_ subject: String) throws(Fault) -> String {
        guard !isAtEnd, case .word(let word) = words[position] else {
            throw Fault("\(subject) needs a word, not \(shown)")
        }
        position += 1
        return word
    }

    mutating func number<Number: FixedWidthInteger>(_ subject: String) throws(Fault) -> Number {
        let text = try word(subject)
        guard text.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let number = Number(text) else {
            throw Fault("\(subject) needs a number, not '\(text)'")
        }
        return number
    }

    /// A number from 1.
    mutating func count(_ subject: String) throws(Fault) -> Int {
        let count: Int = try number(subject)
        // Twice as many must still be a number.
        guard (1...Int.max / 2).contains(count) else { throw Fault("\(subject) counts from 1, not \(count)") }
        return count
    }

    mutating func duration(_ subject: String) throws(Fault) -> Duration {
        let text = try word(subject)
        guard let milliseconds = SessionScenario.milliseconds(text) else {
            throw Fault("\(subject) needs a duration like 250ms or 5s, not '\(text)'")
        }
        return Duration(exactMilliseconds: milliseconds)
    }

    func end() throws(Fault) {
        guard isAtEnd else { throw Fault("\(shown) is too much") }
    }
}
