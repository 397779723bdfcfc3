/// A word of a line, in quotes or not.
enum ScenarioWord: Hashable {
    case word(String)
    case quoted(String)

    var text: String? { if case .word(let text) = self { text } else { nil } }
}

/// One line, cut into words; `#` outside quotes begins a comment.
struct ScenarioLine {
    let file: String
    let number: Int
    /// Without comment and blanks around it.
    let text: Substring
    let isIndented: Bool
    let words: [ScenarioWord]

    init(_ raw: Substring, file: String, number: Int) throws(SessionScenario.ReadingError) {
        self.file = file
        self.number = number
        isIndented = raw.first?.isWhitespace ?? false
        var words: [ScenarioWord] = []
        var word = ""
        var quoted: String?
        var end = raw.endIndex
        for index in raw.indices {
            let character = raw[index]
            if let text = quoted {
                if character == "\"" {
                    words.append(.quoted(text))
                    quoted = nil
                } else {
                    quoted = text + String(character)
                }
                continue
            }
            if character == "#" {
                end = index
                break
            }
            if character == "\"" || character.isWhitespace {
                if !word.isEmpty { words.append(.word(word)) }
                word = ""
                if character == "\"" { quoted = "" }
            } else {
                word.append(character)
            }
        }
        if !word.isEmpty { words.append(.word(word)) }
        // A scenario's name is free text: an odd quote in it is no fault.
        if quoted != nil, words.first != .word("scenario") {
            throw SessionScenario.ReadingError(file: file, line: number, reason: "a quote is not closed")
        }
        self.words = words
        text = raw[..<end].trimmed
    }

    func error(_ reason: String) -> SessionScenario.ReadingError {
        SessionScenario.ReadingError(file: file, line: number, reason: reason)
    }
}

extension Substring {
    var trimmed: Substring {
        let start = drop { $0.isWhitespace }
        guard let last = start.lastIndex(where: { !$0.isWhitespace }) else { return start.prefix(0) }
        return start[...last]
    }

    func lastRange(of text: String) -> Range<Index>? { ranges(of: text).last }
}
