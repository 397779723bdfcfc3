/// Turns lifecycle changes into the events Application Installed, Updated, Opened and Backgrounded.
///
/// - **Installed**, once per installation, and **Updated**, when version or
///   build differ from what was last told, at the first foreground of a
///   process: a launch in the background sends nothing. Properties: `version`,
///   `build`, and on Updated `previous_version`, `previous_build`; what is not
///   known is left out.
/// - **Opened** at each foreground: `from_background` is `false`, with
///   `version`, the first time in a process, then `true`.
/// - **Backgrounded** at each background; it still belongs to the foreground
///   that ends.
///
/// They are ordinary track events: plugins see them and may drop them. The
/// versions are remembered also while the events are off.
public final class LifecyclePlugin: CapturingPlugin, LifecycleObserver {
    /// What was told: in this process, and of this installation.
    public struct State: Sendable {
        /// What the store holds; `nil` if nothing was told yet.
        fileprivate var told: Told?
        /// Whether the store could be read, and is this instance's: else nothing is said of versions.
        fileprivate var knowsVersions: Bool
    }

    fileprivate struct Told: Sendable, Equatable {
        var version: String?
        var build: String?
    }

    /// A foreground was told: version and build are remembered from now on.
    private struct Remember: Command { let told: Told }

    /// What was told in this process. The plugin's own, so that removing it and adding it again repeats nothing.
    private struct ToldInProcess: Sendable {
        var hasOpened = false
        /// Installed or Updated, or that there was nothing to tell.
        var hasToldVersion = false
        /// The last of Opened and Backgrounded was Opened.
        var isOpen = false
    }

    private enum Key {
        static let version = "version"
        static let build = "build"
        static let isInstalled = "installed"
    }

    /// Before.
    public let stage = Stage.before

    /// The type's name, as a text: to ask the runtime for it takes a millisecond at a process's start.
    public let storageKey = "LifecyclePlugin"

    /// False: it makes events, and looks at none.
    public let capturesEvents = false
    /// False.
    public let processesEvents = false

    private let application: ApplicationInfo
    private let sendsEvents: Bool
    private let knownInstallation: ApplicationInfo?
    /// Changed by `handle`, which comes one call at a time, and by `restore`.
    private let process = Locked(ToldInProcess())

    /// Lifecycle events of an application.
    ///
    /// - Parameters:
    ///   - application: Its version and build.
    ///   - sendsEvents: Whether events are sent; the versions are remembered in any case.
    ///   - knownInstallation: What was installed before Tiller came to the app, if that is known (from another SDK's
    ///     storage, say): then its users are not reported as new installations.
    public init(
        application: ApplicationInfo = .main, sendsEvents: Bool = true, knownInstallation: ApplicationInfo? = nil
    ) {
        self.application = application
        self.sendsEvents = sendsEvents
        self.knownInstallation = knownInstallation
    }

    /// What was told of this installation.
    public func restore(_ stored: Stored, present: State?, in section: inout Section) -> State {
        // Added again in the background: it did not hear of the change, and the next foreground is to be told.
        if !section.isInForeground { process.withLock { $0.isOpen = false } }
        var state = present ?? State(told: nil, knowsVersions: false)
        switch stored {
        case .absent: state.told = knownInstallation.map { Told(version: $0.version, build: $0.build) }
        case .value(let value):
            // A build that was stored as a number by an older version is the same build.
            state.told = Told(version: value[Key.version]?.string, build: value[Key.build].flatMap(Self.text))
        case .unreadable: return state
        }
        state.knowsVersions = section.ownsStore
        return state
    }

    /// Remembers what is told, with the event that tells it, and when everything else is forgotten: that is no new
    /// installation.
    public func apply(_ command: any Command, to state: inout State, in section: inout Section) {
        guard state.knowsVersions else { return }
        if let remember = command as? Remember { state.told = remember.told } else if !(command is Erase) { return }
        guard let told = state.told else { return }
        section.save([
            Key.isInstalled: true,
            Key.version: told.version.map { .string($0) } ?? .null,
            Key.build: told.build.map { .string($0) } ?? .null,
        ])
    }

    /// Sends what belongs to a change.
    public func handle(_ event: LifecycleEvent, in analytics: Analytics) {
        switch event {
        case .foreground: tellForeground(in: analytics)
        case .background:
            guard
                process.withLock({ process in
                    defer { process.isOpen = false }
                    return process.isOpen
                })
            else { return }
            tell("Application Backgrounded", in: analytics)
        case .terminate: break
        }
    }

    private func tellForeground(in analytics: Analytics) {
        let before = process.withLock { process in
            defer { (process.hasOpened, process.isOpen) = (true, true) }
            return process
        }
        // Added again while the app is open: everything has been told.
        guard !before.isOpen else { return }
        if !before.hasToldVersion { tellVersion(in: analytics) }
        var properties: JSONObject = ["from_background": .bool(before.hasOpened)]
        if !before.hasOpened { properties["version"] = application.version.map { .string($0) } }
        tell("Application Opened", properties, in: analytics)
    }

    private func tellVersion(in analytics: Analytics) {
        let present = Told(version: application.version, build: application.build)
        guard let state = analytics.read(LifecyclePlugin.self, { state, _ in state }) else { return }
        guard state.knowsVersions else { return }
        process.withLock { $0.hasToldVersion = true }
        guard state.told != present else { return }
        var properties = JSONObject()
        properties["version"] = present.version.map { .string($0) }
        properties["build"] = present.build.map { .string($0) }
        properties["previous_version"] = state.told?.version.map { .string($0) }
        properties["previous_build"] = state.told?.build.map { .string($0) }
        let name = state.told == nil ? "Application Installed" : "Application Updated"
        tell(name, properties, after: [Remember(told: present)], in: analytics)
    }

    /// What is remembered travels with the event as one record; with the events off, alone.
    private func tell(
        _ name: String, _ properties: JSONObject = JSONObject(), after commands: [any Command] = [],
        in analytics: Analytics
    ) {
        if sendsEvents {
            analytics.record(Event(.track, name: name, properties: properties), after: commands)
        } else {
            for command in commands { analytics.perform(command) }
        }
    }

    private static func text(_ value: JSONValue) -> String? { value.string ?? value.int.map(String.init) }
}
