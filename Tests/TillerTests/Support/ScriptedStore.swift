import Tiller

/// A store of one test's own: it can be unreadable, another's, and copied as a kill would leave it.
final class ScriptedStore: StateStore {
    private struct State: Sendable {
        var objects: [String: JSONObject]
        var isReadable: Bool
        var saveCount = 0
    }

    let isOwned: Bool
    private let state: Locked<State>

    init(_ objects: [String: JSONObject] = [:], isOwned: Bool = true, isReadable: Bool = true) {
        self.isOwned = isOwned
        state = Locked(State(objects: objects, isReadable: isReadable))
    }

    var objects: [String: JSONObject] { state.withLock { $0.objects } }
    var saveCount: Int { state.withLock { $0.saveCount } }

    func setReadable(_ isReadable: Bool) { state.withLock { $0.isReadable = isReadable } }

    /// What another process finds after this one was killed just now.
    func afterKill(isOwned: Bool = true) -> ScriptedStore { ScriptedStore(objects, isOwned: isOwned) }

    func load(_ key: String) -> Stored {
        state.withLock { state in
            state.isReadable ? state.objects[key].map(Stored.value) ?? .absent : .unreadable
        }
    }

    /// What could not be read is gone with the first change that may replace it.
    func save(_ changes: [StateChange]) {
        state.withLock { state in
            if !state.isReadable { state.objects = [:] }
            state.isReadable = true
            state.saveCount += 1
            for change in changes {
                state.objects[change.key] = change.applied(to: state.objects[change.key] ?? [:])
            }
        }
    }

    func prepareToClose() {}
    func close() {}
}
