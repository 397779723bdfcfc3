import Testing
import TillerTesting

@testable import Tiller

/// The SDK and its own transport against faults on a real connection: nothing is lost, and a copy has its reason.
@Suite(.timeLimit(.minutes(5)))
struct FaultsAndSDKTests {
    private let plane: LocalDataPlane
    private let time = VirtualTime()

    init() throws { plane = try LocalDataPlane() }

    private func instance() -> Analytics {
        var configuration = Configuration.test(time: time)
        configuration.dataPlaneUrl = plane.url
        configuration.transport = URLSessionTransport()
        return Analytics(configuration: configuration)
    }

    private static let passing: [FaultScript.Fault] = [
        .refused, .cut(.beforeReading), .cut(.inBody, isReset: true), .cut(.beforeStoring),
        .cut(.beforeStoring, isReset: true), .status(500, "pq: deadlock\n"), .status(503), .garbage(),
    ]

    private static let hidden: [FaultScript.Fault] = [
        .cut(.afterStoring), .cut(.afterStoring, isReset: true), .truncated, .length(100),
        .status(.init(504, "gateway timeout\n", isStored: true)),
    ]

    /// Anything that must stop the uploads for longer: the next instance tries again.
    private static let stopping: [FaultScript.Fault] = [
        .page(), .status(401, "invalid write key\n"), .status(404, "404 page not found\n"), .status(403),
        .redirect(301, location: "/v1/batch"), .redirect(302, location: "/health"),
        .redirect(307, location: "/v1/batch"), .redirect(308, location: "/v1/batch"),
    ]

    private static let harmless: [FaultScript.Fault] = [
        .trickled(), .chunked, .closing, .length(1), .status(.init(200, isStored: true)),
    ]

    @Test(arguments: passing) func whatWasNotStoredIsSentAgain(_ fault: FaultScript.Fault) async throws {
        let analytics = instance()
        plane.rules.faults = FaultScript([.init(.at(1), fault)])
        analytics.track(name: "A")
        #expect(await analytics.flushed() != .delivered)
        #expect(plane.events.isEmpty)
        time.advance(by: .seconds(1))
        #expect(try await plane.events(count: 1).map(\.name) == ["A"])
        #expect(await analytics.shutdownAndWait() == 0)
        #expect(plane.events.count == 1)
        #expect(plane.appliedFaults.map(\.fault) == [fault])
    }

    @Test(arguments: hidden) func whatWasStoredUnheardComesAgainAsTheSame(_ fault: FaultScript.Fault) async throws {
        let analytics = instance()
        plane.rules.faults = FaultScript([.init(.at(1), fault)])
        analytics.track(name: "A")
        #expect(await analytics.flushed() != .delivered)
        time.advance(by: .seconds(1))
        let events = try await plane.events(count: 2)
        #expect(events.map(\.name) == ["A", "A"])
        #expect(Set(events.map(\.messageId)).count == 1)
        #expect(events.map { $0.fault?.hidesStoring } == [true, nil])
        #expect(await analytics.shutdownAndWait() == 0)
        #expect(plane.events.count == 2)
    }

    @Test(arguments: harmless) func aTrueAnswerInAnOddFormIsOne(_ fault: FaultScript.Fault) async throws {
        let analytics = instance()
        plane.rules.faults = FaultScript([.init(.always, fault)])
        for number in 0..<3 {
            analytics.track(name: "\(number)")
            #expect(await analytics.flushed() == .delivered)
        }
        #expect(await analytics.shutdownAndWait() == 0)
        #expect(plane.events.map(\.name) == ["0", "1", "2"])
    }

    @Test(arguments: stopping) func whatIsNoDataPlanesAnswerErasesNothing(_ fault: FaultScript.Fault) async throws {
        plane.rules.faults = FaultScript([.init(.at(1), fault)])
        let analytics = instance()
        analytics.track(name: "A")
        #expect(await analytics.flushed() != .delivered)
        #expect(plane.requests.map(\.path) == ["/v1/batch"])  // a redirect is not followed
        #expect(plane.events.isEmpty)
        // A flush tries again after a minute.
        time.advance(by: .seconds(61))
        #expect(await analytics.flushed() == .delivered)
        #expect(await analytics.shutdownAndWait() == 0)
        #expect(plane.events.map(\.name) == ["A"])
    }
}
