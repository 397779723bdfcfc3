import Tiller

extension SessionScenario {
    /// Why a file can't be read.
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

    /// Reads all scenarios of a text.
    ///
    /// - Parameters:
    ///   - text: In the format of the article "Session scenarios".
    ///   - file: The name for messages.
    /// - Returns: The scenarios, in order.
    /// - Throws: `ReadingError` at the first line that can't be read.
    public static func read(_ text: String, file: String) throws(ReadingError) -> [SessionScenario] {
        var reader = ScenarioReader(file: file)
        // A carriage return and a line feed are one character.
        let lines = text.split(omittingEmptySubsequences: false) { $0 == "\n" || $0 == "\r\n" }
        for (index, line) in lines.enumerated() {
            try reader.read(line, number: index + 1)
        }
        return try reader.finish()
    }

    /// Reads a duration: `250ms`, `1.5s`, `5m`, `1h`, `2d`, and sums of them (`5m11s`).
    ///
    /// - Parameter text: The duration.
    /// - Returns: Whole milliseconds; `nil` if it is no duration, or finer, or more than `UInt64.max` of them.
    public static func milliseconds(_ text: some StringProtocol) -> UInt64? {
        var rest = Substring(text)
        guard !rest.isEmpty else { return nil }
        var total: UInt64 = 0
        while !rest.isEmpty {
            let number = rest.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
            rest = rest.dropFirst(number.count)
            let unit = rest.prefix { $0.isLetter }
            rest = rest.dropFirst(unit.count)
            guard let scale = scales[String(unit)], let part = exact(number, times: scale) else { return nil }
            let (sum, overflows) = total.addingReportingOverflow(part)
            guard !overflows else { return nil }
            total = sum
        }
        return total
    }

    private static let scales: [String: UInt64] = ["ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000]

    /// A decimal number times a scale, if that is a whole number.
    private static func exact(_ number: Substring, times scale: UInt64) -> UInt64? {
        let parts = number.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
        guard let whole = UInt64(parts[0]) else { return nil }
        let (product, overflows) = whole.multipliedReportingOverflow(by: scale)
        guard !overflows else { return nil }
        guard parts.count == 2 else { return product }
        guard parts[1].count <= 9, let digits = UInt64(parts[1]) else { return nil }
        let divisor = parts[1].reduce(UInt64(1)) { divisor, _ in divisor * 10 }
        guard digits * scale % divisor == 0 else { return nil }
        let (sum, overflowsToo) = product.addingReportingOverflow(digits * scale / divisor)
        return overflowsToo ? nil : sum
    }
}

extension Duration {
    /// A duration of unsigned milliseconds, also beyond what `Int64` holds.
    init(exactMilliseconds milliseconds: UInt64) {
        self = .seconds(Int64(milliseconds / 1_000)) + .milliseconds(Int64(milliseconds % 1_000))
    }
}

/// Reads line by line.
private struct ScenarioReader {
    let file: String
    private var scenarios: [SessionScenario] = []
    private var current: SessionScenario?
    private var isInBody = false

    init(file: String) { self.file = file }

    mutating func read(_ raw: Substring, number: Int) throws(SessionScenario.ReadingError) {
        let line = try ScenarioLine(raw, file: file, number: number)
        guard let first = line.words.first else { return }
        if first == .word("scenario") {
            try begin(line)
        } else if current == nil {
            throw line.error("a scenario begins with 'scenario NAME'")
        } else if first == .word("---"), line.words.count == 1, !isInBody {
            isInBody = true
        } else if !isInBody {
            try readHeader(line)
        } else if first == .word("emits"), line.isIndented {
            try readEmission(line)
        } else {
            try readStep(line)
        }
    }

    mutating func finish() throws(SessionScenario.ReadingError) -> [SessionScenario] {
        try end()
        return scenarios
    }

    private mutating func begin(_ line: ScenarioLine) throws(SessionScenario.ReadingError) {
        try end()
        let name = line.text.dropFirst("scenario".count).trimmed
        guard !name.isEmpty else { throw line.error("a scenario needs a name") }
        current = SessionScenario(String(name))
        current?.line = line.number
        isInBody = false
    }

    private mutating func end() throws(SessionScenario.ReadingError) {
        guard let scenario = current else { return }
        guard isInBody, !scenario.steps.isEmpty else {
            throw SessionScenario.ReadingError(file: file, line: scenario.line, reason: "a scenario without steps")
        }
        scenarios.append(scenario)
        current = nil
    }

    // MARK: Header

    private mutating func readHeader(_ line: ScenarioLine) throws(SessionScenario.ReadingError) {
        var words = line.words[...]
        var change = SessionScenario.SettingsChange()
        switch words.first {
        case .word("clock"):
            words.removeFirst()
            guard let milliseconds = words.popFirst()?.text.flatMap(Self.instant) else {
                throw line.error("clock needs a time like 2025-02-25T06:06:37Z")
            }
            current?.wallMilliseconds = milliseconds
        case .word("lifecycle-events"):
            words.removeFirst()
            guard let value = words.popFirst()?.text.flatMap(Self.isOn) else { throw line.error("expected on or off") }
            current?.sendsLifecycleEvents = value
        default:
            try read(&words, into: &change, line)
            if let settings = current?.settings { current?.settings = change.applied(to: settings) }
        }
        guard words.isEmpty else { throw line.error("unexpected text at the end of the line") }
    }

    private func read(
        _ words: inout ArraySlice<ScenarioWord>, into change: inout SessionScenario.SettingsChange, _ line: ScenarioLine
    ) throws(SessionScenario.ReadingError) {
        let key = words.popFirst()?.text ?? ""
        let value = words.popFirst()?.text ?? ""
        switch key {
        case "automatic":
            guard let isOn = Self.isOn(value) else { throw line.error("automatic is on or off") }
            change.isAutomatic = isOn
        case "timeout":
            guard let timeout = SessionScenario.milliseconds(value) else {
                throw line.error("timeout needs a duration like 5m or 250ms")
            }
            change.timeout = timeout
        case "background":
            guard let policy = BackgroundEventPolicy(rawValue: value) else {
                throw line.error("background is carry, exclude or include")
            }
            change.background = policy
        default:
            let isStep = key.hasPrefix("+")
            throw line.error(
                isStep ? "a line '---' has to end the header before the first step" : "'\(key)' is not known here")
        }
    }

    private static func isOn(_ text: String) -> Bool? {
        switch text {
        case "on": true
        case "off": false
        default: nil
        }
    }

    /// `yyyy-MM-ddTHH:mm:ssZ`, with or without milliseconds: what the SDK itself would write for the instant.
    private static func instant(_ text: String) -> Int64? {
        guard text.hasSuffix("Z") else { return nil }
        let withMilliseconds = text.contains(".") ? text : text.dropLast() + ".000Z"
        return milliseconds(since1970: String(withMilliseconds))
    }

    private static func milliseconds(since1970 text: String) -> Int64? {
        let fields = text.split { "-T:.Z".contains($0) }.compactMap { Int64($0) }
        // No field has more than four digits; with more of them the sums below would overflow.
        guard fields.count == 7, fields.allSatisfy({ (0...9_999).contains($0) }), (1...12).contains(fields[1]),
            (1...31).contains(fields[2])
        else { return nil }
        // Counting days from 1 March, so that the leap day is the last of its year.
        let year = fields[1] <= 2 ? fields[0] - 1 : fields[0]
        let month = (fields[1] + 9) % 12
        let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + fields[2] - 1 - 719_468
        let seconds = days * 86_400 + fields[3] * 3_600 + fields[4] * 60 + fields[5]
        let result = seconds * 1_000 + fields[6]
        return timestampText(result) == text ? result : nil
    }

    // MARK: Steps

    private mutating func readStep(_ line: ScenarioLine) throws(SessionScenario.ReadingError) {
        var (words, expectation) = try split(line)
        guard let time = words.popFirst()?.text, time.hasPrefix("+"),
            let milliseconds = SessionScenario.milliseconds(time.dropFirst())
        else { throw line.error("a step begins with a time like +5m10s") }
        let instant = Duration(exactMilliseconds: milliseconds)
        if let last = current?.steps.last, last.time > instant { throw line.error("time runs backwards") }
        let action = try readAction(&words, line)
        guard words.isEmpty else { throw line.error("unexpected text at the end of the line") }
        try check(expectation, on: action, line)
        let arrow = expectation == nil ? nil : line.text.lastRange(of: "=>")
        let text = line.text.prefix(upTo: arrow?.lowerBound ?? line.text.endIndex).trimmed
        current?.steps.append(
            SessionScenario.Step(
                time: instant, action: action, expectation: expectation, line: line.number, text: String(text)))
    }

    private func check(
        _ expectation: SessionScenario.Expectation?, on action: SessionScenario.Action, _ line: ScenarioLine
    ) throws(SessionScenario.ReadingError) {
        guard let expectation else {
            if action == .readSessionId { throw line.error("session-id needs an expectation") }
            return
        }
        switch (action, expectation) {
        case (.readSessionId, .dropped), (.readSessionId, .carries(_, starts: true)):
            throw line.error("session-id is a session or none")
        case (.readSessionId, _): break
        case _ where action.isEvent: break
        default: throw line.error("nothing can be expected of this step")
        }
    }

    private mutating func readEmission(_ line: ScenarioLine) throws(SessionScenario.ReadingError) {
        var (words, expectation) = try split(line)
        words.removeFirst()
        guard case .quoted(let name)? = words.popFirst(), words.isEmpty else {
            throw line.error("emits needs a name in quotes")
        }
        guard let last = current?.steps.indices.last else { throw line.error("emits stands below a step") }
        current?.steps[last].emissions.append(
            SessionScenario.Emission(name: name, expectation: expectation, line: line.number))
    }

    private func split(
        _ line: ScenarioLine
    ) throws(SessionScenario.ReadingError) -> (ArraySlice<ScenarioWord>, SessionScenario.Expectation?) {
        guard let arrow = line.words.firstIndex(of: .word("=>")) else { return (line.words[...], nil) }
        let wanted = line.words[(arrow + 1)...].map { $0.text ?? "" }
        let words = line.words[..<arrow]
        switch (wanted.count, wanted.first, wanted.last) {
        case (1, "none"?, _): return (words, SessionScenario.Expectation.none)
        case (1, "dropped"?, _): return (words, .dropped)
        case (1, let session?, _) where Self.isSession(session): return (words, .carries(session))
        case (2, let session?, "start"?) where Self.isSession(session): return (words, .carries(session, starts: true))
        default:
            throw line.error(
                "an expectation is none, dropped, or a session like S1 or 1740463597, with or without start")
        }
    }

    private static func isSession(_ text: String) -> Bool {
        let digits = text.hasPrefix("S") ? text.dropFirst() : text[...]
        return UInt64(digits) != nil && digits.allSatisfy(\.isASCII) && !digits.hasPrefix("+")
    }

    private func readAction(
        _ words: inout ArraySlice<ScenarioWord>, _ line: ScenarioLine
    ) throws(SessionScenario.ReadingError) -> SessionScenario.Action {
        guard case .word(let verb)? = words.popFirst() else { throw line.error("an action is missing") }
        switch verb {
        case "launch": return try readLaunch(&words, line)
        case "foreground": return .foreground
        case "background": return .background
        case "terminate":
            let survived = words.first == .word("survived")
            if survived { words.removeFirst() }
            return .terminate(survived: survived)
        case "kill": return .kill
        case "shutdown": return .shutdown
        case "track": return .track(try quoted(&words, line))
        case "screen": return .screen(try quoted(&words, line))
        case "group": return .group(try quoted(&words, line))
        case "alias": return .alias(try quoted(&words, line))
        case "filter": return .filter(try quoted(&words, line))
        case "identify": return .identify(words.isEmpty ? nil : try quoted(&words, line))
        case "start-session":
            guard let id = words.popFirst() else { return .startSession(nil) }
            guard let number = id.text.flatMap({ UInt64($0) }) else { throw line.error("an id is a whole number") }
            return .startSession(number)
        case "end-session": return .endSession
        case "reset":
            guard !words.isEmpty else { return .reset() }
            guard words.popFirst() == .word("keeping"), words.popFirst() == .word("session") else {
                throw line.error("reset, or reset keeping session")
            }
            return .reset(keepingSession: true)
        case "session-id": return .readSessionId
        case "hold": return .hold
        case "release": return .release
        case "reboot": return .reboot
        case "clock": return .setClock(try readShift(&words, line))
        default: throw line.error("'\(verb)' is not an action; the article \"Session scenarios\" lists them")
        }
    }

    private func readLaunch(
        _ words: inout ArraySlice<ScenarioWord>, _ line: ScenarioLine
    ) throws(SessionScenario.ReadingError) -> SessionScenario.Action {
        let state = words.popFirst()
        guard state == .word("foreground") || state == .word("background") else {
            throw line.error("launch foreground, or launch background")
        }
        var change = SessionScenario.SettingsChange()
        while !words.isEmpty { try read(&words, into: &change, line) }
        return .launch(inForeground: state == .word("foreground"), change)
    }

    private func readShift(
        _ words: inout ArraySlice<ScenarioWord>, _ line: ScenarioLine
    ) throws(SessionScenario.ReadingError) -> Duration {
        guard let text = words.popFirst()?.text, let sign = text.first, sign == "+" || sign == "-",
            let milliseconds = SessionScenario.milliseconds(text.dropFirst())
        else { throw line.error("clock needs a shift like +1d or -8m") }
        let shift = Duration(exactMilliseconds: milliseconds)
        return sign == "-" ? .zero - shift : shift
    }

    private func quoted(
        _ words: inout ArraySlice<ScenarioWord>, _ line: ScenarioLine
    ) throws(SessionScenario.ReadingError) -> String {
        guard case .quoted(let text)? = words.popFirst() else { throw line.error("a name in quotes is missing") }
        return text
    }
}
