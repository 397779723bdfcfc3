/// How the delivery stands.
struct DeliveryProgress: Sendable, Hashable {
    var activity = Analytics.DeliveryState.idle
    /// The last trouble, if nothing has been accepted since.
    var lastError: String?
}
