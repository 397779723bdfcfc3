import Foundation

/// A folder of one test's own, below the package's build folder; removed with the object.
final class TestFolder: Sendable {
    let url: URL

    init(name: String = UUID().uuidString) {
        // #filePath is .../Tests/TillerTests/Support/TestFolder.swift
        let package = (0..<4).reduce(URL(fileURLWithPath: #filePath)) { url, _ in url.deletingLastPathComponent() }
        url = package.appendingPathComponent(".build/test-folders/\(name)")
    }

    deinit { try? FileManager.default.removeItem(at: url) }

    var path: String { url.path }
}
