import Tiller

/// Stands still, so that no answer is late: below valgrind everything takes many times as long, and what an uploader does
/// depends on how near the data plane is. Its timers are the system's.
struct StandingClock: TimeSource {
    private let system = SystemTime()
    let wallMilliseconds: Int64
    let continuous: Duration

    init() { (wallMilliseconds, continuous) = (system.wallMilliseconds, system.continuous) }

    var bootIdentity: String? { system.bootIdentity }

    func schedule(after delay: Duration, _ action: @escaping @Sendable () -> Void) -> CancellationToken {
        system.schedule(after: delay, action)
    }
}
