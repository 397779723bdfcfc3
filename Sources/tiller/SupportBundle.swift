import Tiller

/// A report on stores that tells nothing of what was recorded: one JSON document.
struct SupportBundle {
    /// How many records of a store are in it, the oldest and as many of the newest.
    static let recordLimit = 1_000

    let nowMilliseconds: Int64
    private let redaction = Redaction()

    init(nowMilliseconds: Int64) { self.nowMilliseconds = nowMilliseconds }

    func document(_ stores: [StoreInspection]) -> JSONObject {
        let overviews = StoreDocument(
            nowMilliseconds: nowMilliseconds, name: redaction.fileName,
            text: { text, store in text.replacing(store.folder, with: "FOLDER") })
        return [
            "format": 1, "tiller": .string(Analytics.version), "made": .string(timestampText(nowMilliseconds)),
            "about": """
            k, s, n and b stand for keys, texts, numbers and booleans that were hashed with a random salt, which was \
            not kept. Equal ones are equal within this document.
            """,
            "stores": .array(
                stores.map { store in
                    let name = store.folder.split(separator: "/").last ?? ""
                    var document = overviews.overview(store, folder: redaction.hashed(String(name), as: "s"))
                    document["records"] = .object(records(of: store))
                    return .object(document)
                }),
        ]
    }

    // MARK: Records

    private func records(of store: StoreInspection) -> JSONObject {
        var oldest: [StoreInspection.Record] = []
        var newest: [StoreInspection.Record] = []
        var count = 0
        store.records { record in
            count += 1
            if oldest.count < Self.recordLimit {
                oldest.append(record)
                return
            }
            newest.append(record)
            if newest.count >= 2 * Self.recordLimit { newest.removeFirst(Self.recordLimit) }
        }
        newest = newest.suffix(Self.recordLimit)
        let positions = Dictionary(store.runs.map { ($0.number, $0.position) }, uniquingKeysWith: { first, _ in first })
        func document(_ record: StoreInspection.Record) -> JSONValue {
            .object(self.document(record, position: positions[record.run] ?? nil))
        }
        return [
            "count": .int(Int64(count)), "omitted": .int(Int64(count - oldest.count - newest.count)),
            "oldest": .array(oldest.map(document)), "newest": .array(newest.map(document)),
        ]
    }

    private func document(_ record: StoreInspection.Record, position: UInt64?) -> JSONObject {
        var document: JSONObject = [
            "run": .int(Int64(record.run)), "file": .string(record.file), "offset": .int(Int64(record.offset)),
            "number": .uint(record.number), "eventBytes": .int(Int64(record.event.count)),
            "stateBytes": .int(Int64(record.state.count)),
            "boot": .string(redaction.hashed("\(record.boot)", as: "n")),
        ]
        if !record.event.isEmpty {
            document["at"] = .string(timestampText(record.wallMilliseconds))
            document["continuousNanoseconds"] = .int(record.continuousNanoseconds)
            if let position { document["waits"] = .bool(record.number >= position) }
            document["event"] = redacted(record.event, .event)
        }
        if !record.state.isEmpty { document["state"] = redacted(record.state, .state) }
        return document
    }

    private func redacted(_ json: [UInt8], _ shape: Redaction.Shape) -> JSONValue {
        guard let value = try? JSONValue(parsing: json) else { return "no JSON" }
        return redaction.redacted(value, shape)
    }
}
