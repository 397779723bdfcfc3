/// What lies in a store's folder, found out by reading alone: no lock is taken, nothing is made, changed or removed.
///
/// It may be read while an instance writes. What was read is of one moment as far as that can be had: where files came or
/// went while they were read, all is read again, a few times.
package struct StoreInspection: Sendable {
    /// Where it is.
    package let folder: String
    /// Who has the lock of the owner.
    package let owner: LockHolder
    /// Everything in the folder, by name.
    package internal(set) var files: [File] = []
    /// By number; those of a newer format are not among them.
    package internal(set) var runs: [Run] = []
    /// `nil` if it is not known: `obstacle` says why.
    package internal(set) var account: Account?
    /// Why this version could store nothing here.
    package internal(set) var obstacle: String?
    package internal(set) var checkpoint = CheckpointState.absent
    /// The first event that waits: its call by the wall clock, in milliseconds since 1970.
    package internal(set) var oldestMilliseconds: Int64?
    /// Of the events that wait, those of which nothing whole is left.
    package internal(set) var lostCount: UInt64 = 0
    package internal(set) var findings = Findings()
    /// Whether files still came or went while they were read for the last time.
    package internal(set) var isMoving = false

    init(folder: String, owner: LockHolder) {
        self.folder = folder
        self.owner = owner
    }
}

extension StoreInspection {
    /// Something in the folder.
    package struct File: Sendable, Hashable {
        /// What it is.
        package enum Kind: String, Sendable, Hashable {
            case segment, acknowledgement, base, checkpoint, lock
            /// Other files of the SDK.
            case companion
            /// Of a later version of the SDK.
            case newer
            /// Not the SDK's.
            case foreign
        }

        package let name: String
        package internal(set) var kind: Kind
        /// In bytes.
        package let size: Int
    }

    /// The life of one instance.
    package struct Run: Sendable {
        package let number: Int
        package internal(set) var segmentCount = 0
        /// Of its segments.
        package internal(set) var bytes = 0
        /// Whole records, those with an event among them, and those with state.
        package internal(set) var recordCount = 0
        package internal(set) var eventCount = 0
        package internal(set) var stateCount = 0
        /// The number of the first event that waits, and the number after the last one; `nil` if that is not known.
        package internal(set) var position: UInt64?
        package internal(set) var end: UInt64?

        package var waiting: UInt64? {
            guard let position, let end else { return nil }
            return end - position
        }
    }

    /// Where all events are that were ever stored.
    package struct Account: Sendable, Equatable {
        package var stored: UInt64 = 0
        package var delivered: UInt64 = 0
        package var waiting: UInt64 = 0
        package var refused: UInt64 = 0
        package var evicted: UInt64 = 0
        package var damaged: UInt64 = 0

        /// Of what became of them nothing is known: an acknowledgement was damaged.
        package var unknown: UInt64 {
            let known = delivered + waiting + refused + evicted + damaged
            return stored > known ? stored - known : 0
        }
    }

    /// How the plugins' state is.
    package enum CheckpointState: Sendable, Equatable {
        case absent
        case covers(run: Int, segment: Int, offset: Int)
        case newerFormat
        case damaged
        case unreadable
    }

    /// Something that is not as it was written, or worth a word.
    package struct Finding: Sendable, Hashable {
        /// How bad it is.
        package enum Kind: String, Sendable, Hashable {
            case damage
            /// A file that can't be read.
            case unreadable
            /// As after a kill, or of another version: nothing is lost by it.
            case remark
        }

        package let kind: Kind
        /// The file's name.
        package let file: String
        /// In bytes; `nil`: the file as a whole.
        package let offset: Int?
        package let text: String
    }

    /// What was found, the first ones in full.
    package struct Findings: Sendable {
        package static let limit = 10_000

        package private(set) var list: [Finding] = []
        package private(set) var damageCount = 0
        package private(set) var unreadableCount = 0
        package private(set) var remarkCount = 0

        package var count: Int { damageCount + unreadableCount + remarkCount }

        mutating func add(_ kind: Finding.Kind, _ file: String, at offset: Int? = nil, _ text: String) {
            switch kind {
            case .damage: damageCount += 1
            case .unreadable: unreadableCount += 1
            case .remark: remarkCount += 1
            }
            if list.count < Self.limit { list.append(Finding(kind: kind, file: file, offset: offset, text: text)) }
        }

        mutating func add(_ others: Findings) {
            list += others.list.prefix(Self.limit - list.count)
            damageCount += others.damageCount
            unreadableCount += others.unreadableCount
            remarkCount += others.remarkCount
        }
    }

    /// A whole record of a segment.
    package struct Record: Sendable {
        package let run: Int
        package let file: String
        package let offset: Int
        /// The event's, or without an event that of the next one.
        package let number: UInt64
        /// Milliseconds since 1970.
        package let wallMilliseconds: Int64
        package let continuousNanoseconds: Int64
        /// The hash of the boot's identity; 0: unknown.
        package let boot: UInt64
        /// As JSON; empty: none.
        package let event: [UInt8]
        /// As JSON; empty: none.
        package let state: [UInt8]
    }

    /// How many events wait; `nil` if that is not known.
    package var waiting: UInt64? { account?.waiting }

    package var segmentCount: Int { runs.reduce(0) { $0 + $1.segmentCount } }

    /// Of what is the SDK's.
    package var bytes: Int { files.reduce(0) { $0 + ($1.kind == .foreign ? 0 : $1.size) } }

    package func names(_ kind: File.Kind) -> [String] { files.filter { $0.kind == kind }.map(\.name) }
}
