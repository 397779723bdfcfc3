import Tiller

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// Files whose operations fail where a test says so, and that note what was asked of them.
final class FaultyFiles: FileSystem {
    enum Operation: String, Sendable, CaseIterable {
        case read, store, overwrite, lengthen, create, append, truncate, sync, look, list, remove, move, addName,
            makeFolder, lock

        /// Those that need room on the disk. Bytes of a file that is there are overwritten without; an overwriting that
        /// makes the file, or makes it longer, is a `lengthen`.
        static let takesRoom: Set<Operation> = [.store, .lengthen, .create, .append, .makeFolder]
    }

    enum Fault: String, Sendable, CaseIterable {
        case noSpace, inputOutput, permission, readOnly
        /// Half of the bytes are written, then there is no space.
        case half

        fileprivate var code: Int32 {
            switch self {
            case .noSpace, .half: ENOSPC
            case .inputOutput: EIO
            case .permission: EACCES
            case .readOnly: EROFS
            }
        }
    }

    /// One operation.
    struct Step: Sendable, CustomStringConvertible {
        let operation: Operation
        /// The last part of the path.
        let name: String
        let fault: Fault?

        var description: String { "\(operation) \(name)" + (fault.map { ": \($0)" } ?? "") }
    }

    /// Says whether an operation fails, given its name and how many were asked for since the rule was made.
    typealias Rule = @Sendable (_ operation: Operation, _ name: String, _ index: Int) -> Fault?

    private struct State: Sendable {
        var rule: Rule?
        var index = 0
        var trace: [Step] = []
        /// Run before each operation, outside of the lock.
        var before: (@Sendable (Operation) -> Void)?
    }

    let base: any FileSystem
    private let state = Locked(State())

    init(_ base: any FileSystem = SystemFiles()) { self.base = base }

    // MARK: What a test does

    /// From now on, whatever was said before.
    func fail(_ rule: Rule?) {
        state.withLock { state in
            state.rule = rule
            state.index = 0
        }
    }

    /// Every operation that needs room fails.
    func fill(_ fault: Fault = .noSpace) {
        fail { operation, _, _ in Operation.takesRoom.contains(operation) ? fault : nil }
    }

    /// Something is done before each operation, on its thread.
    func before(_ action: (@Sendable (Operation) -> Void)?) { state.withLock { $0.before = action } }

    /// The operations so far.
    var trace: [Step] { state.withLock { $0.trace } }

    func forgetTrace() { state.withLock { $0.trace = [] } }

    // MARK: FileSystem

    private func note(_ operation: Operation, _ path: String) -> Fault? {
        state.withLock { $0.before }?(operation)
        let name = path.split(separator: "/").last.map(String.init) ?? path
        return state.withLock { state in
            let fault = state.rule?(operation, name, state.index)
            state.index += 1
            state.trace.append(Step(operation: operation, name: name, fault: fault))
            return fault
        }
    }

    fileprivate func run<Result>(_ operation: Operation, _ path: String, _ body: () throws -> Result) throws -> Result {
        if let fault = note(operation, path) { throw Self.failure(operation, path, fault) }
        return try body()
    }

    /// - Parameter body: Given what of the bytes is written.
    fileprivate func write(
        _ bytes: ArraySlice<UInt8>, _ operation: Operation, _ path: String, _ body: (ArraySlice<UInt8>) throws -> Void
    ) throws {
        let fault = note(operation, path)
        if fault == .half { try body(bytes.prefix(bytes.count / 2)) }
        if let fault { throw Self.failure(operation, path, fault) }
        try body(bytes)
    }

    private static func failure(_ operation: Operation, _ path: String, _ fault: Fault) -> FileFailure {
        .system(operation: operation.rawValue, path: path, code: fault.code)
    }

    func contents(of path: String) throws -> [UInt8]? { try run(.read, path) { try base.contents(of: path) } }

    func contents(of path: String, from offset: Int, count: Int) throws -> [UInt8]? {
        try run(.read, path) { try base.contents(of: path, from: offset, count: count) }
    }

    func store(_ bytes: [UInt8], at path: String) throws {
        try write(bytes[...], .store, path) { try base.store(Array($0), at: path) }
    }

    func overwrite(_ bytes: [UInt8], at path: String, offset: Int) throws {
        let size = (try? base.contents(of: path))?.count ?? 0
        let operation = offset + bytes.count > size ? Operation.lengthen : .overwrite
        try write(bytes[...], operation, path) { try base.overwrite(Array($0), at: path, offset: offset) }
    }

    func createAppender(_ path: String) throws -> any FileAppender {
        try run(.create, path) { Appender(files: self, path: path, base: try base.createAppender(path)) }
    }

    func sync(_ path: String) throws { try run(.sync, path) { try base.sync(path) } }
    func entry(at path: String) throws -> FileEntry? { try run(.look, path) { try base.entry(at: path) } }

    func visitNames(in folder: String, _ visit: (UnsafeBufferPointer<UInt8>) throws -> Void) throws {
        try run(.list, folder) { try base.visitNames(in: folder, visit) }
    }

    func list(_ folder: String) throws -> [FileEntry] { try run(.list, folder) { try base.list(folder) } }
    func remove(_ path: String) throws { try run(.remove, path) { try base.remove(path) } }
    func move(_ path: String, to newPath: String) throws { try run(.move, path) { try base.move(path, to: newPath) } }

    func addName(_ newPath: String, to path: String) throws {
        try run(.addName, path) { try base.addName(newPath, to: path) }
    }

    /// One that is there already needs nothing.
    func makeFolder(_ path: String) throws {
        if (try? base.list(path)) != nil, note(.makeFolder, path) != .permission { return try base.makeFolder(path) }
        try run(.makeFolder, path) { try base.makeFolder(path) }
    }

    func lock(_ path: String) throws -> (any FileLock)? { try run(.lock, path) { try base.lock(path) } }
}

extension FaultyFiles {
    private struct Appender: FileAppender {
        let files: FaultyFiles
        let path: String
        let base: any FileAppender

        var hasName: Bool { base.hasName }

        func append(_ bytes: ArraySlice<UInt8>) throws {
            try files.write(bytes, .append, path) { try base.append($0) }
        }

        func truncate(to size: Int) throws { try files.run(.truncate, path) { try base.truncate(to: size) } }
        func sync() throws { try files.run(.sync, path) { try base.sync() } }
        func close() { base.close() }
    }
}
