/// The entry point: records what users do and brings it to the destinations.
///
/// ```swift
/// let analytics = Analytics(configuration: Configuration(
///     writeKey: "<WRITE_KEY>", dataPlaneUrl: "<DATA_PLANE_URL>"))
/// analytics.track(name: "Order Completed", properties: ["total": 12.5])
/// ```
///
/// A thin handle: copies of the reference are cheap, all methods may be called
/// from any thread, none throws, and none that records waits for anything.
/// Releasing the last handle shuts the instance down as `shutdown()` does;
/// what was recorded before still goes its way.
public final class Analytics: Sendable {
    /// The configuration that the instance was made with.
    public var configuration: Configuration { engine.configuration }

    let engine: Engine
    private let isStandIn: Bool

    /// Makes an instance and starts it.
    ///
    /// Plugins are set up on this thread, in order, and what they remember is
    /// read; if the app is in the foreground, the first session and the
    /// lifecycle events have been made when this returns.
    ///
    /// - Parameters:
    ///   - configuration: The options.
    ///   - builtIn: The SDK's own plugins; by default all of them. Leave one
    ///     out, or put another in its place, by giving a list of your own.
    ///   - plugins: Yours, after the built-in ones. They see the SDK's own
    ///     first events too.
    public init(
        configuration: Configuration, builtIn: [any Plugin]? = nil, plugins: [any Plugin] = []
    ) {
        engine = Engine(configuration: configuration)
        isStandIn = false
        engine.setHandle(self)
        for plugin in (builtIn ?? Self.builtInPlugins(for: configuration)) + plugins { engine.add(plugin) }
        engine.hub.start(configuration.lifecycleSource, in: engine)
    }

    /// For plugins: its release ends nothing.
    init(standingInFor engine: Engine) {
        self.engine = engine
        isStandIn = true
    }

    deinit { if !isStandIn { engine.shutDown() } }
}

// MARK: - Plugins

extension Analytics {
    /// Adds a plugin. It sees the events recorded after this returns; added twice it counts once.
    ///
    /// - Parameter plugin: Its `setup` runs on this thread.
    public func add(plugin: any Plugin) { engine.add(plugin) }

    /// Removes a plugin. It sees no event recorded after this returns; its `teardown` runs once, in the order of calls.
    ///
    /// - Parameter plugin: The object that was added; one that was not changes nothing.
    public func remove(plugin: any Plugin) { engine.remove(plugin) }

    /// The first plugin of a type, for instance a built-in one.
    ///
    /// - Parameter type: A plugin's type.
    /// - Returns: `nil` if none was added.
    public func plugin<P>(ofType type: P.Type) -> P? { engine.plugin(ofType: type) }

    /// Records an event that was made by hand. What belongs to the moment of the call (id, time, identity, session) is
    /// put on it here.
    ///
    /// - Parameters:
    ///   - event: The event.
    ///   - commands: What happens in the same critical section, before it; as for `perform(_:)`.
    public func record(_ event: Event, after commands: [any Command] = []) {
        engine.record(event, after: commands.filter(isAdmitted))
    }

    /// Gives a command to all capturing plugins, in one critical section. It has taken effect when this returns.
    ///
    /// - Parameter command: A command of some subject. A `LifecycleEvent` is
    ///   the lifecycle source's to tell: it is refused with an error in the log.
    public func perform(_ command: any Command) { if isAdmitted(command) { engine.perform(command) } }

    private func isAdmitted(_ command: any Command) -> Bool {
        guard command is LifecycleEvent else { return true }
        engine.diagnostics.error("A lifecycle change was refused as a command: it comes from the lifecycle source")
        return false
    }

    /// Reads the state of a capturing plugin, in one critical section.
    ///
    /// - Parameters:
    ///   - type: The plugin's type.
    ///   - body: Gets the state and the moment; it must not call `Analytics`.
    /// - Returns: What the body returns; `nil` without such a plugin and after `shutdown()`.
    public func read<P: CapturingPlugin, Result>(
        _ type: P.Type, _ body: (P.State, borrowing Section) -> Result?
    ) -> Result? {
        engine.read(type, body)
    }

    /// Logs a message as the SDK does: to the configured logger, from the configured level on.
    ///
    /// - Parameters:
    ///   - level: How bad.
    ///   - message: One line, without personal data.
    public func log(_ level: LogLevel, _ message: String) { engine.diagnostics.log(level, message) }
}

// MARK: - Flushing, waiting, ending

extension Analytics {
    /// Asks every destination to hand on what was recorded before the call. Returns at once.
    public func flush() { engine.flush() }

    /// Resets the user: by default everything, as for a log-out.
    ///
    /// Identity and session have changed when this returns. What was recorded
    /// before keeps the old ones; destinations get the old user's events, then
    /// the reset, then the new user's.
    ///
    /// - Parameter options: Which parts; all by default.
    public func reset(options: ResetOptions = ResetOptions()) { engine.perform(options) }

    /// Forgets everything: the events that wait, identity and session, the account, and what plugins have stored.
    ///
    /// It takes its place in the order of calls. Identity and session are new when this returns, as after `reset()`, which
    /// plugins and destinations hear of. Then what was recorded before is removed from memory and disk, unless it is on its
    /// way to the data plane: a request under way is given half a second, what it carried may arrive. Which versions of the
    /// app were told is remembered, so that no second Application Installed is sent; other plugins keep what they save when
    /// they are given the `Erase` command. What another process has stored in the same folder stays while that process
    /// lives, and so does the state of a folder that another process owns.
    ///
    /// It is on the disk when `stored()` returns; an error in the log says if the disk refuses. A kill in the middle leaves
    /// all or nothing.
    public func erase() { engine.erase() }

    /// Waits until everything recorded before the call, and not dropped on its way, is stored: what is stored is delivered
    /// later, by this process or the next one on the same folder, also after a kill.
    ///
    /// It waits for as long as a plugin holds up the pipeline, or until the task is cancelled. Synced to the disk itself,
    /// against a power cut, is what is stored at a background or terminate notice and at the end of the instance.
    ///
    /// - Returns: `.inMemory` where there is no disk, or where it does not take what was recorded now; also when the task
    ///   is cancelled before that is known.
    @discardableResult
    public func stored() async -> StoringResult {
        let engine = engine
        return await OneAnswer<StoringResult>().wait(orWhenCancelled: .inMemory) { answer in
            engine.whenPassed { answer.give(engine.isStored ? .stored : .inMemory) }
        }
    }

    /// Flushes, and waits until everything recorded before the call, and not dropped on its way, is delivered to the data
    /// plane or an attempt has failed. An attempt at a server that does not answer takes 30 seconds. Other destinations are
    /// not waited for: see `shutdownAndWait(timeout:)`.
    ///
    /// It waits for as long as a plugin holds up the pipeline, or until the task is cancelled.
    ///
    /// - Returns: Which of the two; `.waiting` when the task is cancelled before that is known.
    @discardableResult
    public func flushed() async -> FlushResult {
        let engine = engine
        let before = engine.storeCounts
        flush()
        await stored()
        let cancelled = FlushResult.waiting(
            until: configuration.time.wallMilliseconds, reason: "the task was cancelled")
        if Task.isCancelled { return cancelled }
        return await OneAnswer<FlushResult>().wait(orWhenCancelled: cancelled) { answer in
            engine.whenFlushed(after: before) { answer.give($0) }
        }
    }

    /// Ends the instance. Returns at once.
    ///
    /// The last activity is recorded as at a termination. What was recorded
    /// before is still processed and tried once at the data plane; every later
    /// call is ignored and every getter is `nil`. A second call does nothing.
    public func shutdown() { engine.shutDown() }

    /// Ends the instance, and waits until what was recorded before is delivered or an attempt has failed, and every other
    /// destination has handled its events and been torn down, or until time is up or the task is cancelled.
    ///
    /// - Parameter timeout: Five seconds by default.
    /// - Returns: How many events the data plane has not got. Those that are
    ///   stored are delivered by the next process; with `Storage.memory`, and
    ///   where nothing could be stored, they are lost.
    @discardableResult
    public func shutdownAndWait(timeout: Duration = .seconds(5)) async -> Int {
        shutdown()
        let engine = engine
        await OneAnswer<Void>().wait(orWhenCancelled: ()) { answer in
            let timer = configuration.time.schedule(after: timeout) { answer.give(()) }
            engine.drained.whenReached {
                engine.finished.whenReached {
                    timer.cancel()
                    answer.give(())
                }
            }
        }
        let inMemory = engine.account.inMemory
        if inMemory > 0 {
            engine.diagnostics.error("\(inMemory) events are still in memory after the time to shut down")
        }
        return engine.undeliveredCount
    }
}

// MARK: - For TillerTesting

extension Analytics {
    /// Runs an action when every destination has processed everything recorded before.
    package func whenSettled(_ action: @escaping @Sendable () -> Void) {
        engine.whenPassed(throughDestinations: true, action)
    }

    /// Waits for the end of the pipeline after `shutdown()`; uploads may go on.
    package func closed() async {
        await withCheckedContinuation { done in engine.closed.whenReached { done.resume() } }
    }

    /// Waits for the end of everything after `shutdown()`: the store is closed.
    package func finished() async {
        await withCheckedContinuation { done in engine.finished.whenReached { done.resume() } }
    }

    /// What became of the events.
    package var account: Account { engine.account }
}

/// Where `Analytics.stored()` found what was recorded.
public enum StoringResult: Sendable, Hashable {
    /// On disk: it survives the process.
    case stored
    /// In memory, all or part of it: there is no disk, or it takes nothing now. It ends with the process unless it is
    /// delivered, or written, before that.
    case inMemory
}

/// What became of a flush.
public enum FlushResult: Sendable, Hashable {
    /// Everything recorded before was delivered.
    case delivered
    /// There was nothing to deliver.
    case nothingWaiting
    /// An attempt failed, or none may be made now.
    ///
    /// - Parameters:
    ///   - until: When the next attempt is made, in milliseconds since 1970 by the present wall clock.
    ///   - reason: Why, for people.
    case waiting(until: Int64, reason: String)
    /// No attempt will be made.
    ///
    /// - Parameter reason: Why, for people.
    case stopped(reason: String)
}
