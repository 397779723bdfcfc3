/// Says when waiting events are uploaded.
///
/// Asked on the pipeline's executor, after each stored chunk of events, one
/// call at a time; it must not block. When one policy says yes, everything
/// that waits is uploaded, and all policies see a new count.
public protocol FlushPolicy: Sendable {
    /// Whether to upload now.
    func shouldFlush() -> Bool

    /// Whether to upload now, for a policy that looks at what waits; the default calls `shouldFlush()`.
    ///
    /// - Parameter queue: What waits.
    func shouldFlush(_ queue: FlushQueue) -> Bool

    /// How long an event may wait before an upload is tried; `nil` (the default): no limit. No timer runs when nothing waits.
    var interval: Duration? { get }
}

extension FlushPolicy {
    /// No.
    public func shouldFlush() -> Bool { false }
    /// As `shouldFlush()`.
    public func shouldFlush(_ queue: FlushQueue) -> Bool { shouldFlush() }
    /// None.
    public var interval: Duration? { nil }
}

/// What a flush policy can look at.
public struct FlushQueue: Sendable, Hashable {
    /// How many events have come since the last flush.
    public let sinceLastFlush: Int
    /// How many events wait, those of the upload in flight included.
    public let waiting: Int
    /// Whether no flush has happened in this process.
    public let isFirst: Bool

    /// What a test asks a policy about.
    ///
    /// - Parameters:
    ///   - sinceLastFlush: How many events have come since the last flush.
    ///   - waiting: How many events wait.
    ///   - isFirst: Whether no flush has happened in this process.
    public init(sinceLastFlush: Int, waiting: Int, isFirst: Bool) {
        self.sinceLastFlush = sinceLastFlush
        self.waiting = waiting
        self.isFirst = isFirst
    }
}

/// Uploads with the first stored event of a process.
public struct StartupFlushPolicy: FlushPolicy {
    /// The policy.
    public init() {}

    /// Once.
    public func shouldFlush(_ queue: FlushQueue) -> Bool { queue.isFirst && queue.waiting > 0 }
}

/// Uploads when so many events have come since the last flush.
public struct CountFlushPolicy: FlushPolicy {
    /// The number that uploads.
    public let flushAt: Int

    /// The policy.
    ///
    /// - Parameter flushAt: 30 by default; out of 1 to 100 means 30, as in RudderStack's SDK.
    public init(flushAt: Int = 30) { self.flushAt = (1...100).contains(flushAt) ? flushAt : 30 }

    /// At the number.
    public func shouldFlush(_ queue: FlushQueue) -> Bool { queue.sinceLastFlush >= flushAt }
}

/// Uploads so long after the first event began to wait.
public struct FrequencyFlushPolicy: FlushPolicy {
    /// The time.
    public let interval: Duration?

    /// The policy.
    ///
    /// - Parameter flushIntervalInMillis: In milliseconds, 10 000 by default; less than 1 000 means 10 000, as in
    ///   RudderStack's SDK.
    public init(flushIntervalInMillis: UInt64 = 10_000) {
        let milliseconds = flushIntervalInMillis < 1_000 ? 10_000 : flushIntervalInMillis
        interval = .milliseconds(Int64(min(milliseconds, UInt64(Int64.max / 1_000))))
    }
}
