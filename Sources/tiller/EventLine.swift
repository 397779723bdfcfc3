import Tiller

/// One line of what `tiller send` reads: a call to be made.
struct EventLine: Sendable, Equatable {
    /// What is recorded.
    enum Call: Sendable, Equatable {
        case track(name: String, properties: JSONObject?)
        case screen(name: String, category: String?, properties: JSONObject?)
        case identify(userId: String?, traits: JSONObject?)
        case group(groupId: String, traits: JSONObject?)
        case alias(newId: String, previousId: String?)
    }

    /// Why a line is no call.
    struct Problem: Error, Equatable {
        let reason: String
    }

    let call: Call
    /// The person whom the line names. `nil` on identify and alias, whose user id is part of the call.
    let userId: String?
    let anonymousId: String?
    let context: JSONObject?
    let integrations: JSONObject?

    /// Reads a line.
    ///
    /// - Parameter bytes: The line, without its end.
    init(_ bytes: [UInt8]) throws(Problem) {
        // The reader mends what is no UTF-8; here it is a fault of the line.
        guard String(decoding: bytes, as: UTF8.self).utf8.elementsEqual(bytes) else {
            throw Problem(reason: "it is not UTF-8")
        }
        let value: JSONValue
        do {
            value = try JSONValue(parsing: bytes)
        } catch {
            throw Problem(reason: "it is no JSON: \(error)")
        }
        guard let object = value.object else { throw Problem(reason: "it is no object") }
        let members = EventMembers(object: object)
        call = try members.call()
        anonymousId = try members.id("anonymousId")
        switch call {
        case .identify, .alias: userId = nil
        case .track, .screen, .group: userId = try members.id("userId")
        }
        context = try members.object("context")
        integrations = try members.object("integrations")
        if case .identify(nil, nil) = call, anonymousId == nil {
            throw Problem(reason: "identify needs userId, anonymousId or traits")
        }
    }

    /// Makes the call.
    func record(in analytics: Analytics) {
        let options = EventOptions(
            integrations: integrations, customContext: context, userId: userId, anonymousId: anonymousId)
        switch call {
        case .track(let name, let properties):
            analytics.track(name: name, properties: properties, options: options)
        case .screen(let name, let category, let properties):
            analytics.screen(screenName: name, category: category, properties: properties, options: options)
        case .identify(let userId, let traits):
            analytics.identify(userId: userId, traits: traits, options: options)
        case .group(let groupId, let traits):
            analytics.group(groupId: groupId, traits: traits, options: options)
        case .alias(let newId, let previousId):
            analytics.alias(newId: newId, previousId: previousId, options: options)
        }
    }
}

/// The members of a line's object, each of the type that it must have. `null` is as good as no member.
private struct EventMembers {
    /// What the SDK takes for a user id.
    private static let longestId = 4_096

    let object: JSONObject

    func call() throws(EventLine.Problem) -> EventLine.Call {
        let type = try required("type", text("type"))
        switch EventKind(rawValue: type) {
        case .track: return .track(name: try name(), properties: try object("properties"))
        case .screen:
            return .screen(name: try name(), category: try text("category"), properties: try object("properties"))
        case .identify: return .identify(userId: try id("userId"), traits: try object("traits"))
        case .group: return .group(groupId: try required("groupId", id("groupId")), traits: try object("traits"))
        case .alias: return .alias(newId: try required("userId", id("userId")), previousId: try id("previousId"))
        case nil:
            // As JSON text: it may hold what a terminal would obey.
            throw EventLine.Problem(reason: "\(JSONValue.string(String(type.prefix(40)))) is not a type of event")
        }
    }

    /// `name`, or what the wire calls it.
    private func name() throws(EventLine.Problem) -> String {
        let name = try text("name")
        let event = try text("event")
        return try required("name", name ?? event)
    }

    func text(_ key: String) throws(EventLine.Problem) -> String? {
        guard let value = member(key) else { return nil }
        guard let text = value.string else { throw EventLine.Problem(reason: "\(key) is no string") }
        return text
    }

    func object(_ key: String) throws(EventLine.Problem) -> JSONObject? {
        guard let value = member(key) else { return nil }
        guard let object = value.object else { throw EventLine.Problem(reason: "\(key) is no object") }
        return object
    }

    /// An id that the SDK would take for none is a fault: the event would be somebody else's.
    func id(_ key: String) throws(EventLine.Problem) -> String? {
        guard let id = try text(key) else { return nil }
        guard id.unicodeScalars.contains(where: { !$0.isInvisible }) else {
            throw EventLine.Problem(reason: "\(key) is blank")
        }
        guard id.utf8.count <= Self.longestId else {
            throw EventLine.Problem(reason: "\(key) is longer than \(Self.longestId) bytes")
        }
        return id
    }

    private func required(_ key: String, _ text: String?) throws(EventLine.Problem) -> String {
        guard let text else { throw EventLine.Problem(reason: "\(key) is missing") }
        return text
    }

    private func member(_ key: String) -> JSONValue? {
        guard let value = object[key], value != .null else { return nil }
        return value
    }
}
