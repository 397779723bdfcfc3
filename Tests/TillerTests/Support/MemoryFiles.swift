import Foundation
import Tiller

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// Files in memory, for tests that open a store thousands of times. It counts what is read.
final class MemoryFiles: FileSystem {
    private struct State: Sendable {
        /// What files hold, by number; a name can go while a file is still written.
        var files: [Int: [UInt8]] = [:]
        var names: [String: Int] = [:]
        var folders: Set<String> = []
        var locked: Set<Int> = []
        var lastFile = 0
        var use = Use()

        mutating func make(_ path: String) -> Int {
            lastFile += 1
            files[lastFile] = []
            names[path] = lastFile
            return lastFile
        }

        /// A file by name, made if it is not there.
        mutating func file(_ path: String) throws -> Int {
            if let file = names[path] { return file }
            guard folders.contains(Self.parent(of: path)) else { throw MemoryFiles.failure("open", path, ENOENT) }
            return make(path)
        }

        static func parent(of path: String) -> String {
            path.lastIndex(of: "/").map { String(path[..<$0]) } ?? ""
        }
    }

    /// What was asked of it.
    struct Use: Sendable {
        var readings = 0
        var bytesRead = 0
        /// The most that was read at once.
        var largestReading = 0
    }

    private let state = Locked(State())

    init() {}

    private init(_ state: State) { self.state.withLock { $0 = state } }

    // MARK: What a test does

    var use: Use { state.withLock { $0.use } }

    func forgetUse() { state.withLock { $0.use = Use() } }

    /// What a kill at this moment leaves.
    func afterKill() -> MemoryFiles {
        var state = state.withLock { $0 }
        state.locked = []
        state.use = Use()
        return MemoryFiles(state)
    }

    /// The names in a folder.
    func names(in folder: String, _ ending: String = "") -> [String] {
        state.withLock { state in
            state.names.keys.filter { State.parent(of: $0) == folder && $0.hasSuffix(ending) }
                .map { String($0.dropFirst(folder.count + 1)) }.sorted()
        }
    }

    /// How large all files with an ending are together.
    func size(of ending: String) -> Int {
        state.withLock { state in
            state.names.filter { $0.key.hasSuffix(ending) }.reduce(0) { $0 + (state.files[$1.value]?.count ?? 0) }
        }
    }

    /// A file with these bytes, in a folder that is made.
    func put(_ bytes: [UInt8], at path: String) {
        state.withLock { state in
            state.folders.insert(State.parent(of: path))
            let file = state.names[path] ?? state.make(path)
            state.files[file] = bytes
        }
    }

    /// The folder and all in it go, also what is locked and written.
    func removeFolder(_ folder: String) {
        state.withLock { state in
            state.folders.remove(folder)
            for path in state.names.keys where State.parent(of: path) == folder { state.names[path] = nil }
        }
    }

    // MARK: FileSystem

    func contents(of path: String) throws -> [UInt8]? { try contents(of: path, from: 0, count: .max) }

    func contents(of path: String, from offset: Int, count: Int) throws -> [UInt8]? {
        state.withLock { state in
            guard let bytes = state.names[path].flatMap({ state.files[$0] }) else { return nil }
            let part = bytes.dropFirst(offset).prefix(count)
            state.use.readings += 1
            state.use.bytesRead += part.count
            state.use.largestReading = max(state.use.largestReading, part.count)
            return Array(part)
        }
    }

    func store(_ bytes: [UInt8], at path: String) throws {
        try state.withLock { state in
            let file = try state.file(path)
            state.files[file] = bytes
        }
    }

    func overwrite(_ bytes: [UInt8], at path: String, offset: Int) throws {
        try state.withLock { state in
            let file = try state.file(path)
            var contents = state.files[file] ?? []
            if contents.count < offset + bytes.count {
                contents += [UInt8](repeating: 0, count: offset + bytes.count - contents.count)
            }
            contents.replaceSubrange(offset..<offset + bytes.count, with: bytes)
            state.files[file] = contents
        }
    }

    func createAppender(_ path: String) throws -> any FileAppender {
        try state.withLock { state in
            if state.names[path] != nil { throw FileFailure.exists(path: path) }
            return Appender(disk: self, file: try state.file(path))
        }
    }

    func sync(_ path: String) throws {
        let isThere = state.withLock { $0.names[path] != nil || $0.folders.contains(path) }
        if !isThere { throw Self.failure("open", path, ENOENT) }
    }

    func list(_ folder: String) throws -> [FileEntry] {
        try state.withLock { state in
            guard state.folders.contains(folder) else { throw Self.failure("open", folder, ENOENT) }
            return state.names.filter { State.parent(of: $0.key) == folder }.map { path, file in
                FileEntry(
                    name: String(path.dropFirst(folder.count + 1)), size: state.files[file]?.count ?? 0, isFile: true)
            }
        }
    }

    func remove(_ path: String) throws { state.withLock { $0.names[path] = nil } }

    func move(_ path: String, to newPath: String) throws {
        try state.withLock { state in
            guard let file = state.names[path] else { throw FileFailure.missing(path: path) }
            state.names[path] = nil
            state.names[newPath] = file
        }
    }

    func addName(_ newPath: String, to path: String) throws {
        try state.withLock { state in
            guard let file = state.names[path] else { throw FileFailure.missing(path: path) }
            guard state.names[newPath] == nil else { throw FileFailure.exists(path: newPath) }
            state.names[newPath] = file
        }
    }

    func makeFolder(_ path: String) throws { state.withLock { _ = $0.folders.insert(path) } }

    func lock(_ path: String) throws -> (any FileLock)? {
        try state.withLock { state in
            let file = try state.file(path)
            return state.locked.insert(file).inserted ? Lock(disk: self, file: file) : nil
        }
    }

    private func hasName(_ file: Int) -> Bool { state.withLock { $0.names.values.contains(file) } }

    private static func failure(_ operation: String, _ path: String, _ code: Int32) -> FileFailure {
        .system(operation: operation, path: path, code: code)
    }
}

extension MemoryFiles {
    private struct Appender: FileAppender {
        let disk: MemoryFiles
        let file: Int

        var hasName: Bool { disk.hasName(file) }

        func append(_ bytes: ArraySlice<UInt8>) { disk.state.withLock { $0.files[file, default: []] += bytes } }

        func truncate(to size: Int) {
            disk.state.withLock { state in
                let bytes = state.files[file] ?? []
                state.files[file] = bytes.prefix(size) + [UInt8](repeating: 0, count: max(0, size - bytes.count))
            }
        }

        func sync() {}
        func close() {}
    }

    private struct Lock: FileLock {
        let disk: MemoryFiles
        let file: Int

        var hasName: Bool { disk.hasName(file) }

        func unlock() { disk.state.withLock { _ = $0.locked.remove(file) } }
    }
}
