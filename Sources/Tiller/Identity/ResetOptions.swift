/// What `Analytics.reset(options:)` resets. A command: plugins and destinations get it in the order of calls.
public struct ResetOptions: Command, Hashable {
    /// Which parts.
    public var entries: ResetEntries

    /// A reset.
    ///
    /// - Parameter entries: Which parts; all by default. With none selected it still reaches plugins and destinations.
    public init(entries: ResetEntries = ResetEntries()) { self.entries = entries }
}

/// The parts of an instance that a reset can renew or keep.
public struct ResetEntries: Sendable, Hashable {
    /// Whether a new anonymous id is made.
    public var anonymousId: Bool
    /// Whether the user id is forgotten.
    public var userId: Bool
    /// Whether the traits are forgotten.
    public var traits: Bool
    /// Whether a live session is replaced by a new one (S16).
    public var session: Bool

    /// All parts, unless one is kept.
    ///
    /// - Parameters:
    ///   - anonymousId: Whether a new anonymous id is made.
    ///   - userId: Whether the user id is forgotten.
    ///   - traits: Whether the traits are forgotten.
    ///   - session: Whether a live session is replaced.
    public init(anonymousId: Bool = true, userId: Bool = true, traits: Bool = true, session: Bool = true) {
        self.anonymousId = anonymousId
        self.userId = userId
        self.traits = traits
        self.session = session
    }

    /// What either selects.
    func union(_ other: ResetEntries) -> ResetEntries {
        ResetEntries(
            anonymousId: anonymousId || other.anonymousId, userId: userId || other.userId,
            traits: traits || other.traits, session: session || other.session)
    }
}
