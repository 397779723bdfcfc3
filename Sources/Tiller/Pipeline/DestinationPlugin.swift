/// A destination that can hold plugins of its own.
///
/// They see only this destination's events, on its executor, after every
/// event was sealed: what they change or drop, they change and drop for this
/// destination alone.
public protocol DestinationPlugin: Plugin {
    /// The plugins of its own. Held in a `let`.
    var ownPlugins: OwnPlugins { get }
}

extension DestinationPlugin {
    /// Always the last stage.
    public var stage: Stage { .destination }

    /// Adds a plugin for this destination only, of the Before or Enrichment stage; added twice it counts once. It is not
    /// told of lifecycle changes, and captures nothing.
    ///
    /// From any thread. It sees the events that the destination processes from then on.
    ///
    /// - Parameter plugin: A plugin; one of the Destination stage is ignored.
    public func add(plugin: any Plugin) { ownPlugins.add(plugin) }

    /// Removes a plugin of this destination; its `teardown` runs on the caller's thread.
    ///
    /// - Parameter plugin: Another one than those added changes nothing.
    public func remove(plugin: any Plugin) { ownPlugins.remove(plugin) }
}

/// The plugins of one destination.
public final class OwnPlugins: Sendable {
    private struct State: Sendable {
        var plugins: [any Plugin] = []
        /// The instance, while the destination is added.
        var analytics: (@Sendable () -> Analytics?)?
    }

    private let state = Locked(State())

    /// No plugins.
    public init() {}

    /// Whether there is none.
    var isEmpty: Bool { state.withLock { $0.plugins.isEmpty } }

    func add(_ plugin: any Plugin) {
        guard plugin.stage != .destination else { return }
        let (isKnown, analytics) = state.withLock { state in
            (state.plugins.contains { $0 === plugin }, state.analytics)
        }
        if isKnown { return }
        // Before it is in the list, so that it sees nothing before it has been set up.
        if let analytics = analytics?() { plugin.setup(analytics: analytics) }
        state.withLock { state in
            if !state.plugins.contains(where: { $0 === plugin }) { state.plugins.append(plugin) }
        }
    }

    func remove(_ plugin: any Plugin) {
        let wasThere = state.withLock { state in
            let count = state.plugins.count
            state.plugins.removeAll { $0 === plugin }
            return state.plugins.count < count
        }
        if wasThere { plugin.teardown() }
    }

    func attach(to analytics: Analytics) {
        let plugins = state.withLock { state in
            state.analytics = { [weak analytics] in analytics }
            return state.plugins
        }
        for plugin in plugins { plugin.setup(analytics: analytics) }
    }

    func detach() {
        let plugins = state.withLock { state in
            state.analytics = nil
            return state.plugins
        }
        for plugin in plugins { plugin.teardown() }
    }

    func reset(_ options: ResetOptions) { for plugin in ordered { plugin.reset(options) } }

    func flush() { for plugin in ordered { plugin.flush() } }

    /// The event as this destination sees it, or `nil` if one of its plugins drops it.
    ///
    /// - Parameter contextKeys: What these plugins change or add there is undone; a removal stays.
    func process(_ sealed: Event, keeping contextKeys: JSONObject.Keys, in analytics: Analytics) -> Event? {
        var event = sealed
        let fixed = sealed.fields.fixed
        for plugin in ordered where !event.pass(plugin, keeping: fixed, in: analytics) { return nil }
        event.undoChanges(under: contextKeys, since: sealed.context)
        return event
    }

    private var ordered: [any Plugin] {
        state.withLock { state in
            state.plugins.filter { $0.stage == .before } + state.plugins.filter { $0.stage == .enrichment }
        }
    }
}

extension Event {
    /// Becomes what a plugin makes of it.
    ///
    /// - Parameter fixed: What the call fixed, which stays as it was, whatever event the plugin puts in its place.
    /// - Returns: Whether it goes on.
    mutating func pass(_ plugin: any Plugin, keeping fixed: Fixed, in analytics: Analytics) -> Bool {
        defer { restore(fixed) }
        return plugin.process(inPlace: &self, in: analytics)
    }

    /// Context keys that belong to one plugin are as they were; a removal stays.
    ///
    /// - Returns: Whether there was anything to undo.
    @discardableResult
    mutating func undoChanges(under keys: JSONObject.Keys, since before: JSONObject) -> Bool {
        if context.isUntouched(under: keys, since: before) { return false }
        var isUndone = false
        for key in keys.texts where context[key] != nil && context[key] != before[key] {
            context[key] = before[key]
            isUndone = true
        }
        return isUndone
    }
}
