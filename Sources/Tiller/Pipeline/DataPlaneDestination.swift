/// The data plane's side of the pipeline's last step, which stores the events for it. Internal: its part is done on the
/// pipeline's own executor, so none of its methods may wait.
protocol DataPlaneDestination: DestinationPlugin {
    /// The channel that its events are encoded with.
    var channel: Channel { get }

    /// Told when it takes its place in the pipeline what it needs of the instance. Its `teardown` ends the uploads.
    ///
    /// - Returns: What brings the instance's events away; `nil` if another instance has the destination.
    func attach(to environment: DataPlaneEnvironment) -> (any Uploads)?
}

/// What brings events from an instance's store to a data plane, from the destination's taking its place to its end.
protocol Uploads: AnyObject, Sendable {
    /// After each stored chunk in which an event came: the moment to ask flush policies.
    func didStoreChunk()

    /// Runs an action when all that waited at the last flush is delivered, or an attempt has failed.
    ///
    /// - Parameter settledBefore: How many events the store had got rid of before, to tell "delivered" from "nothing was
    ///   waiting".
    func whenFlushed(settledBefore: Int, _ resume: @escaping @Sendable (FlushResult) -> Void)

    /// Another instance waits for the store: no upload begins any more, and the one under way is broken off if it lasts.
    func hurry()

    /// How it stands just now.
    var delivery: DeliveryProgress { get }

    /// The last upload is over, after the destination's `teardown`: the store is free.
    var done: Milestone { get }
}

/// What a data-plane destination needs of its instance.
struct DataPlaneEnvironment: Sendable {
    let diagnostics: Diagnostics
    /// The instance.
    let instance: ObjectIdentifier
    /// A random id of this installation, for the `AnonymousId` header where no event's own id serves.
    let installationId: String
    /// Where the events wait.
    let store: any EventStore
    /// What had the place before is done with the store.
    let isFree: Milestone
    /// Runs an action on the pipeline's executor, in the order of the road; not at all once the instance is gone.
    let onExecutor: @Sendable (@escaping @Sendable () -> Void) -> Void
    /// `Uploads.delivery` is another one now. Called outside of all locks, on any thread.
    let didChangeDelivery: @Sendable () -> Void
}
