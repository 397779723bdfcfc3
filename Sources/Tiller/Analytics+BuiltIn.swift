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

/// What a plugin is beside that. Of the SDK's own this is known: to find it out, the runtime goes through the conformances of
/// all libraries, for each type and protocol anew, and that takes longer than all else that is done with a new plugin.
extension Plugin {
    var asCapturing: (any CapturingPlugin)? {
        switch self {
        case let plugin as IdentityPlugin: plugin
        case let plugin as SessionTrackingPlugin: plugin
        case let plugin as LifecyclePlugin: plugin
        case let plugin as ContextPlugin: plugin
        case is RudderStackDestination: nil
        default: self as? any CapturingPlugin
        }
    }

    var asObserver: (any LifecycleObserver)? {
        switch self {
        case let plugin as LifecyclePlugin: plugin
        case let plugin as RudderStackDestination: plugin
        case is IdentityPlugin, is SessionTrackingPlugin, is ContextPlugin: nil
        default: self as? any LifecycleObserver
        }
    }

    var asDestination: (any DestinationPlugin)? {
        switch self {
        case let plugin as RudderStackDestination: plugin
        case _ where stage != .destination: nil
        default: self as? any DestinationPlugin
        }
    }

    var asDataPlane: (any DataPlaneDestination)? {
        switch self {
        case let plugin as RudderStackDestination: plugin
        case _ where stage != .destination: nil
        default: self as? any DataPlaneDestination
        }
    }
}
