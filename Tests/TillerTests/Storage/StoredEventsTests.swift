import Foundation
import Testing
import TillerTesting

@testable import Tiller

/// Stored events through the public calls, over the lives of an app: kills, shutdowns without a network, reboots.
@Suite(.timeLimit(.minutes(5))) struct StoredEventsTests {
    /// The lives of one app on one machine.
    private final class Machine: Sendable {
        let folder: TestFolder
        let time: VirtualTime
        let logger = RecordingLogger()
        let lifecycle: ManualLifecycleSource

        init(_ folder: TestFolder = TestFolder(), time: VirtualTime = VirtualTime(), isInForeground: Bool = true) {
            self.folder = folder
            self.time = time
            lifecycle = ManualLifecycleSource(isInForeground: isInForeground)
        }

        func configuration(
            _ life: UInt64, _ transport: StubTransport, policies: [any FlushPolicy] = [], limits: Limits = Limits()
        ) -> Configuration {
            var configuration = Configuration.test(
                lifecycle: lifecycle, time: time, storage: .folder(folder.url), transport: transport, logger: logger,
                flushPolicies: policies, limits: limits)
            configuration.identifiers = .seeded(life)
            return configuration
        }

        func start(
            _ life: UInt64, _ transport: StubTransport, policies: [any FlushPolicy] = [], limits: Limits = Limits()
        ) -> Analytics {
            Analytics(configuration: configuration(life, transport, policies: policies, limits: limits))
        }

        /// What a kill at this moment leaves.
        func afterKill(isInForeground: Bool = true) throws -> Machine {
            let copy = TestFolder()
            try copyFolder(folder.path, to: copy.path)
            return Machine(copy, time: time, isInForeground: isInForeground)
        }

        /// The one folder that an instance has made.
        func log() throws -> LogFolder {
            let name = try #require(try FileManager.default.contentsOfDirectory(atPath: folder.path).first)
            return LogFolder(path: folder.path + "/" + name)
        }
    }

    private let machine = Machine()
    private let dead = StubTransport(.failure(StubTransport.NoAnswer()))

    private static func names(_ events: [JSONObject]) -> [String] { events.compactMap { $0["event"]?.string } }
    private static func ids(_ events: [JSONObject]) -> [String] { events.compactMap { $0["messageId"]?.string } }

    // MARK: Kills

    @Test func whatWasStoredIsDeliveredByTheNextInstanceOnceInOrderWithTheSameIds() async throws {
        let transport = StubTransport()
        let first = machine.start(1, transport)
        for number in 1...20 { first.track(name: "e\(number)", properties: ["n": .int(Int64(number))]) }
        #expect(await first.stored() == .stored)
        let killed = try machine.afterKill()
        let nextTransport = StubTransport()
        let second = killed.start(2, nextTransport)
        second.track(name: "e21")
        #expect(await second.flushed() == .delivered)
        #expect(Self.names(nextTransport.events) == .events(1...21))
        // What the first would have sent is the same to the last key.
        await first.flushed()
        #expect(Array(nextTransport.events.prefix(20)) == transport.events)
        #expect(Set(Self.ids(nextTransport.events)).count == 21)
        #expect(await second.flushed() == .nothingWaiting)
        await second.shutdownAndWait()
        let thirdTransport = StubTransport()
        let third = killed.start(3, thirdTransport)
        #expect(await third.flushed() == .nothingWaiting)
        #expect(thirdTransport.requests.isEmpty)
        #expect(machine.logger.texts(.error).isEmpty && killed.logger.texts(.error).isEmpty)
    }

    /// At each of many moments a kill: with the state in the event's record, one start mark is delivered, whatever happens.
    @Test func theSessionsStartMarkIsDeliveredOnceOverAllKills() async throws {
        let first = machine.start(1, dead)
        for number in 1...6 {
            first.track(name: "e\(number)")
            await first.stored()
            let killed = try machine.afterKill()
            let transport = StubTransport()
            let second = killed.start(2, transport)
            second.track(name: "later")
            await second.flushed()
            let marks = transport.events.filter { $0["context"]?["sessionStart"] == true }
            #expect(Self.names(marks) == ["e1"], "\(number)")
            #expect(Self.names(transport.events) == .events(1...number) + ["later"])
            await second.shutdownAndWait()
        }
    }

    /// The log is cut at every place between two records and in the middle of each: event and state are there or neither.
    @Test func aKillInTheMiddleOfAWriteLeavesEventAndStateInAgreement() async throws {
        let first = machine.start(1, dead)
        first.identify(userId: "alice")
        first.track(name: "e1")
        await first.stored()
        let file = try #require(try machine.log().names(".log").first)
        let bytes = try machine.log().contents(file)
        for length in stride(from: 0, to: bytes.count, by: 97) {
            let killed = try machine.afterKill()
            try killed.log().put(Array(bytes[..<length]), file)
            let transport = StubTransport()
            let second = killed.start(2, transport)
            let user = second.userId
            second.track(name: "later")
            await second.flushed()
            let isIdentified = transport.events.contains { $0["type"] == "identify" }
            #expect((user == "alice") == isIdentified, "cut at \(length)")
            let marks = transport.events.filter { $0["context"]?["sessionStart"] == true }
            #expect(marks.count == 1, "cut at \(length)")
            await second.shutdownAndWait()
        }
    }

    @Test func identifyIsStoredInTheSameRecordAsItsUser() async throws {
        let analytics = machine.start(1, dead)
        analytics.track(name: "before")
        analytics.identify(userId: "alice", traits: ["plan": "pro"])
        await analytics.stored()
        let log = try machine.log()
        var found = 0
        for name in try log.names(".log") {
            let bytes = try log.contents(name)
            bytes.withUnsafeBytes { buffer in
                var scanner = LogScanner()
                while let record = scanner.next(in: buffer) {
                    let event = try? JSONValue(parsing: Array(buffer[record.event]))
                    let state = try? JSONValue(parsing: Array(buffer[record.state]))
                    let isIdentify = event?["type"]?.string == "identify"
                    #expect((state?["IdentityPlugin"]?["userId"] == "alice") == isIdentify)
                    if isIdentify { found += 1 }
                }
            }
        }
        #expect(found == 1)
    }

    @Test func b36_killBetweenTheAnswerAndTheAcknowledgementMeansOneResendWithTheSameIds() async throws {
        let transport = StubTransport(.hold)
        let first = machine.start(1, transport)
        for number in 1...5 { first.track(name: "e\(number)") }
        await first.stored()
        first.flush()
        await transport.requests(count: 1)
        let killed = try machine.afterKill()
        transport.release()
        let nextTransport = StubTransport()
        let second = killed.start(2, nextTransport)
        #expect(await second.flushed() == .delivered)
        #expect(nextTransport.requests.count == 1)
        #expect(Self.ids(nextTransport.events) == Self.ids(transport.events))
        #expect(Self.names(nextTransport.events) == .events(1...5))
    }

    @Test func b39_eventOnTheLineAfterInitIsStoredBehindWhatIsThere() async throws {
        let first = machine.start(1, dead)
        first.track(name: "e1")
        await first.stored()
        let killed = try machine.afterKill()
        let transport = StubTransport()
        let second = killed.start(2, transport)
        second.track(name: "e2")
        second.flush()
        second.track(name: "e3")
        await second.flushed()
        #expect(Self.names(transport.events) == .events(1...3))
    }

    @Test func b32_aLostFileOfTheStoreCostsItsEventsOnly() async throws {
        let limits = Limits(storageBytes: 40_000)  // segments of 5 000 bytes
        let first = machine.start(1, dead, limits: limits)
        for number in 1...40 { first.track(name: "e\(number)") }
        await first.stored()
        let killed = try machine.afterKill()
        let log = try killed.log()
        let files = try log.names(".log")
        #expect(files.count > 3)
        try log.put([UInt8](repeating: 7, count: 3_000), files[1])
        let transport = StubTransport()
        let second = killed.start(2, transport, limits: limits)
        let bounds = files[1...2].compactMap { Int($0.split(separator: "-")[2].split(separator: ".")[0]) }
        // Not everything was delivered.
        guard case .stopped(let reason) = await second.flushed() else {
            Issue.record("the loss is said")
            return
        }
        #expect(reason.hasPrefix("\(bounds[1] - bounds[0]) stored events"))
        #expect(Self.names(transport.events) == .events(1...bounds[0]) + .events(bounds[1] + 1...40))
        await second.stored()  // the executor may be about to say it
        #expect(killed.logger.texts(.error).filter { $0.contains("were damaged") }.count == 1)
        second.track(name: "e41")
        await second.flushed()
        #expect(Self.names(transport.requests.last?.events ?? []) == ["e41"])
    }

    /// Whatever comes first, the pipeline's beginning or the end.
    @Test func theInstallationsIdIsStoredByAnInstanceThatEndsAtOnce() async throws {
        for _ in 0..<20 {
            let machine = Machine()
            await machine.start(1, dead).shutdownAndWait()
            #expect(machine.logger.texts(.error).isEmpty)
            let log = try machine.log().open()
            #expect(log.load("tiller.installation").object?["id"] != nil)
        }
    }

    // MARK: Without a data plane

    @Test func tenThousandEventsOutliveAShutdownWithoutADataPlane() async throws {
        let count = isUnderThreadSanitizer ? 500 : 10_000
        let first = machine.start(1, dead)
        for number in 1...count {
            first.track(name: "e\(number)")
            if number % 1_000 == 0 { await first.stored() }
        }
        #expect(await first.shutdownAndWait() == count)
        #expect(first.account.dropped.isEmpty)
        #expect(first.account.stored == count)
        let transport = StubTransport()
        let second = machine.start(2, transport)
        #expect(await second.flushed() == .delivered)
        // Read without a parser, for there are many.
        let names = transport.requests.flatMap { request in
            String(decoding: request.body, as: UTF8.self).components(separatedBy: "\"event\":\"").dropFirst()
                .map { String($0.prefix { $0 != "\"" }) }
        }
        #expect(names == .events(1...count))
        #expect(await second.shutdownAndWait() == 0)
        #expect(await machine.start(3, StubTransport()).shutdownAndWait() == 0)
    }

    @Test func shutdownAndWaitReturnsWhatWaits() async throws {
        let first = machine.start(1, dead)
        for number in 1...3 { first.track(name: "e\(number)") }
        #expect(await first.shutdownAndWait() == 3)
        // What came from earlier counts too.
        let second = machine.start(2, dead)
        second.track(name: "e4")
        #expect(await second.shutdownAndWait() == 4)
        let transport = StubTransport()
        let third = machine.start(3, transport)
        third.track(name: "e5")
        #expect(await third.shutdownAndWait() == 0)
        #expect(Self.names(transport.events) == .events(1...5))
    }

    @Test func flushedCountsWhatWasLeftFromEarlier() async throws {
        let first = machine.start(1, dead)
        first.track(name: "e1")
        await first.shutdownAndWait()
        let transport = StubTransport()
        let second = machine.start(2, transport)
        #expect(await second.flushed() == .delivered)
        #expect(Self.names(transport.events) == ["e1"])
        #expect(await second.flushed() == .nothingWaiting)
        transport.answerAlways(.status(500))
        second.track(name: "e2")
        guard case .waiting = await second.flushed() else {
            Issue.record("a failed attempt")
            return
        }
    }

    // MARK: When what is left from earlier is sent

    @Test func startupPolicySendsWhatIsLeftAtTheFirstForegroundAndNotBefore() async throws {
        let first = machine.start(1, dead)
        first.track(name: "e1")
        await first.stored()
        let killed = try machine.afterKill(isInForeground: false)
        let transport = StubTransport()
        let second = killed.start(2, transport, policies: [StartupFlushPolicy()])
        await second.stored()
        #expect(transport.requests.isEmpty)
        killed.lifecycle.foreground()
        await transport.requests(count: 1)
        #expect(Self.names(transport.events) == ["e1"])
    }

    @Test func startupPolicySendsWhatIsLeftAtALaunchIntoTheForeground() async throws {
        let first = machine.start(1, dead)
        first.track(name: "e1")
        await first.stored()
        let killed = try machine.afterKill()
        let transport = StubTransport()
        let second = killed.start(2, transport, policies: [StartupFlushPolicy()])
        await transport.requests(count: 1)
        #expect(Self.names(transport.events) == ["e1"])
        _ = second
    }

    // MARK: sentAt

    @Test(arguments: [false, true]) func sentAtOfEarlierEventsIsTheirTimePlusTheirAge(_ reboots: Bool) async throws {
        let first = machine.start(1, dead)
        first.track(name: "e1")
        await first.stored()
        let killed = try machine.afterKill()
        let called = machine.time.wallMilliseconds
        machine.time.advance(by: .seconds(100))
        if reboots { machine.time.reboot() }
        // The clock was wrong, and is set: within one boot that moves nothing; over a reboot there is no other clock.
        machine.time.setWallClock(by: .seconds(3_600))
        machine.time.advance(by: .seconds(5))
        let transport = StubTransport()
        let second = killed.start(2, transport)
        await second.flushed()
        let event = try #require(transport.events.first)
        let age: Int64 = reboots ? 3_705_000 : 105_000
        #expect(event["originalTimestamp"]?.string == Self.text(called))
        #expect(event["sentAt"]?.string == Self.text(called + age))
    }

    @Test func sentAtIsNeverBeforeTheCall() async throws {
        let first = machine.start(1, dead)
        first.track(name: "e1")
        await first.stored()
        let killed = try machine.afterKill()
        let called = machine.time.wallMilliseconds
        machine.time.reboot()
        machine.time.setWallClock(by: .seconds(-3_600))
        let transport = StubTransport()
        await killed.start(2, transport).flushed()
        #expect(transport.events.first?["sentAt"]?.string == Self.text(called))
    }

    private static func text(_ milliseconds: Int64) -> String {
        var writer = JSONWriter()
        writer.writeTimestamp(milliseconds)
        return String(String(decoding: writer.bytes, as: UTF8.self).dropFirst().dropLast())
    }

    // MARK: Two destinations

    @Test func twoDataPlanesOneAfterTheOtherShareTheStoreWithoutASecondCopy() async throws {
        let transport = StubTransport()
        let analytics = machine.start(1, transport)
        let former = try #require(analytics.plugin(ofType: RudderStackDestination.self))
        analytics.track(name: "e1")
        await analytics.flushed()
        transport.answerAlways(.status(500))
        analytics.track(name: "e2")
        await analytics.stored()
        analytics.remove(plugin: former)
        analytics.track(name: "nobody's")
        await analytics.stored()
        let otherTransport = StubTransport()
        let other = RudderStackDestination(configuration: machine.configuration(2, otherTransport))
        analytics.add(plugin: other)
        analytics.track(name: "e3")
        #expect(await analytics.flushed() == .delivered)
        #expect(Self.names(otherTransport.events) == ["e2", "e3"])
        #expect(Self.names(transport.events).filter { $0 == "e1" }.count == 1)
        #expect(await analytics.shutdownAndWait() == 0)
        let last = StubTransport()
        #expect(await machine.start(3, last).flushed() == .nothingWaiting)
    }

    @Test func theNextDataPlaneWaitsForTheUploadOfTheFormer() async throws {
        let transport = StubTransport(.hold)
        let analytics = machine.start(1, transport)
        let former = try #require(analytics.plugin(ofType: RudderStackDestination.self))
        analytics.track(name: "e1")
        analytics.flush()
        await transport.requests(count: 1)
        analytics.remove(plugin: former)
        let otherTransport = StubTransport()
        analytics.add(plugin: RudderStackDestination(configuration: machine.configuration(2, otherTransport)))
        analytics.track(name: "e2")
        analytics.flush()
        await analytics.stored()
        #expect(otherTransport.requests.isEmpty)
        transport.release()
        #expect(await analytics.flushed() == .delivered)
        #expect(Self.names(transport.events) + Self.names(otherTransport.events) == ["e1", "e2"])
    }

    // MARK: A store that can't be written

    @Test func whatCannotBeStoredWaitsIsTriedAgainAndReportedOnce() async throws {
        let analytics = machine.start(1, dead, limits: Limits(storageBytes: 80_000))  // segments of 10 000 bytes
        #expect(await analytics.stored() == .stored)
        let log = try machine.log()
        try log.blockSegments(2...3, upTo: 60)
        for number in 1...40 { analytics.track(name: "e\(number)") }
        #expect(await analytics.stored() == .inMemory)
        for _ in 0..<5 {
            machine.time.advance(by: .seconds(5))
            #expect(await analytics.stored() == .inMemory)
        }
        #expect(analytics.account.stored + analytics.account.inMemory == 40)
        #expect(analytics.account.inMemory > 0)
        #expect(machine.logger.texts(.error).filter { $0.contains("can't be stored") }.count == 1)
        try log.unblockSegments(2...3)
        machine.time.advance(by: .seconds(5))
        #expect(await analytics.stored() == .stored)
        #expect(analytics.account.stored == 40)
        let transport = StubTransport()
        let killed = try machine.afterKill()
        await killed.start(2, transport).flushed()
        #expect(Self.names(transport.events) == .events(1...40))
    }

    @Test func whatCannotBeStoredUntilTheEndIsCounted() async throws {
        let analytics = machine.start(1, dead, limits: Limits(storageBytes: 80_000))
        await analytics.stored()
        let log = try machine.log()
        try log.blockSegments(2...3, upTo: 60)
        for number in 1...40 { analytics.track(name: "e\(number)") }
        #expect(await analytics.shutdownAndWait() == 40)
        let lost = analytics.account.dropped[.notStored] ?? 0
        #expect(lost > 0)
        #expect(analytics.account.stored == 40 - lost)
        #expect(
            machine.logger.texts(.error).contains {
                $0.contains("\(lost) events could be neither stored nor delivered")
            })
        try log.unblockSegments(2...3)
        let transport = StubTransport()
        await machine.start(2, transport).flushed()
        #expect(Self.names(transport.events) == .events(1...40 - lost))
    }
}
