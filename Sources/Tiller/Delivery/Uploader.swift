/// What brings stored events to the data plane: one request at a time, oldest events first.
///
/// What is done after each answer is for `DeliveryRules` to say; here it is carried out. One is made each time a
/// destination takes its place in an instance; after `close` it ends and is never used again.
final class Uploader: Uploads {
    struct State: Sendable {
        /// Up to which event of the store, counted from its opening, an upload was asked for.
        var target = 0
        /// How many events the store had had at the last flush.
        var flushed = 0
        var hasFlushed = false
        /// Whether events of earlier processes were waiting.
        var hasBacklog = false
        var isInForeground = false
        /// The app has gone to the background: the next events that are stored are uploaded at once.
        var isLeaving = false
        var isRunning = false
        /// Since when another process has to upload; `nil`: it is this one that does.
        var leftToOwner: Int64?
        /// Counts the runs, and says whether the present one has a thread yet.
        var run = 0
        var hasBegun = false
        var rules: DeliveryRules
        /// Single events that are passed over, oldest first, and why; empty while nothing runs.
        var held: [Held] = []
        /// The last failure of the batch that is next, for the retry headers.
        var failed: FailedAttempt?
        var lastError: String?
        /// The attempt under way was cut when the end had come.
        var isLastAttempt = false
        var pause: Pause?
        /// When a pause was ended before its time, by the continuous clock.
        var lastEndedPause: Duration?
        var interval: Interval?
        var lastTimerId = 0
        var isClosing = false
        var isDone = false
        var isHurried = false
        var flushWaiters: [FlushWaiter] = []
        /// How many bytes of events make a body that the transport likes.
        var goodBatchBytes: Int
        /// The last answer came soon.
        var isNear = false
        /// This machine takes too long to prepare a request ahead.
        var isSlow = false
        var toldProgress = DeliveryProgress()

        /// Those whose events have all gone; they wait no longer.
        mutating func takeWaiters(reachedBy settled: Int) -> [FlushWaiter] {
            defer { flushWaiters.removeAll { $0.target <= settled } }
            return flushWaiters.filter { $0.target <= settled }
        }

        /// Nothing is passed over any more.
        mutating func letGo() {
            held = []
            rules.letGo()
        }
    }

    struct Held: Sendable {
        let batch: StoredBatch
        let answer: DataPlaneAnswer
    }

    struct FailedAttempt: Sendable {
        let place: DeliveryRules.Place
        let at: Duration
        let reason: String
        let count: Int
    }

    /// An upload at its end. Noted before its timer is set.
    struct Interval: Sendable {
        let id: Int
        var timer: CancellationToken?
    }

    struct FlushWaiter: Sendable {
        let target: Int
        let resume: @Sendable (FlushResult) -> Void
    }

    static let shutDown = FlushResult.stopped(reason: "the instance was shut down")
    static let unusable = "the data plane's URL can't be used"

    let done = Milestone()
    let environment: DataPlaneEnvironment
    let state: Locked<State>
    let uploads = Locked<Task<Void, Never>?>(nil)
    let endpoint: BatchEndpoint?
    let transport: any Transport
    let time: any TimeSource
    let executors: any Executors
    let policies: [any FlushPolicy]
    let batchBytes: Int
    let isPerIdentity: Bool
    let compresses: Bool
    let boot: UInt64
    /// While it waits for a network that is gone.
    let network: Locked<CancellationToken?>
    let observeNetwork: NetworkObservation

    init(
        configuration: Configuration, environment: DataPlaneEnvironment,
        observeNetwork: @escaping NetworkObservation = { NetworkState.observe($0) }
    ) {
        self.environment = environment
        let isApp = configuration.lifecycleSource.isApp
        endpoint = BatchEndpoint(baseUrl: configuration.dataPlaneUrl, writeKey: configuration.writeKey)
        transport = configuration.transport
        time = configuration.time
        executors = configuration.executors
        policies = configuration.flushPolicies
        batchBytes = configuration.limits.batchBytes
        isPerIdentity = (configuration.batching ?? (isApp ? .perIdentity : .mixed)) == .perIdentity
        compresses = configuration.gzipEnabled
        boot = configuration.time.bootHash
        network = Locked(nil)
        self.observeNetwork = observeNetwork
        let rules = DeliveryRules(
            longestWait: isApp ? .seconds(300) : .seconds(60), random: configuration.identifiers)
        state = Locked(State(rules: rules, goodBatchBytes: configuration.limits.batchBytes))
    }

    var store: any EventStore { environment.store }

    /// The instance whose events it uploads.
    var instance: ObjectIdentifier { environment.instance }

    /// The destination may take its place in another instance.
    var isClosing: Bool { state.withLock { $0.isClosing } }

    func begin(inForeground: Bool, isLeaving: Bool = false) {
        state.withLock { state in
            let counts = store.counts
            state.hasBacklog = counts.waiting > 0
            state.flushed = counts.settled
            // It may have come meanwhile.
            if inForeground { state.isInForeground = true }
            state.isLeaving = isLeaving && !policies.isEmpty
        }
        if endpoint == nil {
            environment.diagnostics.error(
                "The data plane's URL can't be used: it needs http:// or https:// and a host. Events wait, none is sent"
            )
        }
        tellProgress()
        listenToOthers()
        // Strong: the end of what had the place before may be all that holds it.
        environment.isFree.whenReached {
            self.askAboutBacklog()
            self.start()
            self.finishIfClosing()
        }
    }
}

// MARK: - Progress

extension Uploader {
    var delivery: DeliveryProgress { state.withLock { progress(in: $0) } }

    private func progress(in state: State) -> DeliveryProgress {
        var progress = DeliveryProgress(lastError: state.lastError)
        if let pause = state.pause {
            progress.activity =
                pause.kind == .fault
                ? .stopped(reason: pause.reason) : .waiting(until: pause.until, reason: pause.reason)
        } else if state.isRunning {
            progress.activity = .running
        } else if endpoint == nil {
            progress.activity = .stopped(reason: Self.unusable)
        }
        return progress
    }

    /// Tells a change once, outside of the lock.
    func tellProgress() {
        let isChanged = state.withLock { state in
            let now = progress(in: state)
            defer { state.toldProgress = now }
            return now != state.toldProgress
        }
        if isChanged { environment.didChangeDelivery() }
    }
}
