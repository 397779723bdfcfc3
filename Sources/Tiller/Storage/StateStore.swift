/// A change of one stored object: each key replaces what was stored under it, `null` removes it.
public struct StateChange: Sendable, Equatable {
    /// Which object: a capturing plugin's `storageKey`.
    public let key: String
    /// The keys that change.
    public var changes: JSONObject

    /// A change.
    ///
    /// - Parameters:
    ///   - key: Which object.
    ///   - changes: The keys that change.
    public init(key: String, changes: JSONObject) {
        self.key = key
        self.changes = changes
    }

    /// An object with the change made.
    ///
    /// - Parameter object: What was stored so far; empty if nothing was.
    /// - Returns: What is stored now.
    public func applied(to object: JSONObject) -> JSONObject {
        var object = object
        for (key, value) in changes {
            // Not a conditional expression: there `nil` would be the value `null`.
            if value == .null { object[key] = nil } else { object[key] = value }
        }
        return object
    }
}

/// Where an instance keeps its plugins' state.
///
/// Conformers keep "absent", "empty" and "unreadable" apart, and never
/// overwrite what they could not read but for a change that says so. `load`
/// comes from any thread, `save` from one at a time.
public protocol StateStore: Sendable {
    /// Whether this instance owns what is stored. A guest reads and never writes.
    var isOwned: Bool { get }

    /// What is stored under a key, read anew if it could not be read before.
    ///
    /// - Parameter key: A plugin's `storageKey`.
    /// - Returns: The object, or that there is none, or that it can't be read.
    func load(_ key: String) -> Stored

    /// Makes changes, all or none: after a kill at any point they are stored together or not at all. What an object becomes
    /// is said by `StateChange.applied(to:)`.
    ///
    /// - Parameter changes: What changes, in order.
    /// - Throws: Why nothing was stored. The caller reports it and goes on; the changes are made with the next ones.
    func save(_ changes: [StateChange]) throws

    /// The instance was shut down and will close the store when its last events are through: a new instance on the same
    /// place may wait for that. May come more than once, and after `close`.
    func prepareToClose()

    /// Gives up the ownership. Nothing is saved afterwards.
    func close()
}

/// A store in memory: what an instance has where there is no disk, and what tests share between instances.
public final class MemoryStateStore: StateStore {
    private let objects = Locked<[String: JSONObject]>([:])

    /// An empty store.
    public init() {}

    /// Always.
    public var isOwned: Bool { true }

    /// The object, or absent.
    public func load(_ key: String) -> Stored { objects.withLock { $0[key].map(Stored.value) ?? .absent } }

    /// Makes the changes at once.
    public func save(_ changes: [StateChange]) {
        objects.withLock { objects in
            for change in changes { objects[change.key] = change.applied(to: objects[change.key] ?? JSONObject()) }
        }
    }

    /// Does nothing.
    public func prepareToClose() {}

    /// Does nothing: the store can be given to the next instance.
    public func close() {}
}
