import Testing

@testable import Tiller

/// The decisions, as a value: no clock, no network, no store.
@Suite(.timeLimit(.minutes(5))) struct DeliveryRulesTests {
    private typealias Attempt = DeliveryRules.Attempt
    private typealias Step = DeliveryRules.Step

    private static func rules(longestWait: Duration = .seconds(300), seed: UInt64 = 1) -> DeliveryRules {
        DeliveryRules(longestWait: longestWait, random: .seeded(seed))
    }

    private static func attempt(
        _ count: Int = 8, at start: UInt64 = 0, compressed: Bool = false, bytes: Int = 1_000
    ) -> Attempt {
        Attempt(
            place: DeliveryRules.Place(run: 1, start: start), count: count, isCompressed: compressed, bodyBytes: bytes)
    }

    // MARK: Waiting

    @Test(arguments: [408, 425, 429, 500, 502, 503, 599]) func waitsDoubleUpToTheCap(_ status: Int) throws {
        for seed in 1...50 as ClosedRange<UInt64> {
            var rules = Self.rules(seed: seed)
            for step in 0..<14 {
                let wait = try #require(rules.judge(.status(status), to: Self.attempt(), at: .zero).wait)
                #expect(wait.delay <= min(.seconds(1) * (1 << step), .seconds(300)))
                #expect(wait.delay >= .zero && wait.shortest == .zero && !wait.isForOthers)
            }
        }
    }

    @Test func noAnswerAndAStoreThatCannotBeReadWaitToo() {
        var rules = Self.rules()
        #expect(rules.judge(.none, to: Self.attempt(), at: .zero).wait != nil)
        #expect(rules.storeFailed().wait != nil)
        // As the third failure in a row.
        let waits = (1...200 as ClosedRange<UInt64>).compactMap { seed -> Duration? in
            var rules = Self.rules(seed: seed)
            _ = rules.judge(.none, to: Self.attempt(), at: .zero)
            _ = rules.storeFailed()
            return rules.storeFailed().wait?.delay
        }
        #expect(waits.contains { $0 > .seconds(3) } && !waits.contains { $0 > .seconds(4) })
    }

    @Test func retryAfterIsTheLeastAndNotToBeShortened() throws {
        var rules = Self.rules()
        let answer = DataPlaneAnswer.status(429, headers: ["Retry-After": "5"])
        let first = try #require(rules.judge(answer, to: Self.attempt(), at: .zero).wait)
        #expect(first == DeliveryRules.Wait(delay: .seconds(5), shortest: .seconds(5)))
        // The backoff goes on behind it: a server that always says one second is not asked each second for ever.
        for _ in 0..<12 { _ = rules.judge(answer, to: Self.attempt(), at: .zero) }
        let later = try #require(rules.judge(answer, to: Self.attempt(), at: .zero).wait)
        #expect(later.delay > .seconds(5) && later.shortest == .seconds(5))
    }

    @Test func whatIsAcceptedBeginsAnew() throws {
        var rules = Self.rules()
        for _ in 0..<12 { _ = rules.judge(.status(503), to: Self.attempt(), at: .zero) }
        #expect(rules.judge(.status(200), to: Self.attempt(), at: .zero) == .accepted)
        let wait = try #require(rules.judge(.status(503), to: Self.attempt(), at: .zero).wait)
        #expect(wait.delay <= .seconds(1))
    }

    // MARK: Faults

    @Test(arguments: [301, 304, 307, 401, 403, 404, 405, 406, 410, 418, 431, 451])
    func aFaultStopsAndKeeps(_ status: Int) {
        var rules = Self.rules()
        #expect(rules.judge(.status(status), to: Self.attempt(), at: .zero) == .stop)
        #expect(rules.nextCount == nil)
        #expect(rules.judge(.status(200), to: Self.attempt(), at: .zero) == .accepted)
    }

    // MARK: Refused

    @Test(arguments: [400, 422]) func refusedIsPlainOnceThenHalves(_ status: Int) {
        var rules = Self.rules()
        #expect(!rules.sendsPlain)
        #expect(rules.judge(.status(status), to: Self.attempt(7, compressed: true), at: .zero) == .again)
        #expect(rules.sendsPlain)
        #expect(rules.nextCount == 7)  // the same batch, though more events wait by now
        #expect(rules.judge(.status(status), to: Self.attempt(7), at: .zero) == .again)
        #expect(rules.nextCount == 3)
        #expect(rules.sendsPlain)
        #expect(rules.judge(.status(200), to: Self.attempt(3), at: .zero) == .accepted)
        #expect(rules.nextCount == 4)
        #expect(rules.judge(.status(200), to: Self.attempt(4, at: 3), at: .zero) == .accepted)
        #expect(rules.nextCount == nil)
        #expect(!rules.sendsPlain)
        #expect(!rules.compressionFails)
    }

    @Test func tooLargeIsHalvedAtOnce() {
        var rules = Self.rules()
        #expect(rules.judge(.status(413), to: Self.attempt(8, compressed: true), at: .zero) == .again)
        #expect(rules.nextCount == 4)
        #expect(!rules.sendsPlain)
        #expect(rules.judge(.status(413), to: Self.attempt(1, compressed: true), at: .zero) == .hold)
    }

    @Test func whatIsAcceptedPlainIsSentPlainFromThenOn() {
        var rules = Self.rules()
        _ = rules.judge(.status(400), to: Self.attempt(compressed: true), at: .zero)
        // A wait between changes nothing.
        _ = rules.judge(.status(503), to: Self.attempt(), at: .zero)
        #expect(rules.sendsPlain && rules.nextCount == 8)
        #expect(rules.judge(.status(200), to: Self.attempt(), at: .zero) == .accepted)
        #expect(rules.compressionFails && rules.sendsPlain)
        #expect(rules.nextCount == nil)
    }

    @Test func unreadableIsRefusedTheSecondTimeInARow() {
        let unreadable = DataPlaneAnswer.status(500, "failed to read body from request\n")
        var rules = Self.rules()
        #expect(rules.judge(unreadable, to: Self.attempt(compressed: true), at: .zero).wait != nil)
        #expect(!rules.sendsPlain)
        #expect(rules.judge(unreadable, to: Self.attempt(compressed: true), at: .zero) == .again)
        #expect(rules.sendsPlain && rules.nextCount == 8)
        #expect(rules.judge(unreadable, to: Self.attempt(), at: .zero) == .again)
        #expect(rules.nextCount == 4)
        // The half is another batch.
        #expect(rules.judge(unreadable, to: Self.attempt(4), at: .zero).wait != nil)
        // Not in a row, or not of one batch.
        for between in [DataPlaneAnswer.status(503), .none, .status(429)] {
            rules = Self.rules()
            _ = rules.judge(unreadable, to: Self.attempt(compressed: true), at: .zero)
            _ = rules.judge(between, to: Self.attempt(compressed: true), at: .zero)
            #expect(rules.judge(unreadable, to: Self.attempt(compressed: true), at: .zero).wait != nil)
        }
        rules = Self.rules()
        _ = rules.judge(unreadable, to: Self.attempt(compressed: true), at: .zero)
        #expect(rules.judge(unreadable, to: Self.attempt(at: 9, compressed: true), at: .zero).wait != nil)
    }

    @Test func aSingleEventIsHeldAndTheThirdOneIsAFault() {
        var rules = Self.rules()
        #expect(rules.judge(.status(400), to: Self.attempt(1), at: .zero) == .hold)
        #expect(rules.heldCount == 1)
        #expect(rules.judge(.status(400), to: Self.attempt(1, at: 1), at: .zero) == .hold)
        #expect(rules.judge(.status(400), to: Self.attempt(1, at: 2), at: .zero) == .stop)
        #expect(rules.heldCount == 0)
        // An hour later they are tried again one by one.
        #expect(rules.nextCount == 1)
        // One that was accepted between makes it no fault.
        #expect(rules.judge(.status(400), to: Self.attempt(1), at: .zero) == .hold)
        #expect(rules.judge(.status(400), to: Self.attempt(1, at: 1), at: .zero) == .hold)
        #expect(rules.judge(.status(200), to: Self.attempt(1, at: 2), at: .zero) == .accepted)
        #expect(rules.heldCount == 0)
        #expect(rules.judge(.status(400), to: Self.attempt(1, at: 3), at: .zero) == .hold)
    }

    /// Each is sent again first after the wait: it may have been the server's fault.
    @Test(arguments: ["503", "none", "store", "alone", "401"]) func nothingIsHeldOverAPause(_ pause: String) {
        var rules = Self.rules()
        _ = rules.judge(.status(400), to: Self.attempt(4), at: .zero)
        _ = rules.judge(.status(400), to: Self.attempt(2), at: .zero)
        #expect(rules.judge(.status(400), to: Self.attempt(1), at: .zero) == .hold)
        #expect(rules.judge(.status(400), to: Self.attempt(1, at: 1), at: .zero) == .hold)
        #expect(rules.nextCount == 2)
        switch pause {
        case "503": _ = rules.judge(.status(503), to: Self.attempt(2, at: 2), at: .zero)
        case "none": _ = rules.judge(.none, to: Self.attempt(2, at: 2), at: .zero)
        case "store": _ = rules.storeFailed()
        case "401": _ = rules.judge(.status(401), to: Self.attempt(2, at: 2), at: .zero)
        default: #expect(rules.nothingIsBehindTheHeld().wait?.isForOthers == true)
        }
        #expect(rules.heldCount == 0)
        for (place, count) in [(0, 1), (1, 1), (2, 2)] {
            #expect(rules.nextCount == count)
            _ = rules.judge(.status(200), to: Self.attempt(count, at: UInt64(place)), at: .zero)
        }
        #expect(rules.nextCount == nil)
    }

    @Test func aPartThatComesSmallerThanAskedForIsCounted() {
        var rules = Self.rules()
        _ = rules.judge(.status(413), to: Self.attempt(20), at: .zero)
        #expect(rules.nextCount == 10)
        #expect(rules.judge(.status(200), to: Self.attempt(3), at: .zero) == .accepted)
        #expect(rules.nextCount == 7)
        #expect(rules.judge(.status(413), to: Self.attempt(4, at: 3), at: .zero) == .again)
        #expect(rules.nextCount == 2)
        for (count, next) in [(2, 2), (2, 3), (3, 10), (10, nil)] as [(Int, Int?)] {
            _ = rules.judge(.status(200), to: Self.attempt(count, at: 7), at: .zero)
            #expect(rules.nextCount == next)
        }
    }

    // MARK: Resets

    @Test func afterTwoLargeUploadsWithoutAnAnswerTheFirstEventGoesAlone() {
        let large = Self.attempt(101, bytes: 50_000)
        var rules = Self.rules()
        #expect(rules.judge(.none, to: large, at: .zero).wait != nil)
        #expect(rules.nextCount == nil)
        #expect(rules.judge(.none, to: large, at: .zero).wait != nil)
        #expect(rules.nextCount == 1)
        #expect(rules.sendsPlain)
        #expect(rules.judge(.status(200), to: Self.attempt(1), at: .zero) == .accepted)
        #expect(rules.nextCount == 50)
        #expect(rules.judge(.status(401), to: Self.attempt(50, at: 1), at: .zero) == .stop)
        // Small ones, or another answer between: no.
        for between in [DataPlaneAnswer.none, .status(503)] {
            rules = Self.rules()
            _ = rules.judge(.none, to: Self.attempt(101, bytes: between.meaning == .missing ? 900 : 50_000), at: .zero)
            _ = rules.judge(between, to: Self.attempt(101, bytes: 900), at: .zero)
            if between.meaning != .missing { _ = rules.judge(.none, to: large, at: .zero) }
            #expect(rules.nextCount == nil)
        }
        rules = Self.rules()
        for _ in 0..<5 { _ = rules.judge(.none, to: Self.attempt(1, bytes: 50_000), at: .zero) }
        #expect(rules.nextCount == nil)
    }

    // MARK: Server errors for an hour

    @Test func tenServerErrorsOverAnHourCutABatch() {
        var rules = Self.rules()
        for minute in 0..<9 {
            #expect(rules.judge(.status(500), to: Self.attempt(8), at: .seconds(60 * minute)).wait != nil)
        }
        // The tenth, before the hour is over.
        _ = rules.judge(.status(500), to: Self.attempt(8), at: .seconds(3_599))
        #expect(rules.nextCount == nil)
        _ = rules.judge(.status(500), to: Self.attempt(8), at: .seconds(3_600))
        #expect(rules.nextCount == 4)
        // An hour, but not ten times.
        rules = Self.rules()
        for hour in 0..<9 { _ = rules.judge(.status(500), to: Self.attempt(8), at: .seconds(3_600 * hour)) }
        #expect(rules.nextCount == nil)
        // Other troubles do not count.
        for answer in [DataPlaneAnswer.none, .status(429), .status(408)] {
            rules = Self.rules()
            for hour in 0..<30 { _ = rules.judge(answer, to: Self.attempt(8), at: .seconds(3_600 * hour)) }
            #expect(rules.nextCount == nil)
        }
    }

    /// A server error now and then is no proof against an event that happens to be sent alone.
    @Test func anEventAloneIsHeldAfterThreeServerErrorsOfItsOwn() {
        var rules = Self.rules()
        for hour in 0..<10 { _ = rules.judge(.status(500), to: Self.attempt(2), at: .seconds(3_600 * hour)) }
        #expect(rules.nextCount == 1)
        for _ in 0..<2 { #expect(rules.judge(.status(500), to: Self.attempt(1), at: .seconds(40_000)).wait != nil) }
        #expect(rules.judge(.status(500), to: Self.attempt(1), at: .seconds(40_000)) == .hold)
        #expect(rules.judge(.status(500), to: Self.attempt(1, at: 1), at: .seconds(40_000)).wait != nil)
        #expect(rules.heldCount == 0)
        // What is known of the first one is not forgotten.
        #expect(rules.judge(.status(500), to: Self.attempt(1), at: .seconds(40_100)) == .hold)
        #expect(rules.judge(.status(200), to: Self.attempt(1, at: 1), at: .seconds(40_100)) == .accepted)
        #expect(rules.nextCount == nil)
    }

    /// Once something was accepted, the hour begins anew.
    @Test func theHourIsOneWithoutAnythingAccepted() {
        var rules = Self.rules()
        for minute in 0..<9 { _ = rules.judge(.status(500), to: Self.attempt(8), at: .seconds(600 * minute)) }
        _ = rules.judge(.status(200), to: Self.attempt(8), at: .seconds(6_000))
        for minute in 0..<9 { _ = rules.judge(.status(500), to: Self.attempt(8), at: .seconds(9_000 + minute)) }
        #expect(rules.nextCount == nil)
    }

    @Test func anEventAtWhichTheServerFailsEndsAloneAndOthersAreTakenBehindIt() {
        var server = ModelServer(events: 37) { events in events.contains(11) ? .status(500) : .status(200) }
        server.run(until: .seconds(4 * 3_600))
        #expect(server.refused == [11])
        #expect(server.delivered == Array(0..<37).filter { $0 != 11 })
        #expect(server.now > .seconds(3_600))
    }

    @Test func twoThatAreNeighboursEndAloneToo() {
        var server = ModelServer(events: 20) { Set($0).isDisjoint(with: [5, 6]) ? .status(200) : .status(503) }
        server.run(until: .seconds(20 * 3_600))
        #expect(server.refused == [5, 6])
        #expect(server.delivered.count == 18)
    }

    /// Whenever the outage ends: nothing is given up, and the requests are as few as the waits allow.
    @Test(arguments: Array(stride(from: 0.5, through: 9, by: 0.35))) func anOutageCostsNothing(_ hours: Double) {
        let end = Duration.seconds(Int64(hours * 3_600))
        for seed in 1...6 as ClosedRange<UInt64> {
            var server = ModelServer(events: 40, seed: seed) { _ in .status(503) }
            server.run(until: end)
            #expect(server.delivered.isEmpty && server.refused.isEmpty)
            // Of 150 s on average, and a burst of three where all looks like the events' fault.
            #expect(Double(server.requests) < 20 + hours * 3_600 / 150 * 2, "\(server.requests)")
            #expect(server.longestBurst <= 3)
            server.answer = { _ in .status(200) }
            server.run(until: end + .seconds(600))
            #expect(server.delivered == Array(0..<40))
            #expect(server.refused.isEmpty)
        }
    }

    // MARK: Every server of a kind, with every culprit

    /// All subsets of culprits among up to seven events: what is delivered, what is given up, and when it is a fault.
    @Test(arguments: 1...7, [400, 413, 422]) func refusedEventsExhaustively(_ count: Int, _ status: Int) {
        for mask in 0..<(1 << count) {
            let culprits = Set((0..<count).filter { mask & (1 << $0) != 0 })
            for compresses in [false, true] {
                var server = ModelServer(events: count, compresses: compresses) {
                    culprits.isDisjoint(with: $0) ? .status(200) : .status(status)
                }
                server.runUntilPause()
                // Up to the first three in a row, and of those that end the list none.
                let stopsAt = (0..<count).first { first in (first..<first + 3).allSatisfy { culprits.contains($0) } }
                let end = stopsAt ?? ((0..<count).last { !culprits.contains($0) }.map { $0 + 1 } ?? 0)
                #expect(server.delivered == (0..<end).filter { !culprits.contains($0) }, "\(culprits)")
                #expect(server.refused == (0..<end).filter { culprits.contains($0) }, "\(culprits)")
                #expect((server.last == .stop) == (stopsAt != nil), "\(culprits)")
                #expect(!server.hasRepeatedItself, "\(culprits)")
                #expect(server.requests <= 2 + 4 * count + (compresses ? 2 * count : 0), "\(culprits)")
            }
        }
    }

    /// A proxy that refuses everything, however few events wait and however often it is tried.
    @Test(arguments: 1...9, [400, 413, 422, 401, 404, 403, 302, 500, 503, 429])
    func whatRefusesEverythingErasesNothing(_ count: Int, _ status: Int) {
        var server = ModelServer(events: count, compresses: true) { _ in .status(status) }
        server.run(until: .seconds(3 * 86_400))
        #expect(server.refused.isEmpty && server.delivered.isEmpty)
        #expect(server.requests < 3 * 86_400 / 150 * 4)
        #expect(server.longestBurst <= 2 + 2 * count)
        server.answer = { _ in .status(200) }
        server.run(until: .seconds(3 * 86_400 + 3_700))
        #expect(server.delivered == Array(0..<count))
        #expect(server.refused.isEmpty)
    }

    /// A proxy that loses the header of compressed bodies.
    @Test func whatRefusesCompressedBodiesGetsPlainOnes() {
        var server = ModelServer(events: 6, compresses: true) { _ in .status(200) }
        server.answerCompressed = { _ in .status(400) }
        server.runUntilPause()
        #expect(server.delivered == Array(0..<6))
        #expect(server.requests == 2)
        server.add(6)
        server.runUntilPause()
        #expect(server.delivered == Array(0..<12))
        #expect(server.requests == 3)
    }

    /// What is waiting when a single refused event is all that there was.
    @Test func aHeldEventGoesOnceOthersWereTaken() {
        var server = ModelServer(events: 1) { $0.contains(0) ? .status(400) : .status(200) }
        server.runUntilPause()
        #expect(server.last?.wait?.isForOthers == true)
        #expect(server.refused.isEmpty)
        server.add(1)
        server.runUntilPause()
        #expect(server.refused == [0])
        #expect(server.delivered == [1])
    }

    /// Random answers: nothing is delivered twice or out of order, what is given up was refused alone, and all comes to an end.
    @Test(arguments: 1...300 as ClosedRange<UInt64>) func anyAnswersKeepTheOrder(_ seed: UInt64) {
        let random = Locked(IdentifierGenerator.seeded(seed))
        let statuses = [200, 200, 200, 400, 413, 422, 500, 503, 429, 401, 404, 301, 0]
        let unreadable = DataPlaneAnswer.status(500, "failed to read body from request\n")
        var server = ModelServer(events: 25, compresses: seed % 2 == 0, seed: seed) { _ in
            let draw = Int(random.withLock { $0.nextWord() } % UInt64(statuses.count + 1))
            return draw < statuses.count ? .status(statuses[draw]) : unreadable
        }
        server.run(until: .seconds(86_400))
        server.answer = { _ in .status(200) }
        server.run(until: .seconds(2 * 86_400))
        #expect((server.delivered + server.refused).sorted() == Array(0..<25))
        #expect(server.delivered == server.delivered.sorted())
        for event in server.refused { #expect(server.refusedAlone.contains(event)) }
    }
}

/// The uploader and a server in a few lines: events are numbers, time is what the rules say.
struct ModelServer {
    var answer: ([Int]) -> DataPlaneAnswer
    /// `nil`: as plain ones.
    var answerCompressed: (([Int]) -> DataPlaneAnswer)?
    private(set) var delivered: [Int] = []
    private(set) var refused: [Int] = []
    private(set) var refusedAlone: Set<Int> = []
    private(set) var requests = 0
    private(set) var now = Duration.zero
    private(set) var last: DeliveryRules.Step?
    /// The most requests without a pause.
    private(set) var longestBurst = 0
    /// Whether the same body was posted twice without a pause.
    private(set) var hasRepeatedItself = false
    private var burst = 0
    private var lastBody: (events: [Int], isCompressed: Bool)?
    private var waiting: [Int]
    private var held: [Int] = []
    private var rules: DeliveryRules
    private let compresses: Bool

    init(
        events: Int, compresses: Bool = false, seed: UInt64 = 1, _ answer: @escaping ([Int]) -> DataPlaneAnswer
    ) {
        waiting = Array(0..<events)
        self.compresses = compresses
        self.answer = answer
        rules = DeliveryRules(longestWait: .seconds(300), random: .seeded(seed))
    }

    mutating func add(_ count: Int) {
        let next = (delivered + refused + waiting).count
        waiting += next..<next + count
    }

    /// Goes on over all pauses.
    mutating func run(until end: Duration) {
        while now < end, !waiting.isEmpty {
            runUntilPause()
            switch last {
            case .wait(let wait): now += max(wait.delay, .milliseconds(1))
            case .stop: now += .seconds(3_600)
            default: return
            }
        }
    }

    mutating func runUntilPause() {
        burst = 0
        lastBody = nil
        while !waiting.isEmpty {
            let step = upload()
            last = step
            switch step {
            case .wait, .stop:
                held = []
                return
            case .accepted, .again, .hold: continue
            }
        }
    }

    private mutating func upload() -> DeliveryRules.Step {
        let events = Array(waiting.dropFirst(held.count).prefix(rules.nextCount ?? .max))
        guard let first = events.first else { return rules.nothingIsBehindTheHeld() }
        let isCompressed = compresses && !rules.sendsPlain
        if let lastBody, lastBody == (events, isCompressed) { hasRepeatedItself = true }
        lastBody = (events, isCompressed)
        requests += 1
        burst += 1
        longestBurst = max(longestBurst, burst)
        let answer = isCompressed ? (answerCompressed ?? self.answer)(events) : self.answer(events)
        let attempt = DeliveryRules.Attempt(
            place: DeliveryRules.Place(run: 1, start: UInt64(first)), count: events.count, isCompressed: isCompressed,
            bodyBytes: events.count * 1_000)
        if answer.meaning != .accepted, events.count == 1 { refusedAlone.insert(first) }
        let step = rules.judge(answer, to: attempt, at: now)
        switch step {
        case .accepted:
            refused += held
            delivered += events
            waiting.removeFirst(held.count + events.count)
            held = []
        case .hold: held.append(first)
        case .again, .wait, .stop: break
        }
        return step
    }
}

extension DataPlaneAnswer {
    static func status(_ status: Int, _ body: String = "", headers: [String: String] = [:]) -> DataPlaneAnswer {
        DataPlaneAnswer(
            TransportResponse(status: status, headers: headers, body: Array(body.utf8)), wallMilliseconds: 0)
    }

    static let none = DataPlaneAnswer(noAnswer: URLSessionTransport.NoAnswer(description: "reset"))
}

extension DeliveryRules.Step {
    var wait: DeliveryRules.Wait? { if case .wait(let wait) = self { wait } else { nil } }
}
