import Foundation

/// Brings events to a RudderStack data plane: `POST {dataPlaneUrl}/v1/batch`.
///
/// Events wait in the instance's store until a flush policy or `flush()` asks
/// for an upload; those of earlier processes come first. A notice of the
/// background or the end asks too, where there is a policy. One request is
/// under way at a time, oldest events first, 30 s long at most. Every copy of
/// an event has the same id and the same bytes, but for `sentAt`: the time of
/// the call plus the event's age, by the continuous clock as long as the
/// machine runs, so that setting the wall clock moves no event, and by the wall
/// clock over a restart of the machine.
///
/// An answer of 2xx, unless it is an HTML page, acknowledges the events. What
/// else may come:
///
/// - **Not now**: 408, 425, 429, 5xx, no answer (no network, TLS, a timeout).
///   Everything waits, at random up to 1 s, then up to 2 s, 4 s and so on, at
///   most five minutes in apps and one minute elsewhere; at least as long as
///   `Retry-After` says, up to an hour. `flush()`, a return to the foreground
///   and a network that comes back end such a wait, at most once in ten
///   seconds, and never what `Retry-After` says. Two large requests without an
///   answer: the first event goes alone, which shows a refusal that hides
///   behind a broken connection, and the rest in smaller requests.
/// - **Refused**: 400, 413, 422, and 500 `failed to read body from request`
///   twice in a row. What was compressed is sent plain once (413: not), then in
///   halves, until the culprit stands alone. That event is passed over; once a
///   later request is accepted, it is given up, counted as refused and reported.
///   Until then it stays: when nothing else waits, both wait, as above. Three
///   events refused alone one after the other, none accepted between: a fault.
///   A batch that is answered 5xx ten times over at least an hour is cut
///   likewise; a server that then fails at everything costs no event.
/// - **Fault**: 401, 404, every other 3xx and 4xx (redirects are not followed),
///   an HTML page in place of an answer. Uploads stop, everything is kept, and
///   one error is logged. It is tried again once an hour, by the next process,
///   and by a `flush()` a minute or more after the last attempt.
///
/// `shutdown` tries once more, unless `Retry-After` or a fault less than a
/// minute old forbid it. Nothing of this outlives the process but the events:
/// the next one begins with a first attempt.
public final class RudderStackDestination: DataPlaneDestination, LifecycleObserver {
    /// Plugins for this destination alone.
    public let ownPlugins = OwnPlugins()

    let channel: Channel
    private let configuration: Configuration
    private let state = Locked(State())

    private struct State: Sendable {
        /// From the moment at which it took its place in an instance to its last upload there.
        var uploader: Uploader?
        /// A notice may come before the place in the pipeline.
        var notice = (isInForeground: false, isLeaving: false)
    }

    /// The destination that a configuration describes.
    ///
    /// - Parameter configuration: Write key, URL, batching, flush policies, limits, transport, time.
    public init(configuration: Configuration) {
        channel = configuration.channel ?? (configuration.lifecycleSource.isApp ? .mobile : .server)
        self.configuration = configuration
    }

    /// Uploads what waits.
    public func flush() { state.withLock { $0.uploader }?.flush() }

    /// Tries what waits once more. What fails then stays in the store, for the next destination or the next process.
    public func teardown() { state.withLock { $0.uploader }?.close() }

    /// The first foreground asks the flush policies about what waits from earlier; each ends a wait for the next attempt.
    /// Background and end ask for an upload, and wait for nothing.
    public func handle(_ event: LifecycleEvent, in analytics: Analytics) {
        // An instance that it is not used by, because another one has it, has no say.
        let known = state.withLock { $0.uploader?.instance }
        guard known == nil || known == ObjectIdentifier(analytics.engine) else { return }
        switch event {
        case .foreground:
            let uploader = state.withLock { state in
                state.notice = (true, false)
                return state.uploader
            }
            uploader?.comeToForeground()
        case .background, .terminate:
            let uploader = state.withLock { state in
                state.notice.isLeaving = true
                return state.uploader
            }
            uploader?.leaveForeground()
        }
    }

    /// The network is there again: ends a wait for the next attempt, at most once in ten seconds.
    ///
    /// For platforms whose system does not say so by itself (it does on Apple's, of Wi-Fi and cellular networks). From any
    /// thread.
    public func networkCameBack() { state.withLock { $0.uploader }?.endPause(by: .sign) }

    func attach(to environment: DataPlaneEnvironment) -> (any Uploads)? {
        let new = Uploader(configuration: configuration, environment: environment)
        let notice = state.withLock { state -> (isInForeground: Bool, isLeaving: Bool)? in
            guard state.uploader?.isClosing ?? true else { return nil }
            state.uploader = new
            defer { state.notice.isLeaving = false }
            return state.notice
        }
        guard let notice else { return nil }
        new.done.whenReached { [weak self] in
            // It holds what belongs to the instance.
            self?.state.withLock { if $0.uploader === new { $0.uploader = nil } }
        }
        new.begin(inForeground: notice.isInForeground, isLeaving: notice.isLeaving)
        return new
    }
}
