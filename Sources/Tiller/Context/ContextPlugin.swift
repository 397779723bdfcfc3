import Foundation

/// What surrounds every event and does not change while the process lives: `app`, `library`, `locale`, `timezone`.
///
/// Read once, off the caller's thread, before the first event is enriched.
/// Only what is known is sent. These keys win over a caller's custom context.
/// Encoded once and spliced into the events.
public final class ContextPlugin: Plugin {
    /// Enrichment.
    public let stage = Stage.enrichment

    private let application: ApplicationInfo
    private let base = Locked<JSONObject.Base?>(nil)

    /// A context for an application.
    ///
    /// - Parameter application: What is sent as `app`, the known parts of it.
    public init(application: ApplicationInfo = .main) { self.application = application }

    /// Lays the context under the event's own.
    public func process(_ event: Event) -> Event? {
        var event = event
        event.context.lay(over: currentBase())
        return event
    }

    private func currentBase() -> JSONObject.Base {
        if let known = base.withLock({ $0 }) { return known }
        // Read outside the lock; `process` comes one at a time, so nothing is read twice.
        let new = JSONObject.Base(readContext())
        base.withLock { $0 = new }
        return new
    }

    private func readContext() -> JSONObject {
        var context: JSONObject = ["library": ["name": "tiller-swift", "version": .string(Analytics.version)]]
        var app = JSONObject()
        app["name"] = application.name.map { .string($0) }
        app["version"] = application.version.map { .string($0) }
        app["build"] = application.build.map { .string($0) }
        app["namespace"] = application.namespace.map { .string($0) }
        if !app.isEmpty { context["app"] = .object(app) }
        let locale = Locale.current.identifier(.bcp47)
        if !locale.isEmpty, locale != "und" { context["locale"] = .string(locale) }
        context["timezone"] = .string(TimeZone.current.identifier)
        return context
    }
}
