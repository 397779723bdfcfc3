/// The data plane's side of the pipeline's last step, which stores the events for it. Internal: its part is done on the
/// pipeline's own executor, so none of its methods may wait.
protocol DataPlaneDestination: DestinationPlugin {
    /// The channel that its events are encoded with.
    var channel: Channel { get }

    /// Told when it takes its place in the pipeline what it needs of the instance.
    ///
    /// - Returns: False if another instance has it.
    func attach(to environment: DataPlaneEnvironment) -> Bool

    /// After each stored chunk in which an event came: the moment to ask flush policies.
    func didStoreChunk()

    /// Runs an action after `teardown`, when the last upload is over.
    func whenDone(_ action: @escaping @Sendable () -> Void)

    /// Another instance waits for the store: no upload begins any more, and the one under way is broken off if it lasts.
    func hurry()
}

/// What a data-plane destination needs of its instance.
struct DataPlaneEnvironment: Sendable {
    let diagnostics: Diagnostics
    /// A random id of this installation, for the `AnonymousId` header where no event's own id serves.
    let installationId: String
    /// Where the events wait.
    let store: any EventStore
    /// The destination that had its place before is done with the store.
    let isFree: Milestone
    /// Runs an action on the pipeline's executor, in the order of the road; not at all once the instance is gone.
    let onExecutor: @Sendable (@escaping @Sendable () -> Void) -> Void
    /// Events were delivered, which the store kept in memory until now.
    let didDeliverFromMemory: @Sendable (_ count: Int, _ bytes: Int) -> Void
}
