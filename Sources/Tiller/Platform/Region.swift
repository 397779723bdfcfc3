import Foundation

/// Language, region and time zone of the person, as far as they are known.
enum Region {
    /// Language and region, such as `"en-US"`, without script, calendar and the like.
    static var locale: String? {
        #if canImport(Darwin)
        let locale = Locale.current
        guard let language = locale.language.languageCode?.identifier else { return nil }
        return locale.region.map { language + "-" + $0.identifier } ?? language
        #else
        POSIXEnvironment().locale
        #endif
    }

    /// The IANA identifier of the time zone.
    static var timezone: String? {
        #if canImport(Darwin)
        TimeZone.current.identifier
        #else
        POSIXEnvironment().timezone
        #endif
    }
}
