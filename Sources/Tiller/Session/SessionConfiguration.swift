/// What a background event means for an automatic session (S9).
public enum BackgroundEventPolicy: String, Sendable, Hashable, CaseIterable {
    /// It carries the session while that is live, and extends nothing. The default, and the iOS SDK's
    /// `updateSessionOnBackgroundEvents: false`.
    case carry
    /// It carries nothing and extends nothing. The Kotlin SDK's `includeBackgroundEventsInSession: false`.
    case exclude
    /// It carries and extends the session, and starts a new one where none is live. `true` in both SDKs.
    case include
}

/// How sessions begin and end. The rules are in the documentation's article "Sessions", numbered S1 to S21.
public struct SessionConfiguration: Sendable, Hashable {
    /// Whether sessions begin and end by themselves; `nil` means: in apps, and not with a source that is none
    /// (`LifecycleSource.isApp`).
    public var automaticSessionTracking: Bool?

    /// How long an automatic session outlives its last activity outside the foreground, in milliseconds. Every value is
    /// valid: 0 expires as soon as any time has passed, `UInt64.max` never.
    public var sessionTimeoutInMillis: UInt64

    /// What background events mean for an automatic session.
    public var backgroundEvents: BackgroundEventPolicy

    /// A configuration by policy.
    ///
    /// - Parameters:
    ///   - automaticSessionTracking: `nil` (default) means: in apps.
    ///   - sessionTimeoutInMillis: In milliseconds; 300 000 (five minutes) by default.
    ///   - backgroundEvents: The policy.
    public init(
        automaticSessionTracking: Bool? = nil, sessionTimeoutInMillis: UInt64 = 300_000,
        backgroundEvents: BackgroundEventPolicy
    ) {
        self.automaticSessionTracking = automaticSessionTracking
        self.sessionTimeoutInMillis = sessionTimeoutInMillis
        self.backgroundEvents = backgroundEvents
    }

    /// A configuration in the words of RudderStack's iOS (Swift) SDK.
    ///
    /// - Parameters:
    ///   - automaticSessionTracking: `nil` (default) means: in apps.
    ///   - sessionTimeoutInMillis: In milliseconds; 300 000 by default.
    ///   - updateSessionOnBackgroundEvents: `false` (default) is `.carry`, `true` is `.include`.
    public init(
        automaticSessionTracking: Bool? = nil, sessionTimeoutInMillis: UInt64 = 300_000,
        updateSessionOnBackgroundEvents: Bool = false
    ) {
        self.init(
            automaticSessionTracking: automaticSessionTracking, sessionTimeoutInMillis: sessionTimeoutInMillis,
            backgroundEvents: updateSessionOnBackgroundEvents ? .include : .carry)
    }

    /// A configuration in the words of RudderStack's Kotlin SDK 2.0.0.
    ///
    /// - Parameters:
    ///   - automaticSessionTracking: `nil` (default) means: in apps.
    ///   - sessionTimeoutInMillis: In milliseconds; 300 000 by default.
    ///   - includeBackgroundEventsInSession: `false` is `.exclude`, `true` is `.include`.
    public init(
        automaticSessionTracking: Bool? = nil, sessionTimeoutInMillis: UInt64 = 300_000,
        includeBackgroundEventsInSession: Bool
    ) {
        self.init(
            automaticSessionTracking: automaticSessionTracking, sessionTimeoutInMillis: sessionTimeoutInMillis,
            backgroundEvents: includeBackgroundEventsInSession ? .include : .exclude)
    }
}
