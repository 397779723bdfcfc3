import Tiller

/// A Before plugin: drops what the user did not consent to. A drop is counted under the plugin's name.
final class ConsentFilter: Plugin {
    let stage = Stage.before

    func process(_ event: Event) -> Event? {
        event.kind == .track && event.name == "Ad Viewed" ? nil : event
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
