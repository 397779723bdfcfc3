import Testing
import Tiller
import TillerTesting

/// What lies under an event's own values.
@Suite(.timeLimit(.minutes(5))) struct LaidUnderTests {
    @Test func baseKeepsAllMembers() {
        var object = JSONObject()
        for index in 0..<70 { object["k\(index)"] = .int(Int64(index)) }
        var event = JSONObject()
        event.lay(over: JSONObject.Base(object))
        #expect(event == object)
    }

    @Test func integrationsThatAreSetAfterInitLieOverTheDefaultToo() async {
        let recorder = RecordingDestination()
        let analytics = Analytics(configuration: .test(), plugins: [recorder])
        var options = EventOptions()
        options.integrations = ["Amplitude": false]
        analytics.track(name: "A", options: options)
        let events = await analytics.settled(recorder)
        #expect(events.map(\.integrations) == [["All": true, "Amplitude": false]])
    }
}
