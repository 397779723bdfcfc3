// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation
public import Dispatch
import Synchronization

// What Tiller asks the Network framework, declared as the framework declares it.

public enum NWInterface {
    public enum InterfaceType: Sendable, Hashable { case other, wifi, cellular, wiredEthernet, loopback }
}

public struct NWPath: Sendable {
    public enum Status: Sendable, Hashable { case satisfied, unsatisfied, requiresConnection }

    public let status: Status
    private let types: Set<NWInterface.InterfaceType>

    /// The stub's.
    public init(_ status: Status, _ types: Set<NWInterface.InterfaceType> = []) {
        self.status = status
        self.types = types
    }

    public func usesInterfaceType(_ type: NWInterface.InterfaceType) -> Bool { types.contains(type) }
}

public final class NWPathMonitor: Sendable {
    private let handler = Mutex<(@Sendable (NWPath) -> Void)?>(nil)
    private let queue = Mutex<DispatchQueue?>(nil)

    public init() {}

    public var pathUpdateHandler: (@Sendable (NWPath) -> Void)? {
        get { handler.withLock { $0 } }
        set { handler.withLock { $0 = newValue } }
    }

    public func start(queue: DispatchQueue) {
        self.queue.withLock { $0 = queue }
        Self.running.withLock { $0.append(self) }
    }

    public func cancel() {
        queue.withLock { $0 = nil }
        Self.running.withLock { $0.removeAll { $0 === self } }
    }

    // MARK: The stub's

    private static let running = Mutex<[NWPathMonitor]>([])

    /// How many monitors have been started and not cancelled.
    public static var runningCount: Int { running.withLock { $0.count } }

    /// Tells every running monitor a path, each on its queue, and waits until it has been told.
    public static func tell(_ path: NWPath) {
        for monitor in running.withLock({ $0 }) {
            let (handler, queue) = (monitor.pathUpdateHandler, monitor.queue.withLock { $0 })
            queue?.sync { handler?(path) }
        }
    }
}
