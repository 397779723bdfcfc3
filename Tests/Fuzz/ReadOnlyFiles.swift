@testable import Tiller

/// A folder in memory that nobody writes to.
struct ReadOnlyFiles: FileSystem {
    private let files: [String: [UInt8]]

    /// - Parameter files: By name.
    init(_ files: [String: [UInt8]]) { self.files = files }

    private static func name(_ path: String) -> String { String(path.split(separator: "/").last ?? "") }

    func contents(of path: String) -> [UInt8]? { files[Self.name(path)] }

    func contents(of path: String, from offset: Int, count: Int) -> [UInt8]? {
        contents(of: path).map { Array($0.dropFirst(offset).prefix(count)) }
    }

    func list(_ folder: String) -> [FileEntry] {
        files.sorted { $0.key < $1.key }.map { FileEntry(name: $0.key, size: $0.value.count, isFile: true) }
    }

    // MARK: What must not happen

    func store(_ bytes: [UInt8], at path: String) { fatalError("\(path) is written") }
    func overwrite(_ bytes: [UInt8], at path: String, offset: Int) { fatalError("\(path) is written") }
    func createAppender(_ path: String) -> any FileAppender { fatalError("\(path) is made") }
    func sync(_ path: String) { fatalError("\(path) is synced") }
    func remove(_ path: String) { fatalError("\(path) is removed") }
    func move(_ path: String, to newPath: String) { fatalError("\(path) is moved") }
    func makeFolder(_ path: String) { fatalError("\(path) is made") }
    func lock(_ path: String) -> (any FileLock)? { fatalError("\(path) is locked") }
}
