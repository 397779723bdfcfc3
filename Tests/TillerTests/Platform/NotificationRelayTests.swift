import Foundation
import Testing

@testable import Tiller

/// Notifications of a center, told to those who listen.
@Suite(.timeLimit(.minutes(5)))
struct NotificationRelayTests {
    private let center = NotificationCenter()
    private let first = Notification.Name("first")
    private let second = Notification.Name("second")
    private let log = Locked<[String]>([])

    private var told: [String] { log.withLock { $0 } }

    private func makeRelay() -> NotificationRelay {
        let center = center
        return NotificationRelay { center }
    }

    private func note(_ text: String) -> @Sendable () -> Void {
        let log = log
        return { log.withLock { $0.append(text) } }
    }

    private func post(_ names: Notification.Name...) { for name in names { center.post(name: name, object: nil) } }

    @Test func eachNameHasItsOwnAction() {
        let relay = makeRelay()
        let token = relay.listen([first: note("one"), second: note("two")])
        post(second, first, Notification.Name("third"), second)
        #expect(told == ["two", "one", "two"])
        token.cancel()
    }

    @Test func listenersHearInTheOrderInWhichTheyCameEachOnce() {
        let relay = makeRelay()
        let tokens = (0..<12).map { relay.listen([first: note("\($0)")]) }
        post(first)
        #expect(told == (0..<12).map(String.init))
        for token in tokens { token.cancel() }
        post(first)
        #expect(told.count == 12)
    }

    @Test func aCancelledTokenAndAReleasedOneEndTheirListeningOnly() {
        let relay = makeRelay()
        let cancelled = relay.listen([first: note("cancelled")])
        let kept = relay.listen([first: note("kept")])
        do { _ = relay.listen([first: note("released")]) }
        cancelled.cancel()
        post(first)
        #expect(told == ["kept"])
        kept.cancel()
    }

    @Test func aRelayThatIsGoneHearsNothing() {
        weak var relay: NotificationRelay?
        var token: CancellationToken?
        do {
            let made = makeRelay()
            relay = made
            token = made.listen([first: note("gone")])
        }
        #expect(relay == nil)
        post(first)
        #expect(told == [])
        token?.cancel()
    }

    @Test func anActionMayListenAndCancel() {
        let relay = makeRelay()
        let tokens = Locked<[CancellationToken]>([])
        let note = note
        let first = first
        let token = relay.listen([
            first: {
                let present = tokens.withLock { tokens in
                    defer { tokens = [] }
                    return tokens
                }
                for token in present { token.cancel() }
                let token = relay.listen([first: note("inner")])
                tokens.withLock { $0.append(token) }
            }
        ])
        post(first, first)
        // The listener that the first one made was in the list when the second began, and is told once.
        #expect(told == ["inner"])
        token.cancel()
        tokens.withLock { $0 = [] }
        post(first)
        #expect(told == ["inner"])
    }

    @Test func threadsListenAndPostAtOnce() async {
        let relay = makeRelay()
        let center = center
        let first = first
        let note = note
        await onThreads(4) { index in
            for _ in 0..<50 {
                let token = relay.listen([first: note("\(index)")])
                center.post(name: first, object: nil)
                token.cancel()
            }
        }
        // Each heard its own notification; others' notifications came on top.
        for index in 0..<4 { #expect(told.filter { $0 == "\(index)" }.count >= 50) }
        let count = told.count
        post(first)
        #expect(told.count == count)
    }
}
