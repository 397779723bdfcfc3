import Dispatch

/// Those who want to be told of signals, and what is done between a signal's arrival and its taking its course.
final class SignalObservers: Sendable {
    /// The process's; it has but one handler for each signal.
    static let standard = SignalObservers()

    private struct State: Sendable {
        var observers: [Int: (signals: [ProcessSignal], tell: @Sendable () -> Void)] = [:]
        var lastId = 0
        var relays: [ProcessSignal: SignalRelay] = [:]
        /// Reached when another signal comes after the newest.
        var next = Milestone()
    }

    /// How long it takes at the most until all is told and stored.
    private static let storing = DispatchTimeInterval.seconds(1)
    /// How long an upload may take then.
    private static let uploading = DispatchTimeInterval.seconds(2)

    private let state = Locked(State())
    private let arrivals = DispatchQueue(label: "tiller.signals")
    private let work = DispatchQueue(label: "tiller.signals.work")

    private init() {}

    /// - Parameter tell: Called on a queue; it should not take long.
    /// - Returns: Ends the observation when cancelled or released.
    func observe(_ signals: [ProcessSignal], _ tell: @escaping @Sendable () -> Void) -> CancellationToken {
        let id = state.withLock { state in
            for signal in signals { relay(of: signal, &state)?.install() }
            state.lastId += 1
            state.observers[state.lastId] = (signals, tell)
            return state.lastId
        }
        return CancellationToken { self.end(id) }
    }

    private func end(_ id: Int) {
        // The result is foreign code: it is released outside the lock.
        _ = state.withLock { state in
            let ended = state.observers.removeValue(forKey: id)
            let wanted = Set(state.observers.values.flatMap(\.signals))
            for signal in ended?.signals ?? [] where !wanted.contains(signal) { state.relays[signal]?.remove() }
            return ended
        }
    }

    private func relay(of signal: ProcessSignal, _ state: inout State) -> SignalRelay? {
        if let relay = state.relays[signal] { return relay }
        let relay = SignalRelay(signal.number, on: arrivals) { [weak self] message in
            self?.receive(signal, message)
        }
        state.relays[signal] = relay
        return relay
    }

    private func receive(_ signal: ProcessSignal, _ message: SignalRelay.Message) {
        let next = Milestone()
        let isFollowed = state.withLock { state in
            defer { state.next = next }
            return state.next
        }
        isFollowed.reach()
        work.async { self.handle(signal, message, until: next) }
    }

    private func handle(_ signal: ProcessSignal, _ message: SignalRelay.Message, until next: Milestone) {
        let (tells, relay) = state.withLock { state in
            let observers = state.observers.sorted { $0.key < $1.key }.map(\.value)
            return (observers.filter { $0.signals.contains(signal) }.map(\.tell), state.relays[signal])
        }
        guard let relay else { return }
        if !tells.isEmpty {
            let deadline = DispatchTime.now() + Self.storing
            tell(tells, until: deadline)
            if ProcessExit.drain(until: deadline, saysWhatIsLost: relay.isFatal) {
                ProcessExit.upload(for: Self.uploading, until: next)
            }
        }
        relay.pass(on: message)
    }

    /// An observer that does not come back keeps nobody from ending the process.
    private func tell(_ tells: [@Sendable () -> Void], until deadline: DispatchTime) {
        let told = DispatchSemaphore(value: 0)
        DispatchQueue.global().async {
            for tell in tells { tell() }
            told.signal()
        }
        _ = told.wait(timeout: deadline)
    }
}
