// A dispatch source may be used from any thread; its type does not say so yet.
@preconcurrency import Dispatch

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Android)
import Android
#endif

/// Takes a signal's place in the process: says on a queue that it has come, and lets it take its course later, as if it had
/// come then.
///
/// Almost nothing may be done in a signal handler. Ours writes a message into a pair of sockets, no more. To pass the signal
/// on to the handler that was there before, the message goes back through the sockets and the signal is sent to the process
/// once more: the handler finds the message, and calls the other one where the system would have called it. So a program
/// that waits for its handler in `pause` or `poll` wakes up.
///
/// One is made for a signal at its first use and never ends, as a handler may run at any time: one that the host installed
/// after ours may call ours whenever it likes.
final class SignalRelay: Sendable {
    /// What our handler knows of a signal. Written while it is not installed.
    private struct Knowledge {
        /// A child that was forked has the handler too, and its parent's sockets.
        var process: pid_t = 0
        var descriptor: Int32 = -1
        var former: SignalAction
    }

    /// The address of what the handlers know, by the signal's number: a handler can reach nothing but globals.
    private static let knowledge = UInt(
        bitPattern: {
            let all = UnsafeMutablePointer<Knowledge>.allocate(capacity: capacity)
            all.initialize(repeating: Knowledge(former: SignalAction(of: SIGTERM)), count: capacity)
            return all
        }())
    private static let capacity = 32

    /// A host that calls it as what it looks like, without looking at its flags, shall be right: it takes what the one
    /// before took.
    private static let handler: SignalAction.Handler = { signal in SignalRelay.receive(signal, nil, nil) }
    private static let infoHandler: SignalAction.InfoHandler = { signal, info, context in
        SignalRelay.receive(signal, info, context)
    }

    private let signal: Int32
    private let descriptors: (handlers: Int32, ours: Int32)
    private let source: any DispatchSourceRead
    private let state = Locked(State())

    private struct State: Sendable {
        /// What was there before ours.
        var former: SignalAction?
        /// Also while the host's own is in our place.
        var isInstalled = false
    }

    /// - Parameters:
    ///   - signal: One whose number is below 32.
    ///   - arrival: Called on the queue with a message to `pass(on:)`.
    /// - Returns: `nil` if the process is out of descriptors.
    init?(_ signal: Int32, on queue: DispatchQueue, _ arrival: @escaping @Sendable (Message) -> Void) {
        var ends: [Int32] = [-1, -1]
        guard signal < Self.capacity, socketpair(AF_UNIX, Self.datagrams, 0, &ends) == 0 else { return nil }
        for end in ends {
            _ = fcntl(end, F_SETFD, FD_CLOEXEC)
            _ = fcntl(end, F_SETFL, O_NONBLOCK)
        }
        self.signal = signal
        let ours = ends[1]
        descriptors = (ends[0], ours)
        source = DispatchSource.makeReadSource(fileDescriptor: ours, queue: queue)
        source.setEventHandler { while let message = Message(from: ours) { arrival(message) } }
        source.activate()
    }

    /// What the handler says of one arrival of the signal: what the system said of it, or no more than that it came.
    struct Message: Sendable {
        fileprivate var bytes: [UInt8]

        fileprivate init?(from descriptor: Int32) {
            bytes = [UInt8](repeating: 0, count: MemoryLayout<siginfo_t>.size)
            let count = read(descriptor, &bytes, bytes.count)
            guard count > 0 else { return nil }
            bytes.removeLast(bytes.count - count)
        }
    }

    #if canImport(Glibc) || canImport(Android)
    private static let datagrams = Int32(SOCK_DGRAM.rawValue)
    #else
    private static let datagrams = SOCK_DGRAM
    #endif
}

// MARK: - In and out

extension SignalRelay {
    private static func isOurs(_ action: SignalAction) -> Bool {
        action.handler == unsafeBitCast(handler, to: Int.self)
            || action.handler == unsafeBitCast(infoHandler, to: Int.self)
    }

    /// Installs the handler, unless the signal is ignored. One that the host has replaced may be called by the new one:
    /// before that it would call itself.
    func install() {
        state.withLock { state in
            let present = SignalAction(of: signal)
            if state.isInstalled || present.isIgnored { return }
            state = State(former: present, isInstalled: true)
            while Message(from: descriptors.handlers) != nil {}  // what was left behind
            Self.knowledge(of: signal)?.pointee = Knowledge(
                process: getpid(), descriptor: descriptors.handlers, former: present)
            // Once outside of a signal, so that in one the runtime has nothing left to make.
            Self.receive(0, nil, nil)
            own(for: present).set(for: signal)
        }
    }

    /// Puts back what was there before, if nobody else has changed it.
    func remove() {
        state.withLock { state in
            guard state.isInstalled, Self.isOurs(SignalAction(of: signal)) else { return }
            state.former?.set(for: signal)
            state.isInstalled = false
        }
    }

    private func own(for former: SignalAction) -> SignalAction {
        if former.isDefault { return SignalAction(Self.handler, flags: SA_RESTART | SA_ONSTACK, mask: former.mask) }
        let flags = former.flags & (SA_RESTART | SA_ONSTACK | SA_NODEFER)
        return former.flags & SA_SIGINFO != 0
            ? SignalAction(Self.infoHandler, flags: flags, mask: former.mask)
            : SignalAction(Self.handler, flags: flags, mask: former.mask)
    }

    private static func knowledge(of signal: Int32) -> UnsafeMutablePointer<Knowledge>? {
        UnsafeMutablePointer<Knowledge>(bitPattern: knowledge)?.advanced(by: Int(signal))
    }
}

// MARK: - The signal's course

extension SignalRelay {
    /// Whether the signal will end the process when it is passed on.
    var isFatal: Bool { state.withLock { $0.former?.isDefault ?? false } }

    /// Lets the signal take the course that it would have taken without us.
    func pass(on message: Message) {
        guard let former = state.withLock({ $0.former }) else { return }
        let present = SignalAction(of: signal)
        if former.isDefault || former.isForOnce {
            former.set(for: signal)
            if former.isDefault { unblock() }
            kill(getpid(), signal)
            // Still there: the first process of a container has no default.
            if former.isDefault, Self.isOurs(present) { present.set(for: signal) }
        } else if Self.isOurs(present) {
            _ = message.bytes.withUnsafeBytes { write(descriptors.ours, $0.baseAddress, $0.count) }
            kill(getpid(), signal)
        } else if present.handler == former.handler {
            kill(getpid(), signal)  // ours was taken away meanwhile
        } else {
            // The host's own calls ours; sent again, the signal would come to it once more.
            var info = siginfo_t()
            withUnsafeMutableBytes(of: &info) { $0.copyBytes(from: message.bytes.prefix($0.count)) }
            withUnsafeMutablePointer(to: &info) { info in
                former.call(signal, message.bytes.count > 1 ? info : nil, nil)
            }
        }
    }

    /// Dispatch's threads take no signals.
    private func unblock() {
        var set = sigset_t()
        sigemptyset(&set)
        sigaddset(&set, signal)
        pthread_sigmask(SIG_UNBLOCK, &set, nil)
    }

    /// Our handler. It uses nothing but the stack, system calls and what lies at a fixed address.
    ///
    /// - Parameter signal: 0: not in a signal.
    private static func receive(
        _ signal: Int32, _ info: UnsafeMutablePointer<siginfo_t>?, _ context: UnsafeMutableRawPointer?
    ) {
        guard let known = knowledge(of: signal) else { return }
        let savedError = errno
        defer { errno = savedError }
        guard known.pointee.process == getpid() else {
            if signal != 0 { passOn(signal, known.pointee.former, info, context) }
            return
        }
        var message = siginfo_t()
        let size = MemoryLayout<siginfo_t>.size
        let count = read(known.pointee.descriptor, &message, size)
        if count == size {
            known.pointee.former.call(signal, &message, context)
        } else if count > 0 {
            known.pointee.former.call(signal, info, context)
        } else {
            if let info { message = info.pointee }
            let sent = write(known.pointee.descriptor, &message, info == nil ? 1 : size)
            // If there is no room, one is on its way already.
            if sent < 0, errno != EAGAIN, errno != ENOBUFS { passOn(signal, known.pointee.former, info, context) }
        }
    }

    /// In a signal handler that can tell nobody.
    private static func passOn(
        _ signal: Int32, _ former: SignalAction, _ info: UnsafeMutablePointer<siginfo_t>?,
        _ context: UnsafeMutableRawPointer?
    ) {
        guard former.isDefault else { return former.call(signal, info, context) }
        former.set(for: signal)
        raise(signal)
    }
}
