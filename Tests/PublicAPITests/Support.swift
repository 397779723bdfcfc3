import Tiller
import TillerTesting

/// A configuration that touches neither disk nor network, with time that stands still.
///
/// - Parameter lifecycle: By default an app on screen.
func testConfiguration(
    transport: StubTransport = StubTransport(), time: VirtualTime = VirtualTime(),
    lifecycle: any LifecycleSource = ManualLifecycleSource(isInForeground: true), logger: any Logger = RecordingLogger()
) -> Configuration {
    Configuration(
        writeKey: "<WRITE_KEY>", dataPlaneUrl: "https://data.example.com", flushPolicies: [],
        trackApplicationLifecycleEvents: false, logger: logger, logLevel: .verbose, storage: .memory,
        lifecycleSource: lifecycle, time: time, identifiers: .seeded(1), transport: transport,
        application: ApplicationInfo(name: "Shop", version: "1.10", build: "42", namespace: "com.example.shop"))
}

extension Analytics {
    /// Everything recorded so far, as a data plane got it.
    func delivered(to transport: StubTransport) async -> [JSONObject] {
        await flushed()
        return transport.events
    }
}

/// Remembers values in order.
final class Log<Element: Sendable>: Sendable {
    private let elements = Locked<[Element]>([])

    var all: [Element] { elements.withLock { $0 } }

    func append(_ element: Element) { elements.withLock { $0.append(element) } }
}
