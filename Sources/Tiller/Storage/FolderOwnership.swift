import Dispatch

/// The lock of a store's folder: who holds it owns what is stored there.
///
/// An instance that is closing its folder is waited for, one second at the most: an app that shuts an instance down and
/// makes the next one on the next line must not find itself a guest.
final class FolderOwnership: Sendable {
    private struct State: Sendable {
        var lock: (any FileLock)?
        /// Entered from the announcement of the end to the end.
        var closing: DispatchGroup?
        var isClosed = false
        var isWanted = false
        var whenWanted: (@Sendable () -> Void)?
    }

    /// Folders that an instance of this process is about to let go of.
    private static let closing = Locked<[String: FolderOwnership]>([:])

    private let path: String
    private let folder: String
    private let disk: any FileSystem
    private let state: Locked<State>

    /// - Throws: Why the folder can't be locked by anybody.
    init(of files: LogFiles, on disk: any FileSystem) throws {
        folder = files.folder
        path = files.ownerLock
        self.disk = disk
        var lock = try disk.lock(path)
        if lock == nil {
            Self.waitUntilClosed(folder)
            lock = try disk.lock(path)  // also if it was let go of just now
        }
        state = Locked(State(lock: lock))
    }

    deinit { close() }

    /// Whether the folder is this instance's.
    var isHeld: Bool { state.withLock { $0.lock != nil } }

    /// Takes the folder if it is free. It waits for nobody.
    ///
    /// - Returns: Whether the folder is this instance's.
    func take() -> Bool {
        if isHeld { return true }
        guard state.withLock({ !$0.isClosed }), let lock = try? disk.lock(path) else { return false }
        let spare = state.withLock { state -> (any FileLock)? in
            if state.isClosed { return lock }
            state.lock = lock
            return nil
        }
        spare?.unlock()
        return spare == nil
    }

    /// Gives the folder up, for another to take.
    func release() { state.withLock { $0.lock.take() }?.unlock() }

    /// Whether the lock keeps others out: its file may have been removed, and the folder with it.
    var isInPlace: Bool { state.withLock { $0.lock?.hasName ?? false } }

    /// Takes the lock of the folder that was made in the place of the removed one.
    ///
    /// - Returns: Whether it is this instance's; another one may have been faster.
    /// - Throws: Why it can't be locked by anybody.
    func renew() throws -> Bool {
        guard let lock = try disk.lock(path) else { return false }
        let former = state.withLock { state in
            let former = state.lock
            state.lock = lock
            return former
        }
        former?.unlock()
        return true
    }

    /// The end has been announced.
    func prepareToClose() {
        let isNew = state.withLock { state in
            guard state.lock != nil, state.closing == nil else { return false }
            let closing = DispatchGroup()
            closing.enter()
            state.closing = closing
            return true
        }
        if isNew { Self.closing.withLock { $0[folder] = self } }
    }

    /// Runs an action, once at most, when another instance waits for the end.
    func whenWanted(_ action: @escaping @Sendable () -> Void) {
        let isWanted = state.withLock { state in
            if !state.isWanted { state.whenWanted = action }
            return state.isWanted
        }
        if isWanted { action() }
    }

    /// Lets go of the folder, for good.
    func close() {
        let (lock, closing) = state.withLock { state in
            state.isClosed = true
            state.whenWanted = nil
            return (state.lock.take(), state.closing.take())
        }
        lock?.unlock()
        guard let closing else { return }
        Self.closing.withLock { folders in
            if folders[folder] === self { folders[folder] = nil }
        }
        closing.leave()
    }

    private static func waitUntilClosed(_ folder: String) {
        guard let owner = closing.withLock({ $0[folder] }) else { return }
        let (closing, whenWanted) = owner.state.withLock { state in
            state.isWanted = true
            return (state.closing, state.whenWanted.take())
        }
        whenWanted?()
        _ = closing?.wait(timeout: .now() + .seconds(1))  // afterwards the lock tells
    }
}
