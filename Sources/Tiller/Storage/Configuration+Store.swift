import Foundation

extension Configuration {
    /// The store that the configuration asks for; memory, with an error, where it can't be had.
    func makeStore(_ diagnostics: Diagnostics) -> OverflowingStore {
        switch storage {
        case .memory: return inMemory(MemoryStateStore(), diagnostics)
        case .custom(let store):
            if let store = store as? any EventStore { return OverflowingStore(store) }
            return inMemory(store, diagnostics)
        case .folder(let url): return openStore(below: StorageLocation.path(of: url), diagnostics)
        case .automatic:
            guard let base = StorageLocation.automatic() else {
                diagnostics.error(
                    "No folder to store in was found (HOME is not set): what is not delivered ends with the process")
                return inMemory(MemoryStateStore(), diagnostics)
            }
            return openStore(below: base, diagnostics)
        }
    }

    private func inMemory(
        _ state: any StateStore, _ diagnostics: Diagnostics, messages: DeferringLogger? = nil
    ) -> OverflowingStore {
        OverflowingStore(MemoryEventStore(state: state, diagnostics: diagnostics), messages: messages)
    }

    /// One folder per write key, of which only the hash is written, and instance name.
    private func openStore(below base: String, _ diagnostics: Diagnostics) -> OverflowingStore {
        let name = String(
            decoding: instanceName.unicodeScalars.prefix(64).map { scalar in
                let isPlain = scalar.isASCII && (scalar.properties.isAlphabetic || ("0"..."9").contains(scalar))
                return isPlain ? UInt8(truncatingIfNeeded: scalar.value) : UInt8(ascii: "_")
            }, as: UTF8.self)
        // Names that differ only in what a folder can't have differ in the hash.
        let hash = String(SHA256.hex(of: writeKey + "\u{0}" + instanceName).prefix(16))
        let folder = base + "/" + hash + "-" + name
        let (deferring, messages) = diagnostics.deferring()
        defer { messages.deliver() }
        do {
            let log = try EventLog(
                folder: folder, on: fileSystem, limits: limits, boot: time.bootHash,
                wallMilliseconds: { [time] in time.wallMilliseconds },
                housekeeper: executors.makeQueue("tiller.housekeeping"), diagnostics: deferring)
            // Without locks what is remembered is read, and everything else is kept in memory.
            return log.isDurable
                ? OverflowingStore(log, messages: messages) : inMemory(log, diagnostics, messages: messages)
        } catch {
            deferring.error("Nothing can be stored; everything is kept in memory", error)
            return inMemory(MemoryStateStore(), diagnostics)
        }
    }
}
