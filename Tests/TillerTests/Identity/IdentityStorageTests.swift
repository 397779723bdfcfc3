import Foundation
import Testing
import Tiller
import TillerTesting

/// What is known of a user after a restart, and what happens where it can't be read or written.
@Suite(.timeLimit(.minutes(5)))
struct IdentityStorageTests {
    private let lifecycle = ManualLifecycleSource(isInForeground: true)
    private let logger = RecordingLogger()

    private func launch(on store: any StateStore, inForeground: Bool = true, seed: UInt64 = 1) -> Analytics {
        if inForeground { lifecycle.foreground() } else { lifecycle.background() }
        var configuration = Configuration.test(lifecycle: lifecycle, storage: .custom(store), logger: logger)
        configuration.identifiers = .seeded(seed)
        return Analytics(configuration: configuration)
    }

    private static let stored: [String: JSONObject] = [
        "IdentityPlugin": ["anonymousId": "anon-1", "userId": "u1", "traits": ["a": 1]]
    ]

    // MARK: Restart

    @Test func theAnonymousIdIsStoredAtOnce() async {
        let store = ScriptedStore()
        let analytics = launch(on: store, inForeground: false)
        await analytics.stored()
        #expect(store.objects["IdentityPlugin"]?["anonymousId"]?.string == analytics.anonymousId)
        let next = launch(on: store.afterKill(), seed: 2)
        #expect(next.anonymousId == analytics.anonymousId)
    }

    @Test func everyTraitComesBackAsWhatItWas() async throws {
        let folder = TestFolder()
        let traits: JSONObject = [
            "yes": true, "no": false, "one": 1, "zero": 0, "double": 1.5, "text": "a\u{0}\"\\ü👨‍👩‍👧", "null": nil,
            "list": [true, [1, ["deep": false]], nil], "large": .uint(.max), "small": .int(.min), "empty": [:],
            "none": [], "date": "2026-03-05T13:00:05.005Z", "url": "https://example.com/a b?x=%20", "": "no key",
        ]
        let first = Analytics(configuration: .test(storage: .folder(folder.url)))
        first.identify(userId: "u1", traits: traits)
        let anonymousId = first.anonymousId
        await first.shutdownAndWait()
        let second = Analytics(configuration: .test(storage: .folder(folder.url)))
        #expect(second.userId == "u1")
        #expect(second.anonymousId == anonymousId)
        #expect(second.traits == traits)
        #expect(second.traits?["yes"]?.bool == true)
        #expect(second.traits?["one"]?.int == 1)
        #expect(second.traits?["one"]?.bool == nil)
        await second.shutdownAndWait()
    }

    @Test func anAliasIsRemembered() async {
        let store = ScriptedStore()
        let analytics = launch(on: store)
        analytics.identify(userId: "u1", traits: ["a": 1])
        analytics.alias(newId: "u2")
        await analytics.stored()
        let next = launch(on: store.afterKill())
        #expect(next.userId == "u2")
        #expect(next.traits == ["a": 1])
    }

    @Test func aResetIsRememberedEntryByEntry() async {
        for entries in [
            ResetEntries(), ResetEntries(anonymousId: false), ResetEntries(userId: false), ResetEntries(traits: false),
        ] {
            let store = ScriptedStore(Self.stored)
            let analytics = launch(on: store)
            analytics.reset(options: ResetOptions(entries: entries))
            let now = (analytics.anonymousId, analytics.userId, analytics.traits)
            await analytics.stored()
            let next = launch(on: store.afterKill(), seed: 3)
            #expect((next.anonymousId, next.userId, next.traits) == now)
        }
    }

    @Test func whatChangesNothingStoresNothing() async {
        let store = ScriptedStore(Self.stored)
        let analytics = launch(on: store, inForeground: false)
        await analytics.stored()
        let before = store.saveCount
        analytics.track(name: "A")
        analytics.screen(screenName: "S")
        analytics.group(groupId: "G", traits: ["plan": "pro"])
        analytics.scoped(userId: "u9").identify(traits: ["x": 1])
        analytics.reset(
            options: ResetOptions(
                entries: ResetEntries(anonymousId: false, userId: false, traits: false, session: false)))
        await analytics.stored()
        #expect(store.saveCount == before)
        #expect(store.objects["IdentityPlugin"] == Self.stored["IdentityPlugin"])
    }

    @Test func keysOfANewerVersionStay() async {
        var objects = Self.stored
        objects["IdentityPlugin"]?["future"] = ["x": 1]
        let store = ScriptedStore(objects)
        let analytics = launch(on: store)
        analytics.identify(userId: "u2")
        await analytics.stored()
        #expect(store.objects["IdentityPlugin"]?["future"] == ["x": 1])
    }

    @Test(
        arguments: [
            [:], ["anonymousId": ""], ["anonymousId": 7], ["userId": "u1"], ["anonymousId": nil, "traits": 3],
        ] as [JSONObject])
    func aStoredIdentityWithoutAnAnonymousIdGetsOne(object: JSONObject) async {
        let store = ScriptedStore(["IdentityPlugin": object])
        let analytics = launch(on: store)
        #expect(UUID(uuidString: analytics.anonymousId ?? "") != nil)
        await analytics.stored()
        #expect(store.objects["IdentityPlugin"]?["anonymousId"]?.string == analytics.anonymousId)
    }

    @Test func aStoredValueOfAnotherTypeCostsThatValueOnly() {
        let store = ScriptedStore(["IdentityPlugin": ["anonymousId": "anon-1", "userId": 7, "traits": "none"]])
        let analytics = launch(on: store)
        #expect(analytics.anonymousId == "anon-1")
        #expect(analytics.userId == nil)
        #expect(analytics.traits == [:])
    }

    // MARK: Unreadable

    @Test func anUnreadableIdentityIsReplacedByNothingThatTheAppDidNotAskFor() async {
        let store = ScriptedStore(Self.stored, isReadable: false)
        let analytics = launch(on: store, inForeground: false)
        #expect(UUID(uuidString: analytics.anonymousId ?? "") != nil)
        #expect(analytics.userId == nil)
        analytics.track(name: "A")
        analytics.group(groupId: "G")
        lifecycle.foreground()
        await analytics.stored()
        #expect(store.saveCount == 0)
        #expect(store.objects == Self.stored)
        #expect(logger.texts(.error).contains { $0.contains("can't be read") })
    }

    @Test func anIdentityThatCanBeReadLaterComesBackBeforeTheFirstForeground() async {
        let store = ScriptedStore(Self.stored, isReadable: false)
        let analytics = launch(on: store, inForeground: false)
        let destination = RecordingDestination()
        analytics.add(plugin: destination)
        let standIn = analytics.anonymousId
        analytics.track(name: "Before")
        store.setReadable(true)
        lifecycle.foreground()
        #expect(analytics.anonymousId == "anon-1")
        #expect(analytics.userId == "u1")
        #expect(analytics.traits == ["a": 1])
        analytics.track(name: "After")
        let events = await analytics.settled(destination)
        #expect(events.map(\.anonymousId) == [standIn, "anon-1"])
        #expect(store.objects["IdentityPlugin"] == Self.stored["IdentityPlugin"])
    }

    @Test func anIdentityThatStaysUnreadableIsReadAtTheNextForegroundAgain() {
        let store = ScriptedStore(Self.stored, isReadable: false)
        let analytics = launch(on: store, inForeground: false)
        lifecycle.foreground()
        #expect(analytics.userId == nil)
        lifecycle.background()
        store.setReadable(true)
        lifecycle.foreground()
        #expect(analytics.userId == "u1")
    }

    @Test func aStoreThatTurnsOutToBeEmptyGetsTheIdentityThatStoodIn() async {
        let store = ScriptedStore(isReadable: false)
        let analytics = launch(on: store, inForeground: false)
        let standIn = analytics.anonymousId
        store.setReadable(true)
        lifecycle.foreground()
        await analytics.stored()
        #expect(analytics.anonymousId == standIn)
        #expect(store.objects["IdentityPlugin"]?["anonymousId"]?.string == standIn)
    }

    @Test(arguments: ["identify", "alias", "reset"])
    func whatTheAppAsksForReplacesAnUnreadableIdentity(call: String) async {
        let store = ScriptedStore(Self.stored, isReadable: false)
        let analytics = launch(on: store, inForeground: false)
        switch call {
        case "identify": analytics.identify(userId: "u2")
        case "alias": analytics.alias(newId: "u2")
        default: analytics.reset()
        }
        let now = (analytics.anonymousId, analytics.userId, analytics.traits)
        await analytics.stored()
        store.setReadable(true)
        lifecycle.foreground()
        #expect((analytics.anonymousId, analytics.userId, analytics.traits) == now)
        #expect(store.objects["IdentityPlugin"]?["anonymousId"]?.string == now.0)
        #expect(store.objects["IdentityPlugin"]?["userId"]?.string == now.1)
    }

    // MARK: Guests

    @Test func aGuestReadsTheIdentityOnceAndWritesNone() async {
        let store = ScriptedStore(Self.stored, isOwned: false)
        let guest = launch(on: store)
        #expect(guest.anonymousId == "anon-1")
        #expect(guest.userId == "u1")
        guest.identify(userId: "u2", traits: ["b": 2])
        guest.reset()
        guest.alias(newId: "u3")
        #expect(guest.userId == "u3")
        await guest.stored()
        await guest.shutdownAndWait()
        #expect(store.saveCount == 0)
        #expect(store.objects == Self.stored)
    }

    @Test func aGuestOfAnEmptyStoreHasAnIdentityOfItsOwn() async {
        let store = ScriptedStore(isOwned: false)
        let guest = launch(on: store)
        #expect(UUID(uuidString: guest.anonymousId ?? "") != nil)
        await guest.stored()
        #expect(store.objects.isEmpty)
    }
}
