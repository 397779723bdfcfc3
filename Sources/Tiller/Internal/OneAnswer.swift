/// An answer that one task waits for, given by whoever comes first.
package final class OneAnswer<Value: Sendable>: Sendable {
    private enum State: Sendable {
        case open
        case awaited(CheckedContinuation<Value, Never>)
        case given(Value)
        case taken
    }

    private let state = Locked(State.open)

    package init() {}

    /// Gives the answer, unless there is one.
    package func give(_ value: Value) {
        let waiting = state.withLock { state -> CheckedContinuation<Value, Never>? in
            switch state {
            case .open: state = .given(value)
            case .awaited(let waiting):
                state = .taken
                return waiting
            case .given, .taken: break
            }
            return nil
        }
        waiting?.resume(returning: value)
    }

    /// Waits for the answer; to be called once.
    ///
    /// - Parameters:
    ///   - cancelled: The answer if the task is cancelled before there is another.
    ///   - ask: Sees to it that an answer is given.
    package func wait(
        orWhenCancelled cancelled: @autoclosure @escaping @Sendable () -> Value, _ ask: (OneAnswer) -> Void
    ) async -> Value {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let given = state.withLock { state -> Value? in
                    guard case .given(let value) = state else {
                        state = .awaited(continuation)
                        return nil
                    }
                    state = .taken
                    return value
                }
                if let given { return continuation.resume(returning: given) }
                ask(self)
            }
        } onCancel: {
            give(cancelled())
        }
    }
}
