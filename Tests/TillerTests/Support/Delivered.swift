import Tiller
import TillerTesting

extension Analytics {
    /// Flushes, and gives every event that the data plane has got so far.
    func delivered(to transport: StubTransport) async -> [JSONObject] {
        await flushed()
        return transport.events
    }

    /// Waits for the pipeline, and gives every event that a destination has got so far.
    func settled(_ destination: RecordingDestination) async -> [Event] {
        await settled()
        return destination.events
    }
}

extension JSONValue {
    /// How many objects and lists lie in each other here, this one included.
    var levels: Int {
        switch self {
        case .array(let values): 1 + (values.map(\.levels).max() ?? 0)
        case .object(let object): 1 + (object.map(\.value.levels).max() ?? 0)
        default: 0
        }
    }

    /// So many lists in each other.
    static func nested(_ levels: Int) -> JSONValue {
        var value = JSONValue.int(1)
        for _ in 0..<levels { value = .array([value]) }
        return value
    }
}
