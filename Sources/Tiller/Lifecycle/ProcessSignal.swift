/// A signal that ends a process unless the process does something about it.
public struct ProcessSignal: Sendable, Hashable {
    /// As `sigaction` takes it.
    let number: Int32

    /// `SIGTERM`: a service manager, a container's runtime or `kill` asks the process to end.
    public static let terminate = ProcessSignal(number: 15)
    /// `SIGINT`: a person has pressed Ctrl-C.
    public static let interrupt = ProcessSignal(number: 2)
}
