import Foundation

extension Configuration {
    /// The store that the configuration asks for; memory, with an error, where it can't be had.
    func makeStore(_ diagnostics: Diagnostics) -> any StateStore {
        switch storage {
        case .memory: return MemoryStateStore()
        case .custom(let store): return store
        case .folder(let url): return openStore(below: url.path, diagnostics)
        case .automatic:
            guard let base = StorageLocation.automatic() else {
                diagnostics.warn("No folder to store in was found (HOME is not set); state is kept in memory")
                return MemoryStateStore()
            }
            return openStore(below: base, diagnostics)
        }
    }

    /// One folder per write key, of which only the hash is written, and instance name.
    private func openStore(below base: String, _ diagnostics: Diagnostics) -> any StateStore {
        let name = instanceName.unicodeScalars.map { scalar in
            CharacterSet.alphanumerics.contains(scalar) && scalar.isASCII ? String(scalar) : "_"
        }.joined()
        // Names that differ only in what a folder can't have differ in the hash.
        let hash = SHA256.hex(of: writeKey + "\u{0}" + instanceName).prefix(16)
        let folder = base + "/" + hash + "-" + name.prefix(64)
        do {
            return try FileStateStore(folder: folder, diagnostics: diagnostics)
        } catch {
            diagnostics.error("The state can't be stored; it is kept in memory", error)
            return MemoryStateStore()
        }
    }
}
