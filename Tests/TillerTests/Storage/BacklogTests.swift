import Dispatch
import Foundation
import Testing
import TillerTesting

@testable import Tiller

/// A large backlog costs the reading of what is delivered, once, and the memory of a segment or two: counted by the bytes
/// that are read, and by what the process came to hold.
@Suite(.timeLimit(.minutes(5))) struct BacklogTests {
    private static let folder = "/memory/backlog"

    /// Segments of one run, each a mebibyte of small records and no state, with a checkpoint that covers them.
    private static func backlog(of count: Int, perSegment: Int, on disk: some FileSystem, _ folder: String) throws {
        let files = LogFiles(folder: folder)
        try disk.makeFolder(folder)
        let payload = Array("{\"anonymousId\":\"a\",\"event\":\"e\",\"type\":\"track\"}".utf8)
        var header = LogRecordHeader()
        header.eventLength = payload.count
        header.anonymousId = 16..<17
        header.payloadChecksum = CRC32C.checksum(of: payload)
        for first in stride(from: 0, to: count, by: perSegment) {
            var bytes: [UInt8] = []
            for number in first..<min(first + perSegment, count) {
                header.number = UInt64(number)
                header.write(to: &bytes)
                bytes += payload
            }
            try disk.store(bytes, at: files.segment(first / perSegment + 1, of: 1, first: UInt64(first)))
        }
        var checkpoint = Checkpoint()
        checkpoint.place = LogPlace(run: 1, segment: .max, offset: 0)
        try disk.store(checkpoint.bytes, at: files.checkpoint)
    }

    private static func open(_ disk: any FileSystem, _ folder: String = folder) throws -> EventLog {
        try EventLog(
            folder: folder, on: disk, limits: Limits(storageBytes: 2_000_000_000), boot: 1,
            diagnostics: Diagnostics(logger: RecordingLogger(), level: .none))
    }

    private static let uploads = BatchBounds(bytes: 500_000, count: .max, isPerIdentity: false)

    /// A million events in a hundred segments: what was not read need not be there, so that the test is quick.
    @Test func aMillionEventsOpenByTheReadingOfTheLastSegment() throws {
        let disk = MemoryFiles()
        try Self.backlog(of: 20, perSegment: 10, on: disk, Self.folder)
        for segment in 1..<100 {
            disk.put(
                [UInt8](repeating: 0x20, count: 1_000),
                at: LogFiles(folder: Self.folder).segment(segment, of: 1, first: UInt64(segment - 1) * 10_000))
        }
        var bytes: [UInt8] = []
        bytes.append(.event("last"), number: 999_999, boot: 1)
        disk.put(bytes, at: LogFiles(folder: Self.folder).segment(100, of: 1, first: 990_000))
        try disk.remove(LogFiles(folder: Self.folder).segment(2, of: 1, first: 10))
        disk.forgetUse()
        let log = try Self.open(disk)
        #expect(log.counts.waiting == 1_000_000)
        #expect(disk.use.bytesRead < 2_000)
        #expect(disk.use.readings < 10)
        log.close()
    }

    @Test func aBacklogIsReadOnceAndByTheSegment() throws {
        let count = isUnderThreadSanitizer ? 20_000 : 60_000
        let disk = MemoryFiles()
        try Self.backlog(of: count, perSegment: 9_000, on: disk, Self.folder)
        let segment = 9_000 * (60 + 47)
        disk.forgetUse()
        let log = try Self.open(disk)
        #expect(log.counts.waiting == count)
        // The last one only; it is the shortest here.
        #expect(disk.use.bytesRead < segment)
        disk.forgetUse()
        var delivered = 0
        while let batch = try log.nextBatch(Self.uploads) {
            #expect(batch.size <= 500_000)
            delivered += batch.events.count
            try log.acknowledge(batch)
        }
        #expect(delivered == count)
        // Once for each batch from where it begins: two or three for a segment.
        #expect(disk.use.bytesRead <= 3 * count * (60 + 47))
        #expect(disk.use.largestReading <= segment)
        #expect(disk.names(in: Self.folder, ".log") == [])
    }

    /// B62 (a): in a process of its own, by the most memory that it ever had.
    @Test func b62_aBacklogIsNeverInMemoryAsAWhole() async {
        await #expect(processExitsWith: .success) {
            let folder = TestFolder()
            let count = 300_000
            try Self.backlog(of: count, perSegment: 9_000, on: SystemFiles(), folder.path)
            guard let before = Self.mostMemory() else { return }  // only Linux tells
            let log = try Self.open(SystemFiles(), folder.path)
            guard log.counts.waiting == count else { throw CancellationError() }
            var delivered = 0
            while let batch = try log.nextBatch(Self.uploads) {
                delivered += batch.events.count
                try log.acknowledge(batch)
            }
            guard delivered == count, let after = Self.mostMemory() else { throw CancellationError() }
            // Of 32 megabytes.
            guard after - before < 12_000 else {
                FileHandle.standardError.write(Data("\(before) kB, then \(after) kB\n".utf8))
                throw CancellationError()
            }
        }
    }

    /// The high-water mark of the process's memory, in kilobytes.
    private static func mostMemory() -> Int? {
        guard let status = try? String(contentsOfFile: "/proc/self/status", encoding: .utf8) else { return nil }
        let line = status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") }
        return line?.split(whereSeparator: { $0 == " " || $0 == "\t" }).dropFirst().first.flatMap { Int($0) }
    }

    // MARK: Bounds

    /// Over several launches with the server down.
    @Test func b58_growthStopsAtTheBoundAndTheNewestAreKept() async throws {
        let disk = MemoryFiles()
        let transport = StubTransport(.status(503))
        let logger = RecordingLogger()
        let limit = 400_000
        func start(_ seed: UInt64) -> Analytics {
            var configuration = Configuration.test(
                storage: .folder(URL(fileURLWithPath: "/memory/b58")), transport: transport, logger: logger,
                limits: Limits(storageBytes: limit))
            configuration.fileSystem = disk
            configuration.identifiers = .seeded(seed)
            return Analytics(configuration: configuration)
        }
        let padding = JSONValue.string(String(repeating: "x", count: 700))
        var number = 0
        for launch in 1...4 as ClosedRange<UInt64> {
            let analytics = start(launch)
            for _ in 0..<30 {
                for _ in 0..<10 {
                    number += 1
                    analytics.track(name: "e\(number)", properties: ["p": padding])
                }
                await analytics.stored()
                // One segment is written, an eighth of the bound.
                #expect(disk.size(of: ".log") <= limit + limit / 8 + 20_000)
            }
            await analytics.shutdownAndWait()
        }
        // Once in each launch that gave something up.
        let said = logger.texts(.error).filter { $0.contains("stored events were given up") }.count
        #expect((1...4).contains(said))
        transport.answerAlways(.status(200))
        let before = transport.requests.count
        let analytics = start(9)
        await analytics.flushed()
        let names = transport.requests.dropFirst(before).flatMap(\.events).compactMap { $0["event"]?.string }
        #expect(names.last == "e\(number)")
        #expect(names == .events(number - names.count + 1...number))
        #expect((200..<number).contains(names.count))
        await analytics.shutdownAndWait()
        #expect(disk.size(of: ".log") < 1_000)
    }

    /// B62 (b): the disk holds up each write, and the calls come as fast as they can.
    @Test func b62_aSlowDiskBoundsMemoryAndKeepsOrder() async throws {
        let disk = FaultyFiles(MemoryFiles())
        let gate = Gate()
        disk.before { operation in if operation == .append { gate.pass() } }
        let transport = StubTransport()
        var configuration = Configuration.test(
            storage: .folder(URL(fileURLWithPath: "/memory/b62")), transport: transport,
            limits: Limits(memoryEvents: 2_000))
        configuration.fileSystem = disk
        let analytics = Analytics(configuration: configuration)
        // Nothing waits here for the disk, which stands still.
        for number in 1...5_000 { analytics.track(name: "e\(number)") }
        let account = analytics.account
        #expect(account.inMemory == 2_000)
        #expect(account.dropped == [.queueFull: 3_000])
        gate.open()
        #expect(await analytics.stored() == .stored)
        // Below the bound none is refused.
        for number in 5_001...6_000 { analytics.track(name: "e\(number)") }
        #expect(await analytics.flushed() == .delivered)
        #expect(transport.events.compactMap { $0["event"]?.string } == .events(1...2_000) + .events(5_001...6_000))
        await analytics.shutdownAndWait()
    }

    /// A write takes 10 ms of virtual time; the server is down for the first half.
    @Test func b169_aRushOnASlowDiskIsBoundedAndWhatWasTakenIsDelivered() async throws {
        let time = VirtualTime()
        let disk = FaultyFiles(MemoryFiles())
        disk.before { operation in if operation == .append { time.advance(by: .milliseconds(10)) } }
        let transport = StubTransport(.status(503))
        var configuration = Configuration.test(
            time: time, storage: .folder(URL(fileURLWithPath: "/memory/b169")), transport: transport,
            limits: Limits(memoryEvents: 1_000))
        configuration.fileSystem = disk
        let analytics = Analytics(configuration: configuration)
        let most = Locked(0)
        for half in 0..<2 {
            await onThreads(4) { thread in
                for index in 0..<1_000 {
                    analytics.track(name: "\(thread)-\(half * 1_000 + index)")
                    let inMemory = analytics.account.inMemory
                    most.withLock { $0 = max($0, inMemory) }
                }
            }
            await analytics.stored()
            analytics.flush()
            if half == 0 { transport.answerAlways(.status(200)) }
        }
        #expect(most.withLock { $0 } <= 1_000)
        time.advance(by: .seconds(60))
        await analytics.flushed()
        await analytics.shutdownAndWait()
        let account = analytics.account
        #expect(account.recorded == 8_000)
        #expect(account.stored == 8_000 - (account.dropped[.queueFull] ?? 0))
        let accepted = transport.accepted.compactMap { $0["event"]?.string }
        #expect(accepted.count == account.stored && Set(accepted).count == accepted.count)
        // Each thread's in its order.
        for thread in 0..<4 {
            let numbers = accepted.filter { $0.hasPrefix("\(thread)-") }.compactMap { Int($0.dropFirst(2)) }
            #expect(numbers == numbers.sorted())
        }
    }
}

/// Holds up who comes until it is opened.
private final class Gate: Sendable {
    private let closed = DispatchGroup()

    init() { closed.enter() }

    func pass() { closed.wait() }
    func open() { closed.leave() }
}

extension StubTransport {
    /// The events of the requests behind the first one that was refused last.
    fileprivate var accepted: [JSONObject] {
        // Refused requests are repeated: the last copy of each event counts.
        var seen: Set<String> = []
        return events.reversed().filter { seen.insert($0["messageId"]?.string ?? "").inserted }.reversed()
    }
}
