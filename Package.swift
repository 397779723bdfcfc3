// swift-tools-version: 6.0
import PackageDescription

/// On in every target, so that the package builds the same when a later language mode makes them the rule.
let settings: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),  // SE-0335
    .enableUpcomingFeature("InternalImportsByDefault"),  // SE-0409
    .enableUpcomingFeature("MemberImportVisibility"),  // SE-0444
]

let package = Package(
    name: "Tiller",
    platforms: [.macOS(.v13), .iOS(.v16), .tvOS(.v16), .watchOS(.v9), .visionOS(.v1)],
    products: [
        .library(name: "Tiller", targets: ["Tiller"]),
        .library(name: "TillerTesting", targets: ["TillerTesting"]),
        .executable(name: "tiller", targets: ["TillerCommand"]),
    ],
    targets: [
        .target(name: "Tiller", swiftSettings: settings),
        .target(name: "TillerTesting", dependencies: ["Tiller"], swiftSettings: settings),
        // The folder is `tiller`, the module is not: two modules that differ in case only collide on macOS.
        .executableTarget(
            name: "TillerCommand", dependencies: ["Tiller", "TillerTesting"], path: "Sources/tiller",
            swiftSettings: settings),
        .testTarget(
            name: "TillerTests", dependencies: ["Tiller", "TillerTesting"], resources: [.copy("Resources/sessions")],
            swiftSettings: settings),
        .testTarget(
            name: "PublicAPITests", dependencies: ["Tiller", "TillerTesting"], swiftSettings: settings),
    ],
    swiftLanguageModes: [.v6]
)
