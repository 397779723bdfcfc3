// swift-tools-version: 6.0
import PackageDescription

/// On in every target, so that the package builds the same when a later language mode makes them the rule.
let settings: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),  // SE-0335
    .enableUpcomingFeature("InternalImportsByDefault"),  // SE-0409
    .enableUpcomingFeature("MemberImportVisibility"),  // SE-0444
]

/// Whether to build against stub modules of Apple's frameworks, as `.ci/apple-stubs` does. Nobody else depends on anything.
let isStubBuild = Context.environment["TILLER_APPLE_STUBS"] == "1"

let stubs: [Target.Dependency] = isStubBuild ? [.product(name: "AppleStubs", package: "AppleStubs")] : []

let tests: [Target] = [
    // Kills a process of its own over and over: too long for the tests, which check its verdict.
    .executableTarget(
        name: "kill-harness", dependencies: ["Tiller", "TillerTesting"], path: "Tests/KillHarness",
        swiftSettings: settings),
    // The SDK in simulated worlds, one for each seed: too many for the tests, which run a few.
    .executableTarget(
        name: "simulate", dependencies: ["Tiller", "TillerTesting"], path: "Tests/Simulation", swiftSettings: settings),
    // Records events, for the tools that count what an event costs (`.ci/counts`).
    .executableTarget(
        name: "counts", dependencies: ["Tiller"], path: "Tests/Counts", exclude: ["limits.txt"],
        swiftSettings: settings),
    .testTarget(
        name: "TillerTests", dependencies: ["Tiller", "TillerTesting", "TillerCommand", "kill-harness", "simulate"],
        resources: [.copy("Resources/sessions"), .copy("Resources/data-plane")], swiftSettings: settings),
    .testTarget(
        name: "PublicAPITests", dependencies: ["Tiller", "TillerTesting"], swiftSettings: settings),
]

let appleTests: [Target] = [
    .testTarget(
        name: "AppleTests", dependencies: ["Tiller", "TillerTesting"] + stubs,
        // Without the flag `import Testing` beside `import UIKit` asks for a module that only Apple has.
        swiftSettings: settings + [.unsafeFlags(["-Xfrontend", "-disable-cross-import-overlays"])])
]

let package = Package(
    name: "Tiller",
    platforms: [.macOS(.v13), .iOS(.v16), .tvOS(.v16), .watchOS(.v9), .visionOS(.v1)],
    products: [
        .library(name: "Tiller", targets: ["Tiller"]),
        .library(name: "TillerTesting", targets: ["TillerTesting"]),
        .executable(name: "tiller", targets: ["TillerCommand"]),
    ],
    dependencies: isStubBuild ? [.package(path: "Tests/AppleStubs")] : [],
    targets: [
        // The processor's own instructions for a checksum: all that is C.
        .target(name: "CTillerChecksum"),
        .target(
            name: "Tiller", dependencies: ["CTillerChecksum"] + stubs,
            swiftSettings: settings + (isStubBuild ? [.define("TILLER_APPLE_STUBS")] : [])),
        .target(name: "TillerTesting", dependencies: ["Tiller"], swiftSettings: settings),
        // The folder is `tiller`, the module is not: two modules that differ in case only collide on macOS.
        .executableTarget(
            name: "TillerCommand", dependencies: ["Tiller", "TillerTesting"], path: "Sources/tiller",
            swiftSettings: settings),
    ] + (isStubBuild ? appleTests : tests),
    swiftLanguageModes: [.v6]
)
