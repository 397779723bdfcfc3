// swift-tools-version: 6.0
import PackageDescription

let package = Package(
    name: "Examples",
    platforms: [.macOS(.v13)],
    dependencies: [
        // By name: with `path:` alone the package would be called after its folder, whatever a clone is called.
        .package(name: "Tiller", path: "..")
    ],
    targets: [
        .executableTarget(
            name: "Quickstart",
            dependencies: [
                .product(name: "Tiller", package: "Tiller"), .product(name: "TillerTesting", package: "Tiller"),
            ]),
        .executableTarget(
            name: "Benchmark",
            dependencies: [
                .product(name: "Tiller", package: "Tiller"), .product(name: "TillerTesting", package: "Tiller"),
            ], exclude: ["NOTES.md"]),
    ],
    swiftLanguageModes: [.v6]
)
