import Foundation
import Tiller

/// A source that notes who asks it, and answers by a closure.
final class WatchedContextSource: ContextSource {
    private struct State: Sendable {
        var readings = 0
        var observations = 0
        var callers = 0
        var handlers: [Int: @Sendable () -> Void] = [:]
    }

    let hasDeviceId: Bool
    private let answer: @Sendable (_ reading: Int) -> SystemContext
    private let state = Locked(State())

    /// - Parameter answer: Given the number of the reading, from 1.
    init(hasDeviceId: Bool = false, _ answer: @escaping @Sendable (_ reading: Int) -> SystemContext) {
        self.hasDeviceId = hasDeviceId
        self.answer = answer
    }

    /// Marks the present thread as one that calls Tiller.
    static func markCaller() { Thread.current.threadDictionary["caller"] = true }

    var readings: Int { state.withLock { $0.readings } }
    /// How many observations were ever begun.
    var observations: Int { state.withLock { $0.observations } }
    /// How many have not ended.
    var observers: Int { state.withLock { $0.handlers.count } }
    /// How often it was asked on a thread that is marked.
    var askedOnCallersThread: Int { state.withLock { $0.callers } }

    func read() -> SystemContext {
        noteThread()
        let number = state.withLock { state in
            state.readings += 1
            return state.readings
        }
        return answer(number)
    }

    func observe(_ handler: @escaping @Sendable () -> Void) -> CancellationToken {
        noteThread()
        let id = state.withLock { state in
            state.observations += 1
            state.handlers[state.observations] = handler
            return state.observations
        }
        return CancellationToken { [weak self] in _ = self?.state.withLock { $0.handlers.removeValue(forKey: id) } }
    }

    func tellChange() { for handler in state.withLock({ Array($0.handlers.values) }) { handler() } }

    private func noteThread() {
        if Thread.current.threadDictionary["caller"] != nil { state.withLock { $0.callers += 1 } }
    }
}
