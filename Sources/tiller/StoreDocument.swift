import Tiller

/// What is in stores, as JSON.
struct StoreDocument {
    let nowMilliseconds: Int64
    /// What becomes of names that are not the SDK's.
    var name: (String) -> String = { $0 }
    /// What becomes of a text about a store, which may have its folder in it.
    var text: (String, StoreInspection) -> String = { text, _ in text }

    /// All that `tiller store --json` prints.
    func document(_ stores: [StoreInspection]) -> JSONObject {
        [
            "tiller": .string(Analytics.version), "made": .string(timestampText(nowMilliseconds)),
            "stores": .array(
                stores.map { store in
                    .object(overview(store, folder: store.folder))
                }),
        ]
    }

    /// - Parameter folder: What is told of where it is.
    func overview(_ store: StoreInspection, folder: String) -> JSONObject {
        var document: JSONObject = ["folder": .string(folder), "owner": .string(owner(store.owner))]
        if case .held(let process?) = store.owner { document["ownerProcess"] = .int(Int64(process)) }
        document["waiting"] = store.waiting.map { .uint($0) } ?? .null
        document["oldest"] = store.oldestMilliseconds.map { .string(timestampText($0)) } ?? .null
        document["oldestAgeSeconds"] =
            store.oldestMilliseconds.map { .double(Double(nowMilliseconds - $0) / 1_000) } ?? .null
        document["lost"] = .uint(store.lostCount)
        document["bytes"] = .int(Int64(store.bytes))
        document["segments"] = .int(Int64(store.segmentCount))
        document["account"] = store.account.map { .object(account($0)) } ?? .null
        if let obstacle = store.obstacle { document["obstacle"] = .string(text(obstacle, store)) }
        document["checkpoint"] = .object(checkpoint(store.checkpoint))
        document["runs"] = .array(store.runs.map { .object(run($0)) })
        document["files"] = .array(store.files.map { .object(file($0)) })
        document["isMoving"] = .bool(store.isMoving)
        document["findings"] = .object(findings(store))
        return document
    }

    private func owner(_ owner: LockHolder) -> String {
        switch owner {
        case .held: "held"
        case .free: "free"
        case .noneInSight: "noneInSight"
        case .unknown: "unknown"
        }
    }

    private func account(_ account: StoreInspection.Account) -> JSONObject {
        [
            "stored": .uint(account.stored), "delivered": .uint(account.delivered), "waiting": .uint(account.waiting),
            "refused": .uint(account.refused), "evicted": .uint(account.evicted), "damaged": .uint(account.damaged),
            "unknown": .uint(account.unknown),
        ]
    }

    private func checkpoint(_ state: StoreInspection.CheckpointState) -> JSONObject {
        switch state {
        case .absent: ["state": "absent"]
        case .covers(let run, let segment, let offset):
            [
                "state": "whole", "run": .int(Int64(run)), "segment": .int(Int64(segment)),
                "offset": .int(Int64(offset)),
            ]
        case .newerFormat: ["state": "newerFormat"]
        case .damaged: ["state": "damaged"]
        case .unreadable: ["state": "unreadable"]
        }
    }

    private func run(_ run: StoreInspection.Run) -> JSONObject {
        [
            "run": .int(Int64(run.number)), "segments": .int(Int64(run.segmentCount)), "bytes": .int(Int64(run.bytes)),
            "records": .int(Int64(run.recordCount)), "events": .int(Int64(run.eventCount)),
            "states": .int(Int64(run.stateCount)),
            "position": run.position.map { .uint($0) } ?? .null, "end": run.end.map { .uint($0) } ?? .null,
            "waiting": run.waiting.map { .uint($0) } ?? .null,
        ]
    }

    private func file(_ file: StoreInspection.File) -> JSONObject {
        [
            "name": .string(name(file.name)), "kind": .string(file.kind.rawValue), "bytes": .int(Int64(file.size)),
        ]
    }

    private func findings(_ store: StoreInspection) -> JSONObject {
        let findings = store.findings
        return [
            "damage": .int(Int64(findings.damageCount)), "unreadable": .int(Int64(findings.unreadableCount)),
            "remarks": .int(Int64(findings.remarkCount)),
            "list": .array(
                findings.list.map { finding in
                    [
                        "kind": .string(finding.kind.rawValue), "file": .string(name(finding.file)),
                        "offset": finding.offset.map { .int(Int64($0)) } ?? .null,
                        "text": .string(text(finding.text, store)),
                    ]
                }),
        ]
    }
}
