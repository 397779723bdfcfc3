/// What an `os-release` file says of a Linux distribution.
///
/// Source: https://www.freedesktop.org/software/systemd/man/latest/os-release.html
/// The file is written in a small part of the shell's language. What only a
/// shell could tell (a variable's value), and what is no proper text, is not
/// known.
struct ReleaseFile: Sendable, Equatable {
    /// `NAME`.
    private(set) var name: String?
    /// `VERSION_ID`; distributions without releases have none.
    private(set) var version: String?

    /// Where the file is, in the order of precedence.
    static let paths = ["/etc/os-release", "/usr/lib/os-release"]

    /// No file is nearly as long. A line that the limit cuts off is not read.
    static let longestFile = 65_536

    /// A longer value would fill every event.
    private static let longestValue = 256

    /// The first of some files that can be read.
    static func read(_ paths: [String] = Self.paths) -> ReleaseFile? {
        paths.lazy.compactMap { SystemFiles.beginning(of: $0, count: longestFile) }.first.map(
            ReleaseFile.init(parsing:))
    }

    /// Reads a file's bytes. Of several assignments of one variable the last holds, as in a shell.
    init(parsing bytes: [UInt8]) {
        var lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        if bytes.count >= Self.longestFile { lines.removeLast() }
        for line in lines {
            guard let (key, value) = Self.assignment(line) else { continue }
            switch key {
            case "NAME": name = Self.value(value)
            case "VERSION_ID": version = Self.value(value)
            default: break
            }
        }
    }

    private static func assignment(_ line: ArraySlice<UInt8>) -> (key: String, value: ArraySlice<UInt8>)? {
        let line = line.drop(while: isBlank)
        guard line.first != UInt8(ascii: "#"), let equals = line.firstIndex(of: UInt8(ascii: "=")) else { return nil }
        return (String(decoding: line[..<equals], as: UTF8.self), line[line.index(after: equals)...])
    }

    /// What a shell would make of the right side; `nil` if that can't be told.
    private static func value(_ bytes: ArraySlice<UInt8>) -> String? {
        var scanner = ShellWord(rest: bytes)
        guard let word = scanner.scan() else { return nil }
        let text = String(decoding: word, as: UTF8.self)
        let isProper = text.unicodeScalars.allSatisfy { scalar in
            scalar != "\u{FFFD}" && scalar.properties.generalCategory != .control
        }
        return isProper && !text.isEmpty && word.count <= longestValue ? text : nil
    }

    private static func isBlank(_ byte: UInt8) -> Bool { ShellWord.isBlank(byte) }
}

/// The value of an assignment, with the shell's quotes and escapes taken off.
private struct ShellWord {
    var rest: ArraySlice<UInt8>
    private var word: [UInt8] = []
    /// As long as the word is if the blanks at its end don't belong to it.
    private var lengthWithoutBlanks = 0

    private static let quote = UInt8(ascii: "\"")
    private static let apostrophe = UInt8(ascii: "'")
    private static let backslash = UInt8(ascii: "\\")
    private static let dollar = UInt8(ascii: "$")
    private static let backtick = UInt8(ascii: "`")

    init(rest: ArraySlice<UInt8>) { self.rest = rest }

    /// Carriage returns count: some editors end their lines with them.
    static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 || byte == 0x0D }

    /// Blanks inside an unquoted value are kept and those around it are not, as systemd does: a mistake, but a clear one.
    mutating func scan() -> [UInt8]? {
        while let byte = rest.popFirst() {
            switch byte {
            case Self.quote: guard scanQuoted() else { return nil }
            case Self.apostrophe: guard scanLiteral() else { return nil }
            case Self.backslash:
                guard let next = rest.popFirst() else { return nil }
                append(next)
            case Self.dollar, Self.backtick: return nil
            case _ where Self.isBlank(byte):
                if rest.first == UInt8(ascii: "#") { rest = [] }
                if !word.isEmpty { word.append(byte) }
            default: append(byte)
            }
        }
        return Array(word[..<lengthWithoutBlanks])
    }

    private mutating func append(_ byte: UInt8) {
        word.append(byte)
        lengthWithoutBlanks = word.count
    }

    /// Between quotes a backslash takes off the meaning of four characters, and stays before any other.
    private mutating func scanQuoted() -> Bool {
        while let byte = rest.popFirst() {
            switch byte {
            case Self.quote:
                lengthWithoutBlanks = word.count
                return true
            case Self.backslash:
                guard let next = rest.popFirst() else { return false }
                if ![Self.quote, Self.backslash, Self.dollar, Self.backtick].contains(next) { append(byte) }
                append(next)
            case Self.dollar, Self.backtick: return false
            default: append(byte)
            }
        }
        return false
    }

    private mutating func scanLiteral() -> Bool {
        guard let end = rest.firstIndex(of: Self.apostrophe) else { return false }
        word += rest[..<end]
        lengthWithoutBlanks = word.count
        rest = rest[rest.index(after: end)...]
        return true
    }
}
