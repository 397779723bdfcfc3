import Foundation

extension Configuration {
    /// The store that the configuration asks for; memory, with an error, where it can't be had.
    func makeStore(_ diagnostics: Diagnostics) -> any EventStore {
        switch storage {
        case .memory: return MemoryEventStore(state: MemoryStateStore(), diagnostics: diagnostics)
        case .custom(let store):
            return store as? any EventStore ?? MemoryEventStore(state: store, diagnostics: diagnostics)
        case .folder(let url): return openStore(below: url.path, diagnostics)
        case .automatic:
            guard let base = StorageLocation.automatic() else {
                diagnostics.error(
                    "No folder to store in was found (HOME is not set): what is not delivered ends with the process")
                return MemoryEventStore(state: MemoryStateStore(), diagnostics: diagnostics)
            }
            return openStore(below: base, diagnostics)
        }
    }

    /// One folder per write key, of which only the hash is written, and instance name.
    private func openStore(below base: String, _ diagnostics: Diagnostics) -> any EventStore {
        let name = instanceName.unicodeScalars.map { scalar in
            CharacterSet.alphanumerics.contains(scalar) && scalar.isASCII ? String(scalar) : "_"
        }.joined()
        // Names that differ only in what a folder can't have differ in the hash.
        let hash = SHA256.hex(of: writeKey + "\u{0}" + instanceName).prefix(16)
        let folder = base + "/" + hash + "-" + name.prefix(64)
        do {
            let log = try EventLog(
                folder: folder, on: fileSystem, limits: limits, boot: time.bootHash, diagnostics: diagnostics)
            // A guest reads what is remembered, and keeps its events to itself.
            return log.isOwned ? log : MemoryEventStore(state: log, diagnostics: diagnostics)
        } catch {
            diagnostics.error("Nothing can be stored; everything is kept in memory", error)
            return MemoryEventStore(state: MemoryStateStore(), diagnostics: diagnostics)
        }
    }
}
