import Foundation

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#endif

/// A folder that the benchmark made, beside the executable, and so below `.build`.
struct Folder: Sendable {
    let url: URL

    private static let variable = "TILLER_BENCHMARK_FOLDER"

    /// Where all of them are, those of child processes too.
    private static let root: URL = {
        if let path = ProcessInfo.processInfo.environment[variable] { return URL(fileURLWithPath: path) }
        return Bundle.main.bundleURL.appendingPathComponent("benchmark-\(UUID().uuidString)")
    }()

    /// Children that are started from now on have theirs there.
    static func shareWithChildren() { setenv(variable, root.path, 1) }

    init() throws {
        url = Self.root.appendingPathComponent(UUID().uuidString)
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

    /// Gives its room back. The empty files stay until all is measured: ext4 without a journal takes up to a millisecond to
    /// make a file while thousands have been removed in the minutes before, and what is measured next would pay for that.
    func remove() {
        for path in (try? FileManager.default.subpathsOfDirectory(atPath: url.path)) ?? [] {
            truncate(url.path + "/" + path, 0)
        }
    }

    static func removeAll() { try? FileManager.default.removeItem(at: root) }

    /// What its files hold. One that is renamed meanwhile, as a checkpoint is, counts for nothing.
    func bytes() throws -> Int {
        try FileManager.default.subpathsOfDirectory(atPath: url.path).reduce(0) { sum, path in
            let attributes = try? FileManager.default.attributesOfItem(atPath: url.path + "/" + path)
            guard let attributes, attributes[.type] as? FileAttributeType == .typeRegular else { return sum }
            return sum + (attributes[.size] as? Int ?? 0)
        }
    }
}
