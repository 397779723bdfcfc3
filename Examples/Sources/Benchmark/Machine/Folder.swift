import Foundation

/// A folder that the benchmark made, beside the executable, and so below `.build`.
struct Folder: Sendable {
    let url: URL

    init() throws {
        url = Bundle.main.bundleURL.appendingPathComponent("benchmark-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    /// One that was made by the process that gave this one its work.
    init(path: String) { url = URL(fileURLWithPath: path) }

    /// A copy of its regular files: what else is there belongs to a process that has ended.
    func copy() throws -> Folder {
        let copy = try Folder()
        let files = FileManager.default
        for path in try files.subpathsOfDirectory(atPath: url.path) {
            let (from, to) = (url.path + "/" + path, copy.url.path + "/" + path)
            switch try files.attributesOfItem(atPath: from)[.type] as? FileAttributeType {
            case .typeDirectory: try files.createDirectory(atPath: to, withIntermediateDirectories: true)
            case .typeRegular: try files.copyItem(atPath: from, toPath: to)
            default: break
            }
        }
        return copy
    }

    func remove() { try? FileManager.default.removeItem(at: url) }

    /// What its files hold. One that is renamed meanwhile, as a checkpoint is, counts for nothing.
    func bytes() throws -> Int {
        try FileManager.default.subpathsOfDirectory(atPath: url.path).reduce(0) { sum, path in
            let attributes = try? FileManager.default.attributesOfItem(atPath: url.path + "/" + path)
            guard let attributes, attributes[.type] as? FileAttributeType == .typeRegular else { return sum }
            return sum + (attributes[.size] as? Int ?? 0)
        }
    }
}
