#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Android)
import Android
#endif

/// What a process does about a signal, with the handler as an address: 0 is the default, 1 is to ignore it.
struct SignalAction: Sendable {
    typealias Handler = @convention(c) (Int32) -> Void
    typealias InfoHandler =
        @convention(c) (
            Int32, UnsafeMutablePointer<siginfo_t>?, UnsafeMutableRawPointer?
        ) -> Void

    let handler: Int
    let flags: Int32
    /// What is blocked meanwhile.
    let mask: sigset_t

    /// What is done now.
    init(of signal: Int32) {
        var action = sigaction()
        sigaction(signal, nil, &action)
        handler = Self.address(in: action)
        flags = Int32(truncatingIfNeeded: action.sa_flags)
        mask = action.sa_mask
    }

    init(_ handler: Handler, flags: Int32, mask: sigset_t) {
        self.init(unsafeBitCast(handler, to: Int.self), flags: flags & ~Int32(SA_SIGINFO), mask: mask)
    }

    init(_ handler: InfoHandler, flags: Int32, mask: sigset_t) {
        self.init(unsafeBitCast(handler, to: Int.self), flags: flags | Int32(SA_SIGINFO), mask: mask)
    }

    private init(_ handler: Int, flags: Int32, mask: sigset_t) {
        (self.handler, self.flags, self.mask) = (handler, flags, mask)
    }

    var isDefault: Bool { handler == 0 }
    var isIgnored: Bool { handler == 1 }
    /// The handler is called once, and then there is none.
    var isForOnce: Bool { flags & Int32(bitPattern: UInt32(truncatingIfNeeded: SA_RESETHAND)) != 0 }
    private var takesInfo: Bool { flags & Int32(SA_SIGINFO) != 0 }

    /// Puts it in force. May be called in a signal handler.
    func set(for signal: Int32) {
        var action = sigaction()
        Self.setAddress(handler, in: &action)
        action.sa_flags = numericCast(flags)
        action.sa_mask = mask
        sigaction(signal, &action, nil)
    }

    /// Calls the handler, which there must be. May be called in a signal handler.
    func call(_ signal: Int32, _ info: UnsafeMutablePointer<siginfo_t>?, _ context: UnsafeMutableRawPointer?) {
        if takesInfo {
            unsafeBitCast(handler, to: InfoHandler.self)(signal, info, context)
        } else {
            unsafeBitCast(handler, to: Handler.self)(signal)
        }
    }

    // The handler is a union of two function pointers, under another name in each C library.
    #if canImport(Darwin)
    private static func address(in action: sigaction) -> Int { unsafeBitCast(action.__sigaction_u, to: Int.self) }
    private static func setAddress(_ address: Int, in action: inout sigaction) {
        action.__sigaction_u = unsafeBitCast(address, to: type(of: action.__sigaction_u))
    }
    #elseif canImport(Glibc)
    private static func address(in action: sigaction) -> Int { unsafeBitCast(action.__sigaction_handler, to: Int.self) }
    private static func setAddress(_ address: Int, in action: inout sigaction) {
        action.__sigaction_handler = unsafeBitCast(address, to: type(of: action.__sigaction_handler))
    }
    #elseif canImport(Musl)
    private static func address(in action: sigaction) -> Int { unsafeBitCast(action.__sa_handler, to: Int.self) }
    private static func setAddress(_ address: Int, in action: inout sigaction) {
        action.__sa_handler = unsafeBitCast(address, to: type(of: action.__sa_handler))
    }
    #else
    private static func address(in action: sigaction) -> Int { unsafeBitCast(action.sa_handler, to: Int.self) }
    private static func setAddress(_ address: Int, in action: inout sigaction) {
        action.sa_handler = unsafeBitCast(address, to: type(of: action.sa_handler))
    }
    #endif
}
