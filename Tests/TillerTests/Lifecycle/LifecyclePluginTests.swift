import Testing
import Tiller
import TillerTesting

/// Installed, Updated, Opened and Backgrounded (`rudderstack.md` §4.1 without its faults; `DECISIONS.md` 34).
@Suite(.timeLimit(.minutes(5)))
struct LifecyclePluginTests {
    private let source = ManualLifecycleSource()
    private let destination = RecordingDestination()
    private static let application = ApplicationInfo(version: "1.10", build: "42")
    private static let installed: [String: JSONObject] = [
        "LifecyclePlugin": ["installed": true, "version": "1.10", "build": "42"]
    ]

    private func launch(
        _ application: ApplicationInfo = application, on store: any StateStore = ScriptedStore(),
        sendsEvents: Bool? = true, known: ApplicationInfo? = nil, plugins: [any Plugin] = []
    ) -> Analytics {
        var configuration = Configuration.test(lifecycle: source, storage: .custom(store))
        configuration.application = application
        configuration.trackApplicationLifecycleEvents = sendsEvents
        let builtIn = Analytics.builtInPlugins(for: configuration).map { plugin in
            guard plugin is LifecyclePlugin, let known else { return plugin }
            return LifecyclePlugin(
                application: application, sendsEvents: sendsEvents ?? true, knownInstallation: known)
        }
        return Analytics(configuration: configuration, builtIn: builtIn, plugins: plugins + [destination])
    }

    private func told(_ analytics: Analytics) async -> [String] {
        await analytics.settled(destination).compactMap(\.name).map { $0.replacing("Application ", with: "") }
    }

    // MARK: Opened and Backgrounded

    @Test func aVisitBeginsWithOpenedAndEndsWithBackgrounded() async {
        let analytics = launch(on: ScriptedStore(Self.installed))
        for _ in 0..<2 {
            source.foreground()
            source.background()
        }
        #expect(await told(analytics) == ["Opened", "Backgrounded", "Opened", "Backgrounded"])
        #expect(
            destination.events.map(\.properties) == [
                ["from_background": false, "version": "1.10"], [:], ["from_background": true], [:],
            ])
        #expect(destination.events.allSatisfy { $0.kind == .track })
    }

    @Test func aLaunchInTheBackgroundTellsNothing() async {
        let analytics = launch()
        analytics.track(name: "Work")
        source.background()
        #expect(await told(analytics) == ["Work"])
    }

    @Test func theFirstForegroundAfterALaunchInTheBackgroundIsNotFromTheBackground() async {
        let analytics = launch(on: ScriptedStore(Self.installed))
        analytics.track(name: "Work")
        source.foreground()
        #expect(await told(analytics) == ["Work", "Opened"])
        #expect(destination.events.last?.properties == ["from_background": false, "version": "1.10"])
    }

    @Test func terminateTellsNothing() async {
        let analytics = launch(on: ScriptedStore(Self.installed))
        source.foreground()
        source.terminate()
        #expect(await told(analytics) == ["Opened"])
    }

    @Test func openedBelongsToTheSessionThatBeginsAndBackgroundedToTheOneThatEnds() async {
        let analytics = launch(on: ScriptedStore(Self.installed))
        source.foreground()
        let session = analytics.sessionId
        source.background()
        let events = await analytics.settled(destination)
        #expect(events.map(\.sessionId) == [session, session])
        #expect(events.map(\.isSessionStart) == [true, false])
    }

    // MARK: Installed and Updated

    @Test func aFirstForegroundTellsInstalledThenOpenedBeforeAnyCall() async {
        source.foreground()
        let analytics = launch()
        analytics.track(name: "First")
        #expect(await told(analytics) == ["Installed", "Opened", "First"])
        #expect(destination.events[0].properties == ["version": "1.10", "build": "42"])
        #expect(destination.events.map(\.isSessionStart) == [true, false, false])
        #expect(Set(destination.events.map(\.sessionId)).count == 1)
    }

    @Test func installedIsToldOncePerInstallation() async {
        let store = ScriptedStore()
        source.foreground()
        let first = launch(on: store)
        await first.stored()
        let second = launch(on: store.afterKill())
        #expect(await told(second).filter { $0 != "Opened" } == ["Installed"])
    }

    @Test(arguments: [
        ApplicationInfo(version: "1.11", build: "42"), ApplicationInfo(version: "1.10", build: "43"),
        ApplicationInfo(version: "1.9", build: "41"), ApplicationInfo(version: "1.10"), ApplicationInfo(build: "42"),
        ApplicationInfo(),
    ])
    func updatedIsToldWhenVersionOrBuildChanged(present: ApplicationInfo) async {
        source.foreground()
        let analytics = launch(present, on: ScriptedStore(Self.installed))
        var expected = JSONObject()
        expected["version"] = present.version.map { .string($0) }
        expected["build"] = present.build.map { .string($0) }
        expected["previous_version"] = "1.10"
        expected["previous_build"] = "42"
        #expect(await told(analytics) == ["Updated", "Opened"])
        #expect(destination.events.first?.properties == expected)
    }

    @Test func anUpdateIsToldOnce() async {
        let store = ScriptedStore(Self.installed)
        source.foreground()
        let first = launch(ApplicationInfo(version: "2.0", build: "42"), on: store)
        #expect(await told(first) == ["Updated", "Opened"])
        destination.removeAll()
        first.shutdown()
        let second = launch(ApplicationInfo(version: "2.0", build: "42"), on: store.afterKill())
        #expect(await told(second) == ["Opened"])
    }

    @Test func whereNoVersionIsKnownInstalledIsStillToldOnce() async {
        let store = ScriptedStore()
        source.foreground()
        let first = launch(ApplicationInfo(), on: store)
        #expect(await told(first) == ["Installed", "Opened"])
        #expect(destination.events.map(\.properties) == [[:], ["from_background": false]])
        destination.removeAll()
        first.shutdown()
        let second = launch(ApplicationInfo(), on: store.afterKill())
        #expect(await told(second) == ["Opened"])
    }

    @Test func aBuildThatWasStoredAsANumberIsTheSameBuild() async {
        source.foreground()
        let store = ScriptedStore(["LifecyclePlugin": ["version": "1.10", "build": 42]])
        #expect(await told(launch(on: store)) == ["Opened"])
    }

    @Test func aVersionIsRememberedWithTheEventThatTellsIt() async {
        let store = ScriptedStore()
        let analytics = launch(on: store)
        await analytics.stored()
        #expect(store.objects["LifecyclePlugin"] == nil)
        source.foreground()
        await analytics.stored()
        #expect(store.objects["LifecyclePlugin"] == ["installed": true, "version": "1.10", "build": "42"])
    }

    @Test func installedIsToldAtTheFirstForegroundAfterALaunchInTheBackground() async {
        let store = ScriptedStore()
        let first = launch(on: store)
        first.track(name: "Work")
        await first.stored()
        first.shutdown()
        let second = launch(on: store.afterKill())
        source.foreground()
        #expect(await told(second).suffix(2) == ["Installed", "Opened"])
    }

    // MARK: Known installations

    @Test func usersOfAKnownInstallationAreNotNew() async {
        source.foreground()
        #expect(await told(launch(known: Self.application)) == ["Opened"])
    }

    @Test func anUpdateFromAKnownInstallationIsTold() async {
        source.foreground()
        let analytics = launch(known: ApplicationInfo(version: "1.0", build: "1"))
        #expect(await told(analytics) == ["Updated", "Opened"])
        #expect(
            destination.events.first?.properties == [
                "version": "1.10", "build": "42", "previous_version": "1.0", "previous_build": "1",
            ])
    }

    @Test func whatIsStoredWinsOverAKnownInstallation() async {
        source.foreground()
        let analytics = launch(on: ScriptedStore(Self.installed), known: ApplicationInfo(version: "1.0"))
        #expect(await told(analytics) == ["Opened"])
    }

    // MARK: Off

    @Test func withTheEventsOffVersionsAreStillRemembered() async {
        let store = ScriptedStore()
        source.foreground()
        let first = launch(on: store, sendsEvents: false)
        source.background()
        #expect(await told(first) == [])
        #expect(store.objects["LifecyclePlugin"] == ["installed": true, "version": "1.10", "build": "42"])
        first.shutdown()
        source.foreground()
        let second = launch(ApplicationInfo(version: "1.11", build: "42"), on: store.afterKill(), sendsEvents: true)
        #expect(await told(second) == ["Updated", "Opened"])
    }

    @Test func theEventsAreOnInAnAppUnlessTurnedOff() async {
        source.foreground()
        #expect(await told(launch(sendsEvents: nil)) == ["Installed", "Opened"])
    }

    // MARK: Stores

    @Test func nothingIsSaidOfVersionsWhileTheStoreIsUnreadable() async {
        let store = ScriptedStore(Self.installed, isReadable: false)
        source.foreground()
        let analytics = launch(ApplicationInfo(version: "2.0"), on: store)
        #expect(await told(analytics) == ["Opened"])
        source.background()
        store.setReadable(true)
        source.foreground()
        #expect(await told(analytics) == ["Opened", "Backgrounded", "Updated", "Opened"])
    }

    @Test func aStoreThatTurnsOutToBeEmptyIsANewInstallation() async {
        let store = ScriptedStore(isReadable: false)
        let analytics = launch(on: store)
        store.setReadable(true)
        source.foreground()
        #expect(await told(analytics) == ["Installed", "Opened"])
    }

    @Test func aGuestSaysNothingOfVersions() async {
        let store = ScriptedStore(isOwned: false)
        source.foreground()
        let analytics = launch(on: store)
        source.background()
        #expect(await told(analytics) == ["Opened", "Backgrounded"])
        #expect(store.objects.isEmpty)
    }

    // MARK: Plugins

    @Test func theEventsCanBeDroppedAndAreNotToldAgain() async {
        let store = ScriptedStore()
        let filter = ClosurePlugin { event, _ in event.name?.hasPrefix("Application ") == true ? nil : event }
        source.foreground()
        let first = launch(on: store, plugins: [filter])
        first.track(name: "A")
        #expect(await told(first) == ["A"])
        #expect(destination.events.first?.isSessionStart == true)
        first.shutdown()
        destination.removeAll()
        let second = launch(on: store.afterKill())
        #expect(await told(second) == ["Opened"])
    }

    @Test func aPluginThatIsAddedAgainRepeatsNothing() async throws {
        source.foreground()
        let analytics = launch()
        let plugin = try #require(analytics.plugin(ofType: LifecyclePlugin.self))
        analytics.remove(plugin: plugin)
        analytics.add(plugin: plugin)
        source.background()
        source.foreground()
        #expect(await told(analytics) == ["Installed", "Opened", "Backgrounded", "Opened"])
        #expect(destination.events.last?.properties == ["from_background": true])
    }

    @Test func aPluginThatIsAddedAgainInTheBackgroundTellsTheNextVisit() async throws {
        source.foreground()
        let analytics = launch(on: ScriptedStore(Self.installed))
        let plugin = try #require(analytics.plugin(ofType: LifecyclePlugin.self))
        analytics.remove(plugin: plugin)
        source.background()
        analytics.add(plugin: plugin)
        source.foreground()
        #expect(await told(analytics) == ["Opened", "Opened"])
        #expect(destination.events.last?.properties == ["from_background": true])
    }

    @Test func aPluginThatIsAddedLateTellsTheVisitThatIsUnderWay() async {
        source.foreground()
        var configuration = Configuration.test(lifecycle: source)
        configuration.application = Self.application
        let builtIn = Analytics.builtInPlugins(for: configuration).filter { !($0 is LifecyclePlugin) }
        let analytics = Analytics(configuration: configuration, builtIn: builtIn, plugins: [destination])
        analytics.track(name: "A")
        analytics.add(plugin: LifecyclePlugin(application: Self.application))
        #expect(await told(analytics) == ["A", "Installed", "Opened"])
        #expect(destination.events.last?.properties == ["from_background": false, "version": "1.10"])
    }
}

/// The lifecycle of a tool or a service (`DECISIONS.md` 30).
@Suite(.timeLimit(.minutes(5)))
struct ProcessLifecycleSourceTests {
    private let destination = RecordingDestination()

    private func makeAnalytics(_ change: (inout Configuration) -> Void = { _ in }) -> Analytics {
        var configuration = Configuration.test()
        configuration.lifecycleSource = ProcessLifecycleSource()
        configuration.trackApplicationLifecycleEvents = nil
        change(&configuration)
        return Analytics(configuration: configuration, plugins: [destination])
    }

    @Test func aProcessIsNoAppAndInTheForegroundFromItsStart() {
        let source = ProcessLifecycleSource()
        #expect(!source.isApp)
        #expect(source.observe { _ in }.isInForeground)
        #expect(ManualLifecycleSource().isApp)
        #expect(!ManualLifecycleSource(isApp: false).isApp)
    }

    @Test func itIsTheDefault() {
        let configuration = Configuration(writeKey: "key", dataPlaneUrl: "https://data.example.com")
        #expect(configuration.lifecycleSource is ProcessLifecycleSource)
    }

    @Test func inAProcessLifecycleEventsAndSessionsAreOff() async {
        let analytics = makeAnalytics()
        analytics.track(name: "A")
        #expect(await analytics.settled(destination).map(\.name) == ["A"])
        #expect(destination.events.first?.sessionId == nil)
        #expect(analytics.sessionId == nil)
    }

    @Test func inAProcessTheyCanBeTurnedOn() async {
        let analytics = makeAnalytics { configuration in
            configuration.trackApplicationLifecycleEvents = true
            configuration.sessionConfiguration = SessionConfiguration(automaticSessionTracking: true)
        }
        #expect(
            await analytics.settled(destination).map(\.name) == ["Application Installed", "Application Opened"])
        #expect(analytics.sessionId != nil)
        #expect(destination.events.map(\.isSessionStart) == [true, false])
    }

    @Test func inAProcessVersionsAreRememberedAllTheSame() async {
        let store = ScriptedStore()
        let analytics = makeAnalytics { $0.storage = .custom(store) }
        await analytics.stored()
        #expect(store.objects["LifecyclePlugin"]?["installed"] == true)
    }
}
