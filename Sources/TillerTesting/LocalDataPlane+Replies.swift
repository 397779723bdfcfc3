import Tiller

// MARK: - The gateway's texts

extension LocalDataPlane.Reply {
    static let healthy = json(#"{"server":"UP"}"#)
    static let version = json(#"{"server":"Tiller's local data plane","version":"\#(Analytics.version)"}"#)

    static let invalidJSON = refusal(400, "invalid json\n")
    static let emptyBatch = refusal(400, "empty batch payload\n")
    static let invalidEvent = refusal(400, "event is not a valid rudder event\n")
    static let noIdentity = refusal(400, "request neither has anonymousId nor userId\n")
    static let noWriteKey = refusal(401, "failed to read writekey from header\n")
    static let unknownWriteKey = refusal(401, "invalid write key\n")
    static let disabledSource = refusal(404, "source is disabled\n")
    static let notFound = refusal(404, "404 page not found\n")
    static let tooLarge = refusal(413, "request size exceeds max limit\n")
    static let rateLimited = refusal(429, "max requests limit reached\n")
    static let unreadableBody = refusal(500, "failed to read body from request\n")
    static let overloaded = refusal(503, "Service Unavailable\n")

    static func wrongMethod(allowed: String) -> Self { .status(405, headers: ["Allow": allowed]) }

    /// Whatever the database says.
    static func storageError(_ text: String) -> Self { refusal(500, text + "\n") }

    /// Not the gateway's: a limit of the hosted service.
    static func hostedLimit(_ text: String) -> Self { refusal(400, "hosted limit: " + text + "\n") }

    /// Not the gateway's: this machine has nothing to inflate with.
    static let noInflater = refusal(500, "failed to read body from request: zlib is not available\n")

    /// Not the gateway's: a page of some web site that had its name pointed here.
    static let foreignHost = refusal(403, "only as 127.0.0.1 or localhost\n")

    private static func json(_ text: String) -> Self {
        .status(200, text, headers: ["Content-Type": "application/json; charset=utf-8"])
    }

    private static func refusal(_ status: Int, _ text: String) -> Self {
        .status(status, text, headers: ["X-Content-Type-Options": "nosniff"])
    }
}

// MARK: - Other origins

extension LocalDataPlane.Reply {
    /// The methods that a page of another origin may use; the gateway's library allows them by default.
    private static let sharedMethods: Set = ["GET", "HEAD", "POST", "OPTIONS"]

    /// The answer to a browser that asks before it sends: every origin, every field.
    static func preflight(_ request: LocalDataPlane.Request) -> Self {
        let asked = request.headers
        var reply = status(204)
        reply.headers["Vary"] = "Origin, Access-Control-Request-Method, Access-Control-Request-Headers"
        guard let origin = asked["Origin"], let method = asked["Access-Control-Request-Method"],
            sharedMethods.contains(method.uppercased())
        else { return reply }
        reply.headers["Access-Control-Allow-Origin"] = origin
        reply.headers["Access-Control-Allow-Methods"] = method
        if let fields = asked["Access-Control-Request-Headers"], !fields.isEmpty {
            reply.headers["Access-Control-Allow-Headers"] = fields
        }
        reply.headers["Access-Control-Allow-Credentials"] = "true"
        reply.headers["Access-Control-Max-Age"] = "900"
        return reply
    }

    /// This answer with what lets a page of another origin read it.
    func shared(with request: LocalDataPlane.Request) -> Self {
        var reply = self
        reply.headers["Vary"] = "Origin"
        guard let origin = request.headers["Origin"], Self.sharedMethods.contains(request.method) else { return reply }
        reply.headers["Access-Control-Allow-Origin"] = origin
        reply.headers["Access-Control-Allow-Credentials"] = "true"
        return reply
    }
}
