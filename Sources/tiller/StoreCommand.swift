import Foundation
import Tiller

/// `tiller store`: what waits in a store.
struct StoreCommand {
    static let help = """
        usage: tiller store [--json] FOLDER
               tiller store --check [--json] FOLDER
               tiller store FOLDER --bundle FILE

        Tells what waits in a store: runs, segments, events, the oldest of them, bytes, damage, the account of all
        events, and who owns it. FOLDER is an instance's own, or the one that holds several (HASH-NAME): then all.

        --check        verifies every record, every slot and the checkpoint. Prints what is damaged, with file and
                       offset; remarks (a write that a kill cut off, files of another version) are no damage.
        --json         the same as one JSON document
        --bundle FILE  writes a support bundle, which must not be there yet: one JSON document with all of that and
                       the oldest and the newest 1000 records of each store. Safe to mail: of what the app recorded
                       it has the sizes, numbers, times and kinds; the event specification's own keys are kept, and
                       all other keys, all texts and all numbers are hashed with a random salt that is written
                       nowhere. Equal values are equal in one bundle, and can be looked up in no list. Names of
                       folders and of files that are not the SDK's are hashed too.

        Only reads: it takes no lock, makes, changes and removes nothing in FOLDER, and may run while an app writes.
        Who owns the store is read from /proc/locks on Linux, which shows nothing of other containers.

        Exit status: 0; with --check 0 whole, 1 damage found; 1 the bundle can't be written; 64 usage, no store, or
        something can't be read.
        """

    /// What the commands below work on.
    private let options: StoreOptions
    private let nowMilliseconds = SystemTime().wallMilliseconds
    private var stores: [StoreInspection] = []
    private var isUnreadable = false

    static func run(_ arguments: [String]) async -> Int32 {
        if arguments.contains("--help") || arguments.contains("-h") {
            output(help + "\n")
            return 0
        }
        do {
            var command = StoreCommand(options: try StoreOptions(arguments))
            return command.run()
        } catch {
            TillerCommand.complain("\(error.reason) (see tiller store --help)")
            return TillerCommand.usage
        }
    }

    private init(options: StoreOptions) { self.options = options }

    private mutating func run() -> Int32 {
        if let bundle = options.bundle, let problem = problem(with: bundle) {
            TillerCommand.complain(problem)
            return TillerCommand.usage
        }
        inspect()
        guard !stores.isEmpty else { return TillerCommand.usage }
        if let bundle = options.bundle { return write(bundle) }
        if options.isJSON {
            let document = StoreDocument(nowMilliseconds: nowMilliseconds).document(stores)
            Self.output(JSONValue.object(document).description + "\n")
        } else if options.checks {
            Self.output(StoreText.check(stores))
        } else {
            Self.output(stores.map { StoreText.overview($0, nowMilliseconds: nowMilliseconds) }.joined(separator: "\n"))
        }
        if isUnreadable { return TillerCommand.usage }
        guard options.checks else { return 0 }
        if stores.contains(where: { $0.findings.unreadableCount > 0 }) { return TillerCommand.usage }
        return stores.contains { $0.findings.damageCount > 0 } ? 1 : 0
    }

    private mutating func inspect() {
        do {
            for folder in try StoreInspection.folders(in: options.folder) {
                do {
                    let readsPayloads = options.checks || options.bundle != nil
                    stores.append(try StoreInspection(folder: folder, readsPayloads: readsPayloads))
                } catch {
                    complain(error)
                }
            }
        } catch {
            complain(error)
        }
    }

    private mutating func complain(_ error: StoreInspection.Unreadable) {
        TillerCommand.complain(ServeLine.harmless(error.description))
        isUnreadable = true
    }

    /// A reader that has gone is no one to tell.
    private static func output(_ text: String) {
        try? FileHandle.standardOutput.write(contentsOf: Data(text.utf8))
    }

    // MARK: The bundle

    /// Nothing is written into a store, and nothing replaced.
    private func problem(with bundle: String) -> String? {
        let place = URL(fileURLWithPath: bundle).deletingLastPathComponent().resolvingSymlinksInPath().path
        let folder = URL(fileURLWithPath: options.folder).resolvingSymlinksInPath().path
        if place == folder || place.hasPrefix(folder + "/") { return "\(bundle) is in the store's folder" }
        return nil
    }

    private func write(_ bundle: String) -> Int32 {
        let document = SupportBundle(nowMilliseconds: nowMilliseconds).document(stores)
        let bytes = Array((JSONValue.object(document).description + "\n").utf8)
        do {
            let file = try SystemFiles().createAppender(bundle)
            defer { file.close() }
            try file.append(bytes[...])
        } catch {
            TillerCommand.complain(ServeLine.harmless("\(error)"))
            return 1
        }
        Self.output("\(bundle): \(bytes.count) bytes\n")
        return isUnreadable ? TillerCommand.usage : 0
    }
}
