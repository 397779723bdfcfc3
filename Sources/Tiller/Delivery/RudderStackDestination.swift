import Foundation

/// Brings events to a RudderStack data plane: `POST {dataPlaneUrl}/v1/batch`.
///
/// Events wait in the instance's store until a flush policy or `flush()` asks
/// for an upload; those of earlier processes come first. One request is under
/// way at a time, oldest events first. A 2xx answer acknowledges its events;
/// after any other, or none, all of them stay and are sent again, with the same
/// ids, after a wait that doubles (1 s at first, at most five minutes in apps
/// and one minute elsewhere, a random part of it). `flush()` and a return to
/// the foreground end such a wait, at most once in ten seconds.
///
/// `sentAt` is written anew for each attempt: the time of the call plus the
/// event's age by the continuous clock, so that setting the wall clock moves
/// no event.
public final class RudderStackDestination: DataPlaneDestination, LifecycleObserver {
    /// Plugins for this destination alone.
    public let ownPlugins = OwnPlugins()

    let channel: Channel
    private let configuration: Configuration
    /// From the moment at which it took its place in an instance to its last upload there.
    private let uploader = Locked<Uploader?>(nil)
    /// The notice may come before the place in the pipeline.
    private let isInForeground = Locked(false)

    /// The destination that a configuration describes.
    ///
    /// - Parameter configuration: Write key, URL, batching, flush policies, limits, transport, time.
    public init(configuration: Configuration) {
        channel = configuration.channel ?? (configuration.lifecycleSource.isApp ? .mobile : .server)
        self.configuration = configuration
    }

    /// Uploads what waits.
    public func flush() { uploader.withLock { $0 }?.flush() }

    /// Tries what waits once more. What fails then stays in the store, for the next destination or the next process.
    public func teardown() { uploader.withLock { $0 }?.close() }

    /// The first foreground asks the flush policies about what waits from earlier; each ends a wait for the next attempt.
    public func handle(_ event: LifecycleEvent, in analytics: Analytics) {
        guard event == .foreground else { return }
        // An instance that it is not used by, because another one has it, has no say.
        let (uploader, known) = uploader.withLock { ($0, $0?.instance) }
        if known == nil || known == ObjectIdentifier(analytics.engine) {
            isInForeground.withLock { $0 = true }
            uploader?.comeToForeground()
        }
    }

    func attach(to environment: DataPlaneEnvironment) -> (any Uploads)? {
        let new = Uploader(configuration: configuration, environment: environment)
        let isFree = uploader.withLock { uploader in
            guard uploader?.isClosing ?? true else { return false }
            uploader = new
            return true
        }
        guard isFree else { return nil }
        new.done.whenReached { [weak self] in
            // It holds what belongs to the instance.
            self?.uploader.withLock { if $0 === new { $0 = nil } }
        }
        new.begin(inForeground: isInForeground.withLock { $0 })
        return new
    }
}
