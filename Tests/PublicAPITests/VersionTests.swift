import Foundation
import Testing
import Tiller

@Suite struct VersionTests {
    @Test func versionIsTheNewestOfTheChangeLog() throws {
        let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        let file = tests.deletingLastPathComponent().appendingPathComponent("CHANGELOG.md")
        let lines = try String(contentsOf: file, encoding: .utf8).split(separator: "\n")
        let headings = lines.filter { $0.hasPrefix("## ") }
        let newest = try #require(headings.first { $0 != "## Unreleased" })
        #expect(newest.split(separator: " ").dropFirst().first.map(String.init) == Analytics.version)
    }
}
