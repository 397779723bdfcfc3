#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Android)
import Android
#endif

/// What gzip needs of the system's zlib, looked up in the shared library at run time: building takes no header,
/// and a system without zlib still runs.
struct SystemZlib: Sendable {
    /// `nil` where there is no zlib, as in a statically linked program.
    static let shared: SystemZlib? = load(names)

    // A full path on Apple, where the loader also looks for a bare name in the working folder.
    #if canImport(Darwin)
    private static let names = ["/usr/lib/libz.1.dylib"]
    #else
    private static let names = ["libz.so.1", "libz.so"]
    #endif

    private typealias Version = @convention(c) () -> UnsafePointer<CChar>?
    private typealias StartDeflating =
        @convention(c) (
            UnsafeMutableRawPointer, CInt, CInt, CInt, CInt, CInt, UnsafePointer<CChar>?, CInt
        ) -> CInt
    private typealias StartInflating =
        @convention(c) (UnsafeMutableRawPointer, CInt, UnsafePointer<CChar>?, CInt) -> CInt
    private typealias Step = @convention(c) (UnsafeMutableRawPointer, CInt) -> CInt
    private typealias End = @convention(c) (UnsafeMutableRawPointer) -> CInt

    private let version: Version
    private let startDeflating: StartDeflating
    private let startInflating: StartInflating
    private let deflateStep: Step
    private let inflateStep: Step
    private let deflateEnd: End
    private let inflateEnd: End

    /// The first library of these names that has all that is needed. It stays loaded.
    static func load(_ names: [String]) -> SystemZlib? {
        for name in names {
            guard let library = dlopen(name, RTLD_NOW | RTLD_LOCAL) else { continue }
            if let zlib = SystemZlib(library) { return zlib }
            dlclose(library)
        }
        return nil
    }

    private init?(_ library: UnsafeMutableRawPointer) {
        func function<Function>(_ name: String, _: Function.Type) -> Function? {
            dlsym(library, name).map { unsafeBitCast($0, to: Function.self) }
        }
        guard
            let version = function("zlibVersion", Version.self),
            let startDeflating = function("deflateInit2_", StartDeflating.self),
            let startInflating = function("inflateInit2_", StartInflating.self),
            let deflateStep = function("deflate", Step.self),
            let inflateStep = function("inflate", Step.self),
            let deflateEnd = function("deflateEnd", End.self),
            let inflateEnd = function("inflateEnd", End.self),
            // `Stream` is the layout of zlib 1.
            let number = version(), number.pointee == CChar(UInt8(ascii: "1"))
        else { return nil }
        self.version = version
        self.startDeflating = startDeflating
        self.startInflating = startInflating
        self.deflateStep = deflateStep
        self.inflateStep = inflateStep
        self.deflateEnd = deflateEnd
        self.inflateEnd = inflateEnd
    }
}

// MARK: - Streams

extension SystemZlib {
    /// zlib's `z_stream`, field by field. Its address must not change between start and end: zlib keeps it.
    struct Stream {
        var nextIn: UnsafePointer<UInt8>?
        var availableIn: CUnsignedInt = 0
        var totalIn: CUnsignedLong = 0
        var nextOut: UnsafeMutablePointer<UInt8>?
        var availableOut: CUnsignedInt = 0
        var totalOut: CUnsignedLong = 0
        var message: UnsafePointer<CChar>?
        var state: UnsafeMutableRawPointer?
        // The allocator: zlib's own where these are null.
        var allocate: UnsafeMutableRawPointer?
        var free: UnsafeMutableRawPointer?
        var opaque: UnsafeMutableRawPointer?
        var dataType: CInt = 0
        var checksum: CUnsignedLong = 0
        var reserved: CUnsignedLong = 0
    }

    /// What zlib's functions return; the errors that are not named here are negative too.
    enum Status {
        static let ok: CInt = 0
        static let streamEnd: CInt = 1
        static let memoryError: CInt = -4
    }

    /// The largest window, with gzip's header and trailer around the stream and no other format taken.
    private static let gzipWindowBits: CInt = 15 + 16

    /// `.ok`, and `endDeflating` must be called, or an error.
    func startDeflating(_ stream: UnsafeMutablePointer<Stream>, level: CInt) -> CInt {
        let deflated: CInt = 8
        let memoryLevel: CInt = 8
        let defaultStrategy: CInt = 0
        return startDeflating(
            stream, level, deflated, Self.gzipWindowBits, memoryLevel, defaultStrategy, version(),
            CInt(MemoryLayout<Stream>.size))
    }

    func deflate(_ stream: UnsafeMutablePointer<Stream>, isLastInput: Bool) -> CInt {
        deflateStep(stream, isLastInput ? 4 : 0)
    }

    func endDeflating(_ stream: UnsafeMutablePointer<Stream>) { _ = deflateEnd(stream) }

    /// `.ok`, and `endInflating` must be called, or an error.
    func startInflating(_ stream: UnsafeMutablePointer<Stream>) -> CInt {
        startInflating(stream, Self.gzipWindowBits, version(), CInt(MemoryLayout<Stream>.size))
    }

    func inflate(_ stream: UnsafeMutablePointer<Stream>) -> CInt { inflateStep(stream, 0) }

    func endInflating(_ stream: UnsafeMutablePointer<Stream>) { _ = inflateEnd(stream) }
}
