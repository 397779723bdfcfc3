public import Tiller

/// A small script of what a person and a device do, with what must be true after each step.
///
/// Read from a file (`SessionScenario.read(_:file:)`, the format of
/// the article "Session scenarios") or made in Swift:
///
/// ```swift
/// var scenario = SessionScenario("A return after the timeout starts a new session")
/// scenario.at(.zero, .launch(inForeground: true))
/// scenario.at(.seconds(1), .track("A"), expect: .carries("S1", starts: true))
/// scenario.at(.seconds(10), .background)
/// scenario.at(.seconds(400), .foreground)
/// scenario.at(.seconds(401), .track("B"), expect: .carries("S2", starts: true))
/// #expect(await scenario.run().failure == nil)
/// ```
public struct SessionScenario: Sendable {
    /// What it shows.
    public var name: String
    /// The line of its file that it begins at; 0 if it has none.
    public var line = 0
    /// What holds from the first launch on.
    public var settings = Settings()
    /// What the wall clock shows at the beginning, in milliseconds since 1970; 2025-02-25T06:06:37Z.
    public var wallMilliseconds: Int64 = 1_740_463_597_000
    /// Whether the SDK sends Application Opened and its kin.
    public var sendsLifecycleEvents = false
    /// What happens, in order.
    public var steps: [Step] = []

    /// A scenario without steps.
    ///
    /// - Parameter name: What it shows.
    public init(_ name: String) { self.name = name }

    /// Adds a step.
    ///
    /// - Parameters:
    ///   - time: Since the beginning; not before the step before.
    ///   - action: What happens.
    ///   - expectation: What must be true; `nil`: nothing is checked.
    public mutating func at(_ time: Duration, _ action: Action, expect expectation: Expectation? = nil) {
        steps.append(Step(time: time, action: action, expectation: expectation, line: 0, text: "\(action)"))
    }
}

extension SessionScenario {
    /// How sessions are configured.
    public struct Settings: Sendable, Hashable {
        /// Automatic tracking.
        public var isAutomatic = true
        /// The timeout in milliseconds.
        public var timeout: UInt64 = 300_000
        /// The policy for background events.
        public var background = BackgroundEventPolicy.carry

        /// The defaults: automatic, five minutes, carry.
        public init() {}
    }

    /// What a launch changes of the settings, from that launch on.
    public struct SettingsChange: Sendable, Hashable {
        /// Automatic tracking, if it changes.
        public var isAutomatic: Bool?
        /// The timeout in milliseconds, if it changes.
        public var timeout: UInt64?
        /// The policy, if it changes.
        public var background: BackgroundEventPolicy?

        /// No change.
        public init() {}

        /// Settings with the change made.
        public func applied(to settings: Settings) -> Settings {
            var settings = settings
            settings.isAutomatic = isAutomatic ?? settings.isAutomatic
            settings.timeout = timeout ?? settings.timeout
            settings.background = background ?? settings.background
            return settings
        }
    }

    /// One step.
    public struct Step: Sendable {
        /// Since the beginning.
        public let time: Duration
        /// What happens.
        public let action: Action
        /// What must be true.
        public let expectation: Expectation?
        /// The line of the file; 0 if there is none.
        public let line: Int
        /// As it was written.
        public let text: String
        /// The events that the SDK sends by itself at this step.
        public var emissions: [Emission] = []
    }

    /// An event that the SDK sends by itself.
    public struct Emission: Sendable {
        /// Its name.
        public let name: String
        /// What it must carry; `nil`: that is not checked.
        public let expectation: Expectation?
        /// The line of the file; 0 if there is none.
        public let line: Int
    }

    /// What happens at a step.
    public enum Action: Sendable, Hashable {
        /// A process starts and makes the SDK.
        case launch(inForeground: Bool, SettingsChange = SettingsChange())
        /// The platform's notice.
        case foreground
        /// The platform's notice.
        case background
        /// The notice; the process ends unless it survives.
        case terminate(survived: Bool = false)
        /// The process dies without notice.
        case kill
        /// `Analytics.shutdown()`.
        case shutdown
        /// The call.
        case track(String)
        /// The call.
        case screen(String)
        /// The call.
        case group(String)
        /// The call.
        case alias(String)
        /// The call; `nil`: traits only.
        case identify(String?)
        /// The call.
        case startSession(UInt64?)
        /// The call.
        case endSession
        /// The call.
        case reset(keepingSession: Bool = false)
        /// The getter is read.
        case readSessionId
        /// An Enrichment plugin that drops every event of this name is added.
        case filter(String)
        /// From here on, recorded events wait before the Before stage.
        case hold
        /// They are processed.
        case release
        /// The wall clock is set.
        case setClock(Duration)
        /// The machine restarts.
        case reboot

        /// Whether it records an event.
        var isEvent: Bool {
            switch self {
            case .track, .screen, .group, .alias, .identify: true
            default: false
            }
        }
    }

    /// What must be true of an event or of the getter.
    public enum Expectation: Sendable, Hashable, CustomStringConvertible {
        /// No session.
        case none
        /// A session, by a label (`"S1"`) that binds to the id seen first, or by the id's digits; with the start mark or without.
        case carries(String, starts: Bool = false)
        /// The event did not arrive.
        case dropped

        /// As scenarios write it.
        public var description: String {
            switch self {
            case .none: "none"
            case .carries(let session, let starts): session + (starts ? " start" : "")
            case .dropped: "dropped"
            }
        }
    }
}
