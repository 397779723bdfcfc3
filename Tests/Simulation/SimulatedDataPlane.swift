import Tiller
import TillerTesting

/// A data plane and the network before it, without either: what becomes of a request is drawn when it is posted.
final class SimulatedDataPlane: Sendable {
    /// What the network and the server are like for a while.
    enum Weather: String, CaseIterable, Sendable {
        case good, losesAnswers, down, silent, failing, throttling, refusing, misconfigured, portal, slow, mixed
    }

    /// What becomes of one request.
    struct Course: Sendable, Equatable {
        /// Whether the server stores its events, at once.
        var arrives = false
        /// `nil`: the connection is lost without an answer.
        var answer: TransportResponse?
        /// When it is answered or lost.
        var delay: Duration = .zero
    }

    /// A request that was posted.
    struct Posted: Sendable {
        let id: Int
        let life: Int
        let request: TransportRequest
        let course: Course
    }

    private struct Waiting: Sendable {
        let posted: Posted
        let due: Duration
        let continuation: CheckedContinuation<TransportResponse, any Error>
    }

    private struct State: Sendable {
        var weather = Weather.good
        var waiting: [Waiting] = []
        /// Broken off before they came to wait.
        var cancelled: Set<Int> = []
        var dead: Set<Int> = []
        var last = 0
        var random: SeededRandom
    }

    /// Why there was no answer.
    struct NoAnswer: Error, CustomStringConvertible {
        let description: String
    }

    private let state: Locked<State>
    private let time: VirtualTime
    /// Told of each request of a live process when it is posted, and of what came of it when that is told the process.
    private let didPost: @Sendable (Posted) -> Void
    private let didAnswer: @Sendable (Posted) -> Void

    init(
        random: SeededRandom, time: VirtualTime, didPost: @escaping @Sendable (Posted) -> Void,
        didAnswer: @escaping @Sendable (Posted) -> Void
    ) {
        state = Locked(State(random: random))
        self.time = time
        self.didPost = didPost
        self.didAnswer = didAnswer
    }

    func setWeather(_ weather: Weather) { state.withLock { $0.weather = weather } }

    /// The transport of a process.
    func transport(of life: Int, isAlive: @escaping @Sendable () -> Bool) -> any Transport {
        Connection(plane: self, life: life, isAlive: isAlive)
    }

    /// When the next answer is due.
    var nextAnswer: Duration? { state.withLock { $0.waiting.map(\.due).min() } }

    /// Answers one request whose time has come.
    ///
    /// - Returns: Whether there was one.
    func answerNext() -> Bool {
        let now = time.now
        let next = state.withLock { state -> Waiting? in
            guard let index = state.waiting.indices.min(by: { state.waiting[$0].due < state.waiting[$1].due }),
                state.waiting[index].due <= now
            else { return nil }
            return state.waiting.remove(at: index)
        }
        guard let next else { return false }
        didAnswer(next.posted)
        if let answer = next.posted.course.answer {
            next.continuation.resume(returning: answer)
        } else {
            next.continuation.resume(throwing: NoAnswer(description: "the connection was lost"))
        }
        return true
    }

    /// A process is dead: it hears nothing any more.
    func end(_ life: Int) {
        let ended = state.withLock { state in
            state.dead.insert(life)
            defer { state.waiting.removeAll { $0.posted.life == life } }
            return state.waiting.filter { $0.posted.life == life }
        }
        for waiting in ended { waiting.continuation.resume(throwing: NoAnswer(description: "the process is dead")) }
    }
}

// MARK: - The process's side

extension SimulatedDataPlane {
    private struct Connection: Transport {
        let plane: SimulatedDataPlane
        let life: Int
        let isAlive: @Sendable () -> Bool

        func post(_ request: TransportRequest) async throws -> TransportResponse {
            guard isAlive() else { throw NoAnswer(description: "the process is dead") }
            let posted = plane.admit(request, of: life)
            return try await withTaskCancellationHandler {
                try await withCheckedThrowingContinuation { plane.wait(for: posted, $0) }
            } onCancel: {
                plane.cancel(posted.id)
            }
        }
    }

    private func admit(_ request: TransportRequest, of life: Int) -> Posted {
        let posted = state.withLock { state in
            state.last += 1
            var course = state.weather.course(&state.random)
            // What takes longer is given up, whatever becomes of it.
            if course.delay > request.timeout { course = Course(arrives: course.arrives, delay: request.timeout) }
            return Posted(id: state.last, life: life, request: request, course: course)
        }
        didPost(posted)
        return posted
    }

    private func wait(for posted: Posted, _ continuation: CheckedContinuation<TransportResponse, any Error>) {
        let due = time.now + posted.course.delay
        let isOver = state.withLock { state in
            if state.cancelled.remove(posted.id) != nil || state.dead.contains(posted.life) { return true }
            state.waiting.append(Waiting(posted: posted, due: due, continuation: continuation))
            return false
        }
        if isOver { continuation.resume(throwing: NoAnswer(description: "broken off")) }
    }

    private func cancel(_ id: Int) {
        let waiting = state.withLock { state -> Waiting? in
            guard let index = state.waiting.firstIndex(where: { $0.posted.id == id }) else {
                state.cancelled.insert(id)
                return nil
            }
            return state.waiting.remove(at: index)
        }
        waiting?.continuation.resume(throwing: NoAnswer(description: "broken off"))
    }
}

// MARK: - Weather

extension SimulatedDataPlane.Weather {
    fileprivate typealias Course = SimulatedDataPlane.Course

    fileprivate func course(_ random: inout SeededRandom) -> Course {
        switch self {
        case .good: Course(arrives: true, answer: .ok)
        case .losesAnswers:
            Course(
                arrives: true, answer: random.happens(onceIn: 2) ? .ok : nil, delay: .milliseconds(random.below(900)))
        case .down: Course(delay: .milliseconds(random.below(3)))
        case .silent: Course(arrives: random.happens(onceIn: 4), delay: .seconds(3_600))
        // The events of such an answer may have been stored all the same.
        case .failing:
            Course(
                arrives: random.happens(onceIn: 8),
                answer: .status([500, 502, 503, 504], &random), delay: .milliseconds(random.below(200)))
        case .throttling: Course(answer: .status([429, 408, 425], &random))
        case .refusing: Course(answer: .status([400, 413, 422], &random))
        case .misconfigured: Course(answer: .status([401, 403, 404, 301], &random))
        case .portal: Course(answer: TransportResponse(status: 200, body: Array("<html>log in</html>".utf8)))
        case .slow: Course(arrives: true, answer: .ok, delay: .milliseconds(1 + random.below(45_000)))
        case .mixed: mixed(&random).course(&random)
        }
    }

    /// Half of it is good.
    private func mixed(_ random: inout SeededRandom) -> Self {
        let others = Self.allCases.filter { $0 != .mixed }
        return random.happens(onceIn: 2) ? .good : others[random.below(others.count)]
    }
}

extension TransportResponse {
    fileprivate static let ok = TransportResponse(status: 200, body: Array("ok".utf8))

    fileprivate static func status(_ statuses: [Int], _ random: inout SeededRandom) -> TransportResponse {
        TransportResponse(status: statuses[random.below(statuses.count)])
    }
}
