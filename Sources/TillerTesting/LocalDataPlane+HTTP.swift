/// Where a reader's bytes come from: a socket.
protocol ByteSource {
    /// Limits how long one `receive` waits for a byte, in seconds.
    func limitReceiving(toSeconds seconds: Int)

    /// Waits for bytes and puts them at the front of a buffer.
    ///
    /// - Returns: How many they are; 0 after the end, a failure or the time limit.
    func receive(into buffer: inout [UInt8]) -> Int
}

extension Socket: ByteSource {}

extension LocalDataPlane {
    /// Reads HTTP/1.1 requests off a connection, one after the other (RFC 9112).
    struct RequestReader {
        /// In bytes. The gateway would judge larger bodies before it refuses them for their size; here they end the reading.
        static let maximumBodySize = 16 << 20
        /// In bytes, all lines of a head or all trailers together; the gateway's.
        private static let maximumHeadSize = 524_288
        /// In bytes: a chunk's size with its extensions.
        private static let maximumChunkLine = 4_096
        /// In seconds: the gateway's for the silence between two requests, and ours within one.
        private static let idleLimit = 720
        private static let silenceLimit = 30

        private let source: any ByteSource
        /// What was received, from `position` on not yet read.
        private var buffer: [UInt8] = []
        private var position = 0
        private var chunk = [UInt8](repeating: 0, count: 65_536)

        init(_ source: any ByteSource) { self.source = source }

        /// A request's head, and what follows from it.
        struct Head {
            /// Without its body.
            var request: Request
            var framing = Framing.length(0)
            /// Whether the client waits for `100 Continue` before it sends the body.
            var expectsContinue = false
            /// Whether this is the connection's last request.
            var isLast = false
        }

        /// Where a body ends.
        enum Framing {
            case length(Int)
            case chunked

            /// Whether there is none for sure.
            var isEmpty: Bool { if case .length(0) = self { true } else { false } }
        }

        /// Why the connection can't go on.
        enum Failure: Error {
            /// The client is gone or too slow, or the server stops: no one to answer.
            case ended
            /// Answer this, then close.
            case refused(Reply)
        }
    }
}

// MARK: - The head

extension LocalDataPlane.RequestReader {
    /// Waits for the next request and reads up to its body.
    mutating func readHead() throws(Failure) -> Head {
        source.limitReceiving(toSeconds: Self.idleLimit)
        if position == buffer.count { try fill() }
        source.limitReceiving(toSeconds: Self.silenceLimit)
        var budget = Self.maximumHeadSize
        var line: [UInt8]
        repeat { line = try readHeadLine(budget: &budget) } while line.isEmpty  // RFC 9112 §2.2 asks for this leniency
        let (method, target, version) = try parseRequestLine(line)
        var headers: LocalDataPlane.Headers = [:]
        while case let line = try readHeadLine(budget: &budget), !line.isEmpty {
            let (name, value) = try parseField(line)
            headers.append(name, value)
        }
        let path = String(target.prefix { $0 != "?" })
        return try head(of: LocalDataPlane.Request(method: method, path: path, headers: headers), version: version)
    }

    private mutating func readHeadLine(budget: inout Int) throws(Failure) -> [UInt8] {
        guard let line = try readLine(budget: &budget) else { throw .refused(.headTooLarge) }
        return line
    }

    private func parseRequestLine(
        _ line: [UInt8]
    ) throws(Failure) -> (method: String, target: String, version: String) {
        let parts = line.split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
        guard parts.count == 3, isToken(parts[0]), parts[1].first == UInt8(ascii: "/"), isText(parts[1]),
            case let version = String(decoding: parts[2], as: UTF8.self), ["HTTP/1.1", "HTTP/1.0"].contains(version)
        else { throw .refused(.badRequest()) }
        return (String(decoding: parts[0], as: UTF8.self), String(decoding: parts[1], as: UTF8.self), version)
    }

    private func parseField(_ line: [UInt8]) throws(Failure) -> (name: String, value: String) {
        let isBlank: (UInt8) -> Bool = { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") }
        guard let colon = line.firstIndex(of: UInt8(ascii: ":")), isToken(line[..<colon]),
            case let value = line[(colon + 1)...].drop(while: isBlank), isText(value)
        else { throw .refused(.badRequest()) }
        let end = value.lastIndex { !isBlank($0) }.map { $0 + 1 } ?? value.startIndex
        return (String(decoding: line[..<colon], as: UTF8.self), String(decoding: value[..<end], as: UTF8.self))
    }

    /// What the fields say about the body and the connection.
    private func head(of request: LocalDataPlane.Request, version: String) throws(Failure) -> Head {
        let isCurrent = version == "HTTP/1.1"
        let headers = request.headers
        let hosts = headers.values(of: "Host").count
        if isCurrent, hosts == 0 { throw .refused(.badRequest(": missing required Host header")) }
        if hosts > 1 { throw .refused(.badRequest(": too many Host headers")) }
        let connection = headers.values(of: "Connection").joined(separator: ",").lowercased()
        return Head(
            request: request,
            framing: try framing(of: headers),
            expectsContinue: headers["Expect"]?.lowercased() == "100-continue",
            isLast: !isCurrent || connection.split(whereSeparator: { ", \t".contains($0) }).contains("close"))
    }

    private func framing(of headers: LocalDataPlane.Headers) throws(Failure) -> Framing {
        let encodings = headers.values(of: "Transfer-Encoding")
        let lengths = headers.values(of: "Content-Length")
        guard encodings.isEmpty else {
            // Both together is how one request is smuggled inside another.
            guard lengths.isEmpty else { throw .refused(.badRequest()) }
            guard encodings.map({ $0.lowercased() }) == ["chunked"] else { throw .refused(.unknownEncoding) }
            return .chunked
        }
        guard let text = lengths.first else { return .length(0) }
        guard lengths.allSatisfy({ $0 == text }), text.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
            let length = Int(text)
        else { throw .refused(.badRequest()) }
        return .length(length)
    }

    /// Letters, digits and some signs, at least one (RFC 9110 §5.6.2).
    private func isToken(_ bytes: ArraySlice<UInt8>) -> Bool {
        !bytes.isEmpty
            && bytes.allSatisfy { byte in
                switch Unicode.Scalar(byte) {
                case "a"..."z", "A"..."Z", "0"..."9": true
                case let scalar: "!#$%&'*+-.^_`|~".unicodeScalars.contains(scalar)
                }
            }
    }

    /// No control characters but tabs.
    private func isText(_ bytes: ArraySlice<UInt8>) -> Bool {
        bytes.allSatisfy { $0 >= 0x20 && $0 != 0x7F || $0 == UInt8(ascii: "\t") }
    }
}

// MARK: - The body

extension LocalDataPlane.RequestReader {
    /// Reads the body that belongs to the head read last.
    ///
    /// - Parameter limit: In bytes; a larger one is refused.
    mutating func readBody(
        _ framing: Framing, limit: Int = LocalDataPlane.RequestReader.maximumBodySize
    ) throws(Failure) -> [UInt8] {
        do {
            switch framing {
            case .length(let length): return try readBody(length: length, limit: limit)
            case .chunked: return try readChunks(limit: limit)
            }
        } catch {
            // A client that only closed its sending side still reads the answer.
            guard case .ended = error else { throw error }
            throw .refused(.unreadableBody)
        }
    }

    /// Reads half of the body, or the first of it where its length is not known, whatever comes of it.
    mutating func readPart(_ framing: Framing) {
        var scrap: [UInt8] = []
        switch framing {
        case .length(let length): try? take(min(length / 2, Self.maximumBodySize), into: &scrap)
        case .chunked: if position == buffer.count { try? fill() }
        }
    }

    private mutating func readBody(length: Int, limit: Int) throws(Failure) -> [UInt8] {
        guard length <= limit else { throw .refused(.tooLarge) }
        var body: [UInt8] = []
        try take(length, into: &body)
        return body
    }

    private mutating func readChunks(limit: Int) throws(Failure) -> [UInt8] {
        var body: [UInt8] = []
        while case let size = try readChunkSize(), size > 0 {
            guard size <= limit - body.count else { throw .refused(.tooLarge) }
            try take(size, into: &body)
            var lineEnd = 2
            guard try readLine(budget: &lineEnd)?.isEmpty == true else { throw .refused(.unreadableBody) }
        }
        var budget = Self.maximumHeadSize
        while true {  // the trailers, of no interest
            guard let line = try readLine(budget: &budget) else { throw .refused(.unreadableBody) }
            if line.isEmpty { return body }
        }
    }

    private mutating func readChunkSize() throws(Failure) -> Int {
        var budget = Self.maximumChunkLine
        guard let line = try readLine(budget: &budget),
            case let digits = String(decoding: line.prefix { $0 != UInt8(ascii: ";") }, as: UTF8.self),
            digits.allSatisfy(\.isHexDigit), let size = Int(digits, radix: 16)
        else { throw .refused(.unreadableBody) }
        return size
    }
}

// MARK: - Bytes

extension LocalDataPlane.RequestReader {
    /// Reads a line and removes its end, LF or CRLF.
    ///
    /// - Parameter budget: How long the line may be, ends included; its length is taken off.
    /// - Returns: `nil` if it is longer.
    private mutating func readLine(budget: inout Int) throws(Failure) -> [UInt8]? {
        var searched = 0
        while true {
            if let end = buffer[(position + searched)...].firstIndex(of: UInt8(ascii: "\n")) {
                budget -= end + 1 - position
                guard budget >= 0 else { return nil }
                var line = Array(buffer[position..<end])
                position = end + 1
                if line.last == UInt8(ascii: "\r") { line.removeLast() }
                return line
            }
            searched = buffer.count - position
            guard searched < budget else { return nil }
            try fill()
        }
    }

    private mutating func take(_ count: Int, into body: inout [UInt8]) throws(Failure) {
        var rest = count
        while rest > 0 {
            if position == buffer.count { try fill() }
            let part = buffer[position...].prefix(rest)
            body += part
            position += part.count
            rest -= part.count
        }
    }

    /// Appends what arrives next to the buffer and forgets what was read.
    private mutating func fill() throws(Failure) {
        buffer.removeFirst(position)
        position = 0
        let count = source.receive(into: &chunk)
        guard count > 0 else { throw .ended }
        buffer += chunk[..<count]
    }
}

// MARK: - Answers

extension LocalDataPlane.Reply {
    /// What Go's server says by itself, before the gateway sees a request.
    static func badRequest(_ reason: String = "") -> Self { .status(400, "400 Bad Request\(reason)") }
    static let headTooLarge = status(431, "431 Request Header Fields Too Large")
    static let unknownEncoding = status(501, "Unsupported transfer encoding")

    /// The answer as bytes.
    ///
    /// - Parameters:
    ///   - request: What is answered; `nil` if it could not be read.
    ///   - isLast: Whether the connection closes after it.
    func message(to request: LocalDataPlane.Request?, isLast: Bool) -> [UInt8] {
        let body = Array(body.utf8)
        return head(framing: .length(body.count), isLast: isLast) + (request?.method == "HEAD" ? [] : body)
    }

    /// What precedes the body.
    func head(framing: LocalDataPlane.RequestReader.Framing, isLast: Bool) -> [UInt8] {
        var headers = headers
        if !body.isEmpty || !framing.isEmpty, headers["Content-Type"] == nil {
            headers["Content-Type"] = "text/plain; charset=utf-8"
        }
        switch framing {
        case .length(let length): if status != 204 { headers["Content-Length"] = "\(length)" }
        case .chunked: headers["Transfer-Encoding"] = "chunked"
        }
        if isLast { headers["Connection"] = "close" }
        var text = "HTTP/1.1 \(status) \(reason)\r\n"
        for (name, value) in headers.fields { text += "\(name): \(value)\r\n" }
        return Array((text + "\r\n").utf8)
    }

    /// For people who read along; clients go by the number.
    private var reason: String {
        let reasons = [
            200: "OK", 204: "No Content", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found",
            405: "Method Not Allowed",
            413: "Request Entity Too Large", 429: "Too Many Requests", 431: "Request Header Fields Too Large",
            500: "Internal Server Error", 501: "Not Implemented", 503: "Service Unavailable",
        ]
        return reasons[status] ?? ""
    }
}
