import Foundation

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// The default transport: one URL session for the life of the process.
public struct URLSessionTransport: Transport {
    /// Never invalidated: on Linux a request on an invalidated session ends the process, and connections are kept alive
    /// because a new one burns a core while it waits for its first answer.
    private static let session: URLSession = {
        let configuration = URLSessionConfiguration.ephemeral
        configuration.httpShouldSetCookies = false
        configuration.urlCache = nil
        return URLSession(configuration: configuration)
    }()

    /// The transport.
    public init() {}

    /// Why there was no answer. The system's own errors name the whole URL, which is not for a log.
    public struct NoAnswer: Error, Hashable, CustomStringConvertible {
        /// What happened, for people.
        public let description: String
    }

    /// Posts a request.
    public func post(_ request: TransportRequest) async throws -> TransportResponse {
        guard let url = URL(string: request.url) else { throw NoAnswer(description: "the URL can't be used") }
        var urlRequest = URLRequest(url: url)
        urlRequest.httpMethod = "POST"
        urlRequest.timeoutInterval = Double(request.timeout.wholeMilliseconds) / 1_000
        for (name, value) in request.headers { urlRequest.setValue(value, forHTTPHeaderField: name) }
        let (data, response) = try await upload(Data(request.body), urlRequest)
        guard let answer = response as? HTTPURLResponse else { throw NoAnswer(description: "it was not HTTP") }
        return TransportResponse(status: answer.statusCode, body: Array(data))
    }

    private func upload(_ body: Data, _ request: URLRequest) async throws -> (Data, URLResponse) {
        do {
            return try await Self.session.upload(for: request, from: body)
        } catch {
            let error = error as NSError
            throw NoAnswer(description: "\(error.localizedDescription) (\(error.domain) \(error.code))")
        }
    }
}
