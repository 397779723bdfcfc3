import Foundation
import Testing

@testable import Tiller

/// What is read out of an `os-release` file, and what is not.
@Suite struct ReleaseFileTests {
    private static let values: [(String, String?)] = [
        (#"Fedora"#, "Fedora"), (#""Debian GNU/Linux""#, "Debian GNU/Linux"), (#"'Alpine Linux'"#, "Alpine Linux"),
        (#""12""#, "12"), (#"''"#, nil), (#""""#, nil), ("", nil), ("   ", nil), (" # x", nil), ("\t", nil),
        // Escapes
        (#""a \"b\" \\ \$c \`d\`""#, #"a "b" \ $c `d`"#), (#""a\nb""#, #"a\nb"#), (#"a\ b\"c\'"#, #"a b"c'"#),
        (#"'a\b'"#, #"a\b"#), (#"'a"b'"#, #"a"b"#), (#""a'b""#, "a'b"), (#""a"'b'c"#, "abc"), (#"trailing\"#, nil),
        (#"'it'\''s'"#, "it's"), (#""trailing\"#, nil), (#"a\ "#, "a "),
        // Ends that are missing, and what only a shell can tell
        (#""open"#, nil), (#"'open"#, nil), (#""open\""#, nil), ("$NAME", nil), (#""${ID} 1""#, nil), ("`id`", nil),
        (#"'$NAME'"#, "$NAME"), (#"\$NAME"#, "$NAME"),
        // Blanks, comments, line ends
        ("  Arch  ", "Arch"), ("Arch Linux", "Arch Linux"), ("Arch # the best", "Arch"), ("Arch#1", "Arch#1"),
        (#""Arch # 1" # x"#, "Arch # 1"), (#""Arch " "#, "Arch "), ("Arch\r", "Arch"), ("\"Arch\"\r", "Arch"),
        ("a=b", "a=b"), ("\"Ä 漢字 🐧\"", "Ä 漢字 🐧"),
        // Not text
        ("a\u{0}b", nil), ("\"a\u{0}\"", nil), ("a\u{7}", nil), ("\u{1B}[31mred", nil), ("a\u{85}", nil),
        (String(repeating: "x", count: 256), String(repeating: "x", count: 256)),
        (String(repeating: "x", count: 257), nil),
    ]

    @Test(arguments: values) func aValueIsWhatAShellWouldMakeOfIt(_ text: String, _ value: String?) {
        #expect(ReleaseFile(parsing: Array("NAME=\(text)".utf8)).name == value, "\(text)")
        #expect(ReleaseFile(parsing: Array("ID=x\nVERSION_ID=\(text)\nX=y\n".utf8)).version == value, "\(text)")
    }

    private static let files: [(String, String?, String?)] = [
        ("NAME=A\nVERSION_ID=1\n", "A", "1"), ("VERSION_ID=1\nNAME=A", "A", "1"), ("NAME=A", "A", nil), ("", nil, nil),
        ("NAME=A\r\nVERSION_ID=\"1\"\r\n", "A", "1"), ("\n\n#NAME=B\n  # NAME=C\nNAME=A\n", "A", nil),
        ("  NAME=A\n\tVERSION_ID=1\n", "A", "1"), ("NAME=A\nNAME=B\n", "B", nil), ("NAME=A\nNAME=$B\n", nil, nil),
        ("NAME =A\nNAME= B\n", "B", nil), ("PRETTY_NAME=A\nname=B\nMYNAME=C\nVERSION=2\n", nil, nil),
        ("export NAME=A\n", nil, nil), ("NAME\n=\n==\nNAME=A\n", "A", nil),
        ("\u{0}\nNAME=A\n\u{0}VERSION_ID=1\n", "A", nil),
        ("NAME=\"A\nVERSION_ID=\"1\"\n", nil, "1"),
    ]

    @Test(arguments: files) func aFileIsReadLineByLine(_ text: String, _ name: String?, _ version: String?) {
        let release = ReleaseFile(parsing: Array(text.utf8))
        #expect(release.name == name)
        #expect(release.version == version)
    }

    @Test func bytesThatAreNoTextAreNoValue() {
        let bytes = Array("NAME=A".utf8) + [0xFF, 0xC3, 0x0A] + Array("VERSION_ID=1\n".utf8)
        #expect(ReleaseFile(parsing: bytes).name == nil)
        #expect(ReleaseFile(parsing: bytes).version == "1")
        for length in 0..<300 {
            let noise = (0..<length).map { UInt8(truncatingIfNeeded: $0 &* 151 &+ length) }
            _ = ReleaseFile(parsing: noise)
        }
    }

    // MARK: Files

    private func write(_ text: String, to name: String, in folder: TestFolder) throws -> String {
        try FileManager.default.createDirectory(at: folder.url, withIntermediateDirectories: true)
        let path = folder.url.appendingPathComponent(name).path
        try Data(text.utf8).write(to: URL(fileURLWithPath: path))
        return path
    }

    @Test func theFirstFileThatCanBeReadCounts() throws {
        let folder = TestFolder()
        let (missing, file) = (folder.path + "/missing", try write("NAME=A\n", to: "a", in: folder))
        let other = try write("NAME=B\nVERSION_ID=2\n", to: "b", in: folder)
        #expect(ReleaseFile.read([missing]) == nil)
        #expect(ReleaseFile.read([]) == nil)
        #expect(ReleaseFile.read([missing, other])?.version == "2")
        #expect(ReleaseFile.read([file, other]) == ReleaseFile(parsing: Array("NAME=A".utf8)))
        #expect(ReleaseFile.read([folder.path, other])?.name == "B")  // a folder is no file
        let link = folder.path + "/link"
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: file)
        #expect(ReleaseFile.read([link])?.name == "A")
    }

    @Test func aFileThatIsFarTooLongIsReadToTheLimitAndNoLineByHalf() throws {
        let folder = TestFolder()
        let filler = String(repeating: "#\n", count: ReleaseFile.longestFile / 2 - 10)
        let path = try write("NAME=A\n" + filler + "VERSION_ID=123456789012345\n", to: "long", in: folder)
        #expect(ReleaseFile.read([path])?.name == "A")
        #expect(ReleaseFile.read([path])?.version == nil)
        let late = try write(String(repeating: "x", count: 3_000_000) + "\nNAME=A\n", to: "late", in: folder)
        #expect(ReleaseFile.read([late]) == ReleaseFile(parsing: []))
    }
}
