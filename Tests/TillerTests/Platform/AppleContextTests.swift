// With the stub modules of Apple's frameworks only: their values can be set.
#if canImport(UIKit) && canImport(Network) && !canImport(Darwin)
import Foundation
import Network
import Testing
import Tiller
import TillerTesting
import UIKit

/// What UIKit and Network tell, in one test at a time: the frameworks' objects are the process's.
@Suite(.timeLimit(.minutes(5)), .serialized)
struct AppleContextTests {
    private let destination = RecordingDestination()

    private func makeAnalytics(_ source: any ContextSource) -> Analytics {
        var configuration = Configuration.test()
        configuration.collectDeviceId = true
        configuration.contextSource = source
        return Analytics(configuration: configuration, plugins: [destination])
    }

    /// The contexts of the events of a condition's time, until it holds.
    private func context(of analytics: Analytics, when holds: (JSONObject) -> Bool) async -> JSONObject? {
        while !Task.isCancelled {
            analytics.track(name: "A")
            if let context = await analytics.settled(destination).last?.context, holds(context) { return context }
            await Task.yield()
        }
        return nil
    }

    @Test func screenAndVendorIdComeWhenTheMainActorHasTime() async throws {
        let vendor = UUID()
        await MainActor.run { UIDevice.current.identifierForVendor = vendor }
        let source = SystemContextSource()
        #expect(source.hasDeviceId)
        let context = try #require(await context(of: makeAnalytics(source)) { $0["screen"] != nil })
        #expect(context["screen"] == ["width": 390.0, "height": 844.0, "density": 3.0])
        #expect(context["device"]?["id"]?.string == vendor.uuidString.lowercased())
        // Never another id before it.
        let ids = destination.events.compactMap { $0.context["device"]?["id"]?.string }
        #expect(Set(ids) == [vendor.uuidString.lowercased()])
    }

    @Test func anIdThatTheLockedDeviceDidNotKnowComesWithALaterNotice() async throws {
        await MainActor.run { UIDevice.current.identifierForVendor = nil }
        let analytics = makeAnalytics(SystemContextSource())
        let first = await context(of: analytics) { $0["screen"] != nil }
        #expect(first?["device"]?["id"] == nil)
        let vendor = UUID()
        await MainActor.run { UIDevice.current.identifierForVendor = vendor }
        NotificationCenter.default.post(name: .NSSystemTimeZoneDidChange, object: nil)
        let later = try #require(await context(of: analytics) { $0["device"]?["id"] != nil })
        #expect(later["device"]?["id"]?.string == vendor.uuidString.lowercased())
    }

    @Test func theNetworkIsThatOfTheLastPathAndUnknownWithoutAnObserver() async throws {
        let source = SystemContextSource()
        let analytics = makeAnalytics(source)
        analytics.track(name: "A")
        #expect(await analytics.settled(destination).last?.context["network"] == nil)
        let cases: [(NWPath, JSONValue)] = [
            (NWPath(.satisfied, [.wifi]), ["wifi": true, "cellular": false]),
            (NWPath(.satisfied, [.cellular]), ["wifi": false, "cellular": true]),
            (NWPath(.satisfied, [.wiredEthernet]), ["wifi": false, "cellular": false]),
            (NWPath(.unsatisfied, [.wifi, .cellular]), ["wifi": false, "cellular": false]),
        ]
        for (path, network) in cases {
            NWPathMonitor.tell(path)
            analytics.track(name: "B")
            #expect(await analytics.settled(destination).last?.context["network"] == network)
        }
        #expect(source.read().network != nil)
        await analytics.shutdownAndWait()
        #expect(source.read().network == nil)
    }
}
#endif
