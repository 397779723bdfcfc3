/// What a child tells its parent, a line each: short enough that `write(2)` puts it into a pipe whole or not at all.
enum Report: Equatable {
    /// Numbers up to this one may be recorded from now on.
    case records(upTo: Int)
    /// All numbers that it gave are stored up to this one.
    case stored(upTo: Int)
    /// All numbers up to this one are delivered, and that is written down.
    case delivered(upTo: Int)
    /// The last child has ended with so many events undelivered.
    case waiting(Int)

    var line: String {
        switch self {
        case .records(let number): "records \(number)\n"
        case .stored(let number): "stored \(number)\n"
        case .delivered(let number): "delivered \(number)\n"
        case .waiting(let count): "waiting \(count)\n"
        }
    }

    /// `nil`: it is none.
    init?(line: some StringProtocol) {
        let words = line.split(separator: " ")
        guard words.count == 2, let number = Int(words[1]) else { return nil }
        switch words[0] {
        case "records": self = .records(upTo: number)
        case "stored": self = .stored(upTo: number)
        case "delivered": self = .delivered(upTo: number)
        case "waiting": self = .waiting(number)
        default: return nil
        }
    }
}
