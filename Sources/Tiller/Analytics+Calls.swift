public import Foundation

// MARK: - The five calls

extension Analytics {
    /// Records what the user did.
    ///
    /// Returns at once, from any thread; takes effect in the order of calls.
    ///
    /// - Parameters:
    ///   - name: The event's name.
    ///   - properties: A literal of literals takes this, the fast path; a variable goes in as `.string(x)`.
    ///   - options: Integrations, custom context, external ids, the person of this call.
    public func track(name: String, properties: JSONObject? = nil, options: EventOptions? = nil) {
        record(Event(.track, name: name, properties: properties ?? JSONObject(), options: options), options)
    }

    /// Records what the user did; see `track(name:properties:options:)` for literals.
    ///
    /// - Parameters:
    ///   - name: The event's name.
    ///   - properties: Values of any type; see `JSONValue.init(any:)` for what they become. (A dictionary literal that
    ///     repeats a key traps in the standard library, before this is called.)
    ///   - options: As above.
    @_disfavoredOverload
    public func track(name: String, properties: [String: Any]?, options: EventOptions? = nil) {
        track(name: name, properties: converted(properties), options: options)
    }

    /// Records what the user saw.
    ///
    /// - Parameters:
    ///   - screenName: The screen's name. On the wire also in `properties.name`, unless the caller gave one there.
    ///   - category: In `properties.category`, unless the caller gave one there.
    ///   - properties: A literal of literals, or a `JSONObject`.
    ///   - options: Integrations, custom context, external ids, the person of this call.
    public func screen(
        screenName: String, category: String? = nil, properties: JSONObject? = nil, options: EventOptions? = nil
    ) {
        record(.screen(screenName, category: category, properties: properties, options: options), options)
    }

    /// Records what the user saw, with properties of any type.
    ///
    /// - Parameters:
    ///   - screenName: The screen's name.
    ///   - category: Its category.
    ///   - properties: Values of any type; see `JSONValue.init(any:)`.
    ///   - options: As above.
    @_disfavoredOverload
    public func screen(
        screenName: String, category: String? = nil, properties: [String: Any]?, options: EventOptions? = nil
    ) {
        screen(screenName: screenName, category: category, properties: converted(properties), options: options)
    }

    /// Records what the user belongs to. Changes neither identity nor session.
    ///
    /// - Parameters:
    ///   - groupId: The group's id.
    ///   - traits: The group's traits: a literal of literals, or a `JSONObject`.
    ///   - options: Integrations, custom context, external ids, the person of this call.
    public func group(groupId: String, traits: JSONObject? = nil, options: EventOptions? = nil) {
        record(.group(groupId, traits: traits, options: options), options)
    }

    /// Records what the user belongs to, with traits of any type.
    ///
    /// - Parameters:
    ///   - groupId: The group's id.
    ///   - traits: Values of any type; see `JSONValue.init(any:)`.
    ///   - options: As above.
    @_disfavoredOverload
    public func group(groupId: String, traits: [String: Any]?, options: EventOptions? = nil) {
        group(groupId: groupId, traits: converted(traits), options: options)
    }

    /// Says who the user is.
    ///
    /// The first user id keeps the anonymous traits and the session; another
    /// one than the present resets everything first, and this event carries the
    /// new session; the same one, an empty one or none adds the traits to the
    /// present user's. Identity and session have changed when this returns.
    ///
    /// - Parameters:
    ///   - userId: The user's id; `nil` or empty keeps the present user.
    ///   - traits: Merged into the user's, key by key; a literal of literals, or a `JSONObject`.
    ///   - options: Integrations, custom context, external ids, the person of this call.
    public func identify(userId: String? = nil, traits: JSONObject? = nil, options: EventOptions? = nil) {
        record(.identify(userId, traits: traits, options: options), options)
    }

    /// Says who the user is, with traits of any type.
    ///
    /// - Parameters:
    ///   - userId: The user's id; `nil` or empty keeps the present user.
    ///   - traits: Values of any type; see `JSONValue.init(any:)`.
    ///   - options: As above.
    @_disfavoredOverload
    public func identify(userId: String? = nil, traits: [String: Any]?, options: EventOptions? = nil) {
        identify(userId: userId, traits: converted(traits), options: options)
    }

    /// Gives the user a new id; both name the same person. The session goes on.
    ///
    /// - Parameters:
    ///   - newId: The id from now on; an empty one is refused with an error in the log.
    ///   - previousId: The id before; `nil` or empty means the present user id or, while anonymous, the anonymous id; on a
    ///     scoped event those of the person it names.
    ///   - options: Integrations, custom context, external ids, the person of this call.
    public func alias(newId: String, previousId: String? = nil, options: EventOptions? = nil) {
        guard let newId = Optional(newId).nonBlank else {
            engine.diagnostics.error("alias: an empty id was refused")
            return
        }
        record(.alias(newId, previousId: previousId, options: options), options)
    }

    /// Records that a link opened the app: a track event Deep Link Opened.
    ///
    /// Its properties are the query's items that have a value, decoded, a list
    /// where a name repeats; then `url`, the exact text; then `options`, which
    /// win. Links can hold secrets: filter them with a Before plugin if yours
    /// do. Nothing is recorded unless this is called.
    ///
    /// - Parameters:
    ///   - url: The link.
    ///   - options: Further properties, such as the referrer.
    public func open(url: URL, options: JSONObject? = nil) {
        record(.deepLink(url, options: options), nil)
    }

    /// Records that a link opened the app, with options of any type, as the system hands them over.
    ///
    /// - Parameters:
    ///   - url: The link.
    ///   - options: Values of any type; see `JSONValue.init(any:)`.
    @_disfavoredOverload
    public func open(url: URL, options: [String: Any]?) { open(url: url, options: converted(options)) }
}

// MARK: - Scoped calls

extension Analytics {
    /// A handle whose calls are about one person: for services with many users.
    ///
    /// Its events carry these ids and neither touch nor carry the instance's
    /// identity and session. Cheap: make one per request.
    ///
    /// - Parameters:
    ///   - userId: The person's user id.
    ///   - anonymousId: The person's anonymous id. With neither, its events are about the instance's own user.
    /// - Returns: The handle.
    public func scoped(userId: String? = nil, anonymousId: String? = nil) -> ScopedAnalytics {
        ScopedAnalytics(analytics: self, userId: userId, anonymousId: anonymousId)
    }
}

/// A handle whose calls are about one person; see `Analytics.scoped(userId:anonymousId:)`.
///
/// It has the five event calls, `open` and `flush`, as `Analytics` has them.
/// A person named in the options of a call wins over the handle's.
public struct ScopedAnalytics: Sendable {
    private let analytics: Analytics
    private let userId: String?
    private let anonymousId: String?

    init(analytics: Analytics, userId: String?, anonymousId: String?) {
        self.analytics = analytics
        self.userId = userId
        self.anonymousId = anonymousId
    }

    /// Records what the person did.
    public func track(name: String, properties: JSONObject? = nil, options: EventOptions? = nil) {
        analytics.track(name: name, properties: properties, options: scoped(options))
    }

    /// Records what the person did, with properties of any type.
    @_disfavoredOverload
    public func track(name: String, properties: [String: Any]?, options: EventOptions? = nil) {
        analytics.track(name: name, properties: properties, options: scoped(options))
    }

    /// Records what the person saw.
    public func screen(
        screenName: String, category: String? = nil, properties: JSONObject? = nil, options: EventOptions? = nil
    ) {
        analytics.screen(screenName: screenName, category: category, properties: properties, options: scoped(options))
    }

    /// Records what the person saw, with properties of any type.
    @_disfavoredOverload
    public func screen(
        screenName: String, category: String? = nil, properties: [String: Any]?, options: EventOptions? = nil
    ) {
        analytics.screen(screenName: screenName, category: category, properties: properties, options: scoped(options))
    }

    /// Records what the person belongs to.
    public func group(groupId: String, traits: JSONObject? = nil, options: EventOptions? = nil) {
        analytics.group(groupId: groupId, traits: traits, options: scoped(options))
    }

    /// Records what the person belongs to, with traits of any type.
    @_disfavoredOverload
    public func group(groupId: String, traits: [String: Any]?, options: EventOptions? = nil) {
        analytics.group(groupId: groupId, traits: traits, options: scoped(options))
    }

    /// Says who the person is; a user id given here wins over the handle's, for this event.
    public func identify(userId: String? = nil, traits: JSONObject? = nil, options: EventOptions? = nil) {
        analytics.identify(userId: userId, traits: traits, options: scoped(options))
    }

    /// Says who the person is, with traits of any type.
    @_disfavoredOverload
    public func identify(userId: String? = nil, traits: [String: Any]?, options: EventOptions? = nil) {
        analytics.identify(userId: userId, traits: traits, options: scoped(options))
    }

    /// Gives the person a new id; without a previous one, the handle's user id or anonymous id is it.
    public func alias(newId: String, previousId: String? = nil, options: EventOptions? = nil) {
        analytics.alias(newId: newId, previousId: previousId, options: scoped(options))
    }

    /// Records that a link opened the app for the person.
    public func open(url: URL, options: JSONObject? = nil) {
        let scope = scoped(nil)
        analytics.record(.deepLink(url, options: options, scope: scope), scope)
    }

    /// Records that a link opened the app for the person, with options of any type.
    @_disfavoredOverload
    public func open(url: URL, options: [String: Any]?) { open(url: url, options: analytics.converted(options)) }

    /// Asks every destination to hand on what was recorded before the call.
    public func flush() { analytics.flush() }

    private func scoped(_ options: EventOptions?) -> EventOptions {
        var options = options ?? EventOptions()
        if options.userId.nonBlank == nil, options.anonymousId.nonBlank == nil {
            options.userId = userId
            options.anonymousId = anonymousId
        }
        return options
    }
}

// MARK: - Making events

extension Analytics {
    /// Records a call's event, and reports what its options could not represent.
    fileprivate func record(_ event: consuming Event, _ options: EventOptions?) {
        if let options {
            if !options.problems.isEmpty { report(options.problems) }
            if options.userId != nil || options.anonymousId != nil, !event.isScoped {
                engine.diagnostics.once(
                    "blank person", .warn,
                    "A call named its person by a blank id: such an event is that of the instance's own user")
            }
        }
        engine.record(event)
    }

    fileprivate func converted(_ values: [String: Any]?) -> JSONObject? {
        guard let values else { return nil }
        var conversion = JSONConversion()
        let object = conversion.object(values)
        report(conversion.problems)
        return object
    }

    /// Once per type or fault.
    private func report(_ problems: [JSONConversion.Problem]) {
        for problem in problems {
            engine.diagnostics.once("convert \(problem.reason)", .warn, "A value was sent as null: \(problem.reason)")
        }
    }
}

extension Event {
    /// Estimates the event's size in memory and on the wire, before anything is encoded, and cuts off what lies too deep to
    /// be sent: nothing of the SDK's own ever goes down or releases a value that is nested without end.
    mutating func measure() { fields.measure() }

    fileprivate static func screen(
        _ name: String, category: String?, properties: JSONObject?, options: EventOptions?
    ) -> Event {
        var properties = properties ?? JSONObject()
        if properties["name"] == nil { properties["name"] = .string(name) }
        if let category, properties["category"] == nil { properties["category"] = .string(category) }
        return Event(.screen, name: name, properties: properties, options: options)
    }

    fileprivate static func group(_ id: String, traits: JSONObject?, options: EventOptions?) -> Event {
        var event = Event(.group, traits: traits ?? JSONObject(), options: options)
        event.groupId = id
        return event
    }

    fileprivate static func identify(_ userId: String?, traits: JSONObject?, options: EventOptions?) -> Event {
        var event = Event(.identify, name: "identify", traits: traits ?? JSONObject(), options: options)
        if let userId = userId.nonBlank { event.userId = userId }
        return event
    }

    fileprivate static func alias(_ newId: String, previousId: String?, options: EventOptions?) -> Event {
        var event = Event(.alias, options: options)
        // The id before is that of the person whom the call names, if it names one.
        event.previousId = previousId.nonBlank ?? event.userId ?? event.anonymousId
        event.userId = newId
        return event
    }

    fileprivate static func deepLink(_ url: URL, options: JSONObject?, scope: EventOptions? = nil) -> Event {
        var properties = JSONObject()
        let items = URLComponents(url: url, resolvingAgainstBaseURL: true)?.queryItems ?? []
        for item in items {
            guard let value = item.value else { continue }
            switch properties[item.name] {
            case nil: properties[item.name] = .string(value)
            case .array(let values)?: properties[item.name] = .array(values + [.string(value)])
            case let first?: properties[item.name] = .array([first, .string(value)])
            }
        }
        properties["url"] = .string(url.absoluteString)
        if let options { properties.merge(options) }
        return Event(.track, name: "Deep Link Opened", properties: properties, options: scope)
    }

}

extension Event.Fields {
    fileprivate mutating func measure() {
        var measure = Measure()
        measure.bytes = 300 + (name?.utf8.count ?? 0) + (userId?.utf8.count ?? 0) + (anonymousId?.utf8.count ?? 0)
        measure.bytes += (groupId?.utf8.count ?? 0) + (previousId?.utf8.count ?? 0)
        measure.take(&properties)
        if !traits.isEmpty { measure.take(&traits) }
        if !context.isEmpty { measure.take(&context) }
        if !integrations.isEmpty { measure.take(&integrations) }
        fixed.cost = measure.bytes
    }
}

/// Goes over values to the depth to which they are sent.
private struct Measure {
    var bytes = 0
    private var isTooDeep = false

    mutating func take(_ object: inout JSONObject) {
        isTooDeep = false
        add(object, at: 0)
        if isTooDeep { object = object.cut(at: 0) }
    }

    private mutating func add(_ object: JSONObject, at depth: Int) {
        object.withParts { own, base in
            bytes += base?.cost ?? 0
            for index in own.indices {
                bytes += own[index].0.utf8.count
                // The commonest here, where they lie: a call would be handed a copy.
                switch own[index].1 {
                case .string(let text): bytes += 16 + text.utf8.count
                case .null, .bool, .int, .uint, .double: bytes += 16
                default: add(own[index].1, at: depth + 1)
                }
            }
        }
    }

    /// Sixteen bytes for what stands in an enum's place, and the text beside it.
    private mutating func add(_ value: JSONValue, at depth: Int) {
        bytes += 16
        switch value {
        case .string(let text): bytes += text.utf8.count
        case .array, .object:
            guard depth <= JSONWriter.maximumDepth else {
                isTooDeep = true
                return
            }
            if case .array(let values) = value { for value in values { add(value, at: depth + 1) } }
            if case .object(let object) = value { add(object, at: depth) }
        default: break
        }
    }
}

extension JSONObject {
    /// Without what lies too deep: the writer puts `null` in the place of the level above it, and reports it.
    fileprivate func cut(at depth: Int) -> JSONObject {
        JSONObject(distinct: map { ($0.key, $0.value.cut(at: depth + 1)) })
    }
}

extension JSONValue {
    fileprivate func cut(at depth: Int) -> JSONValue {
        switch self {
        case .array(let values):
            depth > JSONWriter.maximumDepth ? .array([]) : .array(values.map { $0.cut(at: depth + 1) })
        case .object(let object):
            depth > JSONWriter.maximumDepth ? .object([:]) : .object(object.cut(at: depth))
        default: self
        }
    }
}
