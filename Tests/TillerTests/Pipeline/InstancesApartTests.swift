import Foundation
import Testing
import TillerTesting

@testable import Tiller

/// Several instances in one process: each has its own settings, and all hear of what concerns all.
@Suite(.timeLimit(.minutes(5))) struct InstancesApartTests {
    @Test func b164_eachInstanceFollowsItsOwnSettings() async throws {
        let folders = [TestFolder(), TestFolder()]
        let time = VirtualTime()
        let transports = [StubTransport(), StubTransport()]
        let instances = (0..<2).map { index in
            var configuration = Configuration.test(
                time: time, storage: .folder(folders[index].url), transport: transports[index],
                flushPolicies: index == 0
                    ? [CountFlushPolicy(flushAt: 2)] : [FrequencyFlushPolicy(flushIntervalInMillis: 30_000)],
                session: SessionConfiguration(
                    automaticSessionTracking: index == 0, sessionTimeoutInMillis: UInt64(index) * 1_000))
            configuration.writeKey = "key\(index)"
            configuration.dataPlaneUrl = "http://host\(index).example"
            configuration.identifiers = .seeded(UInt64(index) + 1)
            return Analytics(configuration: configuration)
        }
        for analytics in instances { analytics.identify(userId: analytics.configuration.writeKey) }
        for analytics in instances { analytics.track(name: "A") }
        for analytics in instances { await analytics.stored() }
        await transports[0].requests(count: 1)
        #expect(transports[1].requests.isEmpty)
        time.advance(by: .seconds(30))
        await transports[1].requests(count: 1)
        #expect(instances.map { $0.sessionId != nil } == [true, false])
        #expect(instances.map(\.userId) == ["key0", "key1"])
        #expect(instances[0].anonymousId != instances[1].anonymousId)
        for index in 0..<2 {
            #expect(transports[index].requests.allSatisfy { $0.url.hasPrefix("http://host\(index).example/") })
            #expect(transports[index].events.compactMap { $0["userId"]?.string } == ["key\(index)", "key\(index)"])
            await instances[index].shutdownAndWait()
            #expect(Resources.bytes(in: folders[index].path) > 0)
        }
    }

    @Test func b165_eachInstanceLogsToItsOwnLoggerFromItsOwnLevelOn() async {
        let logger = RecordingLogger()
        for (level, other) in [(LogLevel.none, LogLevel.verbose), (.verbose, .none), (.error, .warn), (.info, .debug)] {
            let loggers = [RecordingLogger(), RecordingLogger()]
            let instances = [level, other].enumerated().map { index, level in
                instance(loggers[index], level, name: "instance\(index)")
            }
            for analytics in instances { await exercise(analytics) }
            for (logger, level) in zip(loggers, [level, other]) {
                #expect(logger.messages.allSatisfy { $0.level <= level })
                #expect(logger.messages.isEmpty == (level == .none))
            }
            #expect(!loggers[0].messages.contains { $0.text.contains("instance1") })
            #expect(!loggers[1].messages.contains { $0.text.contains("instance0") })
        }
        #expect(logger.messages.isEmpty)
    }

    /// Neither key nor body nor traits, nor the URL with its query.
    @Test func b165_secretsAreNotLoggedAboveDebug() async {
        let logger = RecordingLogger()
        await exercise(instance(logger, .verbose, name: "instance"))
        let above = logger.messages.filter { $0.level < .debug }
        #expect(!above.isEmpty)
        for secret in ["SECRET-KEY", "alice", "SECRET-TRAIT", "SECRET-PROPERTY", "token=SECRET", "events.example"] {
            #expect(!above.contains { $0.text.contains(secret) }, "\(secret)")
        }
    }

    @Test func b130_allThatListenHearOfAChange() async {
        let source = WatchedContextSource { reading in SystemContext(locale: "\(reading)") }
        let instances = (0..<2).map { _ in
            let configuration = Configuration.test()
            return Analytics(configuration: configuration, builtIn: [ContextPlugin(source: source)])
        }
        for analytics in instances {
            analytics.track(name: "A")
            await analytics.settled()
        }
        let before = source.readings
        #expect(source.observers == 2)
        source.tellChange()
        for analytics in instances {
            analytics.track(name: "B")
            await analytics.settled()
        }
        #expect(source.readings == before + 2)
        instances[0].shutdown()
        await instances[0].closed()
        #expect(source.observers == 1)
    }

    /// A service or tool: no notice ever comes, and everything works.
    @Test func b170_withoutLifecycleNoticesSessionsTimersAndTheEndWork() async throws {
        let folder = TestFolder()
        let time = VirtualTime()
        let transport = StubTransport()
        func start() -> Analytics {
            var configuration = Configuration.test(
                time: time, storage: .folder(folder.url), transport: transport,
                flushPolicies: [FrequencyFlushPolicy(flushIntervalInMillis: 30_000)],
                session: SessionConfiguration(automaticSessionTracking: true, sessionTimeoutInMillis: 300_000))
            configuration.lifecycleSource = ProcessLifecycleSource()
            return Analytics(configuration: configuration)
        }
        var analytics = start()
        for (index, minutes) in [4, 16, 1].enumerated() {
            analytics.track(name: "A")
            await analytics.stored()
            time.advance(by: .seconds(minutes * 60))
            await transport.requests(count: index + 1)
        }
        await analytics.shutdownAndWait()
        analytics = start()  // 10:21, one minute after the last event
        analytics.track(name: "B")
        await analytics.shutdownAndWait()
        time.advance(by: .seconds(19 * 60))
        analytics = start()  // 10:40
        analytics.track(name: "C")
        await analytics.shutdownAndWait()
        let sessions = transport.events.compactMap { $0["context"]?["sessionId"]?.int }
        #expect(transport.events.names == ["A", "A", "A", "B", "C"])
        try #require(sessions.count == 5)
        #expect(Set(sessions.prefix(4)).count == 1)
        #expect(sessions[4] != sessions[3])
    }

    // MARK: Steps

    private func instance(_ logger: RecordingLogger, _ level: LogLevel, name: String) -> Analytics {
        var configuration = Configuration.test(transport: StubTransport(.status(401)), logger: logger)
        configuration.writeKey = "SECRET-KEY"
        configuration.dataPlaneUrl = "https://events.example/\(name)?token=SECRET"
        configuration.logLevel = level
        return Analytics(configuration: configuration, plugins: [NamedDrop(name: name)])
    }

    /// What has something to say at each level.
    private func exercise(_ analytics: Analytics) async {
        analytics.identify(userId: "alice", traits: ["plan": "SECRET-TRAIT"])
        analytics.track(name: "A", properties: ["p": "SECRET-PROPERTY", "n": .double(.nan)])
        for level in LogLevel.allCases { analytics.log(level, "said") }
        await analytics.flushed()
        await analytics.shutdownAndWait()
        analytics.track(name: "late")
    }
}

private final class NamedDrop: Plugin {
    let stage = Stage.before
    private let name: String

    init(name: String) { self.name = name }

    func process(_ event: Event, in analytics: Analytics) -> Event? {
        for level in LogLevel.allCases where level != .none { analytics.log(level, name) }
        return event
    }
}
