/// What is done after each answer: all decisions of the delivery, and nothing else. It reads no clock, sends nothing and
/// stores nothing; the uploader carries out what it says.
///
/// A batch that is refused is cut in halves until the culprit stands alone. That one is *held*: it stays where it is, and
/// what lies behind it is sent. Only if that is accepted was it the event's fault, and the event is given up; a server that
/// refuses everything erases nothing. No event is held over a wait: after it the event gets another chance.
struct DeliveryRules: Sendable {
    /// Where a batch begins.
    struct Place: Sendable, Hashable {
        let run: Int
        let start: UInt64
    }

    /// A request, as far as it matters here.
    struct Attempt: Sendable, Hashable {
        let place: Place
        /// How many events it had.
        let count: Int
        let isCompressed: Bool
        /// As it was sent.
        let bodyBytes: Int
    }

    /// What to do next.
    enum Step: Sendable, Hashable {
        /// The batch is delivered; what is held before it is given up.
        case accepted
        /// Send at once: plain, or a smaller part.
        case again
        /// The batch is a single event: pass it over.
        case hold
        /// Nothing is held any more.
        case wait(Wait)
        /// No attempt can succeed. Nothing is held any more.
        case stop
    }

    struct Wait: Sendable, Hashable {
        let delay: Duration
        /// So long nothing may end it: the server has said so.
        let shortest: Duration
        /// Only because nothing else waits than what is held.
        var isForOthers = false
    }

    /// What a place has met with since something was accepted.
    private struct Trouble: Sendable {
        var serverErrors = 0
        var firstServerError: Duration?
        /// Of an event that was sent alone.
        var serverErrorsAlone = 0
        /// In a row.
        var unreadable = 0
        var missing = 0
    }

    /// So many single events in a row, none accepted between, are no culprits.
    static let mostHeld = 2
    static let serverErrorsBeforeCutting = 10
    static let timeBeforeCutting = Duration.seconds(3_600)
    /// Before an event is held that the server fails at.
    static let serverErrorsAlone = 3
    /// A server that answers before it has read so much may appear as a reset.
    static let largeBody = 16_000

    private let longestWait: Duration
    private var random: IdentifierGenerator
    /// In a row, for the length of the waits.
    private var failures = 0
    /// The sizes of what a batch was cut into, the next one first.
    private var parts: [Int] = []
    private var troubles: [Place: Trouble] = [:]
    /// How many single events are held.
    private(set) var heldCount = 0
    /// What failed for an hour is cut: one more server error is enough to cut a part again.
    private var isSuspicious = false
    private var isPlain = false
    private var isPlainTrial = false
    /// The same batch was refused when it was compressed, and accepted plain.
    private(set) var compressionFails = false

    /// - Parameters:
    ///   - longestWait: Between two attempts, unless the server says more.
    ///   - random: For the jitter.
    init(longestWait: Duration, random: IdentifierGenerator) {
        self.longestWait = longestWait
        self.random = random
    }

    /// How many events the next batch may have; `nil`: as many as fit.
    var nextCount: Int? { parts.first }

    /// Whether it is not to be compressed. A part of one event never is: then there is one doubt less.
    var sendsPlain: Bool { isPlain || compressionFails || parts.first == 1 }

    /// Whether the next batch depends on what becomes of the one that is under way.
    var isInTrouble: Bool { !parts.isEmpty || heldCount > 0 }

    /// - Parameter now: By the continuous clock.
    mutating func judge(_ answer: DataPlaneAnswer, to attempt: Attempt, at now: Duration) -> Step {
        let trouble = note(answer.meaning, attempt, now)
        switch answer.meaning {
        case .accepted: return accept(attempt)
        case .misconfigured:
            letGo()
            return .stop
        case .refused: return refuse(attempt, mayBePlain: true)
        case .tooLarge: return refuse(attempt, mayBePlain: false)
        case .unreadable where trouble.unreadable > 1: return refuse(attempt, mayBePlain: true)
        case .serverError, .unreadable: return fail(attempt, trouble, answer.retryAfter, now)
        case .missing where trouble.missing > 1 && attempt.bodyBytes > Self.largeBody && attempt.count > 1:
            // A single event shows what is hidden behind a reset, and the rest goes in smaller bodies.
            let rest = attempt.count - 1
            cut(attempt, into: [1, rest / 2, rest - rest / 2])
            return wait(answer.retryAfter)
        case .missing, .busy: return wait(answer.retryAfter)
        }
    }

    /// Nothing else waits than what is held.
    mutating func nothingIsBehindTheHeld() -> Step { wait(nil, isForOthers: true) }

    /// The store could not be read.
    mutating func storeFailed() -> Step { wait(nil) }
}

// MARK: - One rule each

extension DeliveryRules {
    private mutating func note(_ meaning: DataPlaneAnswer.Meaning, _ attempt: Attempt, _ now: Duration) -> Trouble {
        var trouble = troubles[attempt.place, default: Trouble()]
        trouble.unreadable = meaning == .unreadable ? trouble.unreadable + 1 : 0
        trouble.missing = meaning == .missing ? trouble.missing + 1 : 0
        if meaning == .serverError || meaning == .unreadable {
            trouble.serverErrors += 1
            trouble.firstServerError = trouble.firstServerError ?? now
            if attempt.count == 1 { trouble.serverErrorsAlone += 1 }
        }
        troubles[attempt.place] = trouble
        return trouble
    }

    private mutating func accept(_ attempt: Attempt) -> Step {
        if isPlainTrial { compressionFails = true }
        isPlainTrial = false
        failures = 0
        troubles = [:]
        heldCount = 0
        consume(attempt.count)
        if parts.isEmpty { isSuspicious = false }
        return .accepted
    }

    private mutating func refuse(_ attempt: Attempt, mayBePlain: Bool) -> Step {
        if mayBePlain, attempt.isCompressed {
            isPlain = true
            isPlainTrial = true
            cut(attempt, into: [attempt.count])
            return .again
        }
        isPlainTrial = false
        guard attempt.count == 1 else {
            halve(attempt)
            return .again
        }
        if heldCount == Self.mostHeld {
            letGo()
            return .stop
        }
        return hold()
    }

    private mutating func hold() -> Step {
        heldCount += 1
        consume(1)
        return .hold
    }

    /// A server error. What fails for an hour, however often, is cut as if it had been refused; but slowly, for the trouble
    /// may be the server's.
    private mutating func fail(
        _ attempt: Attempt, _ trouble: Trouble, _ retryAfter: Duration?, _ now: Duration
    ) -> Step {
        let since = now - (trouble.firstServerError ?? now)
        if trouble.serverErrors >= Self.serverErrorsBeforeCutting, since >= Self.timeBeforeCutting {
            isSuspicious = true
        }
        guard isSuspicious else { return wait(retryAfter) }
        if attempt.count > 1 {
            halve(attempt)
            return wait(retryAfter)
        }
        guard trouble.serverErrorsAlone >= Self.serverErrorsAlone else { return wait(retryAfter) }
        // What lies behind it is sent without a wait: accepted now, it shows that the server is well.
        if heldCount < Self.mostHeld { return hold() }
        // The server fails at everything: whole batches again, and the hour begins anew.
        let step = wait(retryAfter)
        isSuspicious = false
        parts = []
        troubles = [:]
        return step
    }

    /// Exponential backoff with full jitter.
    private mutating func wait(_ retryAfter: Duration?, isForOthers: Bool = false) -> Step {
        letGo()
        let ceiling = min(Duration.seconds(1) * (1 << min(failures, 20)), longestWait)
        failures += 1
        let share = Double(random.nextWord() >> 11) / Double(1 << 53)
        let delay = Duration.milliseconds(Int64(share * Double(ceiling.wholeMilliseconds)))
        let shortest = retryAfter ?? .zero
        return .wait(Wait(delay: max(delay, shortest), shortest: shortest, isForOthers: isForOthers))
    }
}

// MARK: - Parts

extension DeliveryRules {
    private mutating func halve(_ attempt: Attempt) {
        cut(attempt, into: [attempt.count / 2, attempt.count - attempt.count / 2])
    }

    /// The store may have given fewer events than the part has.
    private mutating func cut(_ attempt: Attempt, into pieces: [Int]) {
        let rest = (parts.isEmpty ? 0 : parts.removeFirst()) - attempt.count
        parts = pieces.filter { $0 > 0 } + (rest > 0 ? [rest] : []) + parts
        // What a smaller body meets with is another matter.
        if pieces.count > 1 {
            troubles[attempt.place]?.unreadable = 0
            troubles[attempt.place]?.missing = 0
        }
    }

    private mutating func consume(_ count: Int) {
        if let first = parts.first {
            if first > count { parts[0] = first - count } else { parts.removeFirst() }
        }
        if parts.isEmpty { isPlain = false }
    }

    /// What is held is the next again, each alone.
    mutating func letGo() {
        parts = Array(repeating: 1, count: heldCount) + parts
        heldCount = 0
    }
}
