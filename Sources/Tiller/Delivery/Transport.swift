/// A request to the data plane.
public struct TransportRequest: Sendable, Hashable {
    /// The whole URL.
    public let url: String
    /// Header fields, by name.
    public let headers: [String: String]
    /// The body of a POST.
    public let body: [UInt8]
    /// How long to wait for the answer.
    public let timeout: Duration

    /// A request.
    ///
    /// - Parameters:
    ///   - url: The whole URL.
    ///   - headers: Header fields, by name.
    ///   - body: The body of a POST.
    ///   - timeout: How long to wait for the answer.
    public init(url: String, headers: [String: String], body: [UInt8], timeout: Duration) {
        self.url = url
        self.headers = headers
        self.body = body
        self.timeout = timeout
    }
}

/// The data plane's answer.
public struct TransportResponse: Sendable, Hashable {
    /// The HTTP status.
    public let status: Int
    /// Header fields, by name as the server wrote it; see `header(_:)`.
    public let headers: [String: String]
    /// The body.
    public let body: [UInt8]

    /// An answer.
    ///
    /// - Parameters:
    ///   - status: The HTTP status.
    ///   - headers: Header fields, by name; none by default. `Retry-After` is obeyed, `Date` and `Content-Type` are looked at.
    ///   - body: The body; empty by default.
    public init(status: Int, headers: [String: String] = [:], body: [UInt8] = []) {
        self.status = status
        self.headers = headers
        self.body = body
    }

    /// A header field's value; `nil` if there is none.
    ///
    /// - Parameter name: Upper and lower case are the same.
    public func header(_ name: String) -> String? {
        if let value = headers[name] { return value }
        let name = name.lowercased()
        return headers.first { $0.key.lowercased() == name }?.value
    }
}

/// Brings requests to the data plane, one at a time for an instance.
public protocol Transport: Sendable {
    /// Larger bodies, in bytes as they are sent, cost this transport more than more requests would; `nil`, the default: none
    /// do. A hint: one event is sent whatever its size.
    var preferredBodyBytes: Int? { get }

    /// Posts a request and waits for the answer.
    ///
    /// - Parameter request: What to post.
    /// - Returns: Whatever the server answered, also what is no success. Redirects are not to be followed: a POST that is
    ///   sent elsewhere becomes a GET, whose success says nothing of the events.
    /// - Throws: Why there was no answer. The events stay and are sent again later.
    func post(_ request: TransportRequest) async throws -> TransportResponse
}

extension Transport {
    /// No hint.
    public var preferredBodyBytes: Int? { nil }
}

/// How events are put into requests.
public struct Batching: Sendable, Hashable {
    private let name: String

    /// A request holds events of one anonymous id only, which the header `AnonymousId` names. For one person's device.
    public static let perIdentity = Batching(name: "perIdentity")
    /// A request may hold events of many; the header is one id of the installation. For services with many users.
    public static let mixed = Batching(name: "mixed")
}
