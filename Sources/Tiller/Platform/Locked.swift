#if canImport(os)
import os
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Android)
import Android
#endif

#if canImport(os)
private typealias SystemLock = os_unfair_lock
#else
private typealias SystemLock = pthread_mutex_t
#endif

/// A value behind a lock, for plugins and sources that keep state of their own.
///
/// Shaped like the standard library's `Mutex`, which needs macOS 15 and on
/// which the thread sanitizer reports false races on Linux. Always hold it in
/// a `let`. It is not recursive: a body that takes the same lock again never
/// returns.
///
/// Callable from any thread; the body runs on the caller's. Keep bodies short,
/// and call no foreign code from inside one.
public final class Locked<Value: Sendable>: @unchecked Sendable {
    // Unchecked because the compiler can't see that every access to the
    // buffer's value happens between lock and unlock. This is the one file
    // of the package with that attribute.
    private let buffer: ManagedBuffer<Value, SystemLock>

    /// Guards a value.
    ///
    /// - Parameter value: What is guarded, as it is at first.
    public init(_ value: Value) {
        buffer = ManagedBuffer<Value, SystemLock>.create(minimumCapacity: 1) { buffer in
            buffer.withUnsafeMutablePointerToElements { lock in
                #if canImport(os)
                lock.initialize(to: os_unfair_lock())
                #else
                lock.initialize(to: pthread_mutex_t())
                Self.prepare(lock)
                #endif
            }
            return value
        }
    }

    deinit {
        buffer.withUnsafeMutablePointerToElements { lock in
            #if !canImport(os)
            pthread_mutex_destroy(lock)
            #endif
            lock.deinitialize(count: 1)
        }
    }

    /// Runs a body that alone may read and change the value.
    ///
    /// - Parameter body: Given the value `inout`, on the caller's thread.
    /// - Returns: What the body returns.
    /// - Throws: What the body throws; the lock is released.
    @inline(__always)
    public func withLock<Result, Failure: Error>(
        _ body: (inout Value) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        let (value, lock) = pointers
        Self.lock(lock)
        defer { Self.unlock(lock) }
        return try body(&value.pointee)
    }

    /// As `withLock`, and hands a value in by moving it: a closure that
    /// captured it could only copy it.
    ///
    /// - Parameters:
    ///   - moved: The value that goes in.
    ///   - body: Given the guarded value `inout` and the moved one to consume.
    /// - Returns: What the body returns.
    /// - Throws: What the body throws; the lock is released.
    @inline(__always)
    public func withLock<Moved, Result, Failure: Error>(
        moving moved: consuming Moved, _ body: (inout Value, consuming Moved) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        let (value, lock) = pointers
        Self.lock(lock)
        defer { Self.unlock(lock) }
        return try body(&value.pointee, moved)
    }

    /// Valid for as long as `self` lives, which every caller sees to by being a method of it.
    @inline(__always)
    private var pointers: (UnsafeMutablePointer<Value>, UnsafeMutablePointer<SystemLock>) {
        buffer.withUnsafeMutablePointers { ($0, $1) }
    }

    #if canImport(Glibc)
    /// Who finds it locked tries for some microseconds before it sleeps: most of what is done with a lock takes less than to be
    /// woken.
    private static func prepare(_ lock: UnsafeMutablePointer<SystemLock>) {
        var attributes = pthread_mutexattr_t()
        pthread_mutexattr_init(&attributes)
        pthread_mutexattr_settype(&attributes, Int32(PTHREAD_MUTEX_ADAPTIVE_NP))
        pthread_mutex_init(lock, &attributes)
        pthread_mutexattr_destroy(&attributes)
    }
    #elseif !canImport(os)
    private static func prepare(_ lock: UnsafeMutablePointer<SystemLock>) { pthread_mutex_init(lock, nil) }
    #endif

    @inline(__always)
    private static func lock(_ lock: UnsafeMutablePointer<SystemLock>) {
        #if canImport(os)
        os_unfair_lock_lock(lock)
        #else
        pthread_mutex_lock(lock)
        #endif
    }

    @inline(__always)
    private static func unlock(_ lock: UnsafeMutablePointer<SystemLock>) {
        #if canImport(os)
        os_unfair_lock_unlock(lock)
        #else
        pthread_mutex_unlock(lock)
        #endif
    }
}
