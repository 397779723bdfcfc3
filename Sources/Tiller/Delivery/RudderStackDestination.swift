import Foundation

/// Brings events to a RudderStack data plane: `POST {dataPlaneUrl}/v1/batch`.
///
/// Events wait in the instance's store until a flush policy or `flush()` asks
/// for an upload; those of earlier processes come first. One request is under way at a time, oldest events first. A 2xx answer
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

    /// Tries what waits once more. What fails then stays in the store, for the next destination or the next process.
    public func teardown() { uploader.close() }

    /// The first foreground asks the flush policies about what waits from earlier; each ends a wait for the next attempt.
    public func handle(_ event: LifecycleEvent, in analytics: Analytics) {
        if event == .foreground { uploader.comeToForeground() }
    }

    // MARK: The pipeline's side

    func attach(to environment: DataPlaneEnvironment) -> Bool { uploader.attach(to: environment) }

    func didStoreChunk() { uploader.askPolicies() }

    func whenDone(_ action: @escaping @Sendable () -> Void) { uploader.whenDone(action) }

    func hurry() { uploader.hurry() }

    // MARK: Waiting

    /// How many events the store has got rid of since it was opened: delivered ones, nearly always.
    var settledCount: Int { uploader.settledCount }

    /// Waits for what waits now.
    ///
    /// - Parameter settledBefore: `settledCount` at the call, to tell "delivered" from "nothing was waiting".
    func flushed(settledBefore: Int) async -> FlushResult {
        await withCheckedContinuation { done in
            uploader.whenFlushed(settledBefore: settledBefore) { done.resume(returning: $0) }
        }
    }
}
