import Foundation
import Testing

/// The table of public bug reports in `Tests/README.md` lists every case of this version, and every test it names exists.
@Suite struct TestsReadmeTests {
    /// B01 to B29, B64 to B90, B92 to B110; the ids have gaps.
    private static let required: [Int] = [
        [1, 2, 4, 5, 6], Array(8...15), Array(17...24), Array(26...29), Array(64...67), Array(70...85),
        Array(87...90), Array(92...97), [99, 100, 101, 102, 103], Array(105...110),
    ].flatMap { $0 }

    private static let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()

    /// Case, named tests, remark.
    private static let rows: [(id: String, tests: [String], remark: String)] = {
        let text = (try? String(contentsOf: tests.appendingPathComponent("README.md"), encoding: .utf8)) ?? ""
        return text.split(separator: "\n").filter { $0.hasPrefix("| B") }.map { line in
            let cells = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
            let names = cells[2].split(separator: "`").map(String.init).filter { $0.contains("/") }
            return (cells[0], names, cells.count > 3 ? cells[3] : "")
        }
    }()

    @Test func tableListsEveryCaseOnce() {
        let ids = Self.rows.map(\.id)
        #expect(Set(ids).count == ids.count)
        for number in Self.required { #expect(ids.contains(String(format: "B%02d", number))) }
        #expect(Self.required.count == 66)
    }

    @Test func everyCaseHasATestOrAReason() {
        for row in Self.rows { #expect(!row.tests.isEmpty || !row.remark.isEmpty, "\(row.id)") }
    }

    @Test func everyTestThatIsNamedExists() throws {
        var suites: [String: String] = [:]
        let files = try #require(FileManager.default.enumerator(at: Self.tests, includingPropertiesForKeys: nil))
        for case let file as URL in files where file.pathExtension == "swift" {
            let text = try String(contentsOf: file, encoding: .utf8)
            for line in text.split(separator: "\n") where line.contains("struct ") {
                let words = line.split { !$0.isLetter && !$0.isNumber && $0 != "_" }
                guard let index = words.firstIndex(of: "struct"), index + 1 < words.count else { continue }
                suites[String(words[index + 1]), default: ""] += text
            }
        }
        for row in Self.rows {
            for name in row.tests {
                let parts = name.split(separator: "/")
                let source = suites[String(parts[0])] ?? ""
                #expect(source.contains("func \(parts[1])("), "\(row.id): \(name)")
            }
        }
    }
}
