import Testing
import TillerTesting

@testable import Tiller

/// Lives on a disk that fails here and there, by chance: whatever fails when, what was reported to be stored is delivered
/// or in the account, in order, and the state with it.
@Suite(.timeLimit(.minutes(5))) struct StoreUnderFaultsTests {
    @Test func hundredsOfLivesOnADiskThatFailsAnywhere() {
        for seed in 1...(isUnderThreadSanitizer ? 60 : 500) as ClosedRange<UInt64> {
            FileFaultScript(seed: seed).check()
        }
    }

    @Test func livesOnTheSystemsFiles() {
        for seed in 1_001...1_020 as ClosedRange<UInt64> {
            let folder = TestFolder()
            FileFaultScript(seed: seed).check(on: SystemFiles(), folder: folder.path)
        }
    }

    /// A disk that loses what it was given is found out, and the script is made short.
    @Test func aDiskThatLosesWritesIsFoundOut() throws {
        let seed = try #require(
            (1...200 as ClosedRange<UInt64>).first { !FileFaultScript(seed: $0).violations(on: Lossy()).isEmpty })
        let script = FileFaultScript(seed: seed)
        #expect(!script.violations(on: Lossy()).isEmpty)
        #expect(script.violations().isEmpty)
    }

    @Test func shrinkingLeavesWhatIsNeeded() {
        // Nothing fails here, so that nothing can be left out.
        let script = FileFaultScript([
            .init(action: .append(3), faults: [2: .half]), .init(action: .kill, isFull: true),
        ])
        #expect(script.shrunk().steps == script.steps)
        #expect(
            "\(script)" == """
                FileFaultScript([
                    .init(action: .append(3), faults: [2: .half]),
                    .init(action: .kill, isFull: true),
                ]).check()
                """)
    }
}

/// Files of which the third that is made takes nothing and says nothing.
private final class Lossy: FileSystem {
    private let base = MemoryFiles()
    private let made = Locked(0)

    func createAppender(_ path: String) throws -> any FileAppender {
        let number = made.withLock { made in
            made += 1
            return made
        }
        let appender = try base.createAppender(path)
        return number == 3 ? Deaf() : appender
    }

    private struct Deaf: FileAppender {
        func append(_ bytes: ArraySlice<UInt8>) {}
        func truncate(to size: Int) {}
        func sync() {}
        func close() {}
    }

    func contents(of path: String) throws -> [UInt8]? { try base.contents(of: path) }
    func contents(of path: String, from offset: Int, count: Int) throws -> [UInt8]? {
        try base.contents(of: path, from: offset, count: count)
    }
    func store(_ bytes: [UInt8], at path: String) throws { try base.store(bytes, at: path) }
    func overwrite(_ bytes: [UInt8], at path: String, offset: Int) throws {
        try base.overwrite(bytes, at: path, offset: offset)
    }
    func sync(_ path: String) throws { try base.sync(path) }
    func list(_ folder: String) throws -> [FileEntry] { try base.list(folder) }
    func remove(_ path: String) throws { try base.remove(path) }
    func move(_ path: String, to newPath: String) throws { try base.move(path, to: newPath) }
    func makeFolder(_ path: String) throws { try base.makeFolder(path) }
    func lock(_ path: String) throws -> (any FileLock)? { try base.lock(path) }
}
