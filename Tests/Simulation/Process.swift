import Foundation
import Tiller
import TillerTesting

/// A process with an instance in it.
final class Process {
    let life: Int
    let time: SimulatedTime
    let lifecycle: ManualLifecycleSource
    let destination: RecordingDestination?
    private(set) var isInForeground: Bool
    private(set) var analytics: Analytics?
    private(set) var disk: SimulatedDisk.Process?
    /// To see whether they are let go of.
    private(set) weak var weakWitness: WitnessPlugin?
    private(set) weak var weakDisk: SimulatedDisk.Process?

    init(_ life: Int, in world: World, isInForeground: Bool, dyingAfter: Int?) {
        self.life = life
        self.isInForeground = isInForeground
        time = SimulatedTime(world.time)
        lifecycle = ManualLifecycleSource(isInForeground: isInForeground, isApp: world.plan.isApp)
        let disk = world.disk.begin()
        destination = world.plan.hasOtherDestination ? RecordingDestination() : nil
        let whole = world.disk
        let id = disk.id
        if let dyingAfter { whole.kill(id, after: dyingAfter) }
        let isAlive: @Sendable () -> Bool = { whole.isAlive(id) }
        let witness = WitnessPlugin(
            life: life, plan: world.plan, ledger: world.ledger, time: world.time,
            random: SeededRandom(seed: world.seed, stream: 100 + life), isAlive: isAlive)
        self.disk = disk
        weakDisk = disk
        weakWitness = witness
        let configuration = Self.configuration(
            of: world, life: life, time: time, lifecycle: lifecycle, disk: disk,
            transport: world.plane.transport(of: life, isAlive: isAlive))
        analytics = Analytics(configuration: configuration, plugins: [witness] + (destination.map { [$0] } ?? []))
    }

    private static func configuration(
        of world: World, life: Int, time: SimulatedTime, lifecycle: ManualLifecycleSource, disk: SimulatedDisk.Process,
        transport: any Transport
    ) -> Configuration {
        let plan = world.plan
        var configuration = Configuration(
            writeKey: "simulation", dataPlaneUrl: "http://127.0.0.1", gzipEnabled: plan.isCompressed,
            flushPolicies: plan.policies, trackApplicationLifecycleEvents: plan.sendsLifecycleEvents,
            sessionConfiguration: plan.session, logger: world.trace,
            storage: .folder(URL(fileURLWithPath: "/simulation")), lifecycleSource: lifecycle,
            time: time, identifiers: .seeded(world.seed &* 1_000 &+ UInt64(life)), transport: transport,
            application: ApplicationInfo(name: "simulation", version: "1", build: "1"),
            contextSource: ManualContextSource(), batching: plan.batching, limits: plan.limits)
        configuration.fileSystem = disk
        configuration.executors = world.executors
        return configuration
    }

    func foreground() {
        isInForeground = true
        lifecycle.foreground()
    }

    func background() {
        isInForeground = false
        lifecycle.background()
    }

    /// Lets go of everything.
    func release() {
        analytics = nil
        disk = nil
    }
}
