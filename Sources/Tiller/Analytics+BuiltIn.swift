extension Analytics {
    /// The version of this SDK, as it is sent in `context.library`. The newest heading of the change log says the same.
    public static let version = "0.1.0"

    /// The SDK's own plugins as a configuration asks for them, in order.
    ///
    /// - Parameter configuration: The configuration that the instance will have.
    /// - Returns: `IdentityPlugin`, `SessionTrackingPlugin`, `LifecyclePlugin`, `ContextPlugin`, `RudderStackDestination`.
    public static func builtInPlugins(for configuration: Configuration) -> [any Plugin] {
        let isApp = configuration.lifecycleSource.isApp
        return [
            IdentityPlugin(),
            SessionTrackingPlugin(configuration: configuration.sessionConfiguration, isApp: isApp),
            LifecyclePlugin(
                application: configuration.application,
                sendsEvents: configuration.trackApplicationLifecycleEvents ?? isApp),
            ContextPlugin(
                application: configuration.application, collectsDeviceId: configuration.collectDeviceId ?? isApp,
                source: configuration.contextSource),
            RudderStackDestination(configuration: configuration),
        ]
    }
}
