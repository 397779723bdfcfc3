import Dispatch
import Foundation

/// State in one file, replaced as a whole at each change, so that a kill at any point leaves the old or the new one.
///
/// In the folder: `state.json`, `owner.lock`, and at times `state.json.new`; what could not be read and had to be
/// replaced stays beside it as `state.json.unreadable`. Who holds the lock owns the state; another instance or process
/// on the folder is a guest.
final class FileStateStore: StateStore {
    private enum Contents: Sendable {
        case unreadable
        case objects(JSONObject)
    }

    private struct State: Sendable {
        var contents: Contents
        var lock: Int32?
        /// Entered from the announcement of the end to the end.
        var closing: DispatchGroup?
    }

    /// What the file says of itself; a newer format is left alone.
    private static let format: Int64 = 1

    private let path: String
    private let folder: String
    private let state: Locked<State>
    private let diagnostics: Diagnostics

    let isOwned: Bool

    /// Opens the state of a folder, which is made if it is not there.
    ///
    /// An instance of this process that is closing the folder is waited for, one second at the most.
    init(folder: String, diagnostics: Diagnostics) throws {
        self.folder = folder
        self.diagnostics = diagnostics
        path = folder + "/state.json"
        try SystemFile.makeFolder(folder)
        var lock = try SystemFile.lock(folder + "/owner.lock")
        if lock == nil {
            ClosingFolders.wait(for: folder)
            lock = try SystemFile.lock(folder + "/owner.lock")  // also if it was let go of just now
        }
        isOwned = lock != nil
        state = Locked(State(contents: .unreadable, lock: lock))
        let contents = read()
        state.withLock { $0.contents = contents }
        if !isOwned { diagnostics.warn("Another instance owns \(folder): this one stores nothing") }
    }

    deinit { close() }

    func load(_ key: String) -> Stored {
        if case .unreadable = state.withLock({ $0.contents }) {
            let contents = read()
            state.withLock { state in
                // What was saved meanwhile is newer than what was read.
                if case .unreadable = state.contents { state.contents = contents }
            }
        }
        guard case .objects(let objects) = state.withLock({ $0.contents }) else { return .unreadable }
        guard let object = objects[key]?.object else { return objects[key] == nil ? .absent : .unreadable }
        return .value(object)
    }

    func save(_ changes: [StateChange]) throws {
        guard isOwned, state.withLock({ $0.lock }) != nil else { return }
        var contents = state.withLock { $0.contents }
        if case .unreadable = contents { contents = read() }
        var objects = JSONObject()
        var replacesUnread = true
        if case .objects(let known) = contents {
            objects = known
            replacesUnread = changes.contains { known[$0.key].map { $0.object == nil } ?? false }
        }
        for change in changes { objects[change.key] = .object(change.applied(to: objects[change.key]?.object ?? [:])) }
        // Only changes that may replace what is unread do (`Section.save`). It is kept beside the new state.
        try write(objects, keepingOld: replacesUnread)
        state.withLock { $0.contents = .objects(objects) }
    }

    func prepareToClose() {
        let closing = state.withLock { state -> DispatchGroup? in
            guard state.lock != nil, state.closing == nil else { return nil }
            let closing = DispatchGroup()
            closing.enter()
            state.closing = closing
            return closing
        }
        if let closing { ClosingFolders.note(closing, for: folder) }
    }

    func close() {
        let (lock, closing) = state.withLock { ($0.lock.take(), $0.closing.take()) }
        if let lock { SystemFile.unlock(lock) }
        if let closing {
            ClosingFolders.remove(closing, for: folder)
            closing.leave()
        }
    }

    // MARK: The file

    private func read() -> Contents {
        let bytes: [UInt8]
        do {
            guard let found = try SystemFile.contents(of: path) else { return .objects(["format": .int(Self.format)]) }
            bytes = found
        } catch {
            diagnostics.once("read state", .error, "The state can't be read", error)
            return .unreadable
        }
        do {
            let value = try JSONValue(parsing: try CheckedText.json(of: bytes))
            guard let objects = value.object, let format = objects["format"]?.int else { throw CheckedText.Damage() }
            guard format <= Self.format else {
                diagnostics.once("newer state", .error, "\(path) has a newer format; it is left as it is")
                return .unreadable
            }
            return .objects(objects)
        } catch {
            diagnostics.once("damaged state", .error, "\(path) is damaged; it is left as it is", error)
            return .unreadable
        }
    }

    /// - Parameter keepingOld: Whether the file that is there stays beside the new one.
    private func write(_ objects: JSONObject, keepingOld: Bool) throws {
        var objects = objects
        objects["format"] = .int(Self.format)
        var writer = JSONWriter()
        writer.write(objects)
        let new = path + ".new"
        try SystemFile.store(CheckedText.bytes(of: writer.bytes), at: new)
        if keepingOld { try SystemFile.move(path, to: path + ".unreadable") }
        try SystemFile.move(new, to: path)
    }
}

/// What is in the file: a line of JSON, and a line with its checksum, for damage may leave JSON that says other things.
private enum CheckedText {
    struct Damage: Error, CustomStringConvertible {
        var description: String { "it is not what was written" }
    }

    static func bytes(of json: [UInt8]) -> [UInt8] {
        var writer = JSONWriter()
        let checksum = CRC32C.checksum(of: json)
        writer.raw("\n")
        for shift in [24, 16, 8, 0] { writer.writeHex(UInt8(truncatingIfNeeded: checksum >> shift)) }
        writer.raw("\n")
        return json + writer.bytes
    }

    /// A text without a second line is taken as it is: cut off there, it is whole.
    static func json(of bytes: [UInt8]) throws -> ArraySlice<UInt8> {
        let lineEnd = UInt8(ascii: "\n")
        guard bytes.count > 10, bytes.last == lineEnd, bytes[bytes.count - 10] == lineEnd,
            let checksum = UInt32(String(decoding: bytes.suffix(9).dropLast(), as: UTF8.self), radix: 16)
        else { return bytes[...] }
        let json = bytes.dropLast(10)
        guard CRC32C.checksum(of: json) == checksum else { throw Damage() }
        return json
    }
}

/// Folders that an instance of this process is about to let go of: an app that shuts an instance down and makes the next
/// one on the next line must not find itself a guest.
private enum ClosingFolders {
    private static let folders = Locked<[String: DispatchGroup]>([:])

    static func note(_ closing: DispatchGroup, for folder: String) { folders.withLock { $0[folder] = closing } }

    static func remove(_ closing: DispatchGroup, for folder: String) {
        folders.withLock { folders in
            if folders[folder] === closing { folders[folder] = nil }
        }
    }

    /// Until an instance that is closing the folder has done so, one second at the most.
    static func wait(for folder: String) {
        guard let closing = folders.withLock({ $0[folder] }) else { return }
        _ = closing.wait(timeout: .now() + .seconds(1))  // afterwards the lock tells
    }
}

/// The SDK's own store on a folder, for TillerTesting.
package func openFileStateStore(folder: String, logger: any Logger) throws -> any StateStore {
    try FileStateStore(folder: folder, diagnostics: Diagnostics(logger: logger, level: .error))
}
