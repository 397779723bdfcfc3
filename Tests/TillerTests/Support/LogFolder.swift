import Foundation
import Testing
import TillerTesting

@testable import Tiller

/// A folder with a log, the lives that it goes through, and what a test does to its files between them.
final class LogFolder: Sendable {
    let path: String
    let logger = RecordingLogger()
    /// Removed with this object.
    private let owned: TestFolder?

    init(_ folder: TestFolder = TestFolder()) {
        path = folder.path
        owned = folder
    }

    /// A folder that is another's to remove.
    init(path: String) {
        self.path = path
        owned = nil
    }

    // MARK: Lives

    /// A life. Small segments: an eighth of `storageBytes`.
    func open(storageBytes: Int = 1 << 20, boot: UInt64 = 1, on disk: any FileSystem = SystemFiles()) throws -> EventLog
    {
        try EventLog(
            folder: path, on: disk, limits: Limits(storageBytes: storageBytes), boot: boot,
            diagnostics: Diagnostics(logger: logger, level: .debug))
    }

    /// A life that appends and is killed.
    func live(_ records: [StoreRecord], storageBytes: Int = 1 << 20) throws {
        let log = try open(storageBytes: storageBytes)
        try log.store(records)
        log.close()
    }

    /// What a kill at this moment leaves, in a folder of its own.
    func afterKill() throws -> LogFolder {
        let copy = TestFolder()
        try copyFolder(path, to: copy.path)
        return LogFolder(copy)
    }

    // MARK: Files

    func names(_ ending: String = "") throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: path).filter { $0.hasSuffix(ending) }.sorted()
    }

    func contents(_ name: String) throws -> [UInt8] {
        Array(try #require(FileManager.default.contents(atPath: path + "/" + name)))
    }

    func put(_ bytes: [UInt8], _ name: String) throws {
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        try Data(bytes).write(to: URL(fileURLWithPath: path + "/" + name))
    }

    func put(_ text: String, _ name: String) throws { try put(Array(text.utf8), name) }

    func remove(_ name: String) throws { try FileManager.default.removeItem(atPath: path + "/" + name) }

    /// Changes bytes in the middle of what a file's record of an event holds.
    func damage(_ name: String, at text: String) throws {
        var bytes = try contents(name)
        let start = try #require(bytes.firstRange(of: text))
        bytes[start] ^= 0x04
        try put(bytes, name)
    }

    /// Not even root can read it as a file now: a directory lies in its place, or a link, which is not followed.
    func makeUnreadable(_ name: String, byLink: Bool = false) throws {
        try FileManager.default.moveItem(atPath: path + "/" + name, toPath: path + "/" + name + ".aside")
        if byLink {
            try FileManager.default.createSymbolicLink(
                atPath: path + "/" + name, withDestinationPath: name + ".aside")
        } else {
            try FileManager.default.createDirectory(atPath: path + "/" + name, withIntermediateDirectories: false)
        }
    }

    func makeReadable(_ name: String) throws {
        try remove(name)
        try FileManager.default.moveItem(atPath: path + "/" + name + ".aside", toPath: path + "/" + name)
    }

    /// The first run can't make these segments, whatever they will be called.
    func blockSegments(_ indices: ClosedRange<Int>, upTo number: UInt64) throws {
        for index in indices {
            for first in 1...number {
                let path = LogFiles(folder: path).segment(index, of: 1, first: first)
                try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
            }
        }
    }

    func unblockSegments(_ indices: ClosedRange<Int>) throws {
        for name in try names(".log") {
            guard case .segment(1, let index, _) = LogFiles.kind(of: name), indices.contains(index) else { continue }
            try remove(name)
        }
    }

    /// Nothing can be written under the name.
    func block(_ name: String) throws {
        try? remove(name)
        try FileManager.default.createDirectory(atPath: path + "/" + name, withIntermediateDirectories: true)
    }
}

/// Without what is no file: a FIFO would be waited for.
func copyFolder(_ path: String, to newPath: String) throws {
    try FileManager.default.createDirectory(atPath: newPath, withIntermediateDirectories: true)
    for name in try FileManager.default.contentsOfDirectory(atPath: path) where name != "owner.fifo" {
        let (source, target) = (path + "/" + name, newPath + "/" + name)
        if (try? FileManager.default.contentsOfDirectory(atPath: source)) != nil {
            try copyFolder(source, to: target)
        } else {
            try FileManager.default.copyItem(atPath: source, toPath: target)
        }
    }
}

extension [UInt8] {
    fileprivate func firstRange(of text: String) -> Int? {
        let wanted = Array(text.utf8)
        return indices.first { self[$0...].starts(with: wanted) }
    }
}

// MARK: - Records

extension StoreRecord {
    /// An event; its name is what tests tell it by.
    static func event(
        _ name: String, of anonymousId: String = "anon", padding: Int = 0, at wallMilliseconds: Int64 = 1_000,
        changes: [StateChange] = []
    ) -> StoreRecord {
        let head = "{\"anonymousId\":\""
        let text = head + anonymousId + "\",\"event\":\"\(name)\",\"p\":\"\(String(repeating: "x", count: padding))\"}"
        let start = head.utf8.count
        let content = EncodedEvent(
            bytes: Array(text.utf8), anonymousId: start..<start + anonymousId.utf8.count,
            moment: Moment(wallMilliseconds: wallMilliseconds, continuous: .milliseconds(wallMilliseconds), sequence: 1)
        )
        return StoreRecord(event: content, changes: changes)
    }

    static func events(_ numbers: ClosedRange<Int>, _ prefix: String = "e", padding: Int = 0) -> [StoreRecord] {
        numbers.map { .event("\(prefix)\($0)", padding: padding) }
    }

    /// State alone.
    static func state(_ key: String, _ changes: JSONObject) -> StoreRecord {
        StoreRecord(event: nil, changes: [StateChange(key: key, changes: changes)])
    }
}

extension BatchBounds {
    static func count(_ count: Int) -> BatchBounds { BatchBounds(bytes: .max, count: count, isPerIdentity: false) }

    static let all = BatchBounds.count(.max)
}

extension StoredBatch {
    /// The events' names.
    var names: [String] {
        events.compactMap { try? JSONValue(parsing: Array($0.bytes))["event"]?.string }
    }
}

extension [String] {
    /// `e1`, `e2`, ...
    static func events(_ numbers: ClosedRange<Int>, _ prefix: String = "e") -> [String] {
        numbers.map { "\(prefix)\($0)" }
    }
}

extension EventStore {
    /// The next events, none held.
    func nextBatch(_ bounds: BatchBounds) throws -> StoredBatch? { try nextBatch(bounds, after: nil) }

    /// A batch was delivered.
    func acknowledge(_ batch: StoredBatch) throws {
        try acknowledge([SettledBatch(batch: batch, outcome: .delivered)])
    }

    /// Stores everything, or throws.
    func store(_ records: [StoreRecord]) throws {
        let (stored, failure) = append(records)
        if let failure { throw failure }
        #expect(stored == records.count)
    }

    /// Delivers what waits, and gives its names, batch by batch.
    func deliver(_ bounds: BatchBounds = .all) throws -> [[String]] {
        var batches: [[String]] = []
        while let batch = try nextBatch(bounds) {
            batches.append(batch.names)
            try acknowledge(batch)
        }
        return batches
    }

    /// Delivers what waits, and gives its names.
    func deliverAll(_ bounds: BatchBounds = .all) throws -> [String] { try deliver(bounds).flatMap { $0 } }
}
