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

    /// Whether a plugin is one of the SDK's own. None of those is a `LifecycleObserver`: the runtime would take longer to
    /// find that out than all else takes that is done with a new plugin.
    static func isBuiltIn(_ plugin: any Plugin) -> Bool {
        plugin is IdentityPlugin || plugin is SessionTrackingPlugin || plugin is LifecyclePlugin
            || plugin is ContextPlugin || plugin is RudderStackDestination
    }
}
