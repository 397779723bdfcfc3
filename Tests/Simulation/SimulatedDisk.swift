import Tiller
import TillerTesting

/// A disk in memory that knows what is synced: a file's bytes, and apart from them the names in a folder.
///
/// Processes use it through `Process`, one each. A kill leaves everything that was written; a power cut leaves what was
/// synced, and of the rest what the random numbers say.
final class SimulatedDisk: Sendable {
    /// What goes wrong by itself.
    struct Faults: Sendable, Equatable {
        /// Nothing can be made or become longer.
        var isFull = false
        /// One write, sync, read in so many fails; 0: none does.
        var failingWrites = 0
        var failingSyncs = 0
        var failingReads = 0
    }

    /// What a power cut does to what is not synced.
    enum Loss: CaseIterable {
        case everything, nothing, something
    }

    /// A file; its name is apart.
    struct Node: Sendable {
        var bytes: [UInt8] = []
        var synced: [UInt8] = []
    }

    struct State: Sendable {
        var nodes: [Int: Node] = [:]
        var names: [String: Int] = [:]
        var syncedNames: [String: Int] = [:]
        var folders: Set<String> = []
        /// Which process has a file's lock.
        var locks: [String: Int] = [:]
        var alive: Set<Int> = []
        /// After how many operations a process dies.
        var deaths: [Int: Int] = [:]
        var last = 0
        var faults = Faults()
        var random: SeededRandom
        /// How many operations have failed by themselves.
        var faultCount = 0
        var operationCount = 0
    }

    /// What is written to a drive as one.
    static let pageSize = 4_096

    let state: Locked<State>

    /// An empty disk.
    init(random: SeededRandom) { state = Locked(State(random: random)) }

    /// A new process, with no file open.
    func begin() -> Process {
        state.withLock { state in
            state.last += 1
            state.alive.insert(state.last)
            return Process(disk: self, id: state.last)
        }
    }

    func setFaults(_ faults: Faults) { state.withLock { $0.faults = faults } }

    /// How many operations have failed by themselves so far.
    var faultCount: Int { state.withLock { $0.faultCount } }
    var operationCount: Int { state.withLock { $0.operationCount } }

    /// A process dies: what it has written is there, its locks are free, and whatever it asks for from now on fails.
    func kill(_ process: Int) { state.withLock { $0.kill(process) } }

    /// A process dies in the middle of an operation, after so many whole ones.
    func kill(_ process: Int, after operations: Int) { state.withLock { $0.deaths[process] = operations } }

    func isAlive(_ process: Int) -> Bool { state.withLock { $0.alive.contains(process) } }

    /// All processes die, and of what is not synced the drive has what it has.
    func cutPower(_ loss: Loss = .something) { state.withLock { $0.cutPower(loss) } }

    /// The files, by path.
    ///
    /// - Parameter synced: Only what every power cut would leave.
    func files(synced: Bool) -> [(path: String, bytes: [UInt8])] {
        state.withLock { state in
            state.names.keys.sorted().compactMap { path in
                guard let id = state.names[path], let node = state.nodes[id] else { return nil }
                if synced, state.syncedNames[path] != id { return nil }
                return (path, synced ? node.synced : node.bytes)
            }
        }
    }
}

// MARK: - What befalls it

extension SimulatedDisk.State {
    mutating func kill(_ process: Int) {
        alive.remove(process)
        locks = locks.filter { $0.value != process }
    }

    mutating func cutPower(_ loss: SimulatedDisk.Loss) {
        for process in alive { kill(process) }
        var kept: [String: Int] = [:]
        for path in Set(names.keys).union(syncedNames.keys).sorted() {
            let isSynced = names[path] == syncedNames[path]
            kept[path] = isSynced || keepsUnsynced(loss) ? names[path] : syncedNames[path]
        }
        names = kept
        syncedNames = kept
        let used = Set(kept.values)
        nodes = nodes.filter { used.contains($0.key) }
        for id in used.sorted() {
            guard let node = nodes[id], node.bytes != node.synced else { continue }
            let bytes = remains(of: node, loss)
            nodes[id] = SimulatedDisk.Node(bytes: bytes, synced: bytes)
        }
    }

    private mutating func keepsUnsynced(_ loss: SimulatedDisk.Loss) -> Bool {
        switch loss {
        case .everything: false
        case .nothing: true
        case .something: random.happens(onceIn: 2)
        }
    }

    /// Each page is the old or the new one, in whatever order the drive came to them; the length is a thing of its own.
    private mutating func remains(of node: SimulatedDisk.Node, _ loss: SimulatedDisk.Loss) -> [UInt8] {
        var bytes = keepsUnsynced(loss) ? node.bytes : node.synced
        if loss != .something { return bytes }
        for start in stride(from: 0, to: bytes.count, by: SimulatedDisk.pageSize) {
            let page = start..<min(start + SimulatedDisk.pageSize, bytes.count)
            let source = keepsUnsynced(loss) ? node.bytes : node.synced
            for index in page { bytes[index] = index < source.count ? source[index] : 0 }
        }
        return bytes
    }
}

// MARK: - One operation

extension SimulatedDisk.State {
    enum Operation {
        case read, sync, name
        /// Makes a file.
        case creation
    }

    /// What becomes of an operation: it takes effect or not, and it fails or not.
    struct Fate {
        var takesEffect = true
        var failure: FileFailure?
    }

    static let noSpace: Int32 = 28
    static let inputOutput: Int32 = 5

    func failure(_ path: String, _ code: Int32 = inputOutput) -> FileFailure {
        .system(operation: "simulated", path: path, code: code)
    }

    private mutating func fault(_ path: String, _ code: Int32 = inputOutput) -> FileFailure {
        faultCount += 1
        return failure(path, code)
    }

    mutating func fate(of operation: Operation, at path: String, by process: Int) throws -> Fate {
        if try dies(process, at: path) {
            return Fate(takesEffect: random.happens(onceIn: 2), failure: failure(path))
        }
        let chance =
            switch operation {
            case .read: faults.failingReads
            case .sync: faults.failingSyncs
            case .name, .creation: faults.failingWrites
            }
        if operation == .creation, faults.isFull {
            return Fate(takesEffect: false, failure: fault(path, Self.noSpace))
        }
        return random.happens(onceInOrNever: chance) ? Fate(takesEffect: false, failure: fault(path)) : Fate()
    }

    /// - Parameter growth: How many of the bytes would make the file longer: they are the last ones.
    /// - Returns: How many bytes are written, and why not all.
    mutating func fate(
        ofWriting count: Int, growth: Int, at path: String, by process: Int
    ) throws -> (written: Int, failure: FileFailure?) {
        if try dies(process, at: path) { return (random.below(count + 1), failure(path)) }
        if faults.isFull, growth > 0 {
            return (count - growth + random.below(growth), fault(path, Self.noSpace))
        }
        return random.happens(onceInOrNever: faults.failingWrites) ? (random.below(count), fault(path)) : (count, nil)
    }

    /// - Throws: If the process is dead.
    private mutating func dies(_ process: Int, at path: String) throws -> Bool {
        guard alive.contains(process) else { throw failure(path) }
        operationCount += 1
        guard let left = deaths[process] else { return false }
        deaths[process] = left - 1
        if left > 0 { return false }
        kill(process)
        return true
    }
}
