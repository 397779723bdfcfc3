import Dispatch

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
    private let analytics: @Sendable () -> Analytics
    private let onDrop: @Sendable (String) -> Void
    private let limits: Limits
    private let queue: DispatchQueue
    private let inbox = Locked(Inbox())

    private struct Inbox: Sendable {
        var items: [DestinationItem] = []
        var eventCount = 0
        var eventBytes = 0
        var isServed = false
    }

    /// - Parameters:
    ///   - analytics: Makes a handle for plugins that call back.
    ///   - onDrop: Counts an event that the destination dropped for itself, under the destination's name.
    init(
        _ plugin: any Plugin, limits: Limits, analytics: @escaping @Sendable () -> Analytics,
        onDrop: @escaping @Sendable (String) -> Void
    ) {
        self.plugin = plugin
        self.limits = limits
        self.analytics = analytics
        self.onDrop = onDrop
        name = String(describing: type(of: plugin))
        queue = DispatchQueue(label: "tiller.destination.\(name)")
    }

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
        for _ in 0..<dropped { onDrop(name) }
        // Strong: what was handed over is delivered, also when the instance has been released meanwhile.
        if starts { queue.async { self.serve() } }
    }

    /// The oldest events go until the rest fits.
    private func trim(_ inbox: inout Inbox) -> Int {
        let excess = inbox.eventCount - limits.destinationEvents
        guard excess > 0 || inbox.eventBytes > limits.destinationBytes else { return 0 }
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
                inbox = Inbox(isServed: !items.isEmpty)
                return items
            }
            if items.isEmpty { return }
            let analytics = analytics()
            for item in items { handle(item, in: analytics) }
        }
    }

    private func handle(_ item: DestinationItem, in analytics: Analytics) {
        let own = (plugin as? any DestinationPlugin)?.ownPlugins
        switch item {
        case .event(let event):
            guard let own, !own.isEmpty else {
                _ = plugin.process(event, in: analytics)
                return
            }
            if let event = own.process(event, in: analytics) {
                _ = plugin.process(event, in: analytics)
            } else {
                onDrop(name)
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
        }
    }
}
