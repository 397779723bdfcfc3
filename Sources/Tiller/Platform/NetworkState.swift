#if canImport(Network)
import Dispatch
import Network
#endif

/// How the machine is connected, where the system tells it without being asked around for.
enum NetworkState {
    #if canImport(Network)
    /// Begins to observe.
    ///
    /// - Parameter handler: Gets the present state soon, and each new one, on a queue of its own.
    /// - Returns: Ends the observation when cancelled or released.
    static func observe(_ handler: @escaping @Sendable (SystemContext.Network) -> Void) -> CancellationToken? {
        let monitor = NWPathMonitor()
        monitor.pathUpdateHandler = { path in
            let isConnected = path.status == .satisfied
            #if os(tvOS)
            let isCellular = false
            #else
            let isCellular = isConnected && path.usesInterfaceType(.cellular)
            #endif
            handler(SystemContext.Network(wifi: isConnected && path.usesInterfaceType(.wifi), cellular: isCellular))
        }
        monitor.start(queue: DispatchQueue(label: "tiller.network"))
        return CancellationToken { monitor.cancel() }
    }
    #else
    /// Nothing tells it.
    static func observe(_ handler: @escaping @Sendable (SystemContext.Network) -> Void) -> CancellationToken? { nil }
    #endif
}
