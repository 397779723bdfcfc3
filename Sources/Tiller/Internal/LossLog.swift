/// Says each loss of events once, with its reason; what follows for the same reason is counted, and said as a sum once a
/// minute. No timer runs while nothing is lost.
final class LossLog: Sendable {
    private struct State: Sendable {
        /// Since it was last said, by reason; a reason that was never said is not there.
        var unsaid: [String: Int] = [:]
        var lastTimerId = 0
        /// Noted before it is set.
        var timer: (id: Int, token: CancellationToken?)?
    }

    static let interval = Duration.seconds(60)

    private let say: @Sendable (String, (any Error)?) -> Void
    private let time: (any TimeSource)?
    private let state = Locked(State())

    /// - Parameters:
    ///   - time: `nil`: sums are said by `sayRest` only.
    ///   - say: Called outside the lock, from any thread.
    init(time: (any TimeSource)?, say: @escaping @Sendable (String, (any Error)?) -> Void) {
        self.time = time
        self.say = say
    }

    /// - Parameters:
    ///   - reason: For people, and what counts as the same thing.
    ///   - first: What is said the first time.
    func note(_ count: Int, _ reason: String, _ first: () -> String, _ error: (any Error)?) {
        guard count > 0 else { return }
        let (isFirst, timerId) = state.withLock { state -> (Bool, Int?) in
            guard let unsaid = state.unsaid[reason] else {
                state.unsaid[reason] = 0
                return (true, nil)
            }
            state.unsaid[reason] = unsaid + count
            guard state.timer == nil, time != nil else { return (false, nil) }
            state.lastTimerId += 1
            state.timer = (state.lastTimerId, nil)
            return (false, state.lastTimerId)
        }
        if isFirst { say(first(), error) }
        if let timerId { startTimer(timerId) }
    }

    private func startTimer(_ id: Int) {
        guard let time else { return }
        let token = time.schedule(after: Self.interval) { [weak self] in self?.sayRest() }
        let isOver = state.withLock { state in
            guard state.timer?.id == id else { return true }
            state.timer?.token = token
            return false
        }
        if isOver { token.cancel() }
    }

    /// Says what has only been counted so far.
    func sayRest() {
        let (sums, token) = state.withLock { state in
            let sums = state.unsaid.filter { $0.value > 0 }
            for reason in sums.keys { state.unsaid[reason] = 0 }
            return (sums, state.timer.take()?.token)
        }
        token?.cancel()
        for (reason, count) in sums.sorted(by: { $0.key < $1.key }) {
            say("\(count) more events were lost: \(reason)", nil)
        }
    }
}
