public import Tiller

extension TransportRequest {
    /// The body as JSON: inflated, if it is compressed. Empty if it is not what its headers say.
    public var plainBody: [UInt8] {
        guard headers["Content-Encoding"] == "gzip" else { return body }
        return (try? Gzip.inflate(body, limit: 1 << 26)) ?? []
    }

    /// The events in the body, in order.
    public var events: [JSONObject] {
        (try? JSONValue(parsing: plainBody))?["batch"]?.array?.compactMap(\.object) ?? []
    }
}

/// A transport without a network: it remembers requests and answers as it is told.
public final class StubTransport: Transport {
    /// What becomes of a request.
    public enum Answer: Sendable {
        /// An answer with this status.
        case status(Int)
        /// No answer.
        case failure(any Error)
        /// No answer until `release()` is called, then 200.
        case hold
    }

    /// Why there was no answer, where a test needs no error of its own.
    public struct NoAnswer: Error, Hashable {
        /// An error.
        public init() {}
    }

    private struct State: Sendable {
        var answers: [Answer] = []
        var standing: Answer
        var requests: [TransportRequest] = []
        var held: [CheckedContinuation<Void, Never>] = []
        var isReleased = false
        var waiters: [(count: Int, OneAnswer<Void>)] = []
    }

    private let state: Locked<State>

    /// A transport.
    ///
    /// - Parameter answer: What becomes of every request that `answerNext` says nothing of; 200 by default.
    public init(_ answer: Answer = .status(200)) { state = Locked(State(standing: answer)) }

    /// The requests so far, in order.
    public var requests: [TransportRequest] { state.withLock { $0.requests } }

    /// The events of all requests so far, in order.
    public var events: [JSONObject] { requests.flatMap(\.events) }

    /// What becomes of the next requests.
    public func answerNext(_ answers: Answer...) { state.withLock { $0.answers += answers } }

    /// What becomes of every later request.
    public func answerAlways(_ answer: Answer) { state.withLock { $0.standing = answer } }

    /// Answers what is held, and holds nothing more.
    public func release() {
        let held = state.withLock { state in
            state.isReleased = true
            defer { state.held = [] }
            return state.held
        }
        for continuation in held { continuation.resume() }
    }

    /// Waits until so many requests have been posted, or the task is cancelled: at a time limit, a test is.
    public func requests(count: Int) async {
        await OneAnswer<Void>().wait(orWhenCancelled: ()) { waiter in
            let isThere = state.withLock { state in
                if state.requests.count >= count { return true }
                state.waiters.append((count, waiter))
                return false
            }
            if isThere { waiter.give(()) }
        }
    }

    /// Remembers the request and answers.
    public func post(_ request: TransportRequest) async throws -> TransportResponse {
        let (answer, reached) = state.withLock { state in
            state.requests.append(request)
            let count = state.requests.count
            let reached = state.waiters.filter { $0.count <= count }.map(\.1)
            state.waiters.removeAll { $0.count <= count }
            return (state.answers.isEmpty ? state.standing : state.answers.removeFirst(), reached)
        }
        for waiter in reached { waiter.give(()) }
        switch answer {
        case .status(let status):
            return TransportResponse(status: status, body: Array((status == 200 ? "ok" : "").utf8))
        case .failure(let error): throw error
        case .hold:
            await withCheckedContinuation { continuation in
                let isReleased = state.withLock { state in
                    if !state.isReleased { state.held.append(continuation) }
                    return state.isReleased
                }
                if isReleased { continuation.resume() }
            }
            return TransportResponse(status: 200, body: Array("ok".utf8))
        }
    }
}
