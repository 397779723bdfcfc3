import Foundation
import Testing
import TillerTesting

@testable import Tiller

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// Many uploads over real connections that fail in many ways. Each test has a process of its own, whose descriptors are
/// nobody else's.
@Suite(.timeLimit(.minutes(5))) struct UploadsUnderFaultsTests {
    #if DEBUG
    private static let uploads = isUnderThreadSanitizer ? 150 : 400
    private static let failures = isUnderThreadSanitizer ? 150 : 300
    #else
    private static let uploads = 2_000
    private static let failures = 5_000
    #endif

    /// Connections that are kept open come and go; what leaks grows with the uploads.
    private static let tolerance = 6

    // MARK: B168

    @Test func b168_manyUploadsOverBadConnectionsLoseAndLeakNothing() async {
        await #expect(processExitsWith: .success) {
            let plane = try LocalDataPlane()
            plane.rules.faults = Self.badConnections
            let time = VirtualTime()
            let instances = (0..<3).map { number in
                var configuration = Configuration.test(time: time)
                configuration.instanceName = "\(number)"
                configuration.identifiers = .seeded(UInt64(number))
                configuration.dataPlaneUrl = plane.url
                configuration.transport = URLSessionTransport()
                return Analytics(configuration: configuration)
            }
            var before = 0
            for number in 0..<Self.uploads {
                instances[number % 3].track(name: "\(number)")
                await Self.deliver(instances[number % 3], time)
                if number == 99 { before = Self.descriptorCount }
            }
            let leaked = Self.descriptorCount - before
            Self.end([
                leaked > Self.tolerance ? "\(leaked) descriptors were leaked" : nil,
                Set(plane.events.map(\.name)).count == Self.uploads ? nil : "not all events have arrived",
                Self.unexplainedCopies(plane.events).isEmpty ? nil : "copies without a lost answer",
                plane.appliedFaults.count > Self.uploads / 4 ? nil : "few faults were met",
            ])
        }
    }

    private static let badConnections = FaultScript(
        [
            .init(.chance(0.03), .cut(.beforeReading, isReset: true)),
            .init(.chance(0.03), .cut(.inBody, isReset: true)),
            .init(.chance(0.03), .cut(.beforeStoring, isReset: true)), .init(.chance(0.03), .cut(.beforeStoring)),
            .init(.chance(0.03), .cut(.afterStoring, isReset: true)), .init(.chance(0.03), .cut(.afterStoring)),
            .init(.chance(0.02).lasting(3), .refused), .init(.chance(0.1), .trickled()),
            .init(.chance(0.1), .status(.init(200, isStored: true))), .init(.chance(0.1), .chunked),
            .init(.chance(0.2), .closing),
        ], seed: 168)

    /// A connection that was kept open and ends without an answer is no reason to wait for the whole time-out, with a busy
    /// core.
    @Test(arguments: [FaultScript.Point.beforeReading, .inBody, .beforeStoring, .afterStoring], [true, false])
    func b168_aKeptConnectionThatEndsIsNoTimeout(_ point: FaultScript.Point, isReset: Bool) async throws {
        let plane = try LocalDataPlane()
        for number in 1...6 {
            // The system's client may still send the head of a request that has failed: not by number, then.
            let isCut = number.isMultiple(of: 2)
            plane.rules.faults = isCut ? FaultScript([.init(.always, .cut(point, isReset: isReset))]) : nil
            let request = TransportRequest(
                url: plane.url + "/v1/batch", headers: ["Authorization": "Basic d2s6"],
                body: Array(#"{"batch":[{"userId":"\#(number)"}]}"#.utf8), timeout: .seconds(30))
            if isCut {
                let error = await #expect(throws: URLSessionTransport.NoAnswer.self) {
                    try await URLSessionTransport().post(request)
                }
                #expect(error?.isTimeout == false)
            } else {
                #expect(try await URLSessionTransport().post(request).status == 200)
            }
        }
        // Nothing is sent twice by the system's client.
        #expect(plane.events.count == (point == .afterStoring ? 6 : 3))
    }

    @Test func b168_theTimeoutOfARequestIsHonoured() async throws {
        let plane = try LocalDataPlane()
        plane.answerNext(.ok.held())
        let request = TransportRequest(
            url: plane.url + "/v1/batch", headers: ["Authorization": "Basic d2s6"],
            body: Array(#"{"batch":[{"userId":"u"}]}"#.utf8), timeout: .seconds(1))
        let error = await #expect(throws: URLSessionTransport.NoAnswer.self) {
            try await URLSessionTransport().post(request)
        }
        #expect(error?.isTimeout == true)
    }

    // MARK: B63

    @Test func b63_uploadsThatFailInEveryWayLeakNoDescriptor() async {
        await #expect(processExitsWith: .success) {
            let plane = try LocalDataPlane()
            plane.rules.faults = Self.nothingPasses
            let time = VirtualTime()
            let transport = WanderingTransport(base: plane.url)
            let folder = TestFolder()
            var configuration = Configuration.test(time: time)
            configuration.dataPlaneUrl = plane.url
            configuration.transport = transport
            configuration.storage = .folder(folder.url)
            let analytics = Analytics(configuration: configuration)
            analytics.track(name: "A")
            var before = 0
            while transport.count < Self.failures {
                if await analytics.flushed() == .delivered { break }
                time.advance(by: .seconds(3_700))
                if transport.count < 100 { before = Self.descriptorCount }
            }
            let leaked = Self.descriptorCount - before
            let arrived = plane.events.count
            plane.rules.faults = nil
            transport.goStraight()
            await Self.deliver(analytics, time)
            let waiting = await analytics.shutdownAndWait()
            try? FileManager.default.removeItem(at: folder.url)
            Self.end([
                leaked > Self.tolerance ? "\(leaked) descriptors were leaked" : nil,
                arrived == 0 ? nil : "something was accepted",
                plane.events.map(\.name) == ["A"] ? nil : "the event has not arrived once",
                waiting == 0 ? nil : "something waits still",
            ])
        }
    }

    /// Each kind in its turn.
    private static let nothingPasses: FaultScript = {
        let faults: [FaultScript.Fault] = [
            .refused, .cut(.beforeReading), .cut(.inBody, isReset: true), .cut(.inBody), .cut(.beforeStoring),
            .cut(.beforeStoring, isReset: true), .status(500, "no\n"), .status(503), .status(429), .status(401),
            .page(),
            .garbage(), .redirect(302, location: "/"), .redirect(308, location: "/v1/batch"), .status(404),
        ]
        let rules = faults.enumerated().map { number, fault in
            FaultScript.Rule(.every(faults.count).from(number + 1), fault)
        }
        return FaultScript(rules + [.init(.always, .status(502))])
    }()

    // MARK: Steps

    private static func deliver(_ analytics: Analytics, _ time: VirtualTime) async {
        for _ in 0..<1_000 {
            switch await analytics.flushed() {
            case .delivered, .nothingWaiting: return
            // Longer than any wait, and than the hour after which a stopped delivery tries again.
            case .waiting, .stopped: time.advance(by: .seconds(3_700))
            }
        }
    }

    private static var descriptorCount: Int {
        (try? FileManager.default.contentsOfDirectory(atPath: "/dev/fd").count) ?? 0
    }

    /// Events that came again though the answer before had not been lost.
    private static func unexplainedCopies(_ events: [LocalDataPlane.ReceivedEvent]) -> [String] {
        var isHeard: [String: Bool] = [:]
        return events.compactMap { event in
            let id = event.messageId ?? ""
            defer { isHeard[id] = event.fault?.hidesStoring != true }
            return isHeard[id] == true ? event.name : nil
        }
    }

    /// Ends the process, and says why if something is wrong.
    private static func end(_ problems: [String?]) -> Never {
        let problems = problems.compactMap { $0 }
        for problem in problems { try? FileHandle.standardError.write(contentsOf: Data((problem + "\n").utf8)) }
        exit(problems.isEmpty ? EXIT_SUCCESS : EXIT_FAILURE)
    }
}

/// The system's, which goes to wrong places: a port that is nobody's, and TLS where there is none.
private final class WanderingTransport: Transport {
    private let base: String
    private let state = Locked((count: 0, isStraight: false))
    private let system = URLSessionTransport()

    init(base: String) { self.base = base }

    var count: Int { state.withLock { $0.count } }

    func goStraight() { state.withLock { $0.isStraight = true } }

    func post(_ request: TransportRequest) async throws -> TransportResponse {
        let place = state.withLock { state in
            state.count += 1
            return state.isStraight ? 0 : state.count % 5
        }
        var url = request.url
        switch place {
        case 1: url = "http://127.0.0.1:1" + url.dropFirst(base.count)
        case 2: url = "https" + url.dropFirst(4)
        default: break
        }
        return try await system.post(
            TransportRequest(url: url, headers: request.headers, body: request.body, timeout: request.timeout))
    }
}
