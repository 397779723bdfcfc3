/// What is peculiar to this platform's URL client.
enum SystemNetworking {
    #if canImport(Darwin)
    static let preferredBodyBytes: Int? = nil
    #else
    /// Above 64 KB `URLSession` does not stop watching whether its socket can be written to, and it always can.
    static let preferredBodyBytes: Int? = 60_000
    #endif
}
