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
        if lock == nil, ClosingFolders.wait(for: folder) { lock = try SystemFile.lock(folder + "/owner.lock") }
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
            state.withLock { $0.contents = contents }
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
        if case .objects(let known) = contents {
            objects = known
        } else {
            // Only changes that may replace what is unread come here (`Section.save`). It is kept beside the new state.
            try SystemFile.move(path, to: path + ".unreadable")
        }
        for change in changes { objects[change.key] = .object(change.applied(to: objects[change.key]?.object ?? [:])) }
        try write(objects)
        state.withLock { $0.contents = .objects(objects) }
    }

    func prepareToClose() { if isOwned { ClosingFolders.begin(folder) } }

    func close() {
        let lock = state.withLock { $0.lock.take() }
        guard let lock else { return }
        SystemFile.release(lock)
        ClosingFolders.end(folder)
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
            guard let objects = try JSONValue(parsing: bytes).object else { return .unreadable }
            guard let format = objects["format"]?.int, format <= Self.format else {
                diagnostics.once("newer state", .error, "\(path) has a newer format; it is left as it is")
                return .unreadable
            }
            return .objects(objects)
        } catch {
            diagnostics.once("damaged state", .error, "\(path) is damaged; it is left as it is", error)
            return .unreadable
        }
    }

    private func write(_ objects: JSONObject) throws {
        var objects = objects
        objects["format"] = .int(Self.format)
        var writer = JSONWriter()
        writer.write(objects)
        let new = path + ".new"
        try SystemFile.store(writer.bytes, at: new)
        try SystemFile.move(new, to: path)
    }
}

/// Folders that an instance of this process is about to let go of: an app that shuts an instance down and makes the next
/// one on the next line must not find itself a guest.
private enum ClosingFolders {
    private static let folders = Locked<[String: DispatchGroup]>([:])

    static func begin(_ folder: String) {
        let group = DispatchGroup()
        group.enter()
        folders.withLock { $0[folder] = group }
    }

    static func end(_ folder: String) { folders.withLock { $0.removeValue(forKey: folder) }?.leave() }

    /// Whether an instance that was closing the folder has done so.
    static func wait(for folder: String) -> Bool {
        guard let group = folders.withLock({ $0[folder] }) else { return false }
        return group.wait(timeout: .now() + .seconds(1)) == .success
    }
}

/// The SDK's own store on a folder, for runs of session scenarios.
package func openFileStateStore(folder: String, logger: any Logger) throws -> any StateStore {
    try FileStateStore(folder: folder, diagnostics: Diagnostics(logger: logger, level: .error))
}
