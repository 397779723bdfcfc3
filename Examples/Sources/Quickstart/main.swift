// A small app's day: launch, a screen, a log-in, a coffee break that outlasts the session, a log-out. Its events travel
// Before → Enrichment → Destination and over HTTP to a data plane in this process. The clock is virtual, so that nothing
// waits; a real app leaves `time` and `storage` out and drives `lifecycleSource` from its own notifications.

import Tiller
import TillerTesting

let dataPlane = try LocalDataPlane()
let time = VirtualTime()
let lifecycle = ManualLifecycleSource(isInForeground: true)
let consent = ConsentFilter()

let analytics = Analytics(
    configuration: Configuration(
        writeKey: "quickstart",
        dataPlaneUrl: dataPlane.url,
        sessionConfiguration: SessionConfiguration(sessionTimeoutInMillis: 300_000, backgroundEvents: .carry),
        storage: .memory,
        lifecycleSource: lifecycle,
        time: time,
        application: ApplicationInfo(name: "Quickstart", version: "1.0", build: "1")),
    plugins: [consent, Campaign()])
var timeline = Timeline()
timeline.note("the app is opened for the first time: a session begins")

analytics.screen(screenName: "Home")
time.advance(by: .seconds(5))
analytics.track(name: "Ad Viewed")  // dropped by ConsentFilter
analytics.track(name: "Product Viewed", properties: ["sku": "A-4711", "price": 129.95])
time.advance(by: .seconds(20))
analytics.identify(userId: "alice", traits: ["plan": "pro"])
analytics.track(name: "Order Completed", properties: ["total": 129.95, "items": ["A-4711"]])

time.advance(by: .seconds(30))
lifecycle.background()
time.advance(by: .seconds(120))
analytics.track(name: "Push Received")  // still in the session: two minutes are less than the timeout
time.advance(by: .seconds(600))
lifecycle.foreground()
timeline.note("back after 12 minutes in the background, more than the timeout of 5: a new session")
analytics.screen(screenName: "Orders")

time.advance(by: .seconds(10))
analytics.reset()
timeline.note("reset, as at a log-out: a new anonymous id and a new session")
analytics.track(name: "Signed Out")

let result = await analytics.flushed()
await analytics.shutdownAndWait()
print("A small app's day by a virtual clock, as \(dataPlane.url) received it.")
print("The program is Examples/Sources/Quickstart/main.swift.")
print("▶ is sessionStart, the mark on the first event of a session.\n")
print(timeline.text(of: dataPlane.events))
print("dropped by ConsentFilter: \(consent.dropped.joined(separator: ", "))")
print("flushed: \(result)")
dataPlane.stop()
