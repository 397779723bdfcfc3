import Tiller

/// The machine's time, twenty times as fast: seconds of waiting after a failure pass in a twentieth of them. All processes
/// and data planes of a run share it.
struct HarnessTime: TimeSource, Equatable, CustomStringConvertible {
    static let speed = 20

    /// When it showed what the machine's clocks showed, in milliseconds since 1970 and in nanoseconds.
    private let wallStart: Int64
    private let continuousStart: Int64

    /// One that begins now.
    init() {
        wallStart = SystemTime().wallMilliseconds
        continuousStart = Self.nanoseconds(SystemTime().continuous)
    }

    /// One that has begun, from its description; `nil`: it is none.
    init?(_ text: String) {
        let numbers = text.split(separator: "/").compactMap { Int64($0) }
        guard numbers.count == 2 else { return nil }
        (wallStart, continuousStart) = (numbers[0], numbers[1])
    }

    var description: String { "\(wallStart)/\(continuousStart)" }

    var wallMilliseconds: Int64 { wallStart + (SystemTime().wallMilliseconds - wallStart) * Int64(Self.speed) }

    var continuous: Duration {
        .nanoseconds(continuousStart)
            + .nanoseconds(Self.nanoseconds(SystemTime().continuous) - continuousStart) * Self.speed
    }

    var bootIdentity: String? { SystemTime().bootIdentity }

    func schedule(after delay: Duration, _ action: @escaping @Sendable () -> Void) -> CancellationToken {
        SystemTime().schedule(after: delay / Self.speed, action)
    }

    private static func nanoseconds(_ duration: Duration) -> Int64 {
        duration.components.seconds * 1_000_000_000 + duration.components.attoseconds / 1_000_000_000
    }
}
