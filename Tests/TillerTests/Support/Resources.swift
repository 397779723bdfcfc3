import Foundation

/// What this process uses.
enum Resources {
    /// How many threads it has; 0 where that is not told.
    static var threads: Int { count("/proc/self/task") }

    /// How many descriptors are open; the one that counts is among them.
    static var descriptors: Int { count("/dev/fd") }

    /// How many bytes of memory are resident; 0 where that is not told.
    static var residentBytes: Int {
        guard let status = try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8) else { return 0 }
        let pages = status.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
        return pages * 4_096
    }

    /// How many bytes the files of a folder have.
    static func bytes(in folder: String) -> Int {
        let names = FileManager.default.enumerator(atPath: folder)?.compactMap { $0 as? String } ?? []
        return names.reduce(0) { sum, name in
            let attributes = try? FileManager.default.attributesOfItem(atPath: folder + "/" + name)
            guard attributes?[.type] as? FileAttributeType == .typeRegular else { return sum }
            return sum + (attributes?[.size] as? Int ?? 0)
        }
    }

    private static func count(_ folder: String) -> Int {
        (try? FileManager.default.contentsOfDirectory(atPath: folder).count) ?? 0
    }
}
