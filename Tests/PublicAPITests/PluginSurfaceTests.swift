import Foundation
import Testing
import Tiller
import TillerTesting

/// Plugins, sources and commands as a consumer writes them.
@Suite(.timeLimit(.minutes(5)))
struct PluginSurfaceTests {
    private let transport = StubTransport()

    private var configuration: Configuration { testConfiguration(transport: transport) }

    // MARK: The plugins of the documentation

    private final class ConsentFilter: Plugin {
        let stage = Stage.before

        func process(_ event: Event) -> Event? {
            event.kind == .track && event.name == "Ad Viewed" ? nil : event
        }
    }

    private final class Campaign: Plugin {
        let stage = Stage.enrichment

        func process(_ event: Event) -> Event? {
            var event = event
            event.context["campaign"] = ["name": "spring", "wave": 2]
            event.properties["checkout"] = true
            return event
        }
    }

    private final class Console: Plugin {
        let stage = Stage.destination
        let lines = Log<String>()
        let teardowns = Log<Bool>()

        func process(_ event: Event) -> Event? {
            lines.append("\(event.kind) \(event.name ?? "") \(event.context["sessionId"] ?? .null)")
            return event
        }

        func teardown() { teardowns.append(true) }
    }

    @Test func aFilterDropsAndAnEnrichmentAdds() async {
        let analytics = Analytics(configuration: configuration, plugins: [ConsentFilter(), Campaign()])
        analytics.track(name: "Ad Viewed")
        analytics.track(name: "Order Completed", properties: ["total": 12.5])
        let events = await analytics.delivered(to: transport)
        #expect(events.map { $0["event"] } == ["Order Completed"])
        #expect(events.first?["context"]["campaign"] == ["name": "spring", "wave": 2])
        #expect(events.first?["properties"] == ["total": 12.5, "checkout": true])
    }

    @Test func aDestinationIsAddedAndRemovedAndTornDownOnce() async {
        let analytics = Analytics(configuration: configuration)
        let console = Console()
        analytics.add(plugin: console)
        analytics.add(plugin: console)
        let session = analytics.sessionId
        analytics.track(name: "Seen")
        analytics.remove(plugin: console)
        analytics.remove(plugin: console)
        analytics.track(name: "Unseen")
        await analytics.settled()
        #expect(console.lines.all == ["track Seen \(session ?? 0)"])
        await analytics.shutdownAndWait()
        #expect(console.teardowns.all == [true])
    }

    @Test func aPluginObjectCanBeAddedAgain() async {
        let analytics = Analytics(configuration: configuration)
        let console = Console()
        for name in ["A", "B"] {
            analytics.add(plugin: console)
            analytics.track(name: name)
            analytics.remove(plugin: console)
            analytics.track(name: "Unseen")
        }
        await analytics.settled()
        #expect(console.lines.all.count == 2)
        await analytics.shutdownAndWait()
        #expect(console.teardowns.all == [true, true])
    }

    @Test func builtInPluginsCanBeFoundLeftOutAndReplaced() async {
        let analytics = Analytics(configuration: configuration)
        #expect(analytics.plugin(ofType: IdentityPlugin.self) != nil)
        #expect(analytics.plugin(ofType: SessionTrackingPlugin.self) != nil)
        #expect(analytics.plugin(ofType: LifecyclePlugin.self) != nil)
        #expect(analytics.plugin(ofType: ContextPlugin.self) != nil)
        #expect(analytics.plugin(ofType: RudderStackDestination.self) != nil)
        #expect(analytics.plugin(ofType: Console.self) == nil)

        let builtIn = Analytics.builtInPlugins(for: configuration)
            .filter { !($0 is SessionTrackingPlugin) }
            .map { $0 is ContextPlugin ? ContextPlugin(application: ApplicationInfo(name: "Other")) : $0 }
        let other = Analytics(configuration: configuration, builtIn: builtIn, plugins: [Campaign()])
        #expect(other.plugin(ofType: SessionTrackingPlugin.self) == nil)
        #expect(other.sessionId == nil)
        other.track(name: "A")
        let event = await other.delivered(to: transport).last
        #expect(event?["context"]["app"] == ["name": "Other"])
        #expect(event?["context"]["sessionId"] == nil)
    }

    // MARK: A platform of one's own

    /// A console that Tiller does not know.
    private final class ConsoleSource: ContextSource {
        var hasDeviceId: Bool { true }

        func read() -> SystemContext {
            SystemContext(
                device: SystemContext.Device(id: "unit-1", model: "PlayBox"),
                os: SystemContext.OperatingSystem(name: "PlayOS", version: "9"))
        }

        func observe(_ handler: @escaping @Sendable () -> Void) -> CancellationToken { CancellationToken {} }
    }

    @Test func anAppSaysWhatItRunsOn() async {
        var configuration = configuration
        configuration.contextSource = ConsoleSource()
        let analytics = Analytics(configuration: configuration)
        analytics.track(name: "A")
        let context = await analytics.delivered(to: transport).last?["context"]
        #expect(context?["device"] == ["id": "unit-1", "model": "PlayBox"])
        #expect(context?["os"] == ["name": "PlayOS", "version": "9"])
        #expect(context?["timezone"] == nil)
    }

    // MARK: What a plugin is told

    private final class Witness: Plugin {
        let stage: Stage
        let told = Log<String>()

        init(_ stage: Stage) { self.stage = stage }

        func setup(analytics: Analytics) { told.append("setup \(analytics.configuration.instanceName)") }

        func process(_ event: Event, in analytics: Analytics) -> Event? {
            told.append("\(event.name ?? "") by \(analytics.userId ?? "nobody")")
            return event
        }

        func reset(_ options: ResetOptions) { told.append("reset \(options.entries.userId)") }
        func flush() { told.append("flush") }
        func teardown() { told.append("teardown") }
    }

    @Test(arguments: [Stage.before, .enrichment, .destination])
    func everyPluginIsToldInTheOrderOfCalls(stage: Stage) async {
        let witness = Witness(stage)
        let analytics = Analytics(configuration: configuration, plugins: [witness])
        analytics.track(name: "A")
        await analytics.settled()
        analytics.reset(options: ResetOptions(entries: ResetEntries(userId: false)))
        analytics.flush()
        await analytics.settled()
        await analytics.shutdownAndWait()
        #expect(witness.told.all == ["setup default", "A by nobody", "reset false", "flush", "teardown"])
    }

    /// Answers an event with one more.
    private final class Echo: Plugin {
        let stage = Stage.before

        func process(_ event: Event, in analytics: Analytics) -> Event? {
            if event.name == "A" { analytics.track(name: "Echo of A") }
            return event
        }
    }

    @Test func aPluginMayCallBack() async {
        let analytics = Analytics(configuration: configuration, plugins: [Echo()])
        analytics.track(name: "A")
        await analytics.settled()
        #expect(await analytics.delivered(to: transport).map { $0["event"] } == ["A", "Echo of A"])
    }

    /// Changes everything that can be changed, and what can't by returning another event.
    private final class Forger: Plugin {
        let stage = Stage.enrichment

        func process(_ event: Event) -> Event? {
            var forged = Event(.screen, name: "Forged", properties: ["a": 1], traits: ["b": 2])
            forged.userId = "mallory"
            forged.anonymousId = "anon"
            forged.integrations = ["All": false]
            forged.context = ["c": 3]
            return forged
        }
    }

    @Test func whatTheCallFixedCannotBeForged() async throws {
        let destination = RecordingDestination()
        let keeper = Keeper()
        let analytics = Analytics(configuration: configuration, plugins: [keeper, Forger(), destination])
        analytics.track(name: "A")
        await analytics.settled()
        let (before, after) = (try #require(keeper.events.all.first), try #require(destination.events.first))
        #expect(after.kind == .track)
        #expect(after.messageId == before.messageId)
        #expect(after.timestamp == before.timestamp)
        #expect(after.sequence == before.sequence)
        #expect(!after.isScoped)
        #expect(after.name == "Forged")
        #expect(after.properties == ["a": 1])
        #expect(after.userId == "mallory")
        #expect(after.anonymousId == "anon")
        #expect(after.integrations == ["All": false])
        #expect(after.context["c"] == 3)
    }

    /// Changes events where they are, and drops some.
    private final class InPlace: Plugin {
        let stage = Stage.enrichment

        func process(inPlace event: inout Event, in analytics: Analytics) -> Bool {
            if event.name == "Forged" { event = Event(.identify, name: "Forged", options: EventOptions(userId: "m")) }
            event.properties["place"] = "in"
            return event.name != "Dropped"
        }
    }

    @Test func aPluginMayChangeEventsInPlace() async throws {
        let destination = RecordingDestination()
        let keeper = Keeper()
        let analytics = Analytics(configuration: configuration, plugins: [keeper, InPlace(), destination])
        for name in ["A", "Dropped", "Forged"] { analytics.track(name: name, properties: ["own": 1]) }
        await analytics.settled()
        #expect(destination.events.map(\.name) == ["A", "Forged"])
        #expect(destination.events.map(\.kind) == [.track, .track])
        #expect(destination.events.map(\.properties) == [["own": 1, "place": "in"], ["place": "in"]])
        #expect(
            destination.events.map(\.messageId) == [keeper.events.all[0].messageId, keeper.events.all[2].messageId])
        #expect(destination.events.allSatisfy { !$0.isScoped })
        // What others kept is as it was.
        #expect(keeper.events.all.map(\.properties) == [["own": 1], ["own": 1], ["own": 1]])
        #expect(analytics.status.account.dropped[.plugin("InPlace")] == 1)
    }

    /// One that says that it looks at no event is handed none.
    @Test(arguments: [true, false]) func aCapturingPluginMayLeaveEventsAlone(_ captures: Bool) async {
        final class Marker: CapturingPlugin {
            let stage = Stage.before
            let capturesEvents: Bool

            init(_ captures: Bool) { capturesEvents = captures }
            func restore(_ stored: Stored, present: Bool?, in section: inout Section) -> Bool { true }
            func capture(_ event: inout Event, state: inout Bool, in section: inout Section) {
                event.properties["mark"] = true
            }
        }
        let analytics = Analytics(configuration: configuration, plugins: [Marker(captures)])
        analytics.track(name: "A")
        let events = await analytics.delivered(to: transport)
        #expect(events.map { $0["properties"]?["mark"] } == [captures ? true : nil])
    }

    private final class Keeper: Plugin {
        let stage = Stage.before
        let events = Log<Event>()

        func process(_ event: Event) -> Event? {
            events.append(event)
            return event
        }
    }

    // MARK: JSON

    @Test func nestedPathsAreSetInOneLine() {
        var event = Event(.track, name: "A")
        event.context["device"]["token"] = "t"
        event.context["network"]["bluetooth"] = true
        event.context["device"]["token"] = "u"
        event.context["missing"]["path"] = nil
        #expect(event.context == ["device": ["token": "u"], "network": ["bluetooth": true]])
        #expect(event.context["device"]["token"]?.string == "u")
        #expect(event.context["device"]["none"]["deeper"] == nil)
        event.context["device"] = nil
        #expect(event.context.keys == ["network"])
    }

    @Test func valuesHaveTypedGetters() {
        let value: JSONValue = ["s": "x", "b": true, "i": -1, "u": 2, "d": 1.5, "a": [1], "o": ["k": nil], "n": nil]
        #expect(value["s"]?.string == "x")
        #expect(value["b"]?.bool == true)
        #expect(value["i"]?.int == -1)
        #expect(value["u"]?.uint == 2)
        #expect(value["d"]?.double == 1.5)
        #expect(value["a"]?.array == [1])
        #expect(value["o"]?.object == ["k": nil])
        #expect(value["n"] == .some(.null))
        #expect(value["b"]?.int == nil && value["i"]?.bool == nil && value["s"]?.double == nil)
        #expect(value.object?.keys == ["s", "b", "i", "u", "d", "a", "o", "n"])
    }

    @Test func anyValueBecomesJSON() {
        #expect(JSONValue(any: ["a": Optional<Int>.none as Any, "b": [1, "x"]]) == ["a": nil, "b": [1, "x"]])
        #expect(JSONObject(["a": 1 as Any]) == ["a": 1])
        #expect("\(JSONValue(any: [1, 2]))" == "[1,2]")
    }

    @Test func anObjectCanLieOverASharedBase() {
        let base = JSONObject.Base(["app": ["name": "Shop"], "os": ["name": "Linux"]])
        var one: JSONObject = ["app": "mine", "own": 1]
        one.lay(over: base)
        var two = one
        two["os"]["name"] = "Other"
        two["app"] = nil
        #expect(one == ["app": ["name": "Shop"], "os": ["name": "Linux"], "own": 1])
        #expect(two == ["os": ["name": "Other"], "own": 1])
    }

    // MARK: A capturing plugin with a command

    /// Sets a property that every later event bears.
    private struct SetSuperProperty: Command {
        let key: String
        let value: JSONValue?
    }

    /// Properties that are put on each event at its call, and survive a restart.
    private final class SuperProperties: CapturingPlugin {
        let stage = Stage.before
        let storageKey = "example.superProperties"

        func restore(_ stored: Stored, present: JSONObject?, in section: inout Section) -> JSONObject {
            if case .value(let value) = stored { return value }
            return present ?? [:]
        }

        func apply(_ command: any Command, to state: inout JSONObject, in section: inout Section) {
            switch command {
            case let command as SetSuperProperty:
                state[command.key] = command.value
                section.save([command.key: command.value ?? .null])
            case is ResetOptions:
                section.save(JSONObject.nulls(for: state.keys))
                state = [:]
            default: break
            }
        }

        func capture(_ event: inout Event, state: inout JSONObject, in section: inout Section) {
            for (key, value) in state where event.properties[key] == nil { event.properties[key] = value }
        }
    }

    @Test func aCommandTakesItsPlaceInTheOrderOfCalls() async {
        let analytics = Analytics(configuration: configuration, plugins: [SuperProperties()])
        analytics.track(name: "A")
        analytics.perform(SetSuperProperty(key: "plan", value: "pro"))
        analytics.track(name: "B")
        analytics.track(name: "C", properties: ["plan": "own"])
        analytics.record(Event(.track, name: "D"), after: [SetSuperProperty(key: "plan", value: "max")])
        #expect(analytics.read(SuperProperties.self) { state, _ in state["plan"] } == "max")
        analytics.reset()
        analytics.track(name: "E")
        let events = await analytics.delivered(to: transport)
        #expect(events.map { $0["event"] } == ["A", "B", "C", "D", "E"])
        #expect(events.map { $0["properties"]["plan"] } == [nil, "pro", "own", "max", nil])
    }

    @Test func aCapturingPluginsStateSurvivesARestart() async {
        var configuration = configuration
        configuration.storage = .custom(MemoryStateStore())
        let first = Analytics(configuration: configuration, plugins: [SuperProperties()])
        first.perform(SetSuperProperty(key: "plan", value: "pro"))
        await first.stored()
        let second = Analytics(configuration: configuration, plugins: [SuperProperties()])
        second.track(name: "A")
        let events = await second.delivered(to: transport)
        #expect(events.map { $0["properties"]["plan"] } == ["pro"])
    }

    @Test func aRemovedCapturingPluginCapturesNoMore() async {
        let plugin = SuperProperties()
        let analytics = Analytics(configuration: configuration, plugins: [plugin])
        analytics.perform(SetSuperProperty(key: "plan", value: "pro"))
        analytics.remove(plugin: plugin)
        analytics.track(name: "A")
        #expect(analytics.read(SuperProperties.self) { state, _ in state } == nil)
        let events = await analytics.delivered(to: transport)
        #expect(events.map { $0["properties"]["plan"] } == [nil])
    }

    /// Numbers the events that survive, and counts its own wake-ups.
    private final class SurvivorCount: CapturingPlugin {
        struct State: Sendable {
            var survivors: Int64 = 0
            var wakes = 0
        }

        let stage = Stage.before
        let contextKeys = ["survivor"]

        func restore(_ stored: Stored, present: State?, in section: inout Section) -> State {
            section.wake(after: .seconds(10))
            return present ?? State()
        }

        func apply(_ command: any Command, to state: inout State, in section: inout Section) {
            if command is Wake { state.wakes += 1 }
        }

        func capture(_ event: inout Event, state: inout State, in section: inout Section) {
            section.fact = section.moment.sequence
        }

        func seals(_ state: State) -> Bool { true }

        func seal(_ event: inout Event, state: inout State, in section: inout Section) {
            guard section.fact == event.sequence else { return }
            state.survivors += 1
            event.context["survivor"] = .int(state.survivors)
        }
    }

    @Test func aSealSeesSurvivorsOnly() async {
        let analytics = Analytics(configuration: configuration, plugins: [SurvivorCount(), ConsentFilter()])
        analytics.track(name: "Ad Viewed")
        analytics.track(name: "A")
        analytics.track(name: "B")
        let events = await analytics.delivered(to: transport)
        #expect(events.map { $0["context"]["survivor"] } == [1, 2])
    }

    @Test func aCapturingPluginIsWokenWhenItAsked() {
        let time = VirtualTime()
        let analytics = Analytics(configuration: testConfiguration(time: time), plugins: [SurvivorCount()])
        time.advance(by: .milliseconds(9_999))
        #expect(analytics.read(SurvivorCount.self) { state, _ in state.wakes } == 0)
        time.advance(by: .milliseconds(1))
        #expect(analytics.read(SurvivorCount.self) { state, _ in state.wakes } == 1)
        time.advance(by: .seconds(100))
        #expect(analytics.read(SurvivorCount.self) { state, _ in state.wakes } == 1)
    }

    // MARK: Lifecycle

    /// A source of the consumer's own.
    private final class GameLoop: LifecycleSource {
        private let handler = Locked<(@Sendable (LifecycleEvent) -> Void)?>(nil)

        var isObserved: Bool { handler.withLock { $0 != nil } }

        func observe(_ handler: @escaping @Sendable (LifecycleEvent) -> Void) -> LifecycleObservation {
            self.handler.withLock { $0 = handler }
            return LifecycleObservation(
                isInForeground: false,
                token: CancellationToken { [weak self] in self?.handler.withLock { $0 = nil } })
        }

        func tell(_ event: LifecycleEvent) { handler.withLock { $0 }?(event) }
    }

    /// A plugin that is told of lifecycle changes.
    private final class Visits: Plugin, LifecycleObserver {
        let stage = Stage.before
        let told = Log<LifecycleEvent>()

        func handle(_ event: LifecycleEvent, in analytics: Analytics) {
            told.append(event)
            if event == .foreground { analytics.track(name: "Visit") }
        }
    }

    @Test func aLifecycleSourceOfTheConsumersOwnDrivesPlugins() async {
        let (source, visits) = (GameLoop(), Visits())
        let analytics = Analytics(
            configuration: testConfiguration(transport: transport, lifecycle: source), plugins: [visits])
        #expect(source.isApp)
        #expect(source.isObserved)
        source.tell(.foreground)
        source.tell(.foreground)
        source.tell(.background)
        analytics.remove(plugin: visits)
        source.tell(.foreground)
        analytics.add(plugin: visits)
        source.tell(.terminate)
        #expect(visits.told.all == [.foreground, .background, .foreground, .terminate])
        #expect(await analytics.delivered(to: transport).map { $0["event"] } == ["Visit", "Visit"])
        analytics.shutdown()
        #expect(!source.isObserved)
    }

    // MARK: Destinations

    /// A destination with plugins of its own.
    private final class Vendor: DestinationPlugin {
        let ownPlugins = OwnPlugins()
        let names = Log<String>()

        func process(_ event: Event) -> Event? {
            names.append(event.properties["renamed"]?.string ?? event.name ?? "")
            return nil  // ignored
        }
    }

    /// For one destination only.
    private final class Rename: Plugin {
        let stage = Stage.enrichment
        let told = Log<String>()

        func setup(analytics: Analytics) { told.append("setup") }

        func process(_ event: Event) -> Event? {
            var event = event
            event.properties["renamed"] = "vendor \(event.name ?? "")"
            return event
        }

        func teardown() { told.append("teardown") }
    }

    @Test func aDestinationsOwnPluginsWorkForItAlone() async {
        let (vendor, rename, console) = (Vendor(), Rename(), Console())
        vendor.add(plugin: ConsentFilter())
        vendor.add(plugin: rename)
        vendor.add(plugin: rename)
        let analytics = Analytics(configuration: configuration, plugins: [vendor, console])
        #expect(vendor.stage == .destination)
        analytics.track(name: "Ad Viewed")
        analytics.track(name: "A")
        await analytics.settled()
        vendor.remove(plugin: rename)
        analytics.track(name: "B")
        await analytics.settled()
        #expect(vendor.names.all == ["vendor A", "B"])
        #expect(rename.told.all == ["setup", "teardown"])
        #expect(console.lines.all.count == 3)
        let events = await analytics.delivered(to: transport)
        #expect(events.map { $0["event"] } == ["Ad Viewed", "A", "B"])
        #expect(events.allSatisfy { $0["properties"] == nil })
    }

    @Test func theDataPlanesOwnPluginsWorkForItAlone() async throws {
        let destination = RecordingDestination()
        let analytics = Analytics(configuration: configuration, plugins: [destination])
        try #require(analytics.plugin(ofType: RudderStackDestination.self)).add(plugin: ConsentFilter())
        analytics.track(name: "Ad Viewed")
        analytics.track(name: "A")
        #expect(await analytics.delivered(to: transport).map { $0["event"] } == ["A"])
        await analytics.settled()
        #expect(destination.events.map(\.name) == ["Ad Viewed", "A"])
    }
}

extension JSONObject {
    fileprivate static func nulls(for keys: [String]) -> JSONObject {
        var object = JSONObject()
        for key in keys { object[key] = .null }
        return object
    }
}
