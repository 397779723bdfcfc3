import Tiller

/// What an event carried, or the getter said.
struct Seen {
    let session: UInt64?
    let starts: Bool

    init(session: UInt64?, starts: Bool) {
        self.session = session
        self.starts = starts
    }

    init(_ event: Event) { self.init(session: event.sessionId, starts: event.context["sessionStart"] != nil) }
}

/// Labels bind to the ids seen first; of two labels the one bound later is the greater number.
struct ScenarioLabels {
    private(set) var bound: [(label: String, id: UInt64)] = []
    private let bindsFreely: Bool

    /// - Parameter bindsFreely: Whether an id without a label is given the next one when it is described.
    init(bindsFreely: Bool) { self.bindsFreely = bindsFreely }

    mutating func admit(_ seen: Seen?, as expectation: SessionScenario.Expectation) -> Bool {
        switch expectation {
        case .dropped: return seen == nil
        case .none: return seen.map { $0.session == nil && !$0.starts } ?? false
        case .carries(let session, let starts):
            guard let seen, let id = seen.session, seen.starts == starts else { return false }
            if let number = UInt64(session) { return id == number }
            if let known = bound.first(where: { $0.label == session }) { return known.id == id }
            guard bound.allSatisfy({ $0.id < id }) else { return false }
            bound.append((session, id))
            return true
        }
    }

    mutating func describe(_ seen: Seen) -> SessionScenario.Expectation {
        guard let id = seen.session else { return .none }
        if bindsFreely, label(for: id) == nil { bound.append(("S\(bound.count + 1)", id)) }
        return .carries(label(for: id) ?? String(id), starts: seen.starts)
    }

    /// With the id that a label is bound to.
    func explain(_ expectation: SessionScenario.Expectation?) -> String {
        guard case .carries(let session, let starts)? = expectation,
            let id = bound.first(where: { $0.label == session })?.id
        else { return expectation?.description ?? "" }
        return "\(session) (\(id))" + (starts ? " start" : "")
    }

    func explain(_ seen: Seen) -> String {
        guard let id = seen.session else { return seen.starts ? "a start mark without a session" : "none" }
        let name = label(for: id).map { "\($0) (\(id))" } ?? String(id)
        return name + (seen.starts ? " start" : "")
    }

    private func label(for id: UInt64) -> String? { bound.first { $0.id == id }?.label }
}
