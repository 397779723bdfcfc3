import Foundation
import Testing

@testable import Tiller

/// Where state goes unless a folder is given. On Apple the system says so, whatever the environment.
@Suite(.enabled(if: FileManager.default.fileExists(atPath: "/proc/self"))) struct StorageLocationTests {
    private static let cases: [([String: String], String?)] = [
        (["STATE_DIRECTORY": "/var/lib/app", "XDG_STATE_HOME": "/x", "HOME": "/home/a"], "/var/lib/app/tiller"),
        (["STATE_DIRECTORY": "/var/lib/one:/var/lib/two"], "/var/lib/one/tiller"),
        (["XDG_STATE_HOME": "/home/a/state", "HOME": "/home/a"], "/home/a/state/tiller"),
        (["HOME": "/home/a"], "/home/a/.local/state/tiller"),
        (["STATE_DIRECTORY": "", "XDG_STATE_HOME": "", "HOME": "/home/a"], "/home/a/.local/state/tiller"),
        (["XDG_STATE_HOME": "relative", "HOME": "/home/a"], "/home/a/.local/state/tiller"),
        (["HOME": "relative"], nil),
        (["HOME": ""], nil),
        (["TMPDIR": "/tmp"], nil),
        ([:], nil),
    ]

    @Test(arguments: cases) func firstUsableVariableNamesThePlace(_ environment: [String: String], _ place: String?) {
        #expect(StorageLocation.automatic(in: environment) == place)
    }

    /// A store must be found again where an earlier version has put it, which asked `URL.path`.
    @Test(arguments: [
        "file:///tmp/a", "file:///tmp/a/", "file:///tmp/a//", "file:///", "file:///tmp/a%20b", "file:///tmp/a%2Fb",
        "file:///tmp/a%2fb/", "file:///tmp/%C3%BC", "file:///tmp/%FF", "file:///tmp/a%25b", "file:///tmp/../a",
    ])
    func aFoldersPathIsThatOfItsURL(text: String) throws {
        let url = try #require(URL(string: text))
        #expect(StorageLocation.path(of: url) == url.path)
    }

    @Test(arguments: ["/tmp/a", "/tmp/a/", "/tmp/a b/ü?#%", "relative", "relative/", "/", "."])
    func aPathComesBackFromItsURL(path: String) {
        let url = URL(fileURLWithPath: path)
        #expect(StorageLocation.path(of: url) == url.path)
    }
}
