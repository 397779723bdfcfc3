import Foundation
import Testing
import Tiller
import TillerTesting

/// `context.device.id`: when it is sent, and how long it lives.
@Suite(.timeLimit(.minutes(5)))
struct DeviceIdTests {
    private let lifecycle = ManualLifecycleSource(isInForeground: true)

    private static let service: any LifecycleSource = ProcessLifecycleSource()
    private static let key = "ContextPlugin"

    private func launch(
        on store: any StateStore, collects: Bool? = true, lifecycle: (any LifecycleSource)? = nil,
        source: any ContextSource = ManualContextSource(), seed: UInt64 = 1, destination: RecordingDestination
    ) -> Analytics {
        var configuration = Configuration.test(storage: .custom(store))
        configuration.lifecycleSource = lifecycle ?? self.lifecycle
        configuration.collectDeviceId = collects
        configuration.contextSource = source
        configuration.identifiers = .seeded(seed)
        return Analytics(configuration: configuration, plugins: [destination])
    }

    private func id(
        on store: any StateStore, collects: Bool? = true, lifecycle: (any LifecycleSource)? = nil,
        source: any ContextSource = ManualContextSource(), seed: UInt64 = 1
    ) async -> String? {
        let destination = RecordingDestination()
        let analytics = launch(
            on: store, collects: collects, lifecycle: lifecycle, source: source, seed: seed, destination: destination)
        analytics.track(name: "A")
        let id = await analytics.settled(destination).last?.context["device"]?["id"]?.string
        await analytics.shutdownAndWait()
        return id
    }

    // MARK: Whether

    @Test func inAppsItIsSentUnlessItIsRefusedInServicesOnlyIfItIsAskedFor() async {
        #expect(await id(on: MemoryStateStore(), collects: nil) != nil)
        #expect(await id(on: MemoryStateStore(), collects: true) != nil)
        #expect(await id(on: MemoryStateStore(), collects: false) == nil)
        #expect(await id(on: MemoryStateStore(), collects: nil, lifecycle: Self.service) == nil)
        #expect(await id(on: MemoryStateStore(), collects: true, lifecycle: Self.service) != nil)
        #expect(await id(on: MemoryStateStore(), collects: false, lifecycle: Self.service) == nil)
    }

    @Test func whereItIsNotCollectedNeitherThePlatformsNorAStoredOneIsSentAndNoneIsMade() async {
        let platforms = ManualContextSource(SystemContext(device: SystemContext.Device(id: "vendor", model: "m")))
        let store = ScriptedStore()
        #expect(await id(on: store, collects: false, source: platforms) == nil)
        #expect(store.objects[Self.key] == nil)
        let known = ScriptedStore([Self.key: ["installationId": "stored"]])
        #expect(await id(on: known, collects: false) == nil)
        #expect(known.objects[Self.key] == ["installationId": "stored"])
    }

    // MARK: Which

    @Test func itIsAUUIDInLowerCaseOfTheInstallationsOwn() async throws {
        let store = ScriptedStore()
        let destination = RecordingDestination()
        let analytics = launch(on: store, destination: destination)
        analytics.track(name: "A")
        let event = try #require(await analytics.settled(destination).last)
        let id = try #require(event.context["device"]?["id"]?.string)
        #expect(UUID(uuidString: id) != nil)
        #expect(id == id.lowercased())
        #expect(id != event.anonymousId)
        #expect(store.objects[Self.key] == ["installationId": .string(id)])
    }

    @Test func aPlatformsOwnIdIsSentAsItIsAndNoneTakesItsPlaceUntilItIsKnown() async {
        let store = ScriptedStore()
        let source = WatchedContextSource(hasDeviceId: true) { reading in
            SystemContext(device: SystemContext.Device(id: reading > 1 ? "vendor" : nil))
        }
        let destination = RecordingDestination()
        let analytics = launch(on: store, source: source, destination: destination)
        analytics.track(name: "A")
        await analytics.settled()
        source.tellChange()
        analytics.track(name: "B")
        let ids = await analytics.settled(destination).map { $0.context["device"]?["id"] }
        #expect(ids == [nil, "vendor"])
        #expect(store.objects[Self.key] == nil)
    }

    // MARK: How long

    @Test func itSurvivesRestartsInAFolder() async throws {
        let folder = TestFolder()
        var ids: [String] = []
        for seed in 1...3 as ClosedRange<UInt64> {
            let destination = RecordingDestination()
            var configuration = Configuration.test(storage: .folder(folder.url))
            configuration.identifiers = .seeded(seed)
            let analytics = Analytics(configuration: configuration, plugins: [destination])
            analytics.track(name: "A")
            ids.append(try #require(await analytics.settled(destination).last?.context["device"]?["id"]?.string))
            await analytics.shutdownAndWait()
        }
        #expect(Set(ids).count == 1)
    }

    @Test func aResetDoesNotChangeIt() async {
        let destination = RecordingDestination()
        let analytics = launch(on: MemoryStateStore(), destination: destination)
        analytics.track(name: "A")
        analytics.reset()
        analytics.track(name: "B")
        let events = await analytics.settled(destination)
        #expect(events[0].anonymousId != events[1].anonymousId)
        #expect(events[0].context["device"] != nil)
        #expect(events[0].context["device"] == events[1].context["device"])
    }

    @Test func aPluginThatComesBackHasTheSameOne() async throws {
        let destination = RecordingDestination()
        let analytics = launch(on: ScriptedStore(), destination: destination)
        let plugin = try #require(analytics.plugin(ofType: ContextPlugin.self))
        analytics.track(name: "A")
        analytics.remove(plugin: plugin)
        analytics.add(plugin: plugin)
        analytics.track(name: "B")
        analytics.remove(plugin: plugin)
        analytics.add(plugin: ContextPlugin(collectsDeviceId: true, source: ManualContextSource()))
        analytics.track(name: "C")
        let devices = await analytics.settled(destination).map { $0.context["device"] }
        #expect(devices[0] != nil)
        #expect(devices[1] == devices[0])
        #expect(devices[2] == devices[0])
    }

    // MARK: Stores that can't be used

    @Test func anUnreadableOneIsNotReplacedAndComesWithTheForeground() async {
        let store = ScriptedStore([Self.key: ["installationId": "stored"]], isReadable: false)
        lifecycle.background()
        let destination = RecordingDestination()
        let analytics = launch(on: store, destination: destination)
        analytics.track(name: "A")
        await analytics.settled()
        #expect(store.saveCount == 0)
        store.setReadable(true)
        lifecycle.foreground()
        analytics.track(name: "B")
        let ids = await analytics.settled(destination).map { $0.context["device"]?["id"] }
        #expect(ids == [nil, "stored"])
        #expect(store.objects[Self.key] == ["installationId": "stored"])
    }

    @Test func aGuestSendsTheStoredOneAndMakesNone() async {
        #expect(await id(on: ScriptedStore([Self.key: ["installationId": "stored"]], isOwned: false)) == "stored")
        #expect(await id(on: ScriptedStore(isOwned: false)) == nil)
    }

    private static let noIds: [JSONObject] = [
        ["installationId": 1], ["installationId": ""], ["installationId": nil], ["id": "x"], [:],
    ]

    @Test(arguments: noIds)
    func whatIsNoIdIsReplaced(stored: JSONObject) async {
        let store = ScriptedStore([Self.key: stored])
        let id = await id(on: store)
        #expect(UUID(uuidString: id ?? "") != nil)
        #expect(store.objects[Self.key]?["installationId"]?.string == id)
    }
}
