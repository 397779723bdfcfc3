import Tiller

// What is written is what `read` reads. Durations are rounded up to milliseconds.

extension FaultScript: CustomStringConvertible {
    /// The script as a text, which `read(_:file:)` understands.
    public var description: String {
        let lines = (seed == 0 ? [] : ["seed \(seed)"]) + rules.map(\.description)
        return lines.map { $0 + "\n" }.joined()
    }
}

extension FaultScript.Rule: CustomStringConvertible {
    /// A line of the text.
    public var description: String { "\(occasion): \(FaultScript.text(delay, fault))" }
}

extension FaultScript.Occasion: CustomStringConvertible {
    /// As in the text.
    public var description: String {
        let isOne = rhythm == .every(1) && first == last
        var text =
            switch rhythm {
            case .every(1): isOne ? "at \(first)" : (first == 1 && last == nil ? "always" : "from \(first)")
            case .every(let count): "every \(count)"
            case .chance(let probability): "chance \(probability)"
            }
        if !isOne {
            if first > 1, rhythm != .every(1) { text += " from \(first)" }
            if let last { text += " to \(last)" }
        }
        return text + (length > 1 ? " for \(length)" : "")
    }
}

extension FaultScript {
    /// What is done, as in the text.
    static func text(_ delay: Duration, _ fault: Fault?) -> String {
        guard let fault else { return "delay \(text(delay))" }
        return delay > .zero ? "delay \(text(delay)) then \(fault)" : fault.description
    }

    fileprivate static func text(_ duration: Duration) -> String {
        let (seconds, attoseconds) = max(duration, .zero).components
        let (milliseconds, rest) = attoseconds.quotientAndRemainder(dividingBy: 1_000_000_000_000_000)
        let rounded = milliseconds + (rest > 0 ? 1 : 0)
        return rounded == 0 ? "\(seconds)s" : (seconds == 0 ? "\(rounded)ms" : "\(seconds)s\(rounded)ms")
    }

    fileprivate static func quoted(_ text: String) -> String { JSONValue.string(text).description }
}

extension FaultScript.Fault: CustomStringConvertible {
    /// As in the text.
    public var description: String {
        switch self {
        case .refused: "refuse"
        case .cut(let point, let isReset): (isReset ? "reset " : "cut ") + point.rawValue
        case .status(let answer): answer.description
        case .page(let text): text == Self.logInPage ? "page" : "page " + FaultScript.quoted(text)
        case .redirect(let status, let location): "redirect \(status) " + FaultScript.quoted(location)
        case .garbage(let text): text == Self.anotherProtocol ? "garbage" : "garbage " + FaultScript.quoted(text)
        case .trickled(let pause): pause > .zero ? "trickle " + FaultScript.text(pause) : "trickle"
        case .truncated: "truncate"
        case .length(let length): "length \(length)"
        case .chunked: "chunked"
        case .closing: "close"
        }
    }
}

extension FaultScript.Answer: CustomStringConvertible {
    /// As in the text.
    public var description: String {
        var text = "status \(status)"
        if !body.isEmpty { text += " " + FaultScript.quoted(body) }
        for header in headers { text += " header \(header.name) " + FaultScript.quoted(header.value) }
        switch retryAfter {
        case nil: break
        case .seconds(let seconds): text += " retry-after \(seconds)s"
        case .date(let duration): text += " retry-after-date " + FaultScript.text(duration)
        }
        return text + (isStored ? " stored" : "")
    }
}
