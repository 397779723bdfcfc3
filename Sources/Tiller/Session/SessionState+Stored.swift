/// How the state is stored. Everything but the spent mark is written as one by the calls; the spent mark is written with
/// the event that bears it, so the two never overwrite each other.
extension SessionState {
    private enum Key {
        static let session = "session"
        static let generation = "generation"
        static let lastGenerated = "lastGenerated"
        static let lastId = "lastId"
        static let spent = "spent"
        static let id = "id"
        static let isManual = "manual"
        static let wall = "wall"
        static let continuous = "continuous"
        static let boot = "boot"
    }

    /// What the calls store.
    var stored: JSONObject {
        [
            Key.session: session.map { .object($0.stored) } ?? .null,
            Key.generation: .uint(generation),
            Key.lastGenerated: .uint(lastGenerated),
            Key.lastId: lastId.map { .uint($0) } ?? .null,
        ]
    }

    /// What the seal stores.
    var storedMark: JSONObject { [Key.spent: .uint(spent)] }

    /// Takes in a stored state; what is missing or of another type counts as absent.
    mutating func load(_ stored: JSONObject) {
        // A number that could not grow any more would trap or stand still; no clock and no counting ever made one.
        generation = min(stored[Key.generation]?.uint ?? 0, UInt64(Int64.max))
        spent = min(stored[Key.spent]?.uint ?? 0, generation)
        lastGenerated = min(stored[Key.lastGenerated]?.uint ?? 0, UInt64(Int64.max))
        lastId = stored[Key.lastId]?.uint
        guard let value = stored[Key.session]?.object, let id = value[Key.id]?.uint, Self.isValidManualId(id) else {
            return
        }
        session = Session(
            id: id, isManual: value[Key.isManual]?.bool ?? false, generation: generation,
            activity: Instant(
                wall: value[Key.wall]?.int ?? 0, continuous: value[Key.continuous]?.int ?? 0,
                boot: value[Key.boot]?.string),
            isFromStore: true)
    }
}

extension SessionState.Session {
    fileprivate var stored: JSONObject {
        var object: JSONObject = [
            "id": .uint(id), "manual": .bool(isManual), "wall": .int(activity.wall),
            "continuous": .int(activity.continuous),
        ]
        if let boot = activity.boot { object["boot"] = .string(boot) }
        return object
    }
}
