import Foundation

/// What is asked for on the command line.
struct CountsOptions {
    static let usage = "usage: counts [--held] typed|any|nested|deliver EVENTS FOLDER [URL]"

    enum Kind: String {
        case typed, any, nested, deliver
    }

    /// Whether the pipeline waits while events are recorded.
    let isHeld: Bool
    let kind: Kind
    let events: Int
    let folder: URL
    /// The data plane.
    let url: String

    /// `nil`: they make no sense.
    init?(_ arguments: [String]) {
        isHeld = arguments.first == "--held"
        let arguments = Array(arguments.dropFirst(isHeld ? 1 : 0))
        guard arguments.count >= 3, let kind = Kind(rawValue: arguments[0]), let events = Int(arguments[1]),
            events > 0, arguments.count == (kind == .deliver ? 4 : 3)
        else { return nil }
        self.kind = kind
        self.events = events
        folder = URL(fileURLWithPath: arguments[2], isDirectory: true)
        url = kind == .deliver ? arguments[3] : "https://data.example.com"
    }
}
