import Tiller
import TillerTesting

/// The last plugin of a process: drops some events, and gives each of the others its number in the ledger.
final class WitnessPlugin: Plugin {
    let stage = Stage.enrichment
    private let life: Int
    private let plan: Plan
    private let ledger: Locked<Ledger>
    private let time: VirtualTime
    private let random: Locked<SeededRandom>
    private let isAlive: @Sendable () -> Bool

    init(
        life: Int, plan: Plan, ledger: Locked<Ledger>, time: VirtualTime, random: SeededRandom,
        isAlive: @escaping @Sendable () -> Bool
    ) {
        self.life = life
        self.plan = plan
        self.ledger = ledger
        self.time = time
        self.random = Locked(random)
        self.isAlive = isAlive
    }

    func process(_ event: Event) -> Event? {
        guard isAlive() else { return event }
        if random.withLock({ $0.happens(onceInOrNever: plan.drops) }) {
            ledger.withLock { $0.change(life) { $0.dropped += 1 } }
            return nil
        }
        // What is added on the way is small beside the difference.
        let isTooLarge = (event.properties["filling"]?.string?.utf8.count ?? 0) > plan.limits.eventBytes
        let number = ledger.withLock {
            $0.note(event, of: life, at: time.instant, isTooLarge: isTooLarge)
        }
        var event = event
        event.context[Ledger.key] = .string("#\(number)#")
        return event
    }
}

extension VirtualTime {
    var instant: Ledger.Instant {
        Ledger.Instant(wall: wallMilliseconds, continuous: continuous, boot: bootIdentity)
    }
}
