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

    /// How long the last answer took.
    private let pace = Locked(Duration.seconds(1))
    /// An answer that is so near leaves little to wait for.
    private static let nearness = Duration.milliseconds(5)

    /// The transport.
    public init() {}

    /// 60 000 on Linux, where the system's client keeps a core busy while it waits for the answer to a larger body; `nil` as
    /// long as answers come within 5 ms.
    public var preferredBodyBytes: Int? {
        guard let bytes = SystemNetworking.preferredBodyBytes, pace.withLock({ $0 }) > Self.nearness else { return nil }
        return bytes
    }

    /// Why there was no answer. The system's own errors name the whole URL, which is not for a log.
    public struct NoAnswer: Error, Hashable, CustomStringConvertible {
        /// What happened, for people.
        public let description: String
        /// What kind of trouble it is.
        public let kind: Kind

        /// Whether the answer took longer than the request's `timeout`.
        public var isTimeout: Bool { kind == .timeout }

        /// A kind of trouble on the way to an answer.
        public struct Kind: Sendable, Hashable {
            private let name: String

            /// The answer took longer than the request's `timeout`.
            public static let timeout = Kind(name: "timeout")
            /// The server could not be reached, or the connection broke off.
            public static let connection = Kind(name: "connection")
            /// The server's certificate was not accepted: it is not for this host, not of its time, or of an authority that
            /// this machine does not know. A proxy that looks into connections has such a certificate.
            public static let certificate = Kind(name: "certificate")
            /// Anything else.
            public static let other = Kind(name: "other")
        }

        init(description: String, kind: Kind = .other) {
            self.description = description
            self.kind = kind
        }

        /// - Parameters:
        ///   - error: What the system's client says.
        ///   - host: The request's.
        init(_ error: NSError, host: String?) {
            let kind = Kind(error)
            var words = error.localizedDescription
            if kind == .certificate { words = "the server's certificate was not accepted" }
            // https://github.com/swiftlang/swift-corelibs-foundation/issues/5496
            if error.code == NSURLErrorBadURL, host?.contains(":") ?? false {
                words = "the system's client takes no IPv6 address in a URL here; a host name works"
            }
            self.init(description: "\(words) (\(error.domain) \(error.code))", kind: kind)
        }
    }

    /// Posts a request.
    public func post(_ request: TransportRequest) async throws -> TransportResponse {
        guard let url = URL(string: request.url) else { throw NoAnswer(description: "the URL can't be used") }
        var urlRequest = URLRequest(url: url)
        urlRequest.httpMethod = "POST"
        urlRequest.timeoutInterval = Double(request.timeout.wholeMilliseconds) / 1_000
        for (name, value) in request.headers { urlRequest.setValue(value, forHTTPHeaderField: name) }
        let start = ContinuousClock.now
        var duration = Duration.seconds(1)  // if there is no answer
        defer { pace.withLock { [duration] in $0 = duration } }
        let (data, response) = try await upload(Data(request.body), urlRequest)
        duration = start.duration(to: .now)
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
                    Self.answers.expect(task, atMost: .seconds(2 * request.timeoutInterval), done)
                    task.resume()
                }
            } onCancel: {
                task.cancel()
            }
        } catch let noAnswer as NoAnswer {
            throw noAnswer
        } catch {
            throw NoAnswer(error as NSError, host: request.url?.host)
        }
    }
}

extension URLSessionTransport.NoAnswer.Kind {
    fileprivate init(_ error: NSError) {
        guard error.domain == NSURLErrorDomain else {
            self = .other
            return
        }
        switch error.code {
        case _ where SystemNetworking.isCertificateFailure(error): self = .certificate
        case NSURLErrorTimedOut: self = .timeout
        case NSURLErrorCannotFindHost, NSURLErrorCannotConnectToHost, NSURLErrorNetworkConnectionLost,
            NSURLErrorDNSLookupFailed, NSURLErrorNotConnectedToInternet, NSURLErrorSecureConnectionFailed,
            NSURLErrorBadServerResponse:
            self = .connection
        default: self = .other
        }
    }
}

/// Puts answers together, and takes a redirect for one: a POST that is sent elsewhere becomes a GET, whose success says
/// nothing of the events. A delegate, because on Linux the session's `async` methods follow redirects without asking.
private final class AnswerCollector: NSObject, URLSessionDataDelegate {
    typealias Done = CheckedContinuation<(Data, URLResponse?), any Error>

    private struct Waiting: Sendable {
        var body = Data()
        let latest: ContinuousClock.Instant
        let done: Done
    }

    /// In bytes. The data plane's own answers have a few words.
    private static let longestBody = 65_536

    private let waiting = Locked<[Int: Waiting]>([:])

    /// - Parameter longest: The client's own time-out is for silence; this is for an answer that never ends.
    func expect(_ task: URLSessionTask, atMost longest: Duration, _ done: Done) {
        waiting.withLock { $0[task.taskIdentifier] = Waiting(latest: .now + longest, done: done) }
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
        Self.cancel(task)
        let end = URLSessionTransport.NoAnswer(description: "the connection ended before the answer")
        waiting.withLock { $0.removeValue(forKey: task.taskIdentifier) }?.done.resume(throwing: end)
    }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        let (ended, isLate) = waiting.withLock { waiting -> (Waiting?, Bool) in
            waiting[dataTask.taskIdentifier]?.body.append(data.prefix(Self.longestBody))
            guard let answer = waiting[dataTask.taskIdentifier] else { return (nil, false) }
            let isLate = answer.latest < .now
            guard isLate || answer.body.count > Self.longestBody else { return (nil, false) }
            return (waiting.removeValue(forKey: dataTask.taskIdentifier), isLate)
        }
        guard let ended else { return }
        Self.cancel(dataTask)
        if isLate {
            ended.done.resume(
                throwing: URLSessionTransport.NoAnswer(description: "the answer did not end in time", kind: .timeout))
        } else {
            ended.done.resume(returning: (ended.body.prefix(Self.longestBody), dataTask.response))
        }
    }

    /// The client calls its delegate on the queue that a cancellation waits for.
    private static func cancel(_ task: URLSessionTask) { DispatchQueue.global().async { task.cancel() } }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        guard let ended = waiting.withLock({ $0.removeValue(forKey: task.taskIdentifier) }) else { return }
        if let error {
            ended.done.resume(throwing: error)
        } else {
            ended.done.resume(returning: (ended.body, task.response))
        }
    }
}
