/// What a call can say beside its name and properties.
///
/// All parts are optional. Named `RudderOption` in RudderStack's SDKs; that
/// name works too.
public struct EventOptions: Sendable {
    /// Which destinations get the event, by display name; the entries win over the default `{"All": true}`.
    public var integrations: JSONObject?

    /// Members for the event's context. The SDK's own keys win over them (`app`, `device`, `library`, `locale`,
    /// `network`, `os`, `screen`, `timezone`); a key that belongs to one plugin alone (`CapturingPlugin.contextKeys`) is
    /// that plugin's.
    public var customContext: JSONObject?

    /// Ids of the user in other systems. On the wire: `context.externalId`.
    public var externalIds: [ExternalId]?

    /// The person of this one call. An event that names a user or an anonymous id is *scoped*: it neither touches nor
    /// carries what the instance knows of its own user. Blank is the same as `nil`.
    public var userId: String?

    /// The anonymous person of this one call; see `userId`. With a `userId` alone the event has no anonymous id.
    public var anonymousId: String?

    /// What the conversion of `Any` values could not represent.
    var problems: [JSONConversion.Problem] = []

    /// Options from JSON literals.
    ///
    /// - Parameters:
    ///   - integrations: By display name: `["Amplitude": false]`.
    ///   - customContext: Members for the context.
    ///   - externalIds: Ids in other systems.
    ///   - userId: The person of this call.
    ///   - anonymousId: The anonymous person of this call.
    public init(
        integrations: JSONObject? = nil, customContext: JSONObject? = nil, externalIds: [ExternalId]? = nil,
        userId: String? = nil, anonymousId: String? = nil
    ) {
        self.integrations = integrations
        self.customContext = customContext
        self.externalIds = externalIds
        self.userId = userId
        self.anonymousId = anonymousId
    }

    /// Options from values of any type; see `JSONValue.init(any:)` for what they become.
    ///
    /// - Parameters:
    ///   - integrations: By display name.
    ///   - customContext: Members for the context.
    ///   - externalIds: Ids in other systems.
    ///   - userId: The person of this call.
    ///   - anonymousId: The anonymous person of this call.
    @_disfavoredOverload
    public init(
        integrations: [String: Any]? = nil, customContext: [String: Any]? = nil, externalIds: [ExternalId]? = nil,
        userId: String? = nil, anonymousId: String? = nil
    ) {
        var conversion = JSONConversion()
        self.init(
            integrations: integrations.map { conversion.object($0) },
            customContext: customContext.map { conversion.object($0) },
            externalIds: externalIds, userId: userId, anonymousId: anonymousId)
        problems = conversion.problems
    }
}

/// The name of `EventOptions` in RudderStack's SDKs.
public typealias RudderOption = EventOptions

/// The user's id in another system.
public struct ExternalId: Sendable, Hashable {
    /// Which system, for instance `"brazeId"`.
    public let type: String
    /// The id there.
    public let id: String

    /// An id in another system.
    ///
    /// - Parameters:
    ///   - type: Which system.
    ///   - id: The id there.
    public init(type: String, id: String) {
        self.type = type
        self.id = id
    }
}
