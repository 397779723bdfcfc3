import Foundation

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Android)
import Android
#endif

/// What a process can't see change: the machine and its operating system. Nothing in it names a machine or its owner:
/// neither host name nor machine id is ever read.
struct Machine: Sendable {
    let device: SystemContext.Device
    let os: SystemContext.OperatingSystem

    #if canImport(Darwin)
    /// This machine.
    static func read() -> Machine {
        let version = ProcessInfo.processInfo.operatingSystemVersion
        var parts = [version.majorVersion, version.minorVersion]
        if version.patchVersion > 0 { parts.append(version.patchVersion) }
        return Machine(
            device: SystemContext.Device(manufacturer: "Apple", model: model, type: systemName),
            os: SystemContext.OperatingSystem(
                name: systemName, version: parts.map(String.init).joined(separator: ".")))
    }

    /// The same on an iPad, where UIKit has another name for the system.
    private static var systemName: String {
        #if os(macOS) || targetEnvironment(macCatalyst)
        "macOS"
        #elseif os(tvOS)
        "tvOS"
        #elseif os(watchOS)
        "watchOS"
        #elseif os(visionOS)
        "visionOS"
        #else
        "iOS"
        #endif
    }

    /// The model's identifier, such as `"iPhone15,2"`.
    private static var model: String? {
        #if targetEnvironment(simulator)
        ProcessInfo.processInfo.environment["SIMULATOR_MODEL_IDENTIFIER"]
        #elseif os(macOS) || targetEnvironment(macCatalyst)
        value(of: "hw.model")
        #else
        value(of: "hw.machine")
        #endif
    }

    private static func value(of name: String) -> String? {
        var size = 0
        guard sysctlbyname(name, nil, &size, nil, 0) == 0, size > 1 else { return nil }
        var text = [UInt8](repeating: 0, count: size)
        guard sysctlbyname(name, &text, &size, nil, 0) == 0 else { return nil }
        return String(decoding: text.prefix { $0 != 0 }, as: UTF8.self)
    }
    #else
    /// This machine. Where no release file names the distribution, the kernel is the operating system.
    ///
    /// - Parameter releasePaths: Where the release file may be.
    static func read(releasePaths: [String] = ReleaseFile.paths) -> Machine {
        var names = utsname()
        let isKnown = uname(&names) == 0
        let system = isKnown ? text(of: names.sysname) : nil
        let kernel = isKnown ? text(of: names.release) : nil
        var os = SystemContext.OperatingSystem(name: system, version: kernel, kernel: kernel)
        if let release = ReleaseFile.read(releasePaths), let name = release.name {
            (os.name, os.version) = (name, release.version)
        }
        let architecture = isKnown ? text(of: names.machine) : nil
        return Machine(device: SystemContext.Device(model: architecture, type: system), os: os)
    }

    /// A field of a C structure, up to its first zero byte.
    private static func text<Field>(of field: Field) -> String {
        withUnsafeBytes(of: field) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    }
    #endif
}
