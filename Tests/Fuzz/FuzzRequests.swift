@testable import TillerTesting

/// HTTP requests are the same in whatever pieces they arrive.
func fuzzRequests(_ input: [UInt8]) {
    guard let first = input.first else { return }
    let whole = outcomes(of: Pieces(input.dropFirst(), size: .max))
    let pieces = outcomes(of: Pieces(input.dropFirst(), size: Int(first % 16) + 1))
    check(whole == pieces, "\(whole)\nin pieces:\n\(pieces)")
}

/// What a reader finds in the bytes, request by request.
private func outcomes(of source: Pieces) -> [String] {
    let limit = 10_000
    var reader = LocalDataPlane.RequestReader(source)
    var outcomes: [String] = []
    do {
        while true {
            let head = try reader.readHead()
            check(!head.request.method.isEmpty && head.request.path.hasPrefix("/"), "\(head)")
            outcomes.append("\(head)")
            let body = try reader.readBody(head.framing, limit: limit)
            check(body.count <= limit, "a body of \(body.count) bytes")
            if case .length(let length) = head.framing {
                check(body.count == length, "\(body.count) of \(length) bytes")
            }
            outcomes.append("\(body)")
        }
    } catch .refused(let reply) {
        check([400, 413, 431, 500, 501].contains(reply.status), "\(reply)")
        check(!reply.message(to: nil, isLast: true).isEmpty, "no answer")
        outcomes.append("\(reply)")
    } catch {
        outcomes.append("ended")
    }
    return outcomes
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
