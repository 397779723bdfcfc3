import Dispatch
import Foundation
import Testing
import Tiller
import TillerTesting

/// No value that an app can give, and none that a store or a clock can hold, ends the process.
@Suite(.timeLimit(.minutes(5))) struct ExtremeValuesTests {
    @Test(arguments: [Int.min, -1, 0, 1, .max]) func limitsDoNotTrap(limit: Int) async {
        let limits = Limits(memoryEvents: limit, memoryBytes: limit, eventBytes: limit, batchBytes: limit)
        let analytics = Analytics(configuration: .test(limits: limits), plugins: [RecordingDestination()])
        analytics.track(name: "A")
        analytics.identify(userId: "u")
        await analytics.settled()
        await analytics.flushed()
        #expect(analytics.account.inMemory == 0)
    }

    @Test func negativeBoundOfADestinationDoesNotTrap() async {
        await #expect(processExitsWith: .success) {
            let analytics = Analytics(
                configuration: .test(limits: Limits(destinationEvents: .min)), plugins: [RecordingDestination()])
            analytics.track(name: "A")
            await analytics.settled()
        }
    }

    @Test func storedCountThatCannotGrowDoesNotTrap() async {
        await #expect(processExitsWith: .success) {
            let store = MemoryStateStore()
            store.save([StateChange(key: "SessionTrackingPlugin", changes: ["generation": .uint(.max)])])
            let analytics = Analytics(configuration: .test(storage: .custom(store)))
            analytics.track(name: "A")
            await analytics.settled()
        }
    }

    @Test func wallClockAtItsEndDoesNotTrap() async {
        await #expect(processExitsWith: .success) {
            let time = VirtualTime(wallMilliseconds: .max)
            let analytics = Analytics(configuration: .test(time: time))
            analytics.track(name: "A")
            time.advance(by: .seconds(1))
            await analytics.flushed()
        }
    }

    @Test func valuesNestedWithoutEndDoNotTrap() async {
        await #expect(processExitsWith: .success) {
            let analytics = Analytics(configuration: .test())
            await withCheckedContinuation { done in
                // The caller's own stack is large enough for what it makes; the sanitizer's record of calls is not.
                let thread = Thread {
                    analytics.track(name: "A", properties: ["deep": .nested(isUnderThreadSanitizer ? 10_000 : 200_000)])
                    done.resume()
                }
                thread.stackSize = 512 << 20
                thread.start()
            }
            await analytics.flushed()
        }
    }
}
