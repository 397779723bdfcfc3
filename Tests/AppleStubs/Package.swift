// swift-tools-version: 6.0
import PackageDescription

/// Stand-ins for Apple's frameworks, as far as the platform sources use them: what is declared here has Apple's names,
/// isolation and `Sendable` conformances. A new one is a folder below Sources and a name in this list.
let modules = ["UIKit", "AppKit", "WatchKit", "Network"]

let package = Package(
    name: "AppleStubs",
    products: [.library(name: "AppleStubs", targets: modules)],
    targets: modules.map { .target(name: $0) },
    swiftLanguageModes: [.v6]
)
