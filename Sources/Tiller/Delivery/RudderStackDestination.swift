import Foundation

/// Brings events to a RudderStack data plane: `POST {dataPlaneUrl}/v1/batch`.
///
/// Events wait in memory until a flush policy or `flush()` asks for an upload.
/// One request is under way at a time, oldest events first. A 2xx answer
/// acknowledges its events; after any other, or none, all of them stay and are
/// sent again, with the same ids, after a wait that doubles (1 s at first, at
/// most five minutes in apps and one minute elsewhere, a random part of it).
/// `flush()` and a return to the foreground end such a wait, at most once in
/// ten seconds.
///
/// `sentAt` is written anew for each attempt: the time of the call plus the
/// event's age by the continuous clock, so that setting the wall clock moves
/// no event.
public final class RudderStackDestination: DataPlaneDestination, LifecycleObserver {
    /// Plugins for this destination alone.
    public let ownPlugins = OwnPlugins()

    let channel: Channel
    private let uploader: Uploader

    /// The destination that a configuration describes.
    ///
    /// - Parameter configuration: Write key, URL, batching, flush policies, limits, transport, time.
    public init(configuration: Configuration) {
        channel = configuration.channel ?? (configuration.lifecycleSource.isApp ? .mobile : .server)
        uploader = Uploader(configuration: configuration)
    }

    /// Uploads what waits.
    public func flush() { uploader.flush() }

    /// Tries what waits once more; what fails then is lost, for events are not stored on disk yet.
    public func teardown() { uploader.close() }

    /// A return to the foreground ends a wait for the next attempt.
    public func handle(_ event: LifecycleEvent, in analytics: Analytics) {
        if event == .foreground { uploader.endWait() }
    }

    // MARK: The pipeline's side

    func attach(to environment: DataPlaneEnvironment) -> Bool { uploader.attach(to: environment) }

    func take(_ encoded: EncodedEvent, of event: Event) {
        uploader.append(
            WaitingEvent(
                bytes: encoded.bytes, anonymousId: event.anonymousId, moment: event.moment, cost: encoded.bytes.count))
    }

    func didTakeChunk() { uploader.askPolicies() }

    // MARK: Waiting

    /// How many events have been delivered in this process.
    var deliveredCount: Int { uploader.deliveredCount }

    /// How many events were lost at the end.
    var lostCount: Int { uploader.lostCount }

    /// Waits for what waits now.
    ///
    /// - Parameter deliveredBefore: `deliveredCount` at the call, to tell "delivered" from "nothing was waiting".
    func flushed(deliveredBefore: Int) async -> FlushResult {
        await withCheckedContinuation { done in
            uploader.whenFlushed(deliveredBefore: deliveredBefore) { done.resume(returning: $0) }
        }
    }

    /// Runs an action after `teardown`, when nothing waits any more.
    func whenDone(_ action: @escaping @Sendable () -> Void) { uploader.whenDone(action) }
}
