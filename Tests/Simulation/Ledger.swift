import Tiller
import TillerTesting

/// What truly happened to each event, and what of it breaks a rule. A value: it knows nothing of files and servers.
///
/// Every event that passes the plugins gets a number, over all lives, which it carries on the wire.
struct Ledger: Sendable {
    struct Entry: Sendable {
        let life: Int
        let messageId: String
        /// For people.
        let title: String
        let session: UInt64?
        let moment: Instant
        /// It is larger than an event may be.
        let isTooLarge: Bool
        /// The SDK has said, or the log shows, that it survives the process.
        var isStored = false
        /// Why it may be missing though it was stored.
        var excuse: String?
        /// As it came the first time, without `sentAt`.
        var text: [UInt8]?
        var hasMark = false
        /// A live process was told that it had been taken.
        var isAnswered = false
        /// And must have written it down: nobody sends it again.
        var isSettled = false
        /// It came from a life whose disk had failed: its record may be left over.
        var mayBeLeftOver = false
        /// It had been given up, and a power cut may have brought it back: what lay behind it has come meanwhile.
        var hasReturned = false
    }

    /// What the clocks said.
    struct Instant: Sendable {
        let wall: Int64
        let continuous: Duration
        let boot: String?
    }

    /// One process.
    struct Life: Sendable {
        /// Whether it has the disk.
        var isDurable = false
        /// Whether the disk gave it all that it asked for at the opening.
        var hasReadAll = true
        /// Numbers of its events that are to be stored, in order.
        var survivors: [Int] = []
        /// How many its plugin has dropped.
        var dropped = 0
        var tooLarge = 0
        /// How many the data plane has refused that the disk never had.
        var refusedInMemory = 0
        /// How many events a 2xx answer has told it of.
        var answered = 0
        /// How many requests had no such answer.
        var failures = 0
        /// What the store said of itself at the opening.
        var opening: StoredAccount?
        /// The disk's count of failures then.
        var faultsBefore = 0
        var hasDiskFailed = false
        /// How many of its events may be on the disk though they went from memory: a disk that fails may neither take a record
        /// whole nor give it back, and then the next life sends it again.
        var leftovers = 0
        var isShutDown = false
    }

    private(set) var entries: [Entry] = []
    private(set) var lives: [Life] = []
    private(set) var faults: [String] = []
    private(set) var copies = 0
    /// The largest number that has come from a life with the disk, and from each life.
    private var largest = -1
    private var largestOfLife: [Int: Int] = [:]
    /// Answered, and perhaps not written down yet.
    private var unsettled: [(number: Int, faults: Int)] = []
    /// Sessions of a life that ended with a power cut: what was said of them may have been forgotten.
    private var forgotten: Set<UInt64> = []
    /// How many events a store has said to have given up, at the most.
    private var mostGivenUp = 0
    /// Events that were in a request of their own.
    private var triedAlone: Set<Int> = []
    /// When requests failed, within the last hour.
    var failedAt: [Duration] = []

    /// The key in an event's context under which its number stands.
    static let key = "ledger"

    var refusedInMemory: Int { lives.reduce(0) { $0 + $1.refusedInMemory } }

    mutating func complain(_ fault: String) { if faults.count < 20 { faults.append(fault) } }

    mutating func change(_ life: Int, _ body: (inout Life) -> Void) { body(&lives[life]) }

    mutating func beginLife() -> Int {
        lives.append(Life())
        return lives.count - 1
    }
}

// MARK: - Events

extension Ledger {
    /// An event that no plugin has dropped.
    ///
    /// - Returns: Its number.
    mutating func note(_ event: Event, of life: Int, at instant: Instant, isTooLarge: Bool) -> Int {
        let entry = Entry(
            life: life, messageId: event.messageId.description, title: event.name ?? event.kind.rawValue,
            session: event.context["sessionId"]?.uint, moment: instant, isTooLarge: isTooLarge)
        entries.append(entry)
        let number = entries.count - 1
        if isTooLarge { lives[life].tooLarge += 1 } else { lives[life].survivors.append(number) }
        return number
    }

    func name(_ number: Int) -> String { "event \(number) (\(entries[number].title), life \(entries[number].life))" }

    /// The first so many survivors of a life are safe: stored, or delivered before they could be.
    mutating func noteStored(_ count: Int, of life: Int) {
        let survivors = lives[life].survivors
        if count > survivors.count {
            complain("life \(life) has seen to \(count) events of \(survivors.count)")
        }
        for number in survivors.prefix(count).reversed() {
            if entries[number].isStored { return }
            entries[number].isStored = true
        }
    }

    /// A process finds so many more events than were known of.
    ///
    /// - Parameter numbers: Whose records are whole; the log may say of the last ones that they don't count.
    mutating func noteFound(_ count: Int, among numbers: Set<Int>) {
        for number in numbers.sorted().filter({ !entries[$0].isStored }).prefix(max(count, 0)) {
            entries[number].isStored = true
        }
    }
}

// MARK: - Arrivals

extension Ledger {
    /// A server has stored the events of a request.
    mutating func arrive(_ posted: PostedEvents, from life: Int, at now: Instant) {
        for event in posted.events {
            guard let number = event.number, entries.indices.contains(number) else {
                complain("something came that nobody sent: \(String(decoding: event.text, as: UTF8.self))")
                continue
            }
            judgeAge(number, event.sentAt, at: now)
            if let first = entries[number].text {
                judgeCopy(number, first, event.text, from: life)
            } else {
                arriveFirst(number, event.text, from: life)
            }
        }
    }

    /// Whether a life's disk has failed before a request.
    mutating func noteDisk(faults: Int, of life: Int) {
        if faults != lives[life].faultsBefore { lives[life].hasDiskFailed = true }
    }

    mutating func noteAttempt(_ posted: PostedEvents) {
        if posted.events.count == 1, let number = posted.events[0].number { triedAlone.insert(number) }
    }

    private mutating func arriveFirst(_ number: Int, _ text: ArraySlice<UInt8>, from life: Int) {
        entries[number].text = Array(text)
        let entry = entries[number]
        // Delivered while the disk takes nothing: a kill then forgets that the mark was given.
        if lives[life].hasDiskFailed, let session = entry.session { forgotten.insert(session) }
        entries[number].mayBeLeftOver = lives[life].hasDiskFailed && life == entry.life
        if entry.isTooLarge { complain("\(name(number)) came though it is too large") }
        guard let json = (try? JSONValue(parsing: Array(text) + [UInt8(ascii: "}")]))?.object else {
            return complain("\(name(number)) came and is no JSON")
        }
        if json["messageId"]?.string != entry.messageId { complain("\(name(number)) came with another message id") }
        if json["context"]?["sessionId"]?.uint != entry.session {
            complain("\(name(number)) came with another session")
        }
        if json["originalTimestamp"]?.string != timestampText(entry.moment.wall) {
            complain("\(name(number)) came with another time")
        }
        entries[number].hasMark = json["context"]?["sessionStart"]?.bool == true
        judgeOrder(number)
    }

    private mutating func judgeOrder(_ number: Int) {
        let life = entries[number].life
        // One that was refused alone is held, and what lies behind it may come although its answer does not say so.
        if triedAlone.contains(number) || entries[number].hasReturned { return }
        if number < largestOfLife[life] ?? -1 {
            complain("\(name(number)) came after event \(largestOfLife[life] ?? -1) of the same life")
        }
        largestOfLife[life] = max(number, largestOfLife[life] ?? -1)
        guard lives[life].isDurable else { return }
        if number < largest { complain("\(name(number)) came after event \(largest) of a later life") }
        largest = max(largest, number)
    }

    private mutating func judgeCopy(_ number: Int, _ first: [UInt8], _ text: ArraySlice<UInt8>, from life: Int) {
        copies += 1
        if !first.elementsEqual(text) { complain("\(name(number)) came with two contents") }
        guard entries[number].isSettled else { return }
        let origin = entries[number].life
        if entries[number].mayBeLeftOver, life > origin, lives[origin].leftovers > 0 {
            lives[origin].leftovers -= 1
            entries[number].mayBeLeftOver = false
            // The life that has found it tries until it is told.
            entries[number].isSettled = false
        } else {
            complain("\(name(number)) came again though life \(life) had no reason for it")
        }
    }

    /// A request may have been made ready so many milliseconds before it was posted.
    private static let longestAhead: Int64 = 50

    /// The call's time plus the true age: by the continuous clock in one boot, by the wall clock over a reboot.
    private mutating func judgeAge(_ number: Int, _ sentAt: String, at now: Instant) {
        let then = entries[number].moment
        let age =
            then.boot == now.boot ? (now.continuous - then.continuous).wholeMilliseconds : now.wall - then.wall
        let isRight = (0...Self.longestAhead).contains { sentAt == timestampText(then.wall + max(0, age - $0)) }
        if isRight { return }
        let expected = timestampText(then.wall + max(0, age))
        complain("\(name(number)) says sentAt \(sentAt), \(expected) would be right")
    }
}

// MARK: - Answers

extension Ledger {
    /// A live process is told that its events were taken.
    mutating func answer(_ numbers: [Int], of life: Int, faults: Int) {
        lives[life].answered += numbers.count
        for number in numbers {
            entries[number].isAnswered = true
            unsettled.append((number, faults))
        }
    }

    /// A live process has done what it had to do.
    ///
    /// - Parameter faults: The disk's count of failures: what came with one is not known to be written.
    mutating func settle(faults: Int) {
        for (number, before) in unsettled where faults == before { entries[number].isSettled = true }
        unsettled = []
    }

    /// The process is dead, and whether it wrote down what it was told last is not known.
    mutating func forgetUnsettled() { unsettled = [] }

    /// The power was cut.
    ///
    /// - Parameters:
    ///   - synced: What every cut leaves.
    ///   - present: What was in files that were there, synced or not.
    mutating func cutPower(synced: Set<Int>, present: Set<Int>, in life: Int) {
        unsettled = []
        for number in present { entries[number].isSettled = false }
        for number in entries.indices where entries[number].isStored && !synced.contains(number) {
            if !entries[number].isSettled { entries[number].excuse = "was not synced when the power was cut" }
        }
        for number in lives[life].survivors { if let id = entries[number].session { forgotten.insert(id) } }
    }

    /// A power cut has left these events on the disk.
    ///
    /// One that has not come though later ones have was given up; whether that was synced is not known.
    mutating func noteLeft(_ numbers: Set<Int>) {
        let passed = numbers.sorted().filter { $0 < largest && entries[$0].text == nil }
        for number in passed.prefix(mostGivenUp) { entries[number].hasReturned = true }
    }

    /// A store has said what became of its events.
    mutating func note(_ stored: StoredAccount) {
        mostGivenUp = max(mostGivenUp, stored.evicted + stored.damaged + stored.refused)
    }

    /// A byte of a record has changed, or of state beside them: what was remembered by it is not.
    mutating func damage(_ number: Int?) {
        if let number { entries[number].excuse = "was damaged" }
        for entry in entries { if let session = entry.session { forgotten.insert(session) } }
    }
}

// MARK: - The end

extension Ledger {
    /// Everything works again, and nothing waits any more.
    ///
    /// - Parameter account: What the store says at the end.
    mutating func judgeEnd(_ account: StoredAccount) {
        let missing = entries.indices.filter { entries[$0].isStored && entries[$0].text == nil }
        let unexcused = missing.filter { entries[$0].excuse == nil }
        let lost = account.evicted + account.damaged + account.refused + refusedInMemory
        if unexcused.count > lost {
            let names = unexcused.prefix(5).map(name).joined(separator: ", ")
            complain("\(unexcused.count) stored events are missing, the account has \(lost): \(names)")
        }
        judgeSessions(isComplete: missing.isEmpty)
    }

    /// One start mark for each, on the first survivor.
    private mutating func judgeSessions(isComplete: Bool) {
        var firsts: [UInt64: Int] = [:]
        // An id is the second in which a session begins: who can't read the earlier ones may give one again, and so may those
        // who know what that one has saved.
        let firstBlind = lives.firstIndex { !$0.hasReadAll } ?? lives.count
        for entry in entries where entry.life >= firstBlind {
            if let session = entry.session { forgotten.insert(session) }
        }
        for number in entries.indices where entries[number].text != nil {
            let entry = entries[number]
            // Nobody remembers those of a process without the disk.
            guard let session = entry.session, !forgotten.contains(session), lives[entry.life].isDurable else {
                continue
            }
            if let first = firsts[session] {
                if entry.hasMark { complain("\(name(number)) begins session \(session) after \(name(first))") }
            } else {
                firsts[session] = number
                if !entry.hasMark, isComplete { complain("\(name(number)), the first of \(session), has no mark") }
            }
        }
    }
}
