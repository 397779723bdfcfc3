import Tiller

extension FaultScript {
    /// Why a text can't be read.
    public struct ReadingError: Error, Hashable, CustomStringConvertible {
        /// The file's name, as it was given.
        public let file: String
        /// The line, from 1.
        public let line: Int
        /// What is wrong with it.
        public let reason: String

        /// `file:line: reason`.
        public var description: String { "\(file):\(line): \(reason)" }
    }

    /// Reads a script.
    ///
    /// - Parameters:
    ///   - text: In the format that is described above. Without a line it is a script without faults.
    ///   - file: The name for messages.
    /// - Returns: The script.
    /// - Throws: `ReadingError` at the first line that can't be read.
    public static func read(_ text: String, file: String) throws(ReadingError) -> FaultScript {
        var script = FaultScript()
        var hasSeed = false
        // A carriage return and a line feed are one character.
        let lines = text.split(omittingEmptySubsequences: false) { $0 == "\n" || $0 == "\r\n" }
        for (index, line) in lines.enumerated() {
            do throws(FaultWords.Fault) {
                var words = try FaultWords(line)
                if words.isAtEnd { continue }
                if words.take("seed") {
                    guard !hasSeed else { throw FaultWords.Fault("the seed is given twice") }
                    hasSeed = true
                    script.seed = try words.number("a seed")
                    try words.end()
                } else {
                    script.rules.append(try words.rule())
                }
            } catch {
                throw ReadingError(file: file, line: index + 1, reason: error.reason)
            }
        }
        return script
    }
}

// MARK: - When

extension FaultWords {
    fileprivate mutating func rule() throws(Fault) -> FaultScript.Rule {
        let occasion = try occasion()
        guard take(":") else { throw Fault("a colon is missing before the fault") }
        var rule = FaultScript.Rule(occasion)
        if take("delay") {
            rule.delay = try duration("delay")
            if take("then") { rule.fault = try fault() }
        } else {
            rule.fault = try fault()
        }
        try end()
        return rule
    }

    private mutating func occasion() throws(Fault) -> FaultScript.Occasion {
        var occasion = FaultScript.Occasion.always
        var isOne = false
        if take("at") {
            occasion = .at(try count("at"))
            isOne = true
        } else if take("every") {
            occasion = .every(try count("every"))
        } else if take("chance") {
            occasion = .chance(try probability())
        } else if !take("always"), !isNext("from") {
            throw Fault("\(shown) is no occasion: always, at, every, chance or from")
        }
        if !isOne, take("from") { occasion = occasion.from(try count("from")) }
        if !isOne, take("to") {
            let last = try count("to")
            guard last >= occasion.first else { throw Fault("the end, \(last), is before the beginning") }
            occasion = occasion.to(last)
        }
        if take("for") {
            let length = try count("for")
            // A chance is drawn so many times for each request.
            guard length <= 10_000 else { throw Fault("for goes up to 10000") }
            occasion = occasion.lasting(length)
        }
        return occasion
    }

    private mutating func probability() throws(Fault) -> Double {
        let text = try word("chance")
        guard let number = Double(text), (0...1).contains(number) else {
            throw Fault("chance needs a number from 0 to 1, not '\(text)'")
        }
        return number
    }
}

// MARK: - What

extension FaultWords {
    private mutating func fault() throws(Fault) -> FaultScript.Fault {
        let name = try word("a rule")
        switch name {
        case "refuse": return .refused
        case "cut": return .cut(try point())
        case "reset": return .cut(try point(), isReset: true)
        case "status": return .status(try answer())
        case "page": return takeText().map { .page($0) } ?? .page()
        case "redirect": return try redirect()
        case "garbage": return takeText().map { .garbage($0) } ?? .garbage()
        case "trickle": return isAtEnd ? .trickled() : .trickled(pause: try duration("trickle"))
        case "truncate": return .truncated
        case "length": return .length(try number("length"))
        case "chunked": return .chunked
        case "close": return .closing
        case "delay": throw Fault("a delay comes first, and once")
        default: throw Fault("'\(name)' is no fault")
        }
    }

    private mutating func point() throws(Fault) -> FaultScript.Point {
        let points = FaultScript.Point.allCases.map(\.rawValue).joined(separator: ", ")
        let text = try word("cut")
        guard let point = FaultScript.Point(rawValue: text) else {
            throw Fault("'\(text)' is no point to cut at: \(points)")
        }
        return point
    }

    private mutating func answer() throws(Fault) -> FaultScript.Answer {
        let status: Int = try number("status")
        guard (200...599).contains(status) else { throw Fault("a status is from 200 to 599, not \(status)") }
        var answer = FaultScript.Answer(status, takeText() ?? "")
        guard answer.body.isEmpty || ![204, 304].contains(status) else { throw Fault("\(status) has no body") }
        while !isAtEnd {
            if take("header") {
                answer.headers.append(try header())
            } else if isNext("retry-after") || isNext("retry-after-date") {
                guard answer.retryAfter == nil else { throw Fault("retry-after is given twice") }
                answer.retryAfter = try retryAfter()
            } else if take("stored") {
                answer.isStored = true
                try end()
            } else {
                try end()
            }
        }
        return answer
    }

    private mutating func header() throws(Fault) -> FaultScript.HeaderField {
        let name = try word("header")
        guard name.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }), !name.contains(":") else {
            throw Fault("'\(name)' is no header's name")
        }
        guard let value = takeText() else { throw Fault("a header needs a value in quotes") }
        guard !value.unicodeScalars.contains(where: { $0.value < 0x20 || $0.value == 0x7F }) else {
            throw Fault("a header's value has no control characters")
        }
        return FaultScript.HeaderField(name, value)
    }

    private mutating func retryAfter() throws(Fault) -> FaultScript.RetryAfter {
        let isDate = !take("retry-after")
        if isDate {
            _ = take("retry-after-date")
            return .date(after: try duration("retry-after-date"))
        }
        let duration = try duration("retry-after")
        guard duration.components.attoseconds == 0 else { throw Fault("retry-after takes whole seconds") }
        return .seconds(Int(clamping: duration.components.seconds))
    }

    private mutating func redirect() throws(Fault) -> FaultScript.Fault {
        let status: Int = try number("redirect")
        guard [301, 302, 303, 307, 308].contains(status) else { throw Fault("\(status) is no redirect's status") }
        let location: String
        if let text = takeText() { location = text } else { location = try word("redirect") }
        let hosts = ["http://127.0.0.1", "http://localhost"]
        let isOnThisMachine = hosts.contains { host in
            location.hasPrefix(host) && ["", ":", "/"].contains(location.dropFirst(host.count).prefix(1))
        }
        guard isOnThisMachine || location.hasPrefix("/") && !location.hasPrefix("//") else {
            throw Fault("a redirect leads to a path or to http://127.0.0.1, not to '\(location)'")
        }
        guard location.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            throw Fault("a location has neither blanks nor other than ASCII characters")
        }
        return .redirect(status, location: location)
    }
}
