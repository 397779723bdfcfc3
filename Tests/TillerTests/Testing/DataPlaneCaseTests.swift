import Foundation
import Testing
import Tiller
import TillerTesting

/// The conformance cases of the wire contract, driven from their file.
@Suite(.timeLimit(.minutes(5)))
struct DataPlaneCaseTests {
    @Test func thereAreTwentyFive() {
        #expect(DataPlaneCase.all.map(\.id) == (1...25).map { String(format: "DP-%02d", $0) })
    }

    @Test(arguments: DataPlaneCase.all)
    func holds(_ dataPlaneCase: DataPlaneCase) async throws {
        let plane = try LocalDataPlane(rules: dataPlaneCase.rules)
        let answer = try await RawClient.run(plane.url) { client in
            try client.send(dataPlaneCase.request())
            return try client.answer()
        }
        let expect = try #require(dataPlaneCase.json["expect"]?.object)
        #expect(answer.status == Int(try #require(expect["status"]?.int)))
        if let exact = expect["bodyExact"]?.string { #expect(answer.body == exact) }
        if let part = expect["bodyContains"]?.string, !part.isEmpty { #expect(answer.body.contains(part)) }
        for (name, value) in expect["headers"]?.object ?? [:] {
            #expect(answer.headers[name] == value.string, "\(name)")
        }
        for name in expect["headersAbsent"]?.array ?? [] {
            #expect(answer.headers[try #require(name.string)] == nil, "\(name)")
        }
        #expect(plane.events.count == Int(try #require(expect["eventsStored"]?.int)))
        for (name, fact) in expect["storedFacts"]?.object ?? [:] {
            try check(fact, of: plane.events.first?.stored[name], named: name)
        }
    }

    private func check(_ fact: JSONValue, of value: JSONValue?, named name: String) throws {
        switch fact.string {
        case "present": #expect(value?.string?.isEmpty == false, "\(name)")
        case "generated UUID v4":
            let text = try #require(value?.string, "\(name)")
            #expect(text.wholeMatch(of: uuidOfVersion4) != nil, "\(name): \(text)")
        default: #expect(value == fact, "\(name)")
        }
    }
}

/// What the gateway makes where an event has no id.
var uuidOfVersion4: Regex<Substring> {
    #/[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}/#
}

/// A row of the file.
struct DataPlaneCase: Sendable, CustomTestStringConvertible {
    let json: JSONObject

    var id: String { json["id"]?.string ?? "" }
    var testDescription: String { "\(id) \(json["description"]?.string ?? "")" }

    static let all: [DataPlaneCase] = {
        guard let folder = Bundle.module.url(forResource: "data-plane", withExtension: nil),
            let data = try? Data(contentsOf: folder.appendingPathComponent("data-plane-cases.json")),
            let rows = (try? JSONValue(parsing: data))?.array
        else { return [] }
        return rows.compactMap(\.object).map(DataPlaneCase.init)
    }()

    /// The fixtures that all cases share, and what is given in this one. What isn't known here fails the case.
    var rules: LocalDataPlane.Rules {
        var rules = LocalDataPlane.Rules()
        rules.writeKeys = ["wk-enabled"]
        rules.disabledWriteKeys = ["wk-disabled"]
        for (name, value) in json["given"]?.object ?? [:] {
            switch name {
            case "rateLimited": rules.isRateLimited = value.bool == true
            case "storeError": rules.storage = .failing(value.string ?? "")
            case "suppressedUserIds": rules.suppressedUserIds = Set(value.array?.compactMap(\.string) ?? [])
            default: Issue.record("\(id): nothing is known of '\(name)'")
            }
        }
        return rules
    }

    /// Its request as bytes.
    func request() throws -> [UInt8] {
        let request = try #require(json["request"]?.object)
        var body = request["body"]?.string.map { Array($0.utf8) }
        if let generator = (request["bodyGenerator"] ?? json["bodyGenerator"])?.object {
            body = try generate(generator)
        }
        switch (request["bodyTransform"] ?? json["bodyTransform"])?.string {
        case nil: break
        case "gzip": body = Gzip.compress(try #require(body)) ?? []
        case let other?: Issue.record("\(id): nothing is known of '\(other)'")
        }
        let method = try #require(request["method"]?.string)
        var lines = ["\(method) \(try #require(request["path"]?.string)) HTTP/1.1", "Host: h"]
        for (name, value) in request["headers"]?.object ?? [:] { lines.append("\(name): \(value.string ?? "")") }
        if let body { lines.append("Content-Length: \(body.count)") }
        return Array((lines + ["", ""]).joined(separator: "\r\n").utf8) + (body ?? [])
    }

    private func generate(_ generator: JSONObject) throws -> [UInt8] {
        let prefix = Array(try #require(generator["prefix"]?.string).utf8)
        let suffix = Array(try #require(generator["suffix"]?.string).utf8)
        let fill = Array(try #require(generator["fill"]?.string).utf8)
        let count = Int(try #require(generator["totalBytes"]?.int)) - prefix.count - suffix.count
        return prefix + [UInt8](repeating: try #require(fill.first), count: count) + suffix
    }
}
