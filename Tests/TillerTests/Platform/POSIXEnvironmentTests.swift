import Foundation
import Testing

@testable import Tiller

/// Language and time zone as the environment has them.
@Suite struct POSIXEnvironmentTests {
    private static let locales: [([String: String], String?)] = [
        (["LANG": "de_AT.UTF-8"], "de-AT"), (["LANG": "en_US"], "en-US"), (["LANG": "ca_ES.UTF-8@valencia"], "ca-ES"),
        (["LANG": "sr_RS@latin"], "sr-RS"), (["LANG": "eo"], "eo"), (["LANG": "EN_us"], "en-US"),
        (["LANG": "haw_US"], "haw-US"), (["LANG": "es_419"], "es-419"), (["LANG": "de_DE@euro"], "de-DE"),
        (["LC_ALL": "fr_FR", "LC_MESSAGES": "it_IT", "LANG": "de_AT"], "fr-FR"),
        (["LC_MESSAGES": "it_IT", "LANG": "de_AT"], "it-IT"), (["LC_ALL": "", "LANG": "de_AT"], "de-AT"),
        (["LC_TIME": "de_AT", "LANGUAGE": "de"], nil),
        // The C locale is nobody's, and wins where it stands first.
        (["LANG": "C"], nil), (["LANG": "POSIX"], nil), (["LANG": "C.UTF-8"], nil), (["LANG": "C.utf8@x"], nil),
        (["LC_ALL": "C", "LANG": "de_AT"], nil), (["LANG": ""], nil), ([:], nil),
        // What is no locale
        (["LANG": "english"], nil), (["LANG": "/usr/share/locale/de"], nil), (["LANG": "_AT"], nil),
        (["LANG": ".UTF-8"], nil), (["LANG": "d€_AT"], nil), (["LANG": "12_AT"], nil), (["LANG": "de_Austria"], "de"),
        (["LANG": "de_"], "de"), (["LANG": "de_AT_x"], "de"), (["LANG": "de-AT"], nil), (["LANG": "de_A\u{0}"], "de"),
    ]

    @Test(arguments: locales) func localeIsLanguageAndRegion(_ variables: [String: String], _ locale: String?) {
        #expect(POSIXEnvironment(variables).locale == locale)
    }

    private static let zones: [(String, String?)] = [
        ("Europe/Vienna", "Europe/Vienna"), (":Europe/Vienna", "Europe/Vienna"), ("Etc/UTC", "Etc/UTC"),
        ("UTC", "UTC"), ("GMT", "GMT"), ("", "UTC"), (":", "UTC"), ("Etc/GMT+3", "Etc/GMT+3"),
        ("/usr/share/zoneinfo/Asia/Tokyo", "Asia/Tokyo"), (":/usr/share/zoneinfo/Asia/Tokyo", "Asia/Tokyo"),
        // Rules, and names that mean one thing here and another there
        ("CET-1CEST", nil), ("CET-1CEST,M3.5.0,M10.5.0/3", nil), ("<+03>-3", nil), ("GMT+3", nil), ("UTC-1", nil),
        ("JST", nil), ("Mars/Olympus", nil), ("europe/vienna", nil), ("../../etc/passwd", nil), ("a\u{0}b", nil),
        (String(repeating: "x", count: 10_000), nil),
    ]

    @Test(arguments: zones) func timeZoneIsTheVariablesWhereItHasAName(_ variable: String, _ identifier: String?) {
        #expect(POSIXEnvironment(["TZ": variable]).timezone == identifier)
    }

    @Test func withoutTheVariableTheTimeZoneIsTheSystems() {
        #expect(POSIXEnvironment([:]).timezone == TimeZone.current.identifier)
        #expect(POSIXEnvironment(["TZ": ":/etc/localtime"]).timezone == TimeZone.current.identifier)
    }
}
