import Testing
import Tiller
import TillerTesting

/// Between sources and observers: one change at a time, in order, each real one once (`DECISIONS.md` 10).
@Suite(.timeLimit(.minutes(5)))
struct LifecycleHubTests {
    /// Notes what it is told, and does more on request.
    private final class Observer: Plugin, LifecycleObserver {
        let stage = Stage.before
        private let name: String
        private let log: Locked<[String]>
        private let body: @Sendable (LifecycleEvent, Analytics) -> Void

        init(
            _ name: String = "", in log: Locked<[String]>,
            _ body: @escaping @Sendable (LifecycleEvent, Analytics) -> Void = { _, _ in }
        ) {
            self.name = name
            self.log = log
            self.body = body
        }

        func handle(_ event: LifecycleEvent, in analytics: Analytics) {
            log.withLock { $0.append("\(name)\(event)") }
            body(event, analytics)
        }
    }

    private let log = Locked<[String]>([])
    private let source = ManualLifecycleSource()

    private var told: [String] { log.withLock { $0 } }

    private func makeAnalytics(_ plugins: any Plugin...) -> Analytics {
        Analytics(configuration: .test(lifecycle: source), plugins: plugins)
    }

    @Test func comingObserversHearInOrderGoingInReverse() {
        let analytics = makeAnalytics(Observer("1 ", in: log), Observer("2 ", in: log))
        source.foreground()
        source.background()
        source.terminate()
        #expect(
            told == [
                "1 foreground", "2 foreground", "2 background", "1 background", "2 terminate", "1 terminate",
            ])
        analytics.shutdown()
    }

    @Test func onlyRealChangesAreTold() {
        let analytics = makeAnalytics(Observer(in: log))
        for _ in 0..<2 { source.background() }
        for _ in 0..<3 { source.foreground() }
        for _ in 0..<3 { source.background() }
        source.foreground()
        #expect(told == ["foreground", "background", "foreground"])
        analytics.shutdown()
    }

    @Test func terminateIsToldEachTimeAndChangesNoState() {
        let analytics = makeAnalytics(Observer(in: log))
        source.terminate()
        source.foreground()
        source.terminate()
        source.foreground()
        source.terminate()
        source.background()
        #expect(told == ["terminate", "foreground", "terminate", "terminate", "background"])
        analytics.shutdown()
    }

    @Test func theStateAtTheStartIsToldAsAChange() {
        source.foreground()
        let analytics = makeAnalytics(Observer(in: log))
        #expect(told == ["foreground"])
        source.foreground()
        #expect(told == ["foreground"])
        analytics.shutdown()
    }

    @Test func aLateObserverIsToldTheForegroundAndNothingElse() {
        let analytics = makeAnalytics()
        analytics.add(plugin: Observer("early ", in: log))
        #expect(told.isEmpty)
        source.foreground()
        analytics.add(plugin: Observer("late ", in: log))
        source.background()
        analytics.add(plugin: Observer("last ", in: log))
        #expect(told == ["early foreground", "late foreground", "late background", "early background"])
    }

    @Test func aRemovedObserverIsToldNothingMore() {
        let observer = Observer(in: log)
        let analytics = makeAnalytics(observer)
        source.foreground()
        analytics.remove(plugin: observer)
        source.background()
        source.foreground()
        #expect(told == ["foreground"])
        analytics.add(plugin: observer)
        #expect(told == ["foreground", "foreground"])
    }

    @Test func anObserverAddedTwiceIsToldOnce() {
        let observer = Observer(in: log)
        let analytics = makeAnalytics(observer)
        analytics.add(plugin: observer)
        source.foreground()
        #expect(told == ["foreground"])
    }

    @Test func theCommandComesBeforeTheObserversWhenComingAndAfterThemWhenGoing() {
        let sessions = Locked<[UInt64?]>([])
        let observer = Observer(in: log) { _, analytics in
            sessions.withLock { $0.append(analytics.sessionId) }
        }
        let analytics = makeAnalytics(observer)
        #expect(analytics.sessionId == nil)
        source.foreground()
        let session = analytics.sessionId
        #expect(session != nil)
        source.background()
        #expect(sessions.withLock { $0 } == [session, session])
    }

    @Test func whatAnObserverRecordsAtTheBackgroundIsAForegroundEvent() async {
        let destination = RecordingDestination()
        let observer = Observer(in: log) { event, analytics in
            if event == .background { analytics.track(name: "Going") }
        }
        var configuration = Configuration.test(
            lifecycle: source, session: SessionConfiguration(backgroundEvents: .exclude))
        configuration.identifiers = .seeded(2)
        let analytics = Analytics(configuration: configuration, plugins: [observer, destination])
        source.foreground()
        let session = analytics.sessionId
        source.background()
        analytics.track(name: "Gone")
        #expect(await analytics.settled(destination).map(\.sessionId) == [session, nil])
    }

    @Test func aChangeThatAnObserverCausesIsToldAfterThePresentOne() {
        let source = source
        let first = Observer("1 ", in: log) { event, _ in
            if event == .foreground { source.background() }
        }
        let analytics = makeAnalytics(first, Observer("2 ", in: log))
        source.foreground()
        #expect(told == ["1 foreground", "2 foreground", "2 background", "1 background"])
        analytics.shutdown()
    }

    @Test func anObserverMayAddAnother() {
        let log = log
        let late = Observer("late ", in: log)
        let first = Observer("1 ", in: log) { event, analytics in
            if event == .foreground { analytics.add(plugin: late) }
        }
        let analytics = makeAnalytics(first, Observer("2 ", in: log))
        source.foreground()
        source.background()
        #expect(
            told == [
                "1 foreground", "2 foreground", "late foreground", "late background", "2 background", "1 background",
            ])
        analytics.shutdown()
    }

    @Test func observersAreToldOutsideEveryLock() {
        let observer = Observer(in: log) { _, analytics in
            analytics.track(name: "A")
            analytics.identify(userId: "u1")
            analytics.startSession()
            _ = (analytics.userId, analytics.sessionId)
            analytics.flush()
        }
        let analytics = makeAnalytics(observer)
        source.foreground()
        #expect(analytics.userId == "u1")
    }

    @Test func anInstanceLetsGoOfItsSourceAtShutdown() {
        let observations = CountingSource()
        let analytics = Analytics(
            configuration: {
                var configuration = Configuration.test()
                configuration.lifecycleSource = observations
                return configuration
            }(), plugins: [Observer(in: log)])
        #expect(observations.count == 1)
        analytics.shutdown()
        #expect(observations.count == 0)
        observations.tell(.foreground)
        #expect(told.isEmpty)
    }

    @Test func anInstanceLetsGoOfItsSourceWhenReleased() async {
        let observations = CountingSource()
        var configuration = Configuration.test()
        configuration.lifecycleSource = observations
        do {
            let analytics = Analytics(configuration: configuration)
            analytics.track(name: "A")
            #expect(observations.count == 1)
        }
        // The pipeline may hold the instance until it is through.
        await observations.isLeft()
        #expect(observations.count == 0)
    }

    @Test func twoInstancesHearOneSourceEach() {
        let (first, second) = (makeAnalytics(Observer("1 ", in: log)), makeAnalytics(Observer("2 ", in: log)))
        source.foreground()
        first.shutdown()
        source.background()
        #expect(told == ["1 foreground", "2 foreground", "2 background"])
        second.shutdown()
    }

    @Test func changesFromManyThreadsAreToldOneAtATimeAndAlternate() async {
        let isBusy = Locked(false)
        let overlaps = Locked(0)
        let observer = Observer(in: log) { _, _ in
            if isBusy.withLock({ isBusy in
                defer { isBusy = true }
                return isBusy
            }) {
                overlaps.withLock { $0 += 1 }
            }
            isBusy.withLock { $0 = false }
        }
        let analytics = makeAnalytics(observer)
        let source = source
        await onThreads(4) { index in
            for _ in 0..<200 { if index.isMultiple(of: 2) { source.foreground() } else { source.background() } }
        }
        #expect(overlaps.withLock { $0 } == 0)
        let expected = told.indices.map { $0.isMultiple(of: 2) ? "foreground" : "background" }
        #expect(told == expected)
        analytics.shutdown()
    }

    /// Counts who observes it.
    private final class CountingSource: LifecycleSource {
        private let handlers = Locked<[Int: @Sendable (LifecycleEvent) -> Void]>([:])
        private let (ends, end) = AsyncStream.makeStream(of: Void.self)

        var count: Int { handlers.withLock { $0.count } }

        /// Waits until somebody has stopped to observe.
        func isLeft() async { for await _ in ends { return } }

        func observe(_ handler: @escaping @Sendable (LifecycleEvent) -> Void) -> LifecycleObservation {
            let id = handlers.withLock { handlers in
                let id = handlers.count
                handlers[id] = handler
                return id
            }
            return LifecycleObservation(
                isInForeground: false,
                token: CancellationToken { [weak self] in
                    self?.handlers.withLock { $0[id] = nil }
                    self?.end.yield()
                })
        }

        func tell(_ event: LifecycleEvent) {
            for handler in handlers.withLock({ Array($0.values) }) { handler(event) }
        }
    }
}

/// Ends something once.
struct CancellationTokenTests {
    @Test func aTokenActsOnceWhenCancelledOrReleased() {
        let count = Locked(0)
        do {
            let token = CancellationToken { count.withLock { $0 += 1 } }
            token.cancel()
            token.cancel()
        }
        #expect(count.withLock { $0 } == 1)
        do { _ = CancellationToken { count.withLock { $0 += 1 } } }
        #expect(count.withLock { $0 } == 2)
    }
}
