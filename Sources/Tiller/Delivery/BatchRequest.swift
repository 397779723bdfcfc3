import Foundation

/// Where and how batches are sent.
struct BatchEndpoint: Sendable {
    let url: String
    private let authorization: String
    /// `nil` where it can't be done: the body goes as it is.
    var compress: @Sendable ([UInt8]) -> [UInt8]? = { Gzip.compress($0) }

    /// `nil` if the base URL can't be used: see `Configuration.isUsable(dataPlaneUrl:)`.
    init?(baseUrl: String, writeKey: String) {
        let trimmed = baseUrl.trimmingCharacters(in: .whitespacesAndNewlines)
        guard var components = URLComponents(string: trimmed),
            ["http", "https"].contains(components.scheme?.lowercased()), components.host?.isEmpty == false
        else { return nil }
        while components.percentEncodedPath.hasSuffix("/") { components.percentEncodedPath.removeLast() }
        components.percentEncodedPath += "/v1/batch"
        guard let url = components.string else { return nil }
        self.url = url
        // Not from a sequence: `Data` asks the runtime of any sequence whether its bytes lie in a row.
        let credentials = Array((writeKey + ":").utf8).withUnsafeBufferPointer { Data(buffer: $0) }
        authorization = "Basic " + credentials.base64EncodedString()
    }

    /// What a request says beside its events.
    struct Circumstances: Sendable {
        /// For the header where no event's own id serves.
        let installationId: String
        /// Whether the events have one anonymous id, which the header names.
        let isPerIdentity: Bool
        /// The hash of the present boot's identity; 0: unknown.
        let boot: UInt64
        let wallMilliseconds: Int64
        let continuousNanoseconds: Int64
        let timeout: Duration
        /// Of earlier attempts; empty for the first.
        var retryHeaders: [String: String] = [:]
    }

    /// A request with events, `sentAt` written into each.
    ///
    /// - Parameter compresses: Whether the body is compressed, where that can be done.
    func request(
        for batch: StoredBatch, _ circumstances: Circumstances, compresses: Bool = false
    ) -> TransportRequest {
        var body = body(of: batch, circumstances)
        var headers = circumstances.retryHeaders
        headers["Content-Type"] = "application/json"
        // Else the system's client names the program and the user's language.
        headers["User-Agent"] = "tiller-swift/\(Analytics.version)"
        headers["Accept-Language"] = "*"
        headers["Authorization"] = authorization
        let anonymousId = circumstances.isPerIdentity ? batch.anonymousId : nil
        headers["AnonymousId"] =
            anonymousId.flatMap { $0.isHeaderValue ? $0 : nil } ?? circumstances.installationId
        if compresses, let compressed = compress(body) {
            headers["Content-Encoding"] = "gzip"
            body = compressed
        }
        return TransportRequest(url: url, headers: headers, body: body, timeout: circumstances.timeout)
    }

    private func body(of batch: StoredBatch, _ circumstances: Circumstances) -> [UInt8] {
        var body: [UInt8] = []
        body.reserveCapacity(batch.size + 1)
        body += "{\"batch\":[".utf8
        var end = JSONWriter()
        for event in batch.events {
            body.append(contentsOf: event.bytes.dropLast())
            end.clear()
            end.raw(",\"sentAt\":")
            let age = circumstances.age(of: event, isOwnRun: batch.isOwnRun)
            end.writeTimestamp(event.wallMilliseconds.addingClamped(age))
            end.raw("},")
            end.withUTF8 { body.append(contentsOf: $0) }
        }
        if !batch.events.isEmpty { body.removeLast() }
        body += "]}".utf8
        return body
    }
}

extension BatchEndpoint.Circumstances {
    /// How long ago an event's call was, in milliseconds, never negative: by the continuous clock within one boot, which
    /// setting the wall clock does not change, and by the wall clock over a reboot.
    fileprivate func age(of event: StoredBatch.Event, isOwnRun: Bool) -> Int64 {
        let isSameBoot = isOwnRun || boot != 0 && event.boot == boot
        let age =
            isSameBoot
            ? continuousNanoseconds.subtractingClamped(event.continuousNanoseconds) / 1_000_000
            : wallMilliseconds.addingClamped(event.wallMilliseconds == .min ? .max : -event.wallMilliseconds)
        return max(0, age)
    }
}

extension String {
    /// Printable ASCII of at most 256 bytes: what every proxy lets pass.
    fileprivate var isHeaderValue: Bool {
        utf8.count <= 256 && !isEmpty && utf8.allSatisfy { (0x21...0x7E).contains($0) }
    }
}

extension Configuration {
    /// Whether events can be sent there: `http` or `https`, and a host.
    package static func isUsable(dataPlaneUrl url: String) -> Bool { BatchEndpoint(baseUrl: url, writeKey: "") != nil }
}
