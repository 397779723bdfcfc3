import Tiller

/// What `tiller send` is asked for.
struct SendOptions: Equatable {
    /// Why the arguments can't be understood.
    struct Problem: Error, Equatable {
        let reason: String
    }

    let dataPlaneUrl: String
    let writeKey: String
    /// The folder in which events wait; `nil`: memory.
    let store: String?

    init(_ arguments: [String]) throws(Problem) {
        var values: [String: String] = [:]
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            guard ["--data-plane-url", "--write-key", "--store"].contains(argument) else {
                throw Problem(reason: "'\(argument)' is not an option")
            }
            guard let value = rest.popFirst(), !value.hasPrefix("--") else {
                throw Problem(reason: "\(argument) needs a value")
            }
            guard !value.isEmpty else { throw Problem(reason: "\(argument) is empty") }
            guard values.updateValue(value, forKey: argument) == nil else {
                throw Problem(reason: "\(argument) is given twice")
            }
        }
        guard let url = values["--data-plane-url"] else { throw Problem(reason: "--data-plane-url is missing") }
        guard let key = values["--write-key"] else { throw Problem(reason: "--write-key is missing") }
        guard Configuration.isUsable(dataPlaneUrl: url) else {
            throw Problem(reason: "--data-plane-url needs http:// or https:// and a host, not '\(url)'")
        }
        dataPlaneUrl = url
        writeKey = key
        store = values["--store"]
    }
}
