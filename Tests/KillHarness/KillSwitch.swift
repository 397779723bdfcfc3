import Foundation
import Tiller
import TillerTesting

/// Kills one child at a request of its own: before the answer, or a little after it. From any thread.
final class KillSwitch: Sendable {
    private struct State: Sendable {
        /// `nil`: the child has ended, and its identifier may be another's soon.
        var child: Int32?
        /// How many requests are left until the kill; `nil`: none kills it.
        var requests: Int?
        /// A result that nobody needs, so that no turn is optimized away.
        var sink: UInt64 = 0
    }

    private let state: Locked<State>
    /// After so many turns of work behind the answer; `nil`: before it.
    private let turns: Int?

    init(child: Int32, requests: Int?, turns: Int?) {
        state = Locked(State(child: child, requests: requests))
        self.turns = turns
    }

    /// A request of the child's was judged; its answer is not sent before this returns.
    func noteRequest() {
        let isIt = state.withLock { state in
            guard let requests = state.requests else { return false }
            state.requests = requests > 1 ? requests - 1 : nil
            return requests <= 1
        }
        guard isIt else { return }
        guard let turns else { return pull() }
        Thread.detachNewThread {
            let sink = SeededRandom.spin(turns)
            self.state.withLock { $0.sink = sink }
            self.pull()
        }
    }

    /// Kills it now.
    func pull() {
        state.withLock { state in
            if let child = state.child.take() { ChildProcess.kill(child) }
        }
    }

    /// Kills nobody from now on.
    func disarm() { state.withLock { $0.child = nil } }
}

extension SeededRandom {
    /// Keeps a core busy, so that no clock decides the moment. Each turn needs the one before.
    ///
    /// - Returns: Something that depends on all turns.
    static func spin(_ turns: Int) -> UInt64 {
        var word: UInt64 = 1
        for _ in 0..<turns {
            var random = SeededRandom(seed: word, stream: 0)
            word = random.next()
        }
        return word
    }
}
