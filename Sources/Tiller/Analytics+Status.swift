/// How an instance fares: its account of events, and the state of its delivery to the data plane.
extension Analytics {
    /// What `Analytics.status` tells.
    public struct Status: Sendable, Hashable {
        /// What became of the events.
        public let account: Account
        /// What the delivery does now.
        public let delivery: DeliveryState
        /// What went wrong at the last attempt that failed, for people, without write key or query; `nil` if none did since
        /// the last that succeeded.
        public let lastError: String?
        /// Bytes on the disk or in memory that hold events which wait. Files are counted whole; those of earlier processes,
        /// until one of them is removed, near the bound until the first upload, or soon after the first event that this one
        /// stores, as about what a full one has (a mebibyte, or an eighth of `Limits.storageBytes` where that is less).
        public let waitingBytes: Int
        /// When the oldest event that waits was recorded, in milliseconds since 1970 by the wall clock of that time; `nil` if
        /// none waits, or it has not been read yet in this process.
        public let oldestWaiting: Int64?
    }

    /// What the delivery to the data plane does.
    public enum DeliveryState: Sendable, Hashable {
        /// There is no data-plane destination, or nothing was asked for, or nothing waits.
        case idle
        /// A request is under way or about to be.
        case running
        /// An attempt failed; the next one is made later.
        ///
        /// - Parameters:
        ///   - until: When, in milliseconds since 1970 by the present wall clock.
        ///   - reason: Why, for people.
        case waiting(until: Int64, reason: String)
        /// The configuration, or what stands between, does not let events through: all are kept. Tried again once an hour, at
        /// the next start, and at a `flush()`, once a minute at most.
        ///
        /// - Parameter reason: Why, for people.
        case stopped(reason: String)
    }

    /// The present status. Cheap: no file is read; from any thread.
    public var status: Status { engine.status }

    /// The status now, and then whenever it has changed: of changes that come faster than they are read the last one only.
    /// It ends with the instance, after the last upload. Each iteration starts with the present status.
    public var statuses: Statuses { Statuses(engine: engine) }

    /// The status of an instance over time; see `Analytics.statuses`.
    public struct Statuses: AsyncSequence, Sendable {
        fileprivate let engine: Engine

        /// Starts with the present status.
        public func makeAsyncIterator() -> Iterator { Iterator(engine) }

        /// An iteration.
        public struct Iterator: AsyncIteratorProtocol {
            private let engine: Engine
            private var changes: AsyncStream<Void>.Iterator
            private let token: CancellationToken
            private var last: Status?

            fileprivate init(_ engine: Engine) {
                let (changes, continuation) = AsyncStream.makeStream(
                    of: Void.self, bufferingPolicy: .bufferingNewest(1))
                self.engine = engine
                self.changes = changes.makeAsyncIterator()
                let signal: @Sendable () -> Void = { [weak engine] in
                    continuation.yield()
                    if engine?.finished.isReached ?? true { continuation.finish() }
                }
                token = engine.changes.add(signal)
                signal()
            }

            /// The next status that differs from the one before; `nil` after the end of the instance.
            public mutating func next() async -> Status? {
                while await changes.next() != nil {
                    let status = engine.status
                    if status == last { continue }
                    last = status
                    return status
                }
                return nil
            }
        }
    }
}
