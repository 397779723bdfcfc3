// A dispatch source may be used from any thread; its type does not say so yet.
@preconcurrency import Dispatch
import Foundation

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Android)
import Android
#endif

// Which module declares `timeval`, `timespec` and `stat` varies from build to build on Linux (SwiftGlibc or this one), and
// MemberImportVisibility insists on the right one.
#if canImport(SwiftOverlayShims)
import SwiftOverlayShims
#endif

/// The machine's own clocks and timers.
public struct SystemTime: TimeSource {
    /// Read once: it can't change while the process lives.
    private static let boot = readBootIdentity()
    private static let timers = DispatchQueue(label: "tiller.timers")

    /// The machine's clocks.
    public init() {}

    /// The system's real-time clock.
    public var wallMilliseconds: Int64 {
        let now = Self.read(CLOCK_REALTIME)
        return Int64(now.tv_sec) * 1_000 + Int64(now.tv_nsec) / 1_000_000
    }

    /// `CLOCK_BOOTTIME` on Linux, `CLOCK_MONOTONIC_RAW` on Apple: the clocks that go on while the machine sleeps.
    public var continuous: Duration { .nanoseconds(Self.continuousNanoseconds) }

    /// Both clocks, without the arithmetic of `Duration`.
    static var now: (wall: Int64, continuous: Int64) { (SystemTime().wallMilliseconds, continuousNanoseconds) }

    private static var continuousNanoseconds: Int64 {
        #if canImport(Darwin)
        let now = read(CLOCK_MONOTONIC_RAW)
        #else
        let now = read(CLOCK_BOOTTIME)
        #endif
        return Int64(now.tv_sec) * 1_000_000_000 + Int64(now.tv_nsec)
    }

    /// The kernel's boot id on Linux, its boot session on Apple.
    public var bootIdentity: String? { Self.boot }

    /// Runs an action later, on a serial queue of its own.
    public func schedule(after delay: Duration, _ action: @escaping @Sendable () -> Void) -> CancellationToken {
        let source = DispatchSource.makeTimerSource(queue: Self.timers)
        let (seconds, attoseconds) = max(delay, .zero).components
        // A century is for ever, and fits a dispatch time.
        let nanoseconds = Int(min(seconds, 3_153_600_000)) * 1_000_000_000 + Int(attoseconds / 1_000_000_000)
        source.schedule(deadline: .now() + .nanoseconds(nanoseconds))
        source.setEventHandler(handler: action)
        source.activate()
        return CancellationToken { source.cancel() }
    }

    private static func read(_ clock: clockid_t) -> timespec {
        var now = timespec()
        clock_gettime(clock, &now)
        return now
    }

    private static func readBootIdentity() -> String? {
        #if canImport(Darwin)
        var size = 0
        guard sysctlbyname("kern.bootsessionuuid", nil, &size, nil, 0) == 0, size > 1 else { return nil }
        var text = [UInt8](repeating: 0, count: size)
        guard sysctlbyname("kern.bootsessionuuid", &text, &size, nil, 0) == 0 else { return nil }
        return String(decoding: text.prefix { $0 != 0 }, as: UTF8.self)
        #else
        guard let bytes = try? SystemFiles().contents(of: "/proc/sys/kernel/random/boot_id") else {
            return nil  // no such file: the boot is unknown, and elapsed time is told by the wall clock
        }
        return String(decoding: bytes.prefix { $0 > 0x20 }, as: UTF8.self)
        #endif
    }
}
