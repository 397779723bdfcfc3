public import Tiller

/// A RudderStack data plane on 127.0.0.1, for tests of what an app records and for development.
///
/// It listens from its making until `stop()` or until it is dropped, reads
/// real HTTP and judges requests as the open-source gateway does: an accepted
/// batch here would be accepted there, and a refused one gets the same status
/// and text.
///
/// ```swift
/// let plane = try LocalDataPlane()
/// // … record with an instance whose data plane is `plane.url`, then:
/// let events = try await plane.events(count: 2)
/// #expect(events.map(\.name) == ["Opened", "Paid"])
/// ```
///
/// | route | |
/// |---|---|
/// | `POST /v1/batch` | a batch, plain or gzip |
/// | `POST /v1/identify`, `track`, `page`, `screen`, `group`, `alias`, `merge` | one event; the route's name is its type |
/// | `GET /`, `/health`, `/version` | a little JSON |
/// | `GET /tiller/events` | what has arrived, in order: an array of `{receivedAt, writeKey, event}` |
///
/// Everything else is 404, also what the gateway has beside these: beacon,
/// pixel, import, audience lists, webhooks. Keys, faults and limits are set by
/// `Rules`, answers can be scripted: see `answerNext(_:)`, and so can the
/// troubles of a network: see `FaultScript`.
///
/// All members are callable from any thread. Only `stop()` and the deinit
/// block. What was received is kept in memory as long as the object lives, see
/// `Rules.retention`.
///
/// What differs from the gateway: 128 connections at a time (one more is closed
/// at once); 16 MiB of body, inflated or not, are read and judged (413 above,
/// before any other fault); what lies below 512 levels of an event is accepted,
/// and `null` in what is kept; keys that differ only in how their accents are
/// composed count as equal. A connection is closed if the client is silent for
/// 30 seconds within a request or 720 between two.
public final class LocalDataPlane: Sendable {
    private let server: Server

    /// Listens at once.
    ///
    /// - Parameters:
    ///   - port: The port on 127.0.0.1; 0 for a free one, so that tests run in parallel.
    ///   - writeKeys: The keys that are known, compared exactly; all others
    ///     are answered 401. `nil` for any key that isn't empty.
    /// - Throws: `ListeningError`, if the port is taken or may not be used, or the process is out of descriptors.
    public convenience init(port: UInt16 = 0, writeKeys: Set<String>? = nil) throws(ListeningError) {
        var rules = Rules()
        rules.writeKeys = writeKeys
        try self.init(port: port, rules: rules)
    }

    /// Listens at once.
    ///
    /// - Parameters:
    ///   - port: The port on 127.0.0.1; 0 for a free one, so that tests run in parallel.
    ///   - rules: What it knows and how it behaves.
    ///   - timeSource: For `receivedAt`, slow storing and `quiet(for:)`; the machine's by default. Connections that fall
    ///     silent are timed by the system in any case.
    /// - Throws: `ListeningError`, if the port is taken or may not be used, or the process is out of descriptors.
    public convenience init(
        port: UInt16 = 0, rules: Rules, timeSource: any TimeSource = SystemTime()
    ) throws(ListeningError) {
        try self.init(port: port, rules: rules, timeSource: timeSource, onExchange: nil)
    }

    /// Listens at once, and tells of every request that could be answered.
    ///
    /// - Parameter onExchange: Called on the connection's thread before the answer is sent, so that requests that follow
    ///   one another are told in order. It may block; that holds up its connection only.
    package init(
        port: UInt16, rules: Rules, timeSource: any TimeSource, onExchange: (@Sendable (Exchange) -> Void)?
    ) throws(ListeningError) {
        do {
            server = try Server(port: port, rules: rules, timeSource: timeSource, onExchange: onExchange)
        } catch {
            throw ListeningError(port: port, code: error.code)
        }
        server.start()
    }

    deinit { server.stop() }

    /// The base URL to give to the SDK, `"http://127.0.0.1:PORT"`, without a slash at the end. The same after `stop()`.
    public var url: String { "http://127.0.0.1:\(server.port)" }

    /// What the data plane knows and how it behaves. A change holds for requests whose head is read after it.
    public var rules: Rules {
        get { server.rules }
        set { server.rules = newValue }
    }
}

// MARK: - What has arrived

extension LocalDataPlane {
    /// The events of accepted requests, in order of arrival: batch after batch, each in its own order.
    ///
    /// A batch that is sent twice is here twice, as at the gateway.
    public var events: [ReceivedEvent] { server.events }

    /// Every request that was read to its end, those that were refused too, in the order in which they were judged.
    ///
    /// Not here: requests that broke off, were no HTTP or had more than 16 MiB
    /// of body. A request that was refused by its head alone is here without
    /// its body if it asked first (`Expect: 100-continue`) or announced more
    /// than 256 KiB, and not at all if it turned out to be longer than that.
    public var requests: [Request] { server.requests }

    /// What the script of `Rules.faults` did, request after request, also to those that were not read or never had a
    /// connection. Requests that met no fault are not here.
    ///
    /// Empty with the retention `.nothing`. `Request.fault` and `ReceivedEvent.fault` tell it of one.
    public var appliedFaults: [AppliedFault] { server.appliedFaults }

    /// Waits until a number of events have arrived since the start.
    ///
    /// There is no time limit: put one on the test (`.timeLimit(…)`), which
    /// cancels its task. Any number of tasks can wait at once.
    ///
    /// - Parameter count: How many there must be at least. If so many are there already, it returns at once.
    /// - Returns: `events`, which can be more than were asked for.
    /// - Throws: `CancellationError` when the task is cancelled, `StoppedError` when the server stops before.
    public func events(count: Int) async throws -> [ReceivedEvent] {
        defer { withExtendedLifetime(self) {} }  // the wait alone would not keep the server from being dropped
        try await server.wait(for: .events(count))
        return events
    }

    /// Waits until a number of requests have arrived since the start, to act while an answer is held.
    ///
    /// - Parameter count: How many there must be at least. If so many are there already, it returns at once.
    /// - Returns: `requests`, which can be more than were asked for.
    /// - Throws: `CancellationError` when the task is cancelled, `StoppedError` when the server stops before.
    public func requests(count: Int) async throws -> [Request] {
        defer { withExtendedLifetime(self) {} }  // the wait alone would not keep the server from being dropped
        try await server.wait(for: .requests(count))
        return requests
    }

    /// Waits until at least one event has arrived since the start, no request is under way, and none has begun or ended for
    /// a while.
    ///
    /// The while is measured by the data plane's time source. With the
    /// machine's, `quiet(for: .milliseconds(200))` waits until a client that
    /// sends now and then seems to be done; `analytics.flushed()` says it for sure. With
    /// a `VirtualTime` the test lets the while pass, and nobody waits:
    ///
    /// ```swift
    /// async let events = plane.quiet(for: .seconds(5))
    /// time.advance(by: .seconds(5))    // before or after the wait has begun: the time counts, not the moment
    /// ```
    ///
    /// A request is under way until its answer is about to be sent: while an
    /// answer is held or slowly stored, it is not quiet.
    ///
    /// - Parameter silence: How long; `.zero`, the default: it is enough that no request is under way.
    /// - Returns: `events`.
    /// - Throws: `CancellationError` when the task is cancelled, `StoppedError` when the server stops before.
    public func quiet(for silence: Duration = .zero) async throws -> [ReceivedEvent] {
        defer { withExtendedLifetime(self) {} }  // the wait alone would not keep the server from being dropped
        try await server.wait(for: .quiet(silence))
        return events
    }
}

// MARK: - Scripts

extension LocalDataPlane {
    /// Scripts the answers to the next requests to `POST /v1/batch`, in order, whatever is in them.
    ///
    /// One request takes one answer; after the last the server judges for
    /// itself again. Answers that are scripted later line up behind.
    ///
    /// ```swift
    /// plane.answerNext(.status(503), .closed, .ok.held())
    /// ```
    ///
    /// What is accepted goes by the status: with 200 the events of a batch
    /// that deserves it, with any other status none.
    ///
    /// - Parameter replies: What to answer, first to last.
    public func answerNext(_ replies: Reply...) { server.script(replies) }

    /// Sends every answer that is being held, see `Reply.held()`.
    ///
    /// Does nothing for requests that arrive later: wait with
    /// `requests(count:)` for those that you mean.
    public func releaseHeld() { server.releaseHeld() }
}

// MARK: - The end

extension LocalDataPlane {
    /// Closes the listener and all connections, held and half-read ones too.
    ///
    /// When it returns, the port is free, and threads and descriptors are
    /// given back; what was received stays readable. Tasks that wait get
    /// `StoppedError`. It blocks while requests that were read are being judged:
    /// milliseconds. Calling it again does nothing. Dropping the object does the same.
    public func stop() { server.stop() }

    /// Why a server could not be made.
    public struct ListeningError: Error, Hashable, CustomStringConvertible {
        /// The port that was asked for.
        public let port: UInt16
        /// The system's error number (`errno`), such as `EADDRINUSE`.
        public let code: Int32

        /// The port and the system's words.
        public var description: String {
            "can't listen on 127.0.0.1:\(port): \(Socket.Failure(code: code).description)"
        }
    }

    /// What a waiting task gets when the server was stopped before enough had arrived.
    public struct StoppedError: Error, Hashable, CustomStringConvertible {
        /// What happened.
        public var description: String { "the local data plane was stopped" }
    }
}
