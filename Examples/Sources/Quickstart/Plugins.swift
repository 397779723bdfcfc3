import Tiller

/// A Before plugin: drops what the user did not consent to, and remembers what that was.
final class ConsentFilter: Plugin {
    let stage = Stage.before
    private let names = Locked<[String]>([])

    var dropped: [String] { names.withLock { $0 } }

    func process(_ event: Event) -> Event? {
        guard event.kind == .track, let name = event.name, name == "Ad Viewed" else { return event }
        names.withLock { $0.append(name) }
        return nil
    }
}

/// An Enrichment plugin: adds to every event what marketing wants to know.
final class Campaign: Plugin {
    let stage = Stage.enrichment

    func process(_ event: Event) -> Event? {
        var event = event
        event.context["campaign"] = ["name": "spring", "wave": 2]
        return event
    }
}
