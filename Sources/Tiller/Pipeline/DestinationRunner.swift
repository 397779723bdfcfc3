/// What a destination is handed, in order.
enum DestinationItem: Sendable {
    case event(Event)
    case reset(ResetOptions)
    case flush
    case barrier(@Sendable () -> Void)
    case close
}

/// A destination beside the data plane: an executor and a bounded queue of its own, so that a slow or stuck one delays
/// nobody. When the queue is full its oldest event is dropped and counted; resets and flushes never are.
final class DestinationRunner: Sendable {
    let plugin: any Plugin
    private let name: String
    private let engine: Engine
    private let limits: Limits
    private let queue: any WorkQueue
    private let inbox = Locked(Inbox())

    private struct Inbox: Sendable {
        var items: [DestinationItem] = []
        /// Of the events that wait and those that have been taken out and not been handled.
        var eventCount = 0
        var eventBytes = 0
        var isServed = false
        var isDone = false
    }

    /// - Parameter former: What the same plugin had before it was removed: the two never run at once.
    init(_ plugin: any Plugin, limits: Limits, after former: DestinationRunner?, in engine: Engine) {
        self.plugin = plugin
        self.limits = limits
        self.engine = engine
        name = String(describing: type(of: plugin))
        queue = former?.queue ?? engine.configuration.executors.makeQueue("tiller.destination.\(name)")
    }

    /// Nothing comes any more.
    var isDone: Bool { inbox.withLock { $0.isDone } }

    /// Hands items over; returns at once.
    func take(_ items: [DestinationItem]) {
        let (starts, dropped) = inbox.withLock { inbox in
            for item in items {
                if case .event(let event) = item {
                    inbox.eventCount += 1
                    inbox.eventBytes += event.cost
                }
                inbox.items.append(item)
            }
            let dropped = trim(&inbox)
            defer { inbox.isServed = true }
            return (!inbox.isServed, dropped)
        }
        if dropped > 0 { engine.didOverflow(dropped, name) }
        // Strong: what was handed over is delivered, also when the instance has been released meanwhile.
        if starts { queue.async { self.serve() } }
    }

    /// The oldest events go until the rest fits.
    private func trim(_ inbox: inout Inbox) -> Int {
        guard inbox.eventCount > limits.destinationEvents || inbox.eventBytes > limits.destinationBytes else {
            return 0
        }
        var dropped = 0
        inbox.items.removeAll { item in
            guard case .event(let event) = item,
                inbox.eventCount > limits.destinationEvents || inbox.eventBytes > limits.destinationBytes
            else { return false }
            inbox.eventCount -= 1
            inbox.eventBytes -= event.cost
            dropped += 1
            return true
        }
        return dropped
    }

    private func serve() {
        while true {
            let items = inbox.withLock { inbox in
                let items = inbox.items
                inbox.items = []
                inbox.isServed = !items.isEmpty
                return items
            }
            if items.isEmpty { return }
            let analytics = engine.makeHandle()
            for item in items {
                handle(item, in: analytics)
                if case .event(let event) = item { leave(event) }
            }
        }
    }

    private func leave(_ event: Event) {
        inbox.withLock { inbox in
            inbox.eventCount -= 1
            inbox.eventBytes -= event.cost
        }
    }

    private func handle(_ item: DestinationItem, in analytics: Analytics) {
        let own = plugin.asDestination?.ownPlugins
        switch item {
        case .event(let event):
            guard let own, !own.isEmpty else {
                _ = plugin.process(event, in: analytics)
                return
            }
            if let event = own.process(event, keeping: engine.contextKeys, in: analytics) {
                _ = plugin.process(event, in: analytics)
            } else {
                engine.countDrops(1, by: name)
            }
        case .reset(let options):
            own?.reset(options)
            plugin.reset(options)
        case .flush:
            own?.flush()
            plugin.flush()
        case .barrier(let action): action()
        case .close:
            own?.detach()
            plugin.teardown()
            inbox.withLock { $0.isDone = true }
        }
    }
}
