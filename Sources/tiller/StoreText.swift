import Tiller

/// What is in a store, for people.
enum StoreText {
    static func overview(_ store: StoreInspection, nowMilliseconds: Int64) -> String {
        var lines = [ServeLine.harmless(store.folder)]
        func line(_ name: String, _ text: String) {
            lines.append("  " + name + String(repeating: " ", count: max(1, 10 - name.count)) + text)
        }
        line("owner", owner(store.owner))
        line("waiting", waiting(store, nowMilliseconds))
        line("runs", "\(store.runs.count), in \(count(store.segmentCount, "segment"))")
        line("bytes", grouped(store.bytes))
        line("damage", damage(store))
        line("account", store.account.map(account) ?? "not known: \(ServeLine.harmless(store.obstacle ?? ""))")
        line("state", state(store.checkpoint))
        let newer = store.names(.newer)
        if !newer.isEmpty { line("newer", "of a newer version, left as they are: " + names(newer)) }
        let foreign = store.names(.foreign)
        if !foreign.isEmpty { line("foreign", "not the SDK's, left alone: " + names(foreign)) }
        if store.isMoving { line("moving", "files came or went while they were read: figures may not fit together") }
        if !store.runs.isEmpty { lines += table(store.runs) }
        return lines.joined(separator: "\n") + "\n"
    }

    static func check(_ stores: [StoreInspection]) -> String {
        var lines: [String] = []
        for store in stores {
            for finding in store.findings.list {
                let place = finding.offset.map { ":\($0)" } ?? ""
                let kind = word(for: finding.kind)
                lines.append(kind + ServeLine.harmless("\(store.folder)/\(finding.file)\(place): \(finding.text)"))
            }
            let rest = store.findings.count - store.findings.list.count
            if rest > 0 { lines.append("and \(grouped(rest)) more") }
            let records = store.runs.reduce(0) { $0 + $1.recordCount }
            var verdict = "whole"
            if store.findings.damageCount > 0 { verdict = "\(count(store.findings.damageCount, "place")) damaged" }
            if store.findings.unreadableCount > 0 {
                verdict += ", \(count(store.findings.unreadableCount, "file")) unreadable"
            }
            if store.isMoving { verdict += "; files came or went while they were read: check it again" }
            lines.append(
                ServeLine.harmless(store.folder) + ": \(grouped(records)) records in "
                    + "\(count(store.segmentCount, "segment")), \(verdict)")
        }
        return lines.joined(separator: "\n") + "\n"
    }

    // MARK: Parts

    private static func word(for kind: StoreInspection.Finding.Kind) -> String {
        switch kind {
        case .damage: "damaged     "
        case .unreadable: "unreadable  "
        case .remark: "remark      "
        }
    }

    private static func owner(_ owner: LockHolder) -> String {
        switch owner {
        case .held(let process?): "held by process \(process)"
        case .held(nil): "held"
        case .free: "free"
        case .noneInSight: "free, as far as can be seen from this container"
        case .unknown: "not known"
        }
    }

    private static func waiting(_ store: StoreInspection, _ nowMilliseconds: Int64) -> String {
        guard let waiting = store.waiting else { return "not known" }
        var text = count(Int(waiting), "event")
        if let oldest = store.oldestMilliseconds {
            text += ", the oldest of \(timestampText(oldest)), \(age(nowMilliseconds - oldest))"
        }
        return text
    }

    private static func damage(_ store: StoreInspection) -> String {
        let findings = store.findings
        guard findings.damageCount + findings.unreadableCount > 0 else { return "none" }
        var parts: [String] = []
        if findings.damageCount > 0 { parts.append(count(findings.damageCount, "place")) }
        if findings.unreadableCount > 0 { parts.append(count(findings.unreadableCount, "unreadable file")) }
        if store.lostCount > 0 { parts.append("\(count(Int(store.lostCount), "waiting event")) lost") }
        return parts.joined(separator: ", ") + "; tiller store --check tells where"
    }

    private static func account(_ account: StoreInspection.Account) -> String {
        var text =
            "\(grouped(account.stored)) stored = \(grouped(account.delivered)) delivered + "
            + "\(grouped(account.waiting)) waiting + \(grouped(account.refused)) refused + "
            + "\(grouped(account.evicted)) evicted + \(grouped(account.damaged)) damaged"
        if account.unknown > 0 { text += " + \(grouped(account.unknown)) unknown" }
        return text
    }

    private static func state(_ state: StoreInspection.CheckpointState) -> String {
        switch state {
        case .absent: "no checkpoint"
        case .covers(let run, let segment, let offset):
            "checkpoint up to run \(run), segment \(segment), byte \(offset)"
        case .newerFormat: "checkpoint of a newer format"
        case .damaged: "checkpoint damaged"
        case .unreadable: "checkpoint unreadable"
        }
    }

    private static func table(_ runs: [StoreInspection.Run]) -> [String] {
        let rows =
            [["run", "segments", "bytes", "events", "delivered up to", "waiting"]]
            + runs.map { run in
                [
                    "\(run.number)", "\(run.segmentCount)", grouped(run.bytes), grouped(run.eventCount),
                    run.position.map { grouped($0) } ?? "-", run.waiting.map { grouped($0) } ?? "-",
                ]
            }
        let widths = rows[0].indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
        return rows.map { row in
            "  " + zip(row, widths).map { String(repeating: " ", count: $1 - $0.count) + $0 }.joined(separator: "  ")
        }
    }

    /// A list that stays readable.
    private static func names(_ names: [String]) -> String {
        let shown = names.prefix(10).map(ServeLine.harmless).joined(separator: ", ")
        return names.count > 10 ? shown + ", and \(names.count - 10) more" : shown
    }

    private static func count(_ count: Int, _ noun: String) -> String {
        "\(grouped(count)) \(noun)\(count == 1 ? "" : "s")"
    }

    /// `1 234 567`.
    private static func grouped(_ number: some BinaryInteger) -> String {
        var text = ""
        for (index, digit) in String(number).reversed().enumerated() {
            if index > 0, index % 3 == 0, digit != "-" { text.append(" ") }
            text.append(digit)
        }
        return String(text.reversed())
    }

    /// `3 h 12 min old`, of the two largest units.
    static func age(_ milliseconds: Int64) -> String {
        guard milliseconds >= 0 else { return "after now: the clock was set" }
        let seconds = milliseconds / 1_000
        return switch seconds {
        case ..<60: "\(seconds) s old"
        case ..<3_600: "\(seconds / 60) min \(seconds % 60) s old"
        case ..<86_400: "\(seconds / 3_600) h \(seconds % 3_600 / 60) min old"
        default: "\(seconds / 86_400) d \(seconds % 86_400 / 3_600) h old"
        }
    }
}
