import Testing

@testable import Tiller

/// Every answer falls in exactly one class.
@Suite(.timeLimit(.minutes(5))) struct DataPlaneAnswerTests {
    private func answer(_ status: Int, _ body: String = "", _ headers: [String: String] = [:]) -> DataPlaneAnswer {
        DataPlaneAnswer(
            TransportResponse(status: status, headers: headers, body: Array(body.utf8)), wallMilliseconds: 0)
    }

    private func meaning(_ status: Int, _ body: String = "", _ headers: [String: String] = [:])
        -> DataPlaneAnswer.Meaning
    {
        answer(status, body, headers).meaning
    }

    @Test func b125_everyStatusHasOneMeaning() {
        let special: [Int: DataPlaneAnswer.Meaning] = [
            400: .refused, 422: .refused, 413: .tooLarge, 408: .busy, 425: .busy, 429: .busy,
        ]
        for status in -1...1_000 {
            let expected: DataPlaneAnswer.Meaning =
                switch status {
                case 200...299: .accepted
                case 300...499: special[status] ?? .misconfigured
                case 500...599: .serverError
                default: .missing
                }
            #expect(meaning(status) == expected, "\(status)")
        }
    }

    @Test(arguments: [200, 201, 202, 204, 299]) func aPageIsNoAcknowledgement(_ status: Int) {
        for body in ["<html>", " \r\n\t<!DOCTYPE html>", "\u{FEFF}<p>", "<"] {
            #expect(meaning(status, body) == .misconfigured, "\(body)")
        }
        #expect(meaning(status, "Sign in", ["content-TYPE": "Text/HTML; charset=utf-8"]) == .misconfigured)
        for body in ["ok", "OK\n", "", " ", "{}", "a<b"] { #expect(meaning(status, body) == .accepted, "\(body)") }
        // Nothing is no page, whatever it is called.
        #expect(meaning(status, "", ["Content-Type": "text/html"]) == .accepted)
        #expect(meaning(status, "ok", ["Content-Type": "text/plain; charset=utf-8"]) == .accepted)
    }

    /// A page is one of the server's own kind where the status says enough.
    @Test func aPageWithAnotherStatusIsWhatTheStatusSays() {
        #expect(meaning(503, "<html>") == .serverError)
        #expect(meaning(400, "<html>") == .refused)
        #expect(meaning(429, "<html>") == .busy)
    }

    @Test func aBodyThatCouldNotBeReadIsToldApart() {
        #expect(meaning(500, "failed to read body from request\n") == .unreadable)
        #expect(meaning(500, "failed to read body from request") == .unreadable)
        #expect(meaning(500, "failed to read body") == .serverError)
        #expect(meaning(502, "failed to read body from request\n") == .serverError)
    }

    @Test(arguments: [
        (404, "source is disabled\n", "switched off"), (404, "404 page not found\n", "URL may be wrong"),
        (404, "nginx", "URL may be wrong"), (401, "invalid write key\n", "write key"), (401, "", "write key"),
        (301, "", "redirect"), (403, "", "403"), (405, "", "405"), (200, "<html>", "page"),
    ])
    func faultsSayWhatToSetRight(_ status: Int, _ body: String, _ text: String) {
        #expect(meaning(status, body) == .misconfigured)
        #expect(answer(status, body).text.contains(text), "\(answer(status, body).text)")
    }

    @Test func theTwoKindsOf404AreToldApart() {
        #expect(answer(404, "source is disabled\n").text != answer(404, "404 page not found\n").text)
        #expect(answer(404, "404 page not found\n").text != answer(404, "nothing here").text)
    }

    /// A server may echo what it was sent.
    @Test(arguments: [200, 301, 400, 401, 404, 429, 500, 503]) func unknownAnswersAreNotRepeated(_ status: Int) {
        #expect(!answer(status, "<userId=alice@example.com").text.contains("alice"))
        #expect(!answer(status, "alice").text.contains("alice"))
        #expect(answer(500, "failed to read body from request\nalice").text.contains("failed to read"))
        #expect(!answer(500, "failed to read body from request\nalice").text.contains("alice"))
    }

    @Test func b128_aServerErrorSaysNothingOfTheKey() {
        for body in ["", "internal error", "invalid write key\n"] {
            #expect(meaning(500, body) == .serverError)
            #expect(answer(500, body).reason == "server-500")
        }
        #expect(meaning(401, "invalid write key\n") == .misconfigured)
        #expect(answer(401).reason == "server-401")
    }

    @Test func reasonsAreThoseOfTheRetryHeaders() {
        #expect(answer(200, "<").reason == "client-unknown")
        #expect(answer(0).reason == "client-unknown")
        #expect(answer(600).reason == "client-unknown")
        #expect(answer(503).reason == "server-503")
        struct Broken: Error {}
        #expect(DataPlaneAnswer(noAnswer: Broken()).reason == "client-network")
        #expect(DataPlaneAnswer(noAnswer: Broken()).meaning == .missing)
        let timeout = URLSessionTransport.NoAnswer(description: "late", kind: .timeout)
        #expect(DataPlaneAnswer(noAnswer: timeout).reason == "client-timeout")
    }

    @Test(arguments: [429, 503, 408]) func retryAfterIsRead(_ status: Int) {
        #expect(answer(status, "", ["retry-after": "7"]).retryAfter == .seconds(7))
        #expect(answer(status, "", ["RETRY-AFTER": "Thu, 01 Jan 1970 00:00:09 GMT"]).retryAfter == .seconds(9))
        let dated = [
            "Retry-After": "Fri, 02 Jan 1970 00:00:09 GMT", "date": "Fri, 02 Jan 1970 00:00:05 GMT",
        ]
        #expect(answer(status, "", dated).retryAfter == .seconds(4))
        #expect(answer(status, "", ["Retry-After": "later"]).retryAfter == nil)
        #expect(answer(status).retryAfter == nil)
    }

    @Test func headersAreFoundWhateverTheirCase() {
        let response = TransportResponse(status: 200, headers: ["X-Thing": "a", "x-other": "b"])
        #expect(response.header("x-thing") == "a")
        #expect(response.header("X-OTHER") == "b")
        #expect(response.header("X-Third") == nil)
        #expect(TransportResponse(status: 200, body: [1]) == TransportResponse(status: 200, headers: [:], body: [1]))
    }
}
