extension StoreInspection {
    /// Nothing could be told: the folder itself can't be read.
    package struct Unreadable: Error, CustomStringConvertible {
        package let description: String
    }

    /// How often a store is read whose files go meanwhile.
    private static let attempts = 4

    /// Reads a store.
    ///
    /// - Parameters:
    ///   - folder: An instance's.
    ///   - disk: Where it is.
    ///   - readsPayloads: Whether the JSON in the records is read too; checksums always are.
    /// - Throws: `Unreadable`.
    package init(
        folder: String, on disk: any FileSystem = SystemFiles(), readsPayloads: Bool = false
    ) throws(Unreadable) {
        var found: StoreInspection
        var attempt = 0
        repeat {
            attempt += 1
            found = StoreInspection(folder: folder, owner: LockHolder(of: LogFiles(folder: folder).ownerLock))
            let before = try Snapshot(folder, on: disk)
            found.read(before, on: disk, readsPayloads: readsPayloads)
            found.isMoving = try !before.isStill(Snapshot(folder, on: disk))
            // What a writer had half written looks like damage.
        } while attempt < Self.attempts && (found.isMoving || found.findings.damageCount > 0 && found.owner != .free)
        self = found
    }

    /// The stores in a folder: itself, or those below it.
    ///
    /// - Throws: `Unreadable`, also if there is none.
    package static func folders(in path: String, on disk: any FileSystem = SystemFiles()) throws(Unreadable) -> [String]
    {
        let path = path.count > 1 && path.hasSuffix("/") ? String(path.dropLast()) : path
        let names = try list(path, on: disk).map(\.name)
        let ownName = path.split(separator: "/").last ?? ""
        if LogFiles.isStore(names) || LogFiles.isStoreName(ownName) { return [path] }
        let stores = names.filter { LogFiles.isStoreName($0[...]) }.sorted()
        guard !stores.isEmpty else { throw Unreadable(description: "there is no store in \(path)") }
        return stores.map { path + "/" + $0 }
    }

    private static func list(_ folder: String, on disk: any FileSystem) throws(Unreadable) -> [FileEntry] {
        do {
            return try disk.list(folder).filter { ![".", ".."].contains($0.name) }.sorted { $0.name < $1.name }
        } catch {
            throw Unreadable(description: "\(error)")
        }
    }

    /// Goes through all whole records that count, the oldest first. What went since the inspection is left out.
    package func records(on disk: any FileSystem = SystemFiles(), _ visit: (Record) -> Void) {
        for run in Self.segments(of: files) {
            for (offset, segment) in run.segments.enumerated() {
                let next = offset + 1 < run.segments.count ? run.segments[offset + 1].first : nil
                guard let bytes = try? disk.contents(of: folder + "/" + segment.name) else { continue }
                SegmentScan(
                    name: segment.name, run: run.number, first: segment.first, limit: next, end: 0, position: 0,
                    readsPayloads: false
                ).records(in: bytes, visit)
            }
        }
    }
}

// MARK: - What is there

extension StoreInspection {
    /// What must be the same before and after reading.
    private struct Snapshot {
        let entries: [FileEntry]
        let base: [UInt8]?

        init(_ folder: String, on disk: any FileSystem) throws(Unreadable) {
            entries = try StoreInspection.list(folder, on: disk)
            base = (try? disk.contents(of: LogFiles(folder: folder).base)) ?? nil
        }

        /// Files may grow; none may come or go, and no run be taken into the base.
        func isStill(_ later: Snapshot) -> Bool { base == later.base && logNames == later.logNames }

        private var logNames: [String] { entries.map(\.name).filter { LogFiles.kind(of: $0) != .other } }
    }

    fileprivate struct FoundSegment {
        let name: String
        let index: Int
        let first: UInt64
        let size: Int
    }

    fileprivate static func segments(of files: [File]) -> [(number: Int, segments: [FoundSegment])] {
        var runs: [Int: [FoundSegment]] = [:]
        for file in files where file.kind == .segment {
            guard case .segment(let run, let index, let first) = LogFiles.kind(of: file.name) else { continue }
            runs[run, default: []].append(FoundSegment(name: file.name, index: index, first: first, size: file.size))
        }
        return runs.sorted { $0.key < $1.key }.map { ($0.key, $0.value.sorted { $0.index < $1.index }) }
    }

    private static func kind(of entry: FileEntry) -> File.Kind {
        switch LogFiles.kind(of: entry.name) {
        case .segment: return .segment
        case .acknowledgement: return .acknowledgement
        case .newerSegment: return .newer
        case .runLock, .newLock: return .lock
        case .other: break
        }
        guard LogFiles.isCompanion(entry.name) else { return .foreign }
        if entry.name == "base.ack" { return .base }
        if entry.name == "checkpoint.json" { return .checkpoint }
        return entry.name.hasSuffix(".lock") ? .lock : .companion
    }

    private mutating func read(_ snapshot: Snapshot, on disk: any FileSystem, readsPayloads: Bool) {
        files = snapshot.entries.map { File(name: $0.name, kind: Self.kind(of: $0), size: $0.size) }
        for name in names(.newer) { findings.add(.remark, name, "Of a newer format: it is left as it is") }
        readCheckpoint(on: disk)
        for name in names(.base) + names(.acknowledgement) { readSlots(name, on: disk) }
        let opening = readOpening(on: disk)
        for (number, segments) in Self.segments(of: files) {
            read(number, segments, opening?.index.runs.first { $0.number == number }, on: disk, readsPayloads)
        }
        for run in opening?.index.runs ?? [] where !runs.contains(where: { $0.number == run.number }) {
            runs.append(Run(number: run.number, position: run.position, end: run.end))
        }
        runs.sort { $0.number < $1.number }
    }
}

// MARK: - The small files

extension StoreInspection {
    private mutating func contents(_ name: String, on disk: any FileSystem) -> [UInt8]? {
        do {
            return try disk.contents(of: folder + "/" + name)
        } catch {
            findings.add(.unreadable, name, "\(error)")
            return nil
        }
    }

    private mutating func readCheckpoint(on disk: any FileSystem) {
        for name in names(.checkpoint) {
            guard let bytes = Checkpoint.bytes({ contents(name, on: disk) }) else {
                checkpoint = .unreadable
                continue
            }
            do {
                let place = try Checkpoint(reading: bytes).place
                checkpoint = .covers(run: place.run, segment: place.segment, offset: place.offset)
            } catch is Checkpoint.NewerFormat {
                checkpoint = .newerFormat
                markNewer(name)
            } catch {
                checkpoint = .damaged
                let parsing = error as? JSONValue.ParsingError
                findings.add(.damage, name, at: parsing?.offset ?? 0, "\(error)")
            }
        }
    }

    private mutating func markNewer(_ name: String) {
        for index in files.indices where files[index].name == name { files[index].kind = .newer }
        findings.add(.remark, name, "Of a newer format: it is left as it is")
    }

    private mutating func readSlots(_ name: String, on disk: any FileSystem) {
        guard let bytes = contents(name, on: disk) else { return }
        let slots = SlotFile.slots(in: bytes)
        if slots.contains(where: { $0.state == .newerFormat }) { return markNewer(name) }
        let isKnown = slots.contains { if case .whole = $0.state { true } else { false } }
        for (offset, state) in slots where state == .damaged {
            findings.add(
                .damage, name, at: offset,
                isKnown ? "This slot is not whole; the other one counts" : "This slot is not whole, and none counts")
        }
    }

    /// What an instance would know at its opening.
    private mutating func readOpening(on disk: any FileSystem) -> LogOpening? {
        let silent = Diagnostics(logger: SilentLogger(), level: .none)
        do {
            let opening = try LogOpening(LogFiles(folder: folder), on: disk, isOwner: false, silent)
            account = Account(opening)
            for run in opening.index.runs { check(run) }
            return opening
        } catch {
            obstacle = "\(error)"
            return nil
        }
    }

    private mutating func check(_ run: LogIndex.Run) {
        let settled = run.sums.values.reduce(0, +)
        guard settled != run.position else { return }
        findings.add(
            .damage, LogFiles.acknowledgementName(run.number),
            "\(run.position) events are settled, and \(settled) of them accounted for")
    }
}

private struct SilentLogger: Logger {}

extension StoreInspection.Account {
    fileprivate init(_ opening: LogOpening) {
        let sums = opening.index.sums
        delivered = sums.delivered
        refused = sums.refused
        evicted = sums.evicted
        damaged = sums.damaged
        let ends = opening.index.runs.reduce(0) { $0 + $1.end }
        waiting = opening.index.runs.reduce(0) { $0 + $1.end - $1.position }
        stored = ends + LogIndex.Sums(opening.base.values[2...]).values.reduce(0, +)
    }
}

// MARK: - Segments

extension StoreInspection {
    private mutating func read(
        _ number: Int, _ segments: [FoundSegment], _ known: LogIndex.Run?, on disk: any FileSystem,
        _ readsPayloads: Bool
    ) {
        var run = Run(number: number, position: known?.position, end: known?.end)
        if known == nil, obstacle == nil, let segment = segments.first {
            findings.add(
                .remark, segment.name,
                "Not read by an opening: its run is taken into the base, or has files of a newer format")
        }
        // Of a run that is not known nothing can be missing.
        var place = SegmentPlace(position: known?.position ?? .max)
        for (offset, segment) in segments.enumerated() {
            run.segmentCount += 1
            run.bytes += segment.size
            place.next = offset + 1 < segments.count ? segments[offset + 1] : nil
            let isFollowed = place.next.map { $0.index == segment.index + 1 } ?? true
            place.end = isFollowed ? place.next?.first ?? known?.end ?? 0 : 0
            read(segment, at: &place, of: &run, on: disk, readsPayloads)
        }
        runs.append(run)
    }

    /// How far a run is read, and what is known of its next segment.
    private struct SegmentPlace {
        let position: UInt64
        /// Up to here no event is missed any more.
        var reached: UInt64
        /// The number after the last event that was read.
        var last: UInt64 = 0
        var next: FoundSegment?
        /// What the segment must reach.
        var end: UInt64 = 0

        init(position: UInt64) {
            self.position = position
            reached = position
        }
    }

    private mutating func read(
        _ segment: FoundSegment, at place: inout SegmentPlace, of run: inout Run, on disk: any FileSystem,
        _ readsPayloads: Bool
    ) {
        if segment.first > place.reached {
            lostCount += segment.first - place.reached
            findings.add(
                .damage, segment.name, "Events \(place.reached) to \(segment.first - 1) are in no file before it")
        }
        guard let bytes = contents(segment.name, on: disk) else {
            place.reached = max(place.reached, place.next?.first ?? place.end)
            return
        }
        var scan = SegmentScan(
            name: segment.name, run: run.number, first: segment.first, reached: place.last, limit: place.next?.first,
            end: place.end, position: place.position, readsPayloads: readsPayloads)
        scan.read(bytes)
        take(scan, into: &run)
        place.last = scan.reached
        place.reached = max(place.reached, place.last)
    }

    private mutating func take(_ scan: SegmentScan, into run: inout Run) {
        run.recordCount += scan.recordCount
        run.eventCount += scan.eventCount
        run.stateCount += scan.stateCount
        lostCount += scan.lostCount
        findings.add(scan.findings)
        if oldestMilliseconds == nil { oldestMilliseconds = scan.oldestMilliseconds }
    }
}
