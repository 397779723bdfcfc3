import Foundation

/// An event that waits for its upload.
struct WaitingEvent: Sendable {
    /// As it was encoded, but for `sentAt`.
    let bytes: [UInt8]
    let anonymousId: String?
    let moment: Moment
    let cost: Int

    /// What the event takes of a request: with `"sentAt"` and a comma.
    var sizeInBatch: Int { bytes.count + 37 }
}

/// Where and how batches are sent.
struct BatchEndpoint: Sendable {
    let url: String
    private let authorization: String

    /// `nil` if the base URL can't be used: no `http` or `https`, or no host.
    init?(baseUrl: String, writeKey: String) {
        let trimmed = baseUrl.trimmingCharacters(in: .whitespacesAndNewlines)
        guard var components = URLComponents(string: trimmed),
            ["http", "https"].contains(components.scheme?.lowercased()), components.host?.isEmpty == false
        else { return nil }
        while components.percentEncodedPath.hasSuffix("/") { components.percentEncodedPath.removeLast() }
        components.percentEncodedPath += "/v1/batch"
        guard let url = components.string else { return nil }
        self.url = url
        authorization = "Basic " + Data((writeKey + ":").utf8).base64EncodedString()
    }

    /// A request with events, `sentAt` written into each.
    ///
    /// - Parameters:
    ///   - anonymousId: For the header; one that no header can carry is replaced.
    ///   - fallbackId: What replaces it.
    ///   - now: The continuous clock.
    func request(
        for events: [WaitingEvent], anonymousId: String?, fallbackId: String, now: Duration, timeout: Duration
    ) -> TransportRequest {
        var writer = JSONWriter()
        writer.bytes.reserveCapacity(events.reduce(16) { $0 + $1.sizeInBatch })
        writer.raw("{\"batch\":[")
        for (index, event) in events.enumerated() {
            if index > 0 { writer.raw(",") }
            writer.bytes.append(contentsOf: event.bytes.dropLast())
            writer.raw(",\"sentAt\":")
            let age = max(0, (now - event.moment.continuous).wholeMilliseconds)
            writer.writeTimestamp(event.moment.wallMilliseconds.addingClamped(age))
            writer.raw("}")
        }
        writer.raw("]}")
        return TransportRequest(
            url: url,
            headers: [
                "Content-Type": "application/json",
                // Else the system's client names the program and the user's language.
                "User-Agent": "tiller-swift/\(Analytics.version)",
                "Accept-Language": "*",
                "Authorization": authorization,
                "AnonymousId": anonymousId.flatMap { $0.isHeaderValue ? $0 : nil } ?? fallbackId,
            ],
            body: writer.bytes, timeout: timeout)
    }
}

extension String {
    /// Printable ASCII of at most 256 bytes: what every proxy lets pass.
    fileprivate var isHeaderValue: Bool {
        utf8.count <= 256 && !isEmpty && utf8.allSatisfy { (0x21...0x7E).contains($0) }
    }
}
