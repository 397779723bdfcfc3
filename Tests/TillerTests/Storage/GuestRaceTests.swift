import Dispatch
import Foundation
import Testing
import TillerTesting

@testable import Tiller

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#endif

/// Guests and owners of a folder, each at the moment that suits the other least.
@Suite(.timeLimit(.minutes(5))) struct GuestRaceTests {
    private let folder = LogFolder()

    @Test func whatComesWhileTheOwnerLooksIsNotDamaged() throws {
        let disk = FaultyFiles()
        let owner = try folder.open(on: disk)
        let guest = try folder.open()
        try guest.store(StoreRecord.events(1...3))
        owner.look()
        try guest.store(StoreRecord.events(4...5))
        let once = Locked(true)
        disk.before { operation in
            guard operation == .read,
                once.withLock({ value in
                    defer { value = false }
                    return value
                })
            else { return }
            _ = guest.append(StoreRecord.events(6...7))
        }
        owner.look()
        disk.before(nil)
        var delivered = try owner.deliverAll()
        owner.look()
        delivered += try owner.deliverAll()
        #expect(delivered == .events(1...7))
        #expect(owner.sums == LogIndex.Sums(delivered: 7))
    }

    @Test func whatComesDuringATakeoverIsNotDamaged() throws {
        let disk = FaultyFiles()
        let owner = try folder.open()
        let heir = try folder.open(on: disk)
        let guest = try folder.open()
        try guest.store(StoreRecord.events(1...3))
        owner.close()
        let next = Locked(4)
        disk.before { operation in
            guard operation == .read else { return }
            let number = next.withLock { value in
                defer { value += 1 }
                return value
            }
            if number < 30 { _ = guest.append(StoreRecord.events(number...number)) }
        }
        #expect(heir.mayUpload())
        disk.before(nil)
        let count = next.withLock { min($0, 30) } - 1
        var delivered = try heir.deliverAll()
        heir.look()
        delivered += try heir.deliverAll()
        #expect(delivered == .events(1...count))
        #expect(heir.sums == LogIndex.Sums(delivered: UInt64(count)))
    }

    @Test func aGuestWakesWhoListensNow() async throws {
        let owner = try folder.open()
        let isHeardByFirst = Locked(false)
        owner.whenOthersStore { isHeardByFirst.withLock { $0 = true } }
        let guest = try folder.open()
        try guest.store(StoreRecord.events(1...1))
        await withCheckedContinuation { continuation in
            let waiting = Locked<CheckedContinuation<Void, Never>?>(continuation)
            owner.whenOthersStore { waiting.withLock { $0.take() }?.resume() }
            #expect(!guest.mayUpload())
        }
        #expect(!isHeardByFirst.withLock { $0 })
    }

    @Test func anAcknowledgementThatKnowsLessThanBeforeTrapsNobody() throws {
        let owner = try folder.open(storageBytes: 8_000)
        let guest = try folder.open(storageBytes: 8_000)
        for number in 1...40 { try guest.store(StoreRecord.events(number...number)) }
        owner.look()
        _ = try owner.deliverAll()
        #expect(!guest.mayUpload())
        #expect(guest.counts.waiting == 0)
        owner.close()
        let ack = try #require(try folder.names(".ack").first { $0 != "base.ack" })
        try folder.put([UInt8](repeating: 7, count: 5_000), ack)
        let next = try folder.open(storageBytes: 8_000)
        #expect(next.isOwned)
        for number in 41...42 { try guest.store(StoreRecord.events(number...number)) }
        next.look()
        _ = try next.deliverAll()
        #expect(!guest.mayUpload())
        #expect(guest.counts.waiting == 0)
    }

    @Test func anOwnerWithoutEventsBoundsWhatGuestsStore() throws {
        let owner = try folder.open(storageBytes: 8_000)
        let guest = try folder.open(storageBytes: 8_000)
        for number in 1...400 { try guest.store(StoreRecord.events(number...number, padding: 100)) }
        owner.look()
        #expect(owner.sums.evicted > 300)
        let bytes = owner.known.withLock { $0.index.bytes }
        #expect(bytes < 8_000 + 1_200)
    }

    /// The owner's list shows the lock of the run that is just being begun.
    @Test func aLookDuringTheBeginningOfTheOwnRunForgetsNothing() throws {
        let disk = FaultyFiles()
        let owner = try folder.open(on: disk)
        try folder.open().store(StoreRecord.events(1...1, "g"))
        let (isLooking, isDone) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let main = ObjectIdentifier(Thread.current)
        let steps = Locked((hasLock: false, hasBegun: false, hasRead: false))
        disk.before { operation in
            if ObjectIdentifier(Thread.current) != main {
                guard operation == .read, steps.withLock({ !$0.hasRead }) else { return }
                steps.withLock { $0.hasRead = true }
                isLooking.signal()
                while owner.ownRun == 0 { sched_yield() }
                return
            }
            let begins = steps.withLock { steps in
                if operation == .lock { steps.hasLock = true }
                guard operation == .read, steps.hasLock, !steps.hasBegun else { return false }
                steps.hasBegun = true
                return true
            }
            guard begins else { return }
            Thread {
                owner.look()
                isDone.signal()
            }.start()
            isLooking.wait()
        }
        try owner.store(StoreRecord.events(1...2, "o"))
        isDone.wait()
        disk.before(nil)
        #expect(steps.withLock { $0.hasRead })
        try owner.store(StoreRecord.events(3...3, "o"))
        owner.look()
        #expect(try owner.deliverAll().filter { $0.hasPrefix("o") } == .events(1...3, "o"))
        #expect(owner.countsAndOwn.own == 3)
    }

    @Test func whatTheOwnerErasedWasNotDelivered() throws {
        let first = try folder.open()
        try first.store(StoreRecord.events(1...3))
        first.releaseOwnership()
        first.writer.withLock { first.endRun(&$0) }
        let second = try folder.open()
        #expect(second.isOwned)
        _ = try second.erase(leaving: [], keys: [])
        #expect(!first.mayUpload())
        #expect(first.counts.waiting == 0)
        #expect(first.counts.lost == 3)
    }

    /// A guest's disk took half of a write, and it was cut back after the owner had looked.
    @Test func whatAGuestTakesBackAndWritesAgainIsNotDamaged() throws {
        let owner = try folder.open()
        let guest = try folder.open()
        try guest.store(StoreRecord.events(1...1))
        owner.look()
        let name = try #require(try folder.names(".log").first)
        let before = try folder.contents(name)
        var half = before
        for number in 2...3 { half.append(.event("e\(number)"), number: UInt64(number - 1), boot: 1) }
        try folder.put(half, name)
        owner.look()
        #expect(owner.counts.waiting == 3)
        try folder.put(before, name)
        #expect(try owner.deliverAll() == ["e1"])
        try folder.put(half, name)
        owner.look()
        #expect(try owner.deliverAll() == ["e2", "e3"])
        #expect(owner.sums == LogIndex.Sums(delivered: 3))
        guest.close()
        owner.look()
        #expect(try owner.deliverAll() == [])
        #expect(owner.sums == LogIndex.Sums(delivered: 3))
    }

    /// It could not be cut back, and was delivered: the guest writes it again, and nothing traps or comes twice.
    @Test func whatAGuestCouldNotTakeBackIsDeliveredOnce() throws {
        let disk = FaultyFiles()
        let owner = try folder.open()
        let guest = try folder.open(on: disk)
        try guest.store(StoreRecord.events(1...1))
        disk.fail { operation, _, _ in
            switch operation {
            case .append: .half
            case .truncate: .inputOutput
            default: nil
            }
        }
        let records = StoreRecord.events(2...9)
        let (stored, failure) = guest.append(records)
        try #require(stored == 0 && failure != nil)
        disk.fail(nil)
        owner.look()
        let first = try owner.deliverAll()
        try #require(first.count > 1)
        #expect(!guest.mayUpload())
        try guest.store(records)
        owner.look()
        #expect(first + (try owner.deliverAll()) == .events(1...9))
        #expect(!guest.mayUpload())
        #expect(guest.countsAndOwn.own == 9 && guest.counts == EventCounts(appended: 9, settled: 9))
    }
}
