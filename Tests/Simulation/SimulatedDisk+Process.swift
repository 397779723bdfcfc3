import Tiller

extension SimulatedDisk {
    /// The disk as one process sees it.
    final class Process: FileSystem {
        fileprivate let disk: SimulatedDisk
        let id: Int

        init(disk: SimulatedDisk, id: Int) {
            self.disk = disk
            self.id = id
        }

        func contents(of path: String) throws -> [UInt8]? {
            try perform(.read, path) { state in state.names[path].flatMap { state.nodes[$0]?.bytes } }
        }

        func contents(of path: String, from offset: Int, count: Int) throws -> [UInt8]? {
            guard let bytes = try contents(of: path) else { return nil }
            return Array(bytes.dropFirst(offset).prefix(count))
        }

        func store(_ bytes: [UInt8], at path: String) throws {
            try perform(.creation, path) { state in state.nodes[state.node(at: path)]?.bytes = [] }
            try write(bytes, at: path, offset: 0)
            try sync(path)
        }

        func overwrite(_ bytes: [UInt8], at path: String, offset: Int) throws {
            let isThere = disk.state.withLock { $0.names[path] != nil }
            try perform(isThere ? .name : .creation, path) { state in _ = state.node(at: path) }
            try write(bytes, at: path, offset: offset)
        }

        private func write(_ bytes: [UInt8], at path: String, offset: Int) throws {
            try disk.state.withLock { state in
                try state.write(bytes[...], to: state.node(at: path), offset: offset, path, by: id)
            }
        }

        func createAppender(_ path: String) throws -> any FileAppender {
            let node = try perform(.creation, path) { state -> Int in
                if state.names[path] != nil { throw FileFailure.exists(path: path) }
                return state.node(at: path)
            }
            return Appender(process: self, path: path, node: node)
        }

        func sync(_ path: String) throws {
            try perform(.sync, path) { state in
                if state.folders.contains(path) {
                    state.syncNames(in: path)
                } else if let node = state.names[path] {
                    state.sync(node)
                } else {
                    throw FileFailure.missing(path: path)
                }
            }
        }

        func entry(at path: String) throws -> FileEntry? {
            try perform(.read, path) { state in
                guard let size = state.names[path].flatMap({ state.nodes[$0]?.bytes.count }) else { return nil }
                let folder = SimulatedDisk.folder(of: path)
                return FileEntry(name: String(path.dropFirst(folder.count + 1)), size: size, isFile: true)
            }
        }

        func list(_ folder: String) throws -> [FileEntry] {
            try perform(.read, folder) { state in
                guard state.folders.contains(folder) else { throw FileFailure.missing(path: folder) }
                return state.names.keys.filter { SimulatedDisk.folder(of: $0) == folder }.sorted().map { path in
                    let size = state.names[path].flatMap { state.nodes[$0]?.bytes.count } ?? 0
                    return FileEntry(name: String(path.dropFirst(folder.count + 1)), size: size, isFile: true)
                }
            }
        }

        func remove(_ path: String) throws {
            try perform(.name, path) { state in state.names[path] = nil }
        }

        func move(_ path: String, to newPath: String) throws {
            try perform(.name, path) { state in
                guard let node = state.names.removeValue(forKey: path) else { throw FileFailure.missing(path: path) }
                state.names[newPath] = node
            }
        }

        func addName(_ newPath: String, to path: String) throws {
            try perform(.name, path) { state in
                guard let node = state.names[path] else { throw FileFailure.missing(path: path) }
                guard state.names[newPath] == nil else { throw FileFailure.exists(path: newPath) }
                state.names[newPath] = node
            }
        }

        /// Folders are there for good at once.
        func makeFolder(_ path: String) throws {
            try perform(.name, path) { state in _ = state.folders.insert(path) }
        }

        func lock(_ path: String) throws -> (any FileLock)? {
            let isFree = try perform(.name, path) { state -> Bool in
                _ = state.node(at: path)
                guard state.locks[path] == nil else { return false }
                state.locks[path] = id
                return true
            }
            return isFree ? Lock(process: self, path: path) : nil
        }

        fileprivate func perform<Result: Sendable>(
            _ operation: State.Operation, _ path: String, _ body: @Sendable (inout State) throws -> Result
        ) throws -> Result {
            try disk.state.withLock { state in
                let fate = try state.fate(of: operation, at: path, by: id)
                if !fate.takesEffect, let failure = fate.failure { throw failure }
                let result = try body(&state)
                if let failure = fate.failure { throw failure }
                return result
            }
        }
    }

    static func folder(of path: String) -> String {
        path.lastIndex(of: "/").map { String(path[..<$0]) } ?? ""
    }
}

extension SimulatedDisk {
    /// Goes on with a file that has lost its name.
    private struct Appender: FileAppender {
        let process: Process
        let path: String
        let node: Int

        func append(_ bytes: ArraySlice<UInt8>) throws {
            try process.disk.state.withLock { state in
                let end = state.nodes[node]?.bytes.count ?? 0
                try state.write(bytes, to: node, offset: end, path, by: process.id)
            }
        }

        func truncate(to size: Int) throws {
            try process.perform(.name, path) { state in
                let count = state.nodes[node]?.bytes.count ?? 0
                state.nodes[node]?.bytes.removeLast(max(0, count - size))
            }
        }

        func sync() throws { try process.perform(.sync, path) { $0.sync(node) } }

        func close() {}
    }

    private struct Lock: FileLock {
        let process: Process
        let path: String

        func unlock() {
            process.disk.state.withLock { state in
                if state.locks[path] == process.id { state.locks[path] = nil }
            }
        }
    }
}

extension SimulatedDisk.State {
    /// The file of a name, made if there is none.
    fileprivate mutating func node(at path: String) -> Int {
        if let node = names[path] { return node }
        last += 1
        names[path] = last
        nodes[last] = SimulatedDisk.Node()
        return last
    }

    fileprivate mutating func sync(_ node: Int) {
        if let bytes = nodes[node]?.bytes { nodes[node]?.synced = bytes }
    }

    fileprivate mutating func syncNames(in folder: String) {
        for path in Set(names.keys).union(syncedNames.keys) where SimulatedDisk.folder(of: path) == folder {
            syncedNames[path] = names[path]
        }
    }

    fileprivate mutating func write(
        _ bytes: ArraySlice<UInt8>, to node: Int, offset: Int, _ path: String, by process: Int
    ) throws {
        let size = nodes[node]?.bytes.count ?? 0
        let growth = min(bytes.count, max(0, offset + bytes.count - size))
        let (written, failure) = try fate(ofWriting: bytes.count, growth: growth, at: path, by: process)
        if written > 0 { nodes[node]?.put(bytes.prefix(written), at: offset) }
        if let failure { throw failure }
    }
}

extension SimulatedDisk.Node {
    fileprivate mutating func put(_ new: ArraySlice<UInt8>, at offset: Int) {
        if bytes.count < offset { bytes += [UInt8](repeating: 0, count: offset - bytes.count) }
        let end = min(bytes.count, offset + new.count)
        bytes.replaceSubrange(offset..<end, with: new)
    }
}
