/// What a platform knows of itself and of the moment: the part of an event's context that no call gives.
///
/// What is not known is `nil`, and is left out of the events; nothing stands
/// in for it. There is no place for a device's name (people name devices
/// after themselves), a host name, or an address.
public struct SystemContext: Sendable, Hashable {
    /// The machine.
    public var device: Device
    /// Language and region as BCP 47 has them, such as `"en-US"`.
    public var locale: String?
    /// How the machine is connected; `nil` where that is not known.
    public var network: Network?
    /// The operating system.
    public var os: OperatingSystem
    /// The screen; `nil` where there is none, or while it is not known.
    public var screen: Screen?
    /// The IANA identifier of the time zone, such as `"Europe/Vienna"`.
    public var timezone: String?

    /// What is known; by default nothing.
    ///
    /// - Parameters:
    ///   - device: The machine.
    ///   - locale: Language and region, such as `"en-US"`.
    ///   - network: How the machine is connected.
    ///   - os: The operating system.
    ///   - screen: The screen.
    ///   - timezone: The IANA identifier of the time zone.
    public init(
        device: Device = Device(), locale: String? = nil, network: Network? = nil,
        os: OperatingSystem = OperatingSystem(), screen: Screen? = nil, timezone: String? = nil
    ) {
        self.device = device
        self.locale = locale
        self.network = network
        self.os = os
        self.screen = screen
        self.timezone = timezone
    }
}

extension SystemContext {
    /// A machine.
    public struct Device: Sendable, Hashable {
        /// The platform's own id of this device for this app's vendor. Never a hardware address or serial number. It is
        /// sent only where device ids are collected.
        public var id: String?
        /// Who made it.
        public var manufacturer: String?
        /// Which machine it is: `"iPhone15,2"`; on Linux the architecture, `"x86_64"`.
        public var model: String?
        /// What it runs, as RudderStack's SDKs have it: `"iOS"`, `"macOS"`, `"Linux"`.
        public var type: String?

        /// A machine.
        ///
        /// - Parameters:
        ///   - id: The platform's id for the vendor.
        ///   - manufacturer: Who made it.
        ///   - model: Which one it is.
        ///   - type: What it runs.
        public init(id: String? = nil, manufacturer: String? = nil, model: String? = nil, type: String? = nil) {
            self.id = id
            self.manufacturer = manufacturer
            self.model = model
            self.type = type
        }
    }

    /// An operating system.
    public struct OperatingSystem: Sendable, Hashable {
        /// Its name: `"iOS"`, `"Debian GNU/Linux"`.
        public var name: String?
        /// Its version: `"17.4.1"`, `"12"`.
        public var version: String?
        /// The release of its kernel, where that is a thing of its own: on Linux, `"6.8.0-45-generic"`.
        public var kernel: String?

        /// An operating system.
        ///
        /// - Parameters:
        ///   - name: Its name.
        ///   - version: Its version.
        ///   - kernel: The release of its kernel.
        public init(name: String? = nil, version: String? = nil, kernel: String? = nil) {
            self.name = name
            self.version = version
            self.kernel = kernel
        }
    }

    /// How a machine is connected. Both are false without a connection, and with one of another kind.
    public struct Network: Sendable, Hashable {
        /// Over Wi-Fi.
        public var wifi: Bool
        /// Over a mobile network; never on Apple TV.
        public var cellular: Bool

        /// A state of the connection.
        ///
        /// - Parameters:
        ///   - wifi: Over Wi-Fi.
        ///   - cellular: Over a mobile network.
        public init(wifi: Bool, cellular: Bool) {
            self.wifi = wifi
            self.cellular = cellular
        }
    }

    /// A screen.
    public struct Screen: Sendable, Hashable {
        /// In points.
        public var width: Double
        /// In points.
        public var height: Double
        /// Pixels per point.
        public var density: Double

        /// A screen.
        ///
        /// - Parameters:
        ///   - width: In points.
        ///   - height: In points.
        ///   - density: Pixels per point.
        public init(width: Double, height: Double, density: Double) {
            self.width = width
            self.height = height
            self.density = density
        }
    }
}
