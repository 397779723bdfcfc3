import Testing
import TillerTesting

@testable import Tiller

/// What is known of the SDK's own plugins is what the runtime would say of them.
@Suite struct BuiltInPluginTests {
    @Test func whatIsKnownOfPluginsIsSo() {
        let own = Analytics.builtInPlugins(for: Configuration(writeKey: "key", dataPlaneUrl: "http://127.0.0.1"))
        let others: [any Plugin] = [ClosurePlugin { event, _ in event }, RecordingDestination()]
        #expect(own.count == 5)
        for plugin in own + others {
            let name = "\(type(of: plugin))"
            #expect((plugin.asCapturing == nil) == !(plugin is any CapturingPlugin), "\(name)")
            #expect((plugin.asObserver == nil) == !(plugin is any LifecycleObserver), "\(name)")
            #expect((plugin.asDestination == nil) == !(plugin is any DestinationPlugin), "\(name)")
            #expect((plugin.asDataPlane == nil) == !(plugin is any DataPlaneDestination), "\(name)")
        }
    }
}
