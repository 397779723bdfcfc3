import Foundation

/// Language and time zone as a process without user settings has them: from its environment.
///
/// Foundation knows neither the C locale's variables nor all forms of `TZ` on
/// Linux, and has a value of its own where there is none.
struct POSIXEnvironment: Sendable {
    private let variables: [String: String]

    init(_ variables: [String: String] = ProcessEnvironment.values(of: ["LC_ALL", "LC_MESSAGES", "LANG", "TZ"])) {
        self.variables = variables
    }

    /// Language and region of the messages, such as `"en-US"`; `nil` for the C locale, which is nobody's.
    ///
    /// Source: POSIX, "Internationalization Variables": `language[_territory][.codeset][@modifier]`.
    var locale: String? {
        let names = ["LC_ALL", "LC_MESSAGES", "LANG"]
        guard let value = names.lazy.compactMap({ variables[$0] }).first(where: { !$0.isEmpty }) else { return nil }
        let tag = value.prefix { $0 != "." && $0 != "@" }.split(
            separator: "_", maxSplits: 1, omittingEmptySubsequences: false)
        guard let language = tag.first, 2...3 ~= language.utf8.count, language.utf8.allSatisfy(Self.isLetter) else {
            return nil
        }
        guard tag.count > 1 else { return language.lowercased() }
        let region = tag[1]
        let isRegion =
            region.utf8.count == 2 && region.utf8.allSatisfy(Self.isLetter)
            || region.utf8.count == 3 && region.utf8.allSatisfy(Self.isDigit)
        return isRegion ? language.lowercased() + "-" + region.uppercased() : language.lowercased()
    }

    /// The time zone by its IANA identifier; `nil` where `TZ` has a rule that has no such name.
    ///
    /// Source: POSIX, "Other Environment Variables", `TZ`.
    var timezone: String? {
        guard var name = variables["TZ"] else { return TimeZone.current.identifier }
        if name.hasPrefix(":") { name.removeFirst() }
        if name == "/etc/localtime" { return TimeZone.current.identifier }
        if let folder = name.range(of: "/zoneinfo/") { name = String(name[folder.upperBound...]) }
        // What the C library makes of an empty one. Foundation has one name for the three.
        if name.isEmpty { return "UTC" }
        if name == "UTC" || name == "GMT" { return name }
        // Foundation takes "GMT+3" the other way round, and knows abbreviations that the C library does not.
        guard TimeZone(identifier: name)?.identifier == name, TimeZone.abbreviationDictionary[name] == nil else {
            return nil
        }
        return name
    }

    private static func isLetter(_ byte: UInt8) -> Bool { 0x61...0x7A ~= byte | 0x20 }
    private static func isDigit(_ byte: UInt8) -> Bool { 0x30...0x39 ~= byte }
}
