import Tiller

/// Takes out of a value what could say something about a person or a business, and leaves its form.
struct Redaction {
    /// What is known of a place in an event.
    indirect enum Shape: Sendable {
        /// What an app put there: keys too are its own.
        case custom
        /// The event specification's: values are hashed, the key is not.
        case value
        /// A text that is shown if it is one of few, or has few forms.
        case text(@Sendable (String) -> Bool)
        /// A boolean of the specification's own.
        case flag
        case object([String: Shape])
        case list(Shape)
    }

    /// Never written down; without it a hash can't be tried against a list of guesses.
    private let salt: String
    /// Hashing is slow, and most values come again and again.
    private let known = Locked<[String: String]>([:])

    init() {
        var generator = SystemRandomNumberGenerator()
        salt = (0..<4).map { _ in String(UInt64.random(in: 0...UInt64.max, using: &generator), radix: 16) }.joined()
    }

    /// A hash of 64 bits.
    ///
    /// - Parameter kind: `k` for a key, `s` for a text, `n` for a number, `b` for a boolean.
    func hashed(_ text: String, as kind: String) -> String {
        let marked = kind + ":" + text
        if let hash = known.withLock({ $0[marked] }) { return hash }
        let hash = kind + ":" + SHA256.hex(of: salt + marked).prefix(16)
        known.withLock { known in
            if known.count > 100_000 { known = [:] }
            known[marked] = hash
        }
        return hash
    }

    func redacted(_ value: JSONValue, _ shape: Shape) -> JSONValue {
        switch (value, shape) {
        case (.null, _): .null
        case (.string(let text), .text(let isShown)): isShown(text) ? value : .string(hashed(text, as: "s"))
        case (.string(let text), _): .string(hashed(text, as: "s"))
        case (.bool, .flag): value
        case (.bool(let flag), _): .string(hashed("\(flag)", as: "b"))
        case (.array(let values), .list(let element)): .array(values.map { redacted($0, element) })
        case (.array(let values), _): .array(values.map { redacted($0, .custom) })
        case (.object(let object), .object(let keys)): .object(redacted(object, keys))
        case (.object(let object), _): .object(redacted(object, [:]))
        default: .string(hashed(value.description, as: "n"))
        }
    }

    private func redacted(_ object: JSONObject, _ keys: [String: Shape]) -> JSONObject {
        var result = JSONObject()
        for (key, value) in object {
            if let shape = keys[key] {
                result[key] = redacted(value, shape)
            } else {
                result[hashed(key, as: "k")] = redacted(value, .custom)
            }
        }
        return result
    }

    /// The SDK's own names are of digits, and a few words.
    func fileName(_ name: String) -> String {
        let stem = name.split(separator: ".", omittingEmptySubsequences: false).first ?? ""
        let isKnown =
            ["owner", "base", "checkpoint"].contains(stem) || stem.utf8.allSatisfy { "-0123456789".utf8.contains($0) }
        let endings = name.dropFirst(stem.count)
        let isKnownEnding =
            [".lock", ".fifo", ".ack", ".log", ".json", ".json.new", ".json.old", ".json.unreadable"].contains(endings)
            || endings.hasPrefix(".log") && endings.dropFirst(4).utf8.allSatisfy { (0x30...0x39).contains($0) }
        return isKnown && isKnownEnding ? name : hashed(name, as: "s")
    }
}

// MARK: - What is known

extension Redaction.Shape {
    private static let kinds = Set(EventKind.allCases.map(\.rawValue))

    private static let flags = Self.object(["wifi": .flag, "cellular": .flag])

    private static let context: [String: Self] = [
        "app": .object(["name": .value, "version": .value, "build": .value, "namespace": .value]),
        "device": .object(["id": .value, "manufacturer": .value, "model": .value, "type": .value]),
        "externalId": .list(.object(["id": .value, "type": .value])),
        "library": .object(["name": .text { $0 == "tiller-swift" }, "version": .text(isVersion)]),
        "locale": .value, "network": flags,
        "os": .object(["name": .value, "version": .value, "kernel": .value]),
        "screen": .object(["width": .value, "height": .value, "density": .value]),
        "sessionId": .value, "sessionStart": .flag, "timezone": .value, "traits": .custom,
    ]

    /// An event as it is stored.
    static let event = Self.object([
        "type": .text { kinds.contains($0) }, "channel": .text { ["mobile", "server"].contains($0) },
        "messageId": .value, "originalTimestamp": .value, "anonymousId": .value, "userId": .value, "event": .value,
        "groupId": .value, "previousId": .value, "integrations": .object(["All": .flag]), "properties": .custom,
        "traits": .custom, "context": .object(context),
    ])

    /// What the SDK's own plugins store.
    static let state = Self.object([
        "IdentityPlugin": .object(["anonymousId": .value, "userId": .value, "traits": .custom]),
        "SessionTrackingPlugin": .object([
            "session": .object([
                "id": .value, "manual": .flag, "wall": .value, "continuous": .value, "boot": .value,
            ]),
            "generation": .value, "lastGenerated": .value, "lastId": .value, "spent": .value,
        ]),
        "LifecyclePlugin": .object(["installed": .flag, "version": .value, "build": .value]),
        "tiller.installation": .object(["id": .value]), "ContextPlugin": .object(["installationId": .value]),
    ])

    /// `1.20.3`, or this library's own.
    @Sendable private static func isVersion(_ text: String) -> Bool {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        let isPlain =
            (2...4).contains(parts.count)
            && parts.allSatisfy { (1...4).contains($0.utf8.count) && $0.utf8.allSatisfy { (0x30...0x39).contains($0) } }
        return isPlain || text == Analytics.version
    }
}
