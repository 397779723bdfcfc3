#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Android)
import Android
#endif

/// Tells whether the process was made by a `fork()` since something was made: a copy of an instance in a child must do
/// nothing, for the instance itself goes on in the parent.
///
/// What the child's handler reads and writes is plain memory: locks may be held there by threads that it does not have.
enum ForkedChild {
    private static let capacity = 256

    /// The generation; whether it was said; how many descriptors; the descriptors, each one more than it is, or 0.
    private static let address: UInt = {
        let words = UnsafeMutablePointer<Int32>.allocate(capacity: 3 + capacity)
        words.initialize(repeating: 0, count: 3 + capacity)
        pthread_atfork(nil, nil) { ForkedChild.begin() }
        return UInt(bitPattern: words)
    }()

    /// How many places for descriptors have ever been in use.
    private static let used = Locked(0)

    private static var words: UnsafeMutablePointer<Int32>? { UnsafeMutablePointer(bitPattern: address) }

    /// How many forks lie between the process that first asked and this one. Costs no call of the system.
    static var generation: Int32 { words?[0] ?? 0 }

    /// - Returns: Whether it is the first question in this process.
    static func isFirstMention() -> Bool {
        guard let words else { return false }
        defer { words[1] = 1 }
        return words[1] == 0
    }

    /// A descriptor that a child is to close at once: it has a lock.
    static func closes(_ descriptor: Int32) { replace(0, with: descriptor + 1) }

    static func closesNoMore(_ descriptor: Int32) { replace(descriptor + 1, with: 0) }

    private static func replace(_ old: Int32, with new: Int32) {
        used.withLock { used in
            guard let words else { return }
            if let index = (3..<3 + used).first(where: { words[$0] == old }) {
                words[index] = new
            } else if old == 0, used < capacity {
                words[3 + used] = new
                used += 1
            }
        }
    }

    /// In the child, before anything else runs there.
    private static func begin() {
        guard let words else { return }
        words[0] += 1
        words[1] = 0
        for index in 3..<3 + capacity where words[index] > 0 {
            _ = close(words[index] - 1)
            words[index] = 0
        }
    }
}
