import Foundation

/// What this platform tells of itself.
///
/// - Apple: manufacturer, model and type of the device, name and version of
///   the system, language and region, time zone, the kind of connection, the
///   screen, and the vendor's id of the device where there is one (not on
///   macOS). Screen and id are asked of the main actor and come when it has
///   time; it is never waited for.
/// - Linux: name and version of the distribution (`os-release`; else those of
///   the kernel), release of the kernel, architecture (`uname`), language and
///   region of the environment (not the C locale), time zone. No network state,
///   for nothing tells it without asking around.
///
/// Neither host name, nor machine id, nor hardware address, nor the name of a
/// device is read on any platform. Language, time zone and network are read
/// again when the system says that they changed; on Linux nobody says so
/// unless the program posts `NSLocale.currentLocaleDidChangeNotification` or
/// `NSSystemTimeZoneDidChange`.
public final class SystemContextSource: ContextSource {
    /// What can't be read at once.
    private struct Late: Sendable, Equatable {
        var own = MainActorFacts()
        var network: SystemContext.Network?
        /// Without one, nobody would notice that the network has changed.
        var observers = 0
    }

    /// The same as long as the process lives.
    private static let machine = Machine.read()

    private let late = Locked(Late())
    private let handlers = ChangeHandlers()
    /// `nil`: the standard one, which is made when somebody observes.
    private let relay: NotificationRelay?

    /// The platform's own context.
    public init() { relay = nil }

    /// - Parameter relay: Tells when to read language, region and time zone again.
    init(relay: NotificationRelay) { self.relay = relay }

    /// Whether there is an id for the vendor: on iOS, tvOS, watchOS and visionOS.
    public var hasDeviceId: Bool { MainActorFacts.haveDeviceId }

    /// What is known now.
    public func read() -> SystemContext {
        let machine = Self.machine
        let late = late.withLock { $0 }
        var device = machine.device
        device.id = late.own.deviceId
        return SystemContext(
            device: device, locale: Region.locale, network: late.network, os: machine.os, screen: late.own.screen,
            timezone: Region.timezone)
    }

    /// Begins to observe language, time zone and network, and asks for what only the main actor knows.
    public func observe(_ handler: @escaping @Sendable () -> Void) -> CancellationToken {
        let (late, handlers) = (late, handlers)
        late.withLock { $0.observers += 1 }
        let own = handlers.add(handler)
        let askMainActor: @Sendable () -> Void = {
            MainActorFacts.read { facts in
                if late.change({ $0.own = facts }) { handlers.callAll() }
            }
        }
        askMainActor()
        let network = NetworkState.observe { network in
            if late.change({ $0.network = $0.observers > 0 ? network : nil }) { handlers.callAll() }
        }
        let regionChanged: @Sendable () -> Void = {
            // A device that was locked since its start did not know its id.
            if MainActorFacts.haveDeviceId, late.withLock({ $0.own.deviceId == nil }) { askMainActor() }
            handler()
        }
        let notices = (relay ?? .standard).listen([
            NSLocale.currentLocaleDidChangeNotification: regionChanged, .NSSystemTimeZoneDidChange: regionChanged,
        ])
        return CancellationToken {
            for token in [own, notices, network] { token?.cancel() }
            late.withLock { late in
                late.observers -= 1
                if late.observers == 0 { late.network = nil }
            }
        }
    }
}

extension Locked where Value: Equatable {
    /// - Returns: Whether the value is another one now.
    fileprivate func change(_ body: (inout Value) -> Void) -> Bool {
        withLock { value in
            let before = value
            body(&value)
            return value != before
        }
    }
}
