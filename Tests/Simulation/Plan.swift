import Tiller
import TillerTesting

/// What a seed says about one run as a whole: how the SDK is set up, and how rough the world is.
struct Plan: Sendable {
    let isApp: Bool
    let limits: Limits
    let batching: Batching
    let isCompressed: Bool
    let policies: [any FlushPolicy]
    let session: SessionConfiguration
    let sendsLifecycleEvents: Bool
    /// The plugin drops one event in so many; 0: none.
    let drops: Int
    let hasOtherDestination: Bool
    /// How many lives there are before everything heals.
    let lives: Int
    let stepsPerLife: Int
    /// Which of the troubles there are at all.
    let hasBadNetwork: Bool
    let hasBadDisk: Bool
    let hasPowerCuts: Bool
    let hasDamage: Bool
    /// Events have up to so many bytes of filling.
    let filling: Int

    init(_ random: inout SeededRandom) {
        func one(in count: Int) -> Bool { random.happens(onceIn: count) }
        func pick<T>(_ values: T...) -> T { values[random.below(values.count)] }
        isApp = !one(in: 4)
        limits = Limits(
            memoryEvents: pick(100_000, 40, 10), storageBytes: pick(100_000_000, 200_000, 40_000, 12_000),
            eventBytes: pick(32_768, 3_000), batchBytes: pick(500_000, 20_000, 4_000),
            destinationEvents: pick(1_000, 5), noticeWait: .seconds(60))
        batching = pick(.perIdentity, .mixed)
        isCompressed = one(in: 8)
        policies = pick(
            [StartupFlushPolicy(), FrequencyFlushPolicy(), CountFlushPolicy()], [CountFlushPolicy(flushAt: 5)],
            [FrequencyFlushPolicy(flushIntervalInMillis: 60_000)], [])
        session = SessionConfiguration(
            sessionTimeoutInMillis: pick(300_000, 1_000, 0), backgroundEvents: pick(.carry, .exclude, .include))
        sendsLifecycleEvents = !one(in: 3)
        drops = pick(0, 10, 3)
        hasOtherDestination = one(in: 4)
        lives = 1 + random.below(3)
        stepsPerLife = 10 + random.below(40)
        hasBadNetwork = !one(in: 4)
        hasBadDisk = one(in: 2)
        hasPowerCuts = one(in: 2)
        hasDamage = one(in: 8)
        filling = pick(0, 400, 3_500)
    }
}
