import Testing

@testable import Tiller

@Suite(.timeLimit(.minutes(5))) struct SystemZlibTests {
    @Test func systemHasZlib() {
        #expect(SystemZlib.shared != nil)
    }

    @Test func libraryThatDoesNotExistIsNone() {
        #expect(SystemZlib.load(["libtiller-no-such-library.so.1", "/no/such/folder/libz.so.1"]) == nil)
        #expect(SystemZlib.load([]) == nil)
    }

    @Test func libraryWithoutTheFunctionsIsNone() {
        #expect(SystemZlib.load(["libm.so.6", "/usr/lib/libm.dylib"]) == nil)
    }

    @Test func searchGoesOnAfterLibrariesThatWillNotDo() {
        let names = ["libtiller-no-such-library.so.1", "libm.so.6", "libz.so.1", "libz.so", "/usr/lib/libz.1.dylib"]
        #expect(SystemZlib.load(names) != nil)
    }

    /// The C layout, by zlib's own header, where `long` and pointers have 64 bits.
    @Test(.enabled(if: MemoryLayout<Int>.size == 8)) func streamIsLaidOutAsInC() {
        typealias Stream = SystemZlib.Stream
        #expect(MemoryLayout<Stream>.size == 112)
        #expect(MemoryLayout<Stream>.stride == 112)
        #expect(MemoryLayout<Stream>.alignment == 8)
        let offsets = [
            MemoryLayout<Stream>.offset(of: \.nextIn), MemoryLayout<Stream>.offset(of: \.availableIn),
            MemoryLayout<Stream>.offset(of: \.totalIn), MemoryLayout<Stream>.offset(of: \.nextOut),
            MemoryLayout<Stream>.offset(of: \.availableOut), MemoryLayout<Stream>.offset(of: \.totalOut),
            MemoryLayout<Stream>.offset(of: \.message), MemoryLayout<Stream>.offset(of: \.state),
            MemoryLayout<Stream>.offset(of: \.allocate), MemoryLayout<Stream>.offset(of: \.free),
            MemoryLayout<Stream>.offset(of: \.opaque), MemoryLayout<Stream>.offset(of: \.dataType),
            MemoryLayout<Stream>.offset(of: \.checksum), MemoryLayout<Stream>.offset(of: \.reserved),
        ]
        #expect(offsets == [0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104])
    }
}
