import Foundation
import Testing

@testable import Tiller

/// Who has a lock, told without taking it.
@Suite(.timeLimit(.minutes(5))) struct LockHolderTests {
    private let folder = TestFolder()

    private static let list = """
        1: POSIX  ADVISORY  WRITE 28018 fe:00:16220271 1073741824 1073742335
        2: FLOCK  ADVISORY  WRITE 4711 fe:00:16220271 0 EOF
        2: -> FLOCK  ADVISORY  WRITE 4712 fe:00:16220272 0 EOF
        3: FLOCK  ADVISORY  WRITE -1 00:2b:77 0 EOF
        4: FLOCK
        5: FLOCK  ADVISORY  READ x zz:1:2:3 0 EOF

        """

    @Test(
        arguments: [
            (0xFE, 0, 16_220_271, LockHolder.held(by: 4711)), (0xFE, 1, 16_220_271, .free),
            (0xFE, 0, 16_220_272, .free),
            (0, 0x2B, 77, .held(by: nil)), (0, 0x2C, 77, .held(by: nil)), (1, 0x2B, 77, .free),
        ] as [(UInt64, UInt64, UInt64, LockHolder)])
    func listOfLocksIsRead(_ major: UInt64, _ minor: UInt64, _ inode: UInt64, _ holder: LockHolder) {
        let file = LockHolder.Listed(major: major, minor: minor, inode: inode)
        #expect(LockHolder.find(file, in: Self.list, seesAll: true) == holder)
        let inContainer = LockHolder.find(file, in: Self.list, seesAll: false)
        #expect(inContainer == (holder == .free ? .noneInSight : holder))
    }

    @Test func holderIsThisProcessUntilItLetsGo() throws {
        try FileManager.default.createDirectory(at: folder.url, withIntermediateDirectories: true)
        let path = folder.path + "/x.lock"
        #expect(LockHolder(of: path) == .free)
        let lock = try #require(try SystemFiles().lock(path))
        #if canImport(Darwin)
        #expect(LockHolder(of: path) == .held(by: nil))
        #else
        #expect(LockHolder(of: path) == .held(by: Int(getpid())))
        #endif
        lock.unlock()
        #expect([.free, .noneInSight].contains(LockHolder(of: path)))
        // Looking has taken nothing.
        #expect(try SystemFiles().lock(path) != nil)
    }
}
