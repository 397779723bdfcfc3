import Foundation
import Testing
import Tiller
import TillerTesting

@Suite(.timeLimit(.minutes(5)))
struct ConfigurationSurfaceTests {
    // MARK: Sessions

    @Test func aSessionConfigurationHasTheWordsOfBothSDKsAndThePolicy() {
        #expect(SessionConfiguration().backgroundEvents == .carry)
        #expect(SessionConfiguration(updateSessionOnBackgroundEvents: false).backgroundEvents == .carry)
        #expect(SessionConfiguration(updateSessionOnBackgroundEvents: true).backgroundEvents == .include)
        #expect(SessionConfiguration(includeBackgroundEventsInSession: false).backgroundEvents == .exclude)
        #expect(SessionConfiguration(includeBackgroundEventsInSession: true).backgroundEvents == .include)
        for policy in BackgroundEventPolicy.allCases {
            #expect(SessionConfiguration(backgroundEvents: policy).backgroundEvents == policy)
        }
    }

    @Test func aSessionConfigurationKeepsItsOtherTwoParameters() {
        #expect(SessionConfiguration().automaticSessionTracking == nil)
        #expect(SessionConfiguration().sessionTimeoutInMillis == 300_000)
        let all = [
            SessionConfiguration(
                automaticSessionTracking: false, sessionTimeoutInMillis: 1, updateSessionOnBackgroundEvents: true),
            SessionConfiguration(
                automaticSessionTracking: false, sessionTimeoutInMillis: 1, includeBackgroundEventsInSession: true),
            SessionConfiguration(
                automaticSessionTracking: false, sessionTimeoutInMillis: 1, backgroundEvents: .include),
        ]
        #expect(Set(all).count == 1)
        #expect(all[0].automaticSessionTracking == false)
        #expect(all[0].sessionTimeoutInMillis == 1)
    }

    // MARK: Flush policies

    /// Uploads when an event of a certain number has come.
    private final class EveryThird: FlushPolicy {
        private let questions = Locked(0)

        func shouldFlush() -> Bool {
            questions.withLock { questions in
                questions += 1
                return questions % 3 == 0
            }
        }
    }

    /// Looks at what waits.
    private final class Curious: FlushPolicy {
        let seen = Log<FlushQueue>()

        func shouldFlush(_ queue: FlushQueue) -> Bool {
            seen.append(queue)
            return queue.waiting >= 2
        }
    }

    @Test func aPolicyOfTheConsumersOwnIsAskedAfterEachChunk() async {
        let transport = StubTransport()
        var configuration = testConfiguration(transport: transport)
        configuration.flushPolicies = [EveryThird()]
        let analytics = Analytics(configuration: configuration)
        for name in ["A", "B"] {
            analytics.track(name: name)
            await analytics.settled()
        }
        #expect(transport.requests.isEmpty)
        analytics.track(name: "C")
        await transport.requests(count: 1)
        #expect(transport.events.map { $0["event"] } == ["A", "B", "C"])
    }

    @Test func aPolicyCanLookAtWhatWaits() async {
        let transport = StubTransport()
        let policy = Curious()
        var configuration = testConfiguration(transport: transport)
        configuration.flushPolicies = [policy]
        let analytics = Analytics(configuration: configuration)
        analytics.track(name: "A")
        await analytics.settled()
        #expect(policy.seen.all.last?.waiting == 1)
        #expect(policy.seen.all.last?.sinceLastFlush == 1)
        #expect(policy.seen.all.last?.isFirst == true)
        analytics.track(name: "B")
        await transport.requests(count: 1)
        #expect(transport.events.map { $0["event"] } == ["A", "B"])
    }

    /// Never says yes, but lets nothing wait for more than two seconds.
    private struct TwoSeconds: FlushPolicy {
        var interval: Duration? { .seconds(2) }
    }

    @Test func aPolicyCanBoundHowLongAnEventWaits() async {
        let (transport, time) = (StubTransport(), VirtualTime())
        var configuration = testConfiguration(transport: transport, time: time)
        configuration.flushPolicies = [TwoSeconds()]
        let analytics = Analytics(configuration: configuration)
        analytics.track(name: "A")
        await analytics.settled()
        time.advance(by: .milliseconds(1_999))
        #expect(transport.requests.isEmpty)
        time.advance(by: .milliseconds(1))
        await transport.requests(count: 1)
        #expect(transport.events.map { $0["event"] } == ["A"])
    }

    // MARK: Logging

    /// Says less than `Logger` could: every method has a default.
    private final class ErrorsOnly: Logger {
        let texts = Log<String>()

        func error(log: String, error: (any Error)?) { texts.append(log) }
    }

    @Test func aLoggerOfTheConsumersOwnGetsWhatItsLevelAdmits() {
        let logger = ErrorsOnly()
        var configuration = testConfiguration(logger: logger)
        configuration.logLevel = .error
        let analytics = Analytics(configuration: configuration)
        analytics.log(.error, "one")
        analytics.log(.warn, "two")
        #expect(logger.texts.all == ["one"])
    }

    @Test(arguments: LogLevel.allCases)
    func aLevelIncludesThoseBeforeIt(level: LogLevel) {
        let logger = RecordingLogger()
        var configuration = testConfiguration(logger: logger)
        configuration.logLevel = level
        let analytics = Analytics(configuration: configuration)
        let before = logger.messages.count
        for each in LogLevel.allCases { analytics.log(each, "message") }
        let expected = LogLevel.allCases.filter { $0 != .none && $0 <= level }
        #expect(logger.messages.dropFirst(before).map(\.level) == expected)
    }

    // MARK: Storage and transport

    /// A store of the consumer's own.
    private final class DictionaryStore: StateStore {
        let objects = Locked<[String: JSONObject]>([:])
        let closings = Log<String>()

        var isOwned: Bool { true }

        func load(_ key: String) -> Stored { objects.withLock { $0[key].map(Stored.value) ?? .absent } }

        func save(_ changes: [StateChange]) {
            objects.withLock { objects in
                for change in changes {
                    objects[change.key] = change.applied(to: objects[change.key] ?? [:])
                }
            }
        }

        func prepareToClose() { closings.append("prepare") }
        func close() { closings.append("close") }
    }

    @Test func aStoreOfTheConsumersOwnKeepsTheStateBetweenInstances() async {
        let store = DictionaryStore()
        var configuration = testConfiguration()
        configuration.storage = .custom(store)
        let first = Analytics(configuration: configuration)
        first.identify(userId: "alice", traits: ["beta": true])
        let anonymousId = first.anonymousId
        await first.shutdownAndWait()
        #expect(store.closings.all == ["prepare", "close"])
        let second = Analytics(configuration: configuration)
        #expect(second.userId == "alice")
        #expect(second.traits == ["beta": true])
        #expect(second.anonymousId == anonymousId)
    }

    /// A transport of the consumer's own.
    private final class Echo: Transport {
        let urls = Log<String>()

        func post(_ request: TransportRequest) async throws -> TransportResponse {
            urls.append(request.url)
            return TransportResponse(status: 200, body: Array("ok".utf8))
        }
    }

    @Test func aTransportOfTheConsumersOwnBringsTheRequests() async {
        let transport = Echo()
        var configuration = testConfiguration()
        configuration.transport = transport
        let analytics = Analytics(configuration: configuration)
        analytics.track(name: "A")
        #expect(await analytics.flushed() == .delivered)
        #expect(transport.urls.all == ["https://data.example.com/v1/batch"])
    }

    @Test func everyOptionOfTillersOwnHasAPlaceAfterTheSDKs() {
        let folder = URL(fileURLWithPath: "/nowhere")
        let configuration = Configuration(
            writeKey: "k", dataPlaneUrl: "https://data.example.com", storage: .folder(folder), instanceName: "second",
            lifecycleSource: ProcessLifecycleSource(), time: SystemTime(), identifiers: .system(),
            transport: URLSessionTransport(), application: ApplicationInfo(name: "Shop"), batching: .mixed,
            channel: .server, limits: Limits(memoryEvents: 10, eventBytes: 1_000))
        #expect(configuration.instanceName == "second")
        #expect(configuration.application.name == "Shop")
        #expect(configuration.batching == .mixed)
        #expect(configuration.channel == .server)
        #expect(configuration.limits.memoryEvents == 10)
        #expect(configuration.limits.eventBytes == 1_000)
        #expect(configuration.limits.memoryBytes == 16_000_000)
    }
}
