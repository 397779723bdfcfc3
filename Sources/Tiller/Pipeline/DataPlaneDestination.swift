/// The data plane's side of the pipeline's last step. Internal: its append is part of the pipeline, on whose executor
/// every method is called, so none of them may wait.
protocol DataPlaneDestination: DestinationPlugin {
    /// The channel that its events are encoded with.
    var channel: Channel { get }

    /// Told when it takes its place in the pipeline what it needs of the instance.
    ///
    /// - Returns: False if another instance has it.
    func attach(to environment: DataPlaneEnvironment) -> Bool

    /// Takes an event over; what it costs in memory is given back by `DataPlaneEnvironment.release`.
    func take(_ encoded: EncodedEvent, of event: Event)

    /// After each chunk of the road in which something came: the moment to ask flush policies.
    func didTakeChunk()
}

/// What a data-plane destination needs of its instance.
struct DataPlaneEnvironment: Sendable {
    let diagnostics: Diagnostics
    /// A random id of this installation, for the `AnonymousId` header where no event's own id serves.
    let installationId: String
    /// Events have left memory: delivered, or dropped for a reason.
    let release: @Sendable (_ count: Int, _ bytes: Int, _ reason: Account.Reason?) -> Void
}
