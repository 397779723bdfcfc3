/// gzip (RFC 1952) by the system's zlib.
///
/// Callable from any thread; works on the caller's.
package enum Gzip {
    /// Why bytes can't be inflated.
    package enum Failure: Error, Equatable {
        /// There is no zlib on this system, or no memory for it.
        case unavailable
        /// Not gzip, cut short, a wrong checksum or length, or other bytes after its end.
        case damaged
        /// More bytes come out than the caller's limit.
        case tooLarge
    }

    /// Compresses bytes to one gzip member.
    ///
    /// - Parameters:
    ///   - bytes: Any, also none.
    ///   - level: 1, fast, to 9, small; 0 stores. On a batch of events level 1 is four times as fast as level 9, for a third
    ///     more bytes.
    /// - Returns: `nil` where there is no zlib or it fails: no memory, no such level.
    package static func compress(_ bytes: [UInt8], level: Int32 = 1) -> [UInt8]? {
        compress(bytes, level: level, by: .shared)
    }

    /// Inflates a gzip body, also of several members in a row.
    ///
    /// - Parameters:
    ///   - bytes: The whole body. An empty one is no gzip.
    ///   - limit: The most bytes that may come out. Whatever the body claims or hides, no more is inflated than one byte
    ///     beyond it.
    /// - Throws: `Failure`; what came out so far is lost.
    package static func inflate(_ bytes: [UInt8], limit: Int) throws(Failure) -> [UInt8] {
        try inflate(bytes, limit: limit, by: .shared)
    }

    static func compress(_ bytes: [UInt8], level: Int32 = 1, by zlib: SystemZlib?) -> [UInt8]? {
        guard let zlib else { return nil }
        return withStream { stream in
            guard zlib.startDeflating(stream, level: level) == SystemZlib.Status.ok else { return nil }
            defer { zlib.endDeflating(stream) }
            var output: [UInt8] = []
            let (status, _) = run(stream, on: bytes[...], into: &output, limit: .max) { isLastInput in
                zlib.deflate(stream, isLastInput: isLastInput)
            }
            return status == SystemZlib.Status.streamEnd ? output : nil
        }
    }

    static func inflate(_ bytes: [UInt8], limit: Int, by zlib: SystemZlib?) throws(Failure) -> [UInt8] {
        guard let zlib else { throw .unavailable }
        var output: [UInt8] = []
        var rest = bytes[...]
        repeat {
            let (status, consumed) = inflateMember(rest, into: &output, limit: max(0, limit), by: zlib)
            switch status {
            case SystemZlib.Status.streamEnd where output.count <= max(0, limit): rest = rest.dropFirst(consumed)
            // Stopped with no error: there is more than the limit.
            case SystemZlib.Status.streamEnd, SystemZlib.Status.ok: throw .tooLarge
            case SystemZlib.Status.memoryError: throw .unavailable
            default: throw .damaged
            }
        } while !rest.isEmpty
        return output
    }

    private static func inflateMember(
        _ input: ArraySlice<UInt8>, into output: inout [UInt8], limit: Int, by zlib: SystemZlib
    ) -> (status: CInt, consumed: Int) {
        withStream { stream in
            let status = zlib.startInflating(stream)
            guard status == SystemZlib.Status.ok else { return (status, 0) }
            defer { zlib.endInflating(stream) }
            return run(stream, on: input, into: &output, limit: limit) { _ in zlib.inflate(stream) }
        }
    }
}

// MARK: - Running a stream

extension Gzip {
    /// zlib counts what it is handed at a time in 32 bits; a body may be longer.
    private static let inputPiece = 1 << 20
    private static let outputPiece = 1 << 16

    private static func withStream<Result>(_ body: (UnsafeMutablePointer<SystemZlib.Stream>) -> Result) -> Result {
        let stream = UnsafeMutablePointer<SystemZlib.Stream>.allocate(capacity: 1)
        stream.initialize(to: SystemZlib.Stream())
        defer { stream.deallocate() }
        return body(stream)
    }

    /// Calls a step of zlib until it says anything but "go on", or the output is longer than the limit: by one byte then.
    ///
    /// A step always has room, and all the input there is or a piece of it, so "no progress", an error to zlib, comes only
    /// at the end of an input that is cut short.
    private static func run(
        _ stream: UnsafeMutablePointer<SystemZlib.Stream>, on input: ArraySlice<UInt8>, into output: inout [UInt8],
        limit: Int, step: (_ isLastInput: Bool) -> CInt
    ) -> (status: CInt, consumed: Int) {
        let buffer = UnsafeMutablePointer<UInt8>.allocate(capacity: outputPiece)
        defer { buffer.deallocate() }
        return input.withUnsafeBufferPointer { input in
            var status = SystemZlib.Status.ok
            var consumed = 0
            while status == SystemZlib.Status.ok && output.count <= limit {
                let offered = min(input.count - consumed, inputPiece)
                let room = min(limit - output.count, outputPiece - 1) + 1
                stream.pointee.nextIn = input.baseAddress.map { $0 + consumed }
                stream.pointee.availableIn = CUnsignedInt(offered)
                stream.pointee.nextOut = buffer
                stream.pointee.availableOut = CUnsignedInt(room)
                status = step(consumed + offered == input.count)
                consumed += offered - Int(stream.pointee.availableIn)
                output.append(
                    contentsOf: UnsafeBufferPointer(start: buffer, count: room - Int(stream.pointee.availableOut)))
            }
            return (status, consumed)
        }
    }
}
