@testable import TillerTesting

/// HTTP requests are the same in whatever pieces they arrive, and no body is longer than its limit. The first byte says how
/// large the pieces are.
func fuzzRequests(_ input: [UInt8]) {
    guard let first = input.first else { return }
    let whole = Outcome(of: input.dropFirst(), inPiecesOf: .max, limit: .max)
    let pieces = Outcome(of: input.dropFirst(), inPiecesOf: Int(first % 16) + 1, limit: .max)
    check(whole == pieces, "\(whole)\nin pieces:\n\(pieces)")
    guard whole.longestBody > 0 else { return }
    let limited = Outcome(of: input.dropFirst(), inPiecesOf: .max, limit: whole.longestBody)
    // A body that breaks off may be longer than all the others: then it is refused for that.
    let isSame = whole.requests == limited.requests && (whole.status == limited.status || limited.status == 413)
    check(isSame, "\(whole)\nwith a limit that suffices:\n\(limited)")
    let refused = Outcome(of: input.dropFirst(), inPiecesOf: .max, limit: whole.longestBody - 1)
    check(refused.status == 413, "a body of \(whole.longestBody) bytes is one too long: \(refused)")
}

/// What a reader finds in some bytes, request by request.
private struct Outcome: Equatable {
    private(set) var requests: [String] = []
    private(set) var longestBody = 0
    /// With which the last one was refused; `nil` if the bytes ended.
    private(set) var status: Int?

    init(of bytes: ArraySlice<UInt8>, inPiecesOf size: Int, limit: Int) {
        var reader = LocalDataPlane.RequestReader(Pieces(bytes, size: size))
        do {
            while true {
                let head = try reader.readHead()
                check(!head.request.method.isEmpty && head.request.path.hasPrefix("/"), "\(head)")
                requests.append("\(head)")
                // No more can arrive; the reader reserves nothing for what is only promised.
                let body = try reader.readBody(head.framing, limit: limit)
                if case .length(let length) = head.framing {
                    check(body.count == length, "\(body.count) of \(length) bytes")
                }
                longestBody = max(longestBody, body.count)
                requests.append("\(body)")
            }
        } catch .refused(let reply) {
            check([400, 413, 431, 500, 501].contains(reply.status), "\(reply)")
            check(!reply.message(to: nil, isLast: true).isEmpty, "no answer")
            status = reply.status
        } catch {}
    }
}

/// Bytes that arrive a few at a time.
private final class Pieces: ByteSource {
    private var rest: ArraySlice<UInt8>
    private let size: Int

    init(_ bytes: ArraySlice<UInt8>, size: Int) {
        rest = bytes
        self.size = size
    }

    func limitReceiving(toSeconds seconds: Int) {}

    func receive(into buffer: inout [UInt8]) -> Int {
        let piece = rest.prefix(min(size, buffer.count))
        rest = rest.dropFirst(piece.count)
        buffer.replaceSubrange(..<piece.count, with: piece)
        return piece.count
    }
}
