import Foundation
import Tiller

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#endif

/// A program that was started.
///
/// No `Process` of Foundation: on Linux that looks at all descriptors of this process before it starts another, and copies
/// 256 bytes of each one's name however long it is. Where a thousand are open, as in these tests, that ends behind the
/// list's memory, and now and then in a crash.
final class Program: Sendable {
    enum End: Sendable, Hashable {
        case exit(Int32)
        case signal(Int32)
    }

    struct Failure: Error {
        let path: String
        let code: Int32
    }

    private let id: pid_t
    private let end = Locked<End?>(nil)

    /// Starts it.
    ///
    /// - Parameters:
    ///   - folder: Its current folder; `nil`: this process's.
    ///   - input: Its standard input; `nil`: nothing.
    ///   - output: Its standard output; `nil`: nowhere.
    ///   - errors: As `output`.
    init(
        _ path: String, _ arguments: [String], in folder: String? = nil, input: Int32? = nil, output: Int32? = nil,
        errors: Int32? = nil
    ) throws {
        #if canImport(Darwin)
        var actions: posix_spawn_file_actions_t?
        var attributes: posix_spawnattr_t?
        #else
        var actions = posix_spawn_file_actions_t()
        var attributes = posix_spawnattr_t()
        #endif
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        for (number, (given, mode)) in [(input, O_RDONLY), (output, O_WRONLY), (errors, O_WRONLY)].enumerated() {
            if let given {
                posix_spawn_file_actions_adddup2(&actions, given, Int32(number))
            } else {
                posix_spawn_file_actions_addopen(&actions, Int32(number), "/dev/null", mode, 0)
            }
        }
        // A thread of Dispatch blocks all signals.
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
        // The shell changes the folder: not every system's `posix_spawn` can.
        let command = folder.map { ["/bin/sh", "-c", "cd \"$0\" && exec \"$@\"", $0, path] } ?? [path]
        var words = (command + arguments).map { strdup($0) } + [nil]
        defer { for word in words { free(word) } }
        var id: pid_t = 0
        let code = posix_spawn(&id, command[0], &actions, &attributes, &words, environ)
        guard code == 0 else { throw Failure(path: path, code: code) }
        self.id = id
    }

    /// One that still runs is killed.
    deinit {
        guard end.withLock({ $0 }) == nil else { return }
        signal(SIGKILL)
        _ = wait()
    }

    func signal(_ number: Int32) { end.withLock { if $0 == nil { kill(id, number) } } }

    /// Blocks the caller's thread until it has ended.
    func wait() -> End {
        // Left as it is at first, so that its number is nobody else's while a signal may go there.
        var info = siginfo_t()
        while waitid(P_PID, id_t(id), &info, WEXITED | WNOWAIT) < 0, errno == EINTR {}
        return end.withLock { end in
            if let end { return end }
            var status: Int32 = 0
            while waitpid(id, &status, 0) < 0, errno == EINTR {}
            let new = status & 0x7F == 0 ? End.exit(status >> 8 & 0xFF) : .signal(status & 0x7F)
            end = new
            return new
        }
    }

    /// Waits on a thread of its own.
    func ended() async -> End {
        await withCheckedContinuation { done in Thread.detachNewThread { done.resume(returning: self.wait()) } }
    }
}
