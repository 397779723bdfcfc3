import Foundation

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// The default transport: one URL session for the life of the process.
public struct URLSessionTransport: Transport {
    /// Never invalidated: on Linux a request on an invalidated session ends the process, and connections are kept alive
    /// because a new one burns a core while it waits (`TOOLCHAIN.md` §5).
    private static let session: URLSession = {
        let configuration = URLSessionConfiguration.ephemeral
        configuration.httpShouldSetCookies = false
        configuration.urlCache = nil
        return URLSession(configuration: configuration)
    }()

    /// The transport.
    public init() {}

    /// What is not an HTTP answer.
    private struct NoHTTPAnswer: Error, CustomStringConvertible {
        var description: String { "the answer was not HTTP" }
    }

    private struct UnusableURL: Error, CustomStringConvertible {
        let url: String
        var description: String { "not a usable URL" }
    }

    /// Posts a request.
    public func post(_ request: TransportRequest) async throws -> TransportResponse {
        guard let url = URL(string: request.url) else { throw UnusableURL(url: request.url) }
        var urlRequest = URLRequest(url: url)
        urlRequest.httpMethod = "POST"
        urlRequest.timeoutInterval = Double(request.timeout.wholeMilliseconds) / 1_000
        for (name, value) in request.headers { urlRequest.setValue(value, forHTTPHeaderField: name) }
        let (data, response) = try await Self.session.upload(for: urlRequest, from: Data(request.body))
        guard let answer = response as? HTTPURLResponse else { throw NoHTTPAnswer() }
        return TransportResponse(status: answer.statusCode, body: Array(data))
    }
}
