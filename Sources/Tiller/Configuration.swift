public import Foundation

/// Every option of an instance. What has a default can be left out.
public struct Configuration: Sendable {
    /// The source's write key.
    public var writeKey: String

    /// The data plane's base URL, `http` or `https`; a path in it is kept. Blanks around it and slashes at its end are
    /// ignored. With an unusable one events are recorded and wait, and one error is logged.
    public var dataPlaneUrl: String

    /// The control plane's base URL. Kept for source compatibility: Tiller fetches no source configuration yet.
    public var controlPlaneUrl: String

    /// Whether request bodies are compressed (gzip, by the system's zlib); `true` by default. Where there is no zlib they are
    /// sent plain.
    public var gzipEnabled: Bool

    /// What asks for an upload, beside `Analytics.flush()`. With none, only `flush()` uploads.
    public var flushPolicies: [any FlushPolicy]

    /// Whether `context.device.id` is sent; `nil`: in apps. It is the platform's id for the app's vendor, or, where there is
    /// none, a random id of the installation; never a hardware address.
    public var collectDeviceId: Bool?

    /// Whether Application Installed, Updated, Opened and Backgrounded are sent; `nil`: in apps.
    public var trackApplicationLifecycleEvents: Bool?

    /// How sessions begin and end.
    public var sessionConfiguration: SessionConfiguration

    /// Where messages go; `nil`: standard error, on Apple the unified log.
    public var logger: (any Logger)?

    /// How much is logged; errors by default.
    public var logLevel: LogLevel

    /// Where events and the plugins' state are kept.
    public var storage: Storage

    /// Tells instances of one write key apart: each name has a state of its own. `"default"` by default.
    public var instanceName: String

    /// Says when the app is in the foreground. The default is `PlatformLifecycleSource.automatic()`: the user-interface
    /// framework's notifications in apps on Apple platforms; elsewhere, and in tools and services, the process's own life,
    /// in the foreground from its start.
    public var lifecycleSource: any LifecycleSource

    /// Clocks and timers.
    public var time: any TimeSource

    /// Makes ids.
    public var identifiers: IdentifierGenerator

    /// Brings requests to the data plane.
    public var transport: any Transport

    /// The app's name, version, build and namespace; by default those of the main bundle on Apple platforms, and none on
    /// Linux, where programs have no bundle.
    public var application: ApplicationInfo

    /// Knows what surrounds the events: device, operating system, screen, language and the like; by default the platform.
    public var contextSource: any ContextSource

    /// How events are put into requests; `nil`: per identity in apps, mixed elsewhere.
    public var batching: Batching?

    /// The channel on the wire; `nil`: `mobile` in apps, `server` elsewhere.
    public var channel: Channel?

    /// Sizes that bound the instance.
    public var limits: Limits
    /// What the store's folder lies on; another one in tests.
    package var fileSystem: any FileSystem = SystemFiles()
    /// Where the instance's own work is done; elsewhere in simulations.
    package var executors: any Executors = SystemExecutors()

    /// A configuration.
    ///
    /// The parameters are those of RudderStack's Swift SDK, in its order, then
    /// Tiller's own; each is described at the property of its name.
    ///
    /// - Parameters:
    ///   - writeKey: The source's write key.
    ///   - dataPlaneUrl: The data plane's base URL.
    ///   - controlPlaneUrl: RudderStack's by default; unused.
    ///   - gzipEnabled: `true` by default.
    ///   - flushPolicies: By default at start-up, every 10 s, and every 30 events.
    ///   - collectDeviceId: `nil` by default: in apps.
    ///   - trackApplicationLifecycleEvents: `nil` by default: in apps.
    ///   - sessionConfiguration: Five minutes, `.carry`, automatic in apps.
    ///   - logger: Standard error by default.
    ///   - logLevel: `.error` by default.
    ///   - storage: `.automatic` by default.
    ///   - instanceName: `"default"` by default.
    ///   - lifecycleSource: `PlatformLifecycleSource.automatic()` by default.
    ///   - time: The system's by default.
    ///   - identifiers: Seeded by the system by default.
    ///   - transport: A URL session by default.
    ///   - application: The main bundle's by default on Apple platforms, empty elsewhere.
    ///   - contextSource: The platform by default.
    ///   - batching: `nil` by default.
    ///   - channel: `nil` by default.
    ///   - limits: See `Limits`.
    public init(
        writeKey: String,
        dataPlaneUrl: String,
        controlPlaneUrl: String = "https://api.rudderlabs.com",
        gzipEnabled: Bool = true,
        flushPolicies: [any FlushPolicy] = [StartupFlushPolicy(), FrequencyFlushPolicy(), CountFlushPolicy()],
        collectDeviceId: Bool? = nil,
        trackApplicationLifecycleEvents: Bool? = nil,
        sessionConfiguration: SessionConfiguration = SessionConfiguration(),
        logger: (any Logger)? = nil,
        logLevel: LogLevel = .error,
        storage: Storage = .automatic,
        instanceName: String = "default",
        lifecycleSource: any LifecycleSource = PlatformLifecycleSource.automatic(),
        time: any TimeSource = SystemTime(),
        identifiers: IdentifierGenerator = .system(),
        transport: any Transport = URLSessionTransport(),
        application: ApplicationInfo = .main,
        contextSource: any ContextSource = SystemContextSource(),
        batching: Batching? = nil,
        channel: Channel? = nil,
        limits: Limits = Limits()
    ) {
        self.writeKey = writeKey
        self.dataPlaneUrl = dataPlaneUrl
        self.controlPlaneUrl = controlPlaneUrl
        self.gzipEnabled = gzipEnabled
        self.flushPolicies = flushPolicies
        self.collectDeviceId = collectDeviceId
        self.trackApplicationLifecycleEvents = trackApplicationLifecycleEvents
        self.sessionConfiguration = sessionConfiguration
        self.logger = logger
        self.logLevel = logLevel
        self.storage = storage
        self.instanceName = instanceName
        self.lifecycleSource = lifecycleSource
        self.time = time
        self.identifiers = identifiers
        self.transport = transport
        self.application = application
        self.contextSource = contextSource
        self.batching = batching
        self.channel = channel
        self.limits = limits
    }
}

/// Sizes that bound an instance. KB and MB are decimal.
public struct Limits: Sendable, Hashable {
    /// How many events may wait in memory between the call and the disk, or, with a store in memory, the data plane;
    /// 100 000. When they do, the newest `track`, `screen` or `group` is refused and counted; `identify`, `alias` and
    /// commands find room up to twice the bound.
    public var memoryEvents: Int

    /// How many bytes of events may wait there, by an estimate; 16 MB.
    public var memoryBytes: Int

    /// How many bytes of events may be stored on disk, by whole segments of about 1 MiB; 100 MB. When there are more, the
    /// oldest segment is given up, and its events are counted and reported.
    public var storageBytes: Int

    /// How old stored events may become; `nil`, the default: any age. A closed segment whose newest event is older is given
    /// up as a whole when the next one is begun, and its events are counted and reported as those over `storageBytes`.
    public var storageAge: Duration?

    /// The largest event, in bytes of JSON as it is stored; 32 KiB, which is what RudderStack documents for one call.
    /// A larger one is dropped and counted.
    public var eventBytes: Int

    /// The largest request body before compression, in bytes; 500 000. At least one event is sent, whatever its size.
    public var batchBytes: Int

    /// How many events may wait for a destination other than the data plane; 1 000. Its oldest is dropped and counted.
    public var destinationEvents: Int

    /// How many bytes of events may wait for such a destination, by an estimate; 4 MB.
    public var destinationBytes: Int

    /// How long a background or terminate notice waits, at the most, until what was recorded before is stored; 1 s. A
    /// plugin that is stuck costs the app's main thread that long.
    public var noticeWait: Duration

    /// Limits; each has a default.
    ///
    /// - Parameters:
    ///   - memoryEvents: 100 000.
    ///   - memoryBytes: 16 000 000.
    ///   - storageBytes: 100 000 000.
    ///   - eventBytes: 32 768.
    ///   - batchBytes: 500 000.
    ///   - destinationEvents: 1 000.
    ///   - destinationBytes: 4 000 000.
    ///   - noticeWait: One second.
    ///   - storageAge: Any.
    public init(
        memoryEvents: Int = 100_000, memoryBytes: Int = 16_000_000, storageBytes: Int = 100_000_000,
        eventBytes: Int = 32_768, batchBytes: Int = 500_000, destinationEvents: Int = 1_000,
        destinationBytes: Int = 4_000_000, noticeWait: Duration = .seconds(1), storageAge: Duration? = nil
    ) {
        self.memoryEvents = memoryEvents
        self.memoryBytes = memoryBytes
        self.storageBytes = storageBytes
        self.eventBytes = eventBytes
        self.batchBytes = batchBytes
        self.destinationEvents = destinationEvents
        self.destinationBytes = destinationBytes
        self.noticeWait = noticeWait
        self.storageAge = storageAge
    }
}

/// Where an instance keeps the events that wait for the data plane, and what its plugins remember.
public enum Storage: Sendable {
    /// A folder of its own in the system's place for such: on Linux below the first of `$STATE_DIRECTORY`,
    /// `$XDG_STATE_HOME`, `$HOME/.local/state`; on Apple below Application Support (tvOS: Caches). Where there is none,
    /// memory, with an error in the log.
    case automatic
    /// A folder of its own below this one.
    case folder(URL)
    /// In memory: nothing outlives the instance.
    case memory
    /// What the plugins remember, in a store of the caller's; events in memory.
    case custom(any StateStore)
}

/// What is known of the app. Parts that are `nil` are left out wherever they would be sent.
public struct ApplicationInfo: Sendable, Hashable {
    /// The app's name.
    public var name: String?
    /// The version that people see, such as `"1.10"`.
    public var version: String?
    /// The build, a string also where it looks like a number.
    public var build: String?
    /// The reverse-domain id.
    public var namespace: String?

    /// What is known.
    ///
    /// - Parameters:
    ///   - name: The app's name.
    ///   - version: The version.
    ///   - build: The build.
    ///   - namespace: The reverse-domain id.
    public init(name: String? = nil, version: String? = nil, build: String? = nil, namespace: String? = nil) {
        self.name = name
        self.version = version
        self.build = build
        self.namespace = namespace
    }

    /// What the main bundle says; nothing in a process without one, as on Linux.
    public static let main = ofMainBundle
}
