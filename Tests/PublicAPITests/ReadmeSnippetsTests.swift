import Foundation
import Testing
import Tiller
import TillerTesting

/// The README's Swift, compiled: every block of it stands below, to the letter but for white space, or, where it needs a
/// framework of Apple's, in `AppleTests`.
@Suite struct ReadmeSnippetsTests {
    @Test func everySnippetOfTheReadmeIsCompiledHere() throws {
        let here = URL(fileURLWithPath: #filePath)
        let root = here.deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        let apple = root.appendingPathComponent("Tests/AppleTests/ReadmeSnippets.swift")
        let source = try [here, apple].map { try String(contentsOf: $0, encoding: .utf8) }.joined()
            .filter { !$0.isWhitespace }
        let readme = try String(contentsOf: root.appendingPathComponent("README.md"), encoding: .utf8)
        let snippets = readme.components(separatedBy: "```swift\n").dropFirst().map { rest in
            rest.components(separatedBy: "\n```")[0].split(separator: "\n")
                .filter { !$0.hasPrefix("import ") && $0 != "@main" }
        }
        #expect(snippets.count >= 8)
        for snippet in snippets {
            let isThere = source.contains(snippet.joined().filter { !$0.isWhitespace })
            #expect(isThere, "not compiled: \(snippet.first ?? "")")
        }
    }
}

@Suite private struct ReadmeSnippets {
    func firstEvent() async {
        let analytics = Analytics(
            configuration: Configuration(
                writeKey: "<WRITE_KEY>",
                dataPlaneUrl: "<DATA_PLANE_URL>"))

        analytics.track(name: "Order Completed", properties: ["total": 12.5, "items": ["a", "b"]])
        analytics.identify(userId: "alice", traits: ["plan": "pro"])

        let place = await analytics.stored()  // .stored: all recorded before is on disk; .inMemory: no disk has it yet
        let result = await analytics.flushed()  // .delivered, .nothingWaiting, or why not
        let left = await analytics.shutdownAndWait()  // how many the data plane has not got; at most five seconds
        let status = analytics.status  // what became of the events, and what the delivery does now
        _ = (place, result, left, status)
    }

    func sessions() {
        let configuration = Configuration(
            writeKey: "<WRITE_KEY>", dataPlaneUrl: "<DATA_PLANE_URL>",
            sessionConfiguration: SessionConfiguration(sessionTimeoutInMillis: 600_000, backgroundEvents: .include),
            lifecycleSource: ManualLifecycleSource(isInForeground: true))
        _ = configuration
    }

    func lifecycle() {
        let lifecycle = ManualLifecycleSource(isInForeground: true)
        let analytics = Analytics(
            configuration: Configuration(
                writeKey: "<WRITE_KEY>", dataPlaneUrl: "<DATA_PLANE_URL>", lifecycleSource: lifecycle))

        lifecycle.background()  // the window was closed or put away
        lifecycle.foreground()  // it is back
        lifecycle.terminate()  // the process is about to end
        _ = analytics
    }

    final class ConsentFilter: Plugin {
        let stage = Stage.before
        func process(_ event: Event) -> Event? {
            event.kind == .track && event.name == "Ad Viewed" ? nil : event
        }
    }

    final class Campaign: Plugin {
        let stage = Stage.enrichment
        func process(_ event: Event) -> Event? {
            var event = event
            event.context["campaign"] = ["name": "spring", "wave": 2]
            event.properties["checkout"] = true
            return event
        }
    }

    final class Console: Plugin {
        let stage = Stage.destination
        func process(_ event: Event) -> Event? {
            print(event.kind, event.name ?? "", event.context["sessionId"] ?? .null)
            return event
        }
    }

    func leavingOut(configuration: Configuration) {
        let analytics = Analytics(
            configuration: configuration,
            builtIn: Analytics.builtInPlugins(for: configuration).filter { !($0 is ContextPlugin) })
        _ = analytics
    }

    func plugins(configuration: Configuration) {
        let analytics = Analytics(configuration: configuration, plugins: [ConsentFilter(), Campaign()])
        let console = Console()
        analytics.add(plugin: console)  // from here on
        analytics.remove(plugin: console)  // torn down once
    }

    func services(analytics: Analytics) {
        let alice = analytics.scoped(userId: "alice")
        alice.track(name: "Invoice Paid", properties: ["amount": 100])
        analytics.track(name: "Invoice Paid", options: EventOptions(userId: "bob"))
    }

    @Test(.timeLimit(.minutes(5))) func localDataPlane() async throws {
        let plane = try LocalDataPlane()  // 127.0.0.1, a free port
        let analytics = Analytics(
            configuration: Configuration(
                writeKey: "test", dataPlaneUrl: plane.url, storage: .memory))
        plane.answerNext(.status(503))  // then as the gateway does
        analytics.track(name: "Paid")
        let events = try await plane.events(count: 1)  // waits for so many; put a time limit on the test
        #expect(events[0].name == "Paid")
    }

    @Test func testing() async {
        let time = VirtualTime()
        let lifecycle = ManualLifecycleSource(isInForeground: true)
        let recorder = RecordingDestination()
        let analytics = Analytics(
            configuration: Configuration(
                writeKey: "test", dataPlaneUrl: "http://127.0.0.1", storage: .memory,
                lifecycleSource: lifecycle, time: time, transport: StubTransport()),
            plugins: [recorder])

        analytics.track(name: "Order Completed")
        lifecycle.background()
        time.advance(by: .seconds(600))
        lifecycle.foreground()
        await analytics.settled()

        #expect(recorder.events.map(\.name).contains("Order Completed"))
    }
}
