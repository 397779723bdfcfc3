/// The time that a system gives to an app which has left the screen, before it freezes the process.
protocol BackgroundTime: Sendable {
    /// Asks for time.
    ///
    /// - Parameter isUp: Called when the system wants the time back, from any thread, perhaps before this returns.
    /// - Returns: Gives the time back when cancelled or released; `nil` if there is none.
    func begin(_ isUp: @escaping @Sendable () -> Void) -> CancellationToken?
}

/// The lifecycle of a platform that freezes apps.
protocol SuspendingLifecycleSource: LifecycleSource {
    /// Where an app asks for time.
    var backgroundTime: any BackgroundTime { get }
}

/// One upload at one background notice: the time for it is taken once and given back once, whatever comes first.
final class BackgroundStay: Sendable {
    private struct State: Sendable {
        var time: CancellationToken?
        var isOver = false
    }

    private let state = Locked(State())
    private let last: @Sendable () -> Void

    /// - Parameter last: Done once, before the time is given back.
    init(in time: any BackgroundTime, last: @escaping @Sendable () -> Void) {
        self.last = last
        let token = time.begin { [weak self] in self?.end() }
        // The time may have been up before it was noted.
        let isOver = state.withLock { state in
            if !state.isOver { state.time = token }
            return state.isOver
        }
        if isOver { token?.cancel() }
    }

    deinit { end() }

    func end() {
        let (isFirst, time) = state.withLock { state in
            defer { state.isOver = true }
            return (!state.isOver, state.time.take())
        }
        guard isFirst else { return }
        last()
        time?.cancel()
    }
}

/// What an instance does between a background notice and the process's being frozen.
final class Suspension: Sendable {
    private let suspend: @Sendable () -> Void
    private let resume: @Sendable () -> Void
    private let time: (any BackgroundTime)?
    /// How often the app has come to the foreground.
    private let returns = Locked(0)

    /// - Parameters:
    ///   - suspend: Done before time is given back, unless the app is on screen again.
    ///   - resume: Done when the app is back.
    init(
        of source: any LifecycleSource, suspend: @escaping @Sendable () -> Void, resume: @escaping @Sendable () -> Void
    ) {
        self.suspend = suspend
        self.resume = resume
        // To learn that a type is none takes the runtime long, and no other program is suspended.
        time = source.isApp ? (source as? any SuspendingLifecycleSource)?.backgroundTime : nil
    }

    /// Takes time for an upload.
    ///
    /// - Returns: To be ended when the upload is over; `nil` where nothing is ever frozen.
    func beginStay() -> BackgroundStay? {
        guard let time else { return nil }
        let count = returns.withLock { $0 }
        return BackgroundStay(in: time) { [weak self] in
            guard let self, self.returns.withLock({ $0 }) == count else { return }
            self.suspend()
            // It may have returned meanwhile: the last word is that.
            if self.returns.withLock({ $0 }) != count { self.resume() }
        }
    }

    /// The app is back.
    func end() {
        guard time != nil else { return }
        returns.withLock { $0 += 1 }
        resume()
    }
}
