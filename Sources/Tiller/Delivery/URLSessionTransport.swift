import Dispatch
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
        return URLSession(configuration: configuration, delegate: answers, delegateQueue: nil)
    }()
    private static let answers = AnswerCollector()

    /// The transport.
    public init() {}

    /// 60 000 on Linux, where the system's client keeps a core busy while it waits for the answer to a larger body.
    public var preferredBodyBytes: Int? { SystemNetworking.preferredBodyBytes }

    /// Why there was no answer. The system's own errors name the whole URL, which is not for a log.
    public struct NoAnswer: Error, Hashable, CustomStringConvertible {
        /// What happened, for people.
        public let description: String
        /// Whether the answer took longer than the request's `timeout`.
        public let isTimeout: Bool

        init(description: String, isTimeout: Bool = false) {
            self.description = description
            self.isTimeout = isTimeout
        }
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
        let headers = answer.allHeaderFields.compactMap { name, value in
            (name as? String).map { ($0, "\(value)") }
        }
        return TransportResponse(
            status: answer.statusCode, headers: Dictionary(headers) { first, _ in first }, body: Array(data))
    }

    private func upload(_ body: Data, _ request: URLRequest) async throws -> (Data, URLResponse?) {
        guard let id = ProcessExit.beginRequest() else { throw NoAnswer(description: "the process is ending") }
        defer { ProcessExit.endRequest(id) }
        do {
            let task = Self.session.uploadTask(with: request, from: body)
            ProcessExit.setCancel(of: id) { task.cancel() }
            return try await withTaskCancellationHandler {
                try await withCheckedThrowingContinuation { done in
                    Self.answers.expect(task, done)
                    task.resume()
                }
            } onCancel: {
                task.cancel()
            }
        } catch let noAnswer as NoAnswer {
            throw noAnswer
        } catch {
            let error = error as NSError
            throw NoAnswer(
                description: "\(error.localizedDescription) (\(error.domain) \(error.code))",
                isTimeout: error.code == NSURLErrorTimedOut)
        }
    }
}

/// Puts answers together, and takes a redirect for one: a POST that is sent elsewhere becomes a GET, whose success says
/// nothing of the events. A delegate, because on Linux the session's `async` methods follow redirects without asking.
private final class AnswerCollector: NSObject, URLSessionDataDelegate {
    typealias Done = CheckedContinuation<(Data, URLResponse?), any Error>

    private let waiting = Locked<[Int: (body: Data, done: Done)]>([:])

    func expect(_ task: URLSessionTask, _ done: Done) {
        waiting.withLock { $0[task.taskIdentifier] = (Data(), done) }
    }

    func urlSession(
        _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
        newRequest request: URLRequest, completionHandler: @escaping @Sendable (URLRequest?) -> Void
    ) {
        completionHandler(nil)
    }

    /// On Linux the client asks for the body once more when a connection that was kept open ends without an answer: it sends
    /// the request again by itself. Without a body it would send the head alone, and wait for the whole time-out with a busy
    /// core; with one it stops the process. So it is told to give up; the events are sent again in a request of their own.
    func urlSession(
        _ session: URLSession, task: URLSessionTask,
        needNewBodyStream completionHandler: @escaping @Sendable (InputStream?) -> Void
    ) {
        completionHandler(nil)
        // The client calls this on the queue that a cancellation waits for.
        DispatchQueue.global().async { task.cancel() }
        let end = URLSessionTransport.NoAnswer(description: "the connection ended before the answer")
        waiting.withLock { $0.removeValue(forKey: task.taskIdentifier) }?.done.resume(throwing: end)
    }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        waiting.withLock { $0[dataTask.taskIdentifier]?.body.append(data) }
    }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        guard let (body, done) = waiting.withLock({ $0.removeValue(forKey: task.taskIdentifier) }) else { return }
        if let error { done.resume(throwing: error) } else { done.resume(returning: (body, task.response)) }
    }
}
