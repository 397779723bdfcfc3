import Foundation

/// A folder of one test's own, below the package's build folder; removed with the object.
final class TestFolder: Sendable {
    let url: URL

    init(name: String = UUID().uuidString) {
        url = URL(fileURLWithPath: Self.path(of: name))
    }

    /// Where the folder of that name lies.
    static func path(of name: String) -> String {
        // #filePath is .../Tests/TillerTests/Support/TestFolder.swift
        let package = (0..<4).reduce(URL(fileURLWithPath: #filePath)) { url, _ in url.deletingLastPathComponent() }
        return package.appendingPathComponent(".build/test-folders/\(name)").path
    }

    deinit { try? FileManager.default.removeItem(at: url) }

    var path: String { url.path }
}
