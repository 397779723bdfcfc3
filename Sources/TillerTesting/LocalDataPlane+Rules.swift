extension LocalDataPlane {
    /// What a local data plane knows and how it behaves; by default as a fresh open-source gateway that knows every key.
    ///
    /// ```swift
    /// var rules = LocalDataPlane.Rules()
    /// rules.writeKeys = ["known"]
    /// rules.storage = .failing("tx error")
    /// let plane = try LocalDataPlane(rules: rules)
    /// plane.rules.storage = .working    // from the next request on
    /// ```
    public struct Rules: Sendable {
        /// The write keys of sources that are switched on, compared exactly; all others are answered 401. `nil`, the
        /// default: any key that isn't empty.
        public var writeKeys: Set<String>?
        /// The write keys of sources that are known and switched off: 404 `source is disabled`. None by default.
        public var disabledWriteKeys: Set<String> = []
        /// Users whose events are answered 200 and thrown away, compared with the cleaned `userId`. None by default.
        public var suppressedUserIds: Set<String> = []
        /// Whether every well-formed batch is answered 429, without `Retry-After`. False by default.
        public var isRateLimited = false
        /// What becomes of events that deserve to be stored.
        public var storage = Storage.working
        /// How many requests may be under way at a time, whatever their path; the others are answered 503. 50 000 by
        /// default, the gateway's.
        public var maximumConcurrentRequests = 50_000
        /// Whether the hosted service's documented limits hold too: 32 KiB (32 768 bytes) an event, 4 MB (4 000 000
        /// bytes) a batch, 200 levels of nesting. What exceeds one is answered 400 with a text that names the limit;
        /// the text is this server's own. False by default.
        public var isStrict = false
        /// What goes wrong between the client and the server; `nil`, the default: nothing. Another script counts requests
        /// from 1 again. Requests that take an answer of `answerNext(_:)` are not counted.
        public var faults: FaultScript?
        /// What is kept in memory of what arrives.
        public var retention = Retention.everything

        /// The defaults.
        public init() {}
    }

    /// What becomes of events that deserve to be stored.
    public enum Storage: Sendable, Hashable {
        /// They are stored at once.
        case working
        /// They are not: 500, and the text with a line end.
        case failing(String)
        /// They are stored after some time, by the data plane's time source.
        ///
        /// After 10 seconds the gateway gives the client up: the connection
        /// is closed without an answer, and the events are stored all the same
        /// when their time has come.
        case taking(Duration)
    }

    /// What is kept in memory of what arrives. Counting and waiting go on whatever it is.
    public enum Retention: Sendable, Hashable {
        /// Requests with their bodies, and events as they were sent and as they are stored: several times the size
        /// of the text.
        case everything
        /// Events, only as they are stored: their JSON text and about 140 bytes beside it for each. `requests` stays
        /// empty, and an event's `json` is its `stored`.
        case storedEvents
        /// Nothing: `requests` and `events` stay empty.
        case nothing
    }
}
